//! A command-line client for MCP servers (child processes and URLs), and a demo server to try clients on.
//!
//! ```text
//! cargo mcpio demo
//! cargo mcpio tools -- npx -y @modelcontextprotocol/server-everything
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "all output goes through the screen")]

mod arguments;
mod bridge;
mod commands;
mod connect;
mod demo;
mod error;
mod login;
mod many;
mod options;
mod replay;
mod reports;
mod server_requests;
mod server_trace;
mod show;
mod skills;
mod tap;
mod terminal;
mod trace;
mod trace_page;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use connect::{is_url, url_tip, with_server};
use demo::{ListenOptions, ProtectionOptions};
use error::{CommandError, Result};
use options::{
    ApproveOptions, CommonOptions, ConfigOptions, LoginOptions, ServerCommand, ServerOrConfig, TraceFormat,
};
use tap::TapEdit;
use terminal::{Screen, Text};

/// A client for MCP servers, and a server to try other clients on.
///
/// The command that starts the server comes after `--`; the URL of a server needs none:
///
///     mcpio tools -- npx -y @modelcontextprotocol/server-everything
///     mcpio call get-sum a=2 b=3 -- npx -y @modelcontextprotocol/server-everything
///     mcpio tools https://example.com/mcp
///     mcpio login https://example.com/mcp
///     mcpio connect https://example.com/mcp
///
/// Many servers, from configuration files as applications have them:
///
///     mcpio servers --config .mcp.json --config ~/.cursor/mcp.json
///     mcpio call --config ~/.cursor/mcp.json SERVER TOOL key=value
///     mcpio read SERVER demo://logo --output logo.png
///     mcpio doctor
///
/// Without --config these are the files that known applications have for you and for the
/// project in the current folder.
///
/// A file named by --config is a project's: its servers start nothing, connect nowhere and
/// read no variable until you have approved them by mcpio approve. The files in which known
/// applications keep your own configuration, and files named by --user-config, need no
/// approval. Variables of a configuration come from the environment; inputs are asked for
/// on the terminal.
///
/// Other users of the machine can read a command line. Give secrets by --header-file,
/// --header-env, --env-file, or by --env with a name alone, which passes on your variable:
///
///     mcpio tools --header-file ~/.config/example-headers https://example.com/mcp
///     mcpio tools --env SEARCH_API_KEY -- npx -y search-server
///
/// Exit codes: 0 success, 1 the tool reported a failure, doctor found something wrong or a
/// skill is not what its server lists, 2 wrong usage, 3 the connection or the protocol failed,
/// or none of the configured servers is connected, 130 ended by SIGINT (Ctrl-C), 143 by
/// SIGTERM. At a signal the servers are shut down by the usual steps; a second signal kills
/// them. A server over HTTP (serve, mock) finishes its requests at a signal, and exits with 0.
///
/// With --json a command that fails prints an object instead of its result; messages for
/// the user still go to standard error:
///
///     {"error": {"kind": KIND, "message": TEXT, "code": NUMBER|null, "data": JSON|null}}
///
/// KIND is one of usage, refused (an error of the server, with its code and data), http
/// (with the status as code), unauthorized, timeout, connection, invalid (the server broke
/// the protocol), interrupted and failed. A tool that fails says so in its result. A list of
/// many servers has the member `missing`: the servers that are not connected, or that hide
/// changed definitions, with the reason.
///
/// No output of a server can control the terminal: control, bidirectional and
/// zero-width characters are shown as escapes, in JSON as \u escapes.
#[derive(Debug, Parser)]
#[command(name = "mcpio", version, verbatim_doc_comment)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the features of the protocol on a built-in server (the default)
    Demo {
        /// Connect over HTTP, instead of to a child process
        #[arg(long)]
        http: bool,
    },
    /// List the tools; with a name, describe one
    Tools {
        /// The tool to describe; of configuration files its name for a model, or a server, to list its tools
        name: Option<String>,
        /// Declare the tools of the configured servers in TypeScript, for a model that writes code
        #[arg(long, conflicts_with_all = ["name", "command"])]
        typescript: bool,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// Call a tool
    #[command(long_about = CALL)]
    Call {
        /// The tool; of configuration files SERVER TOOL, SERVER.TOOL, or the tool's name for a model
        #[arg(value_name = "TOOL")]
        name: String,
        /// Its arguments; --KEY VALUE is the same
        #[arg(value_name = "KEY=VALUE")]
        arguments: Vec<String>,
        /// Save the images, sounds and files of the result: the first in this file, further ones beside it with a
        /// number, unless there is such a file
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// Start the servers of configuration files, and show which of them work
    Servers {
        /// Keep them running, read changed files again, and show what changes: on a terminal a table with keys, elsewhere a
        /// line for each change. Keys are lines on standard input there, whose end does not end it: show SERVER (with its
        /// standard error), connect, login, approve (which asks for a word that it prints), enable, disable, reload,
        /// table, help and quit. Ctrl-C ends it too
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        config: ConfigOptions,
    },
    /// Search the tools of all servers
    Search {
        /// Words of names and descriptions
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// How many tools to show
        #[arg(long, value_name = "COUNT", default_value_t = 8)]
        limit: usize,
        #[command(flatten)]
        config: ConfigOptions,
    },
    /// Find out what is wrong with each server, and what to do next
    Doctor {
        #[command(flatten)]
        config: ConfigOptions,
    },
    /// Show what the servers of a project's file would start and read, and approve them
    Approve {
        #[command(flatten)]
        approve: ApproveOptions,
    },
    /// Print the servers of the known applications' files of yours as one configuration. All texts stay as they are:
    /// references to variables are not resolved, and secrets that a file has in plain text are printed
    Import {
        /// Include servers that are switched off
        #[arg(long)]
        disabled: bool,
    },
    #[command(flatten)]
    OfServer(ServerCommand),
    /// Log in to a server at a URL; other commands then send the token
    Login {
        /// The server's URL, or its name in the configuration: the login has the settings of its entry
        #[arg(value_name = "URL|SERVER")]
        server: String,
        #[command(flatten)]
        login: LoginOptions,
        #[command(flatten)]
        config: ConfigOptions,
    },
    /// Revoke the tokens of a server, and delete them
    Logout {
        /// The server's URL
        #[arg(value_name = "URL")]
        url: String,
    },
    /// Show the stored token of a server
    Whoami {
        /// The server's URL
        #[arg(value_name = "URL")]
        url: String,
    },
    /// Be the server at a URL, or that of a command, on standard input and output
    #[command(long_about = bridge::CONNECT)]
    Connect {
        #[command(flatten)]
        login: LoginOptions,
        /// The server's URL, or the command that starts it
        #[arg(last = true, required = true, value_name = "URL|COMMAND")]
        server: Vec<OsString>,
    },
    /// Run the demo server for other clients: on standard input and output, or over HTTP
    Serve {
        /// Offer the skills in this folder: each folder in it that has a SKILL.md. It is read at each request
        #[arg(long, value_name = "FOLDER")]
        skills: Option<PathBuf>,
        #[command(flatten)]
        listen: ListenOptions,
        #[command(flatten)]
        demands: ProtectionOptions,
    },
    /// Stand between a client and a server, and write what passes into the file of --trace-file
    #[command(long_about = tap::TAP, subcommand_negates_reqs = true)]
    Tap {
        #[command(subcommand)]
        edit: Option<TapEdit>,
        #[command(flatten)]
        login: LoginOptions,
        /// The command that starts the server, or its URL, which needs no dashes
        #[arg(last = true, required = true, value_name = "COMMAND|URL")]
        server: Vec<OsString>,
    },
    /// Show the requests of a trace file, how they ended, and which requirements of the protocol were broken
    #[command(long_about = TRACE)]
    Trace {
        /// The file
        file: PathBuf,
        /// Show each record as it is written, until Ctrl-C; with --json the lines of the file
        #[arg(long, conflicts_with = "TraceFormat")]
        follow: bool,
        #[command(flatten)]
        format: TraceFormat,
    },
    /// Be the server that a trace file recorded: on standard input and output, or over HTTP
    #[command(long_about = replay::MOCK)]
    Mock(replay::MockOptions),
    /// Make the requests of a trace file again, and compare the answers
    #[command(long_about = replay::REPLAY)]
    Replay(replay::ReplayOptions),
    /// Write one file for a bug report: a trace without secrets, and the versions and names of variables here
    #[command(long_about = replay::BUNDLE)]
    Bundle(replay::BundleOptions),
    /// Print the completions for a shell, to be sourced by it
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Command {
    /// Whether one of its words may be the URL of a server, as it names no server and no file.
    fn takes_url(&self) -> bool {
        let server = match self {
            Self::Tools { server, .. } | Self::Call { server, .. } => server,
            Self::OfServer(command) => command.server(),
            Self::Replay(replay) => return replay.command.is_empty(),
            _ => return false,
        };
        server.is_configured() && !server.config.is_used()
    }
}

const TRACE: &str = "\
Show the requests of a trace file, how they ended, and which requirements of the protocol were broken

Any command writes one by --trace-file FILE, `mcpio tap` for other clients. Exit code 1 says that a requirement was broken, \
except with --html, --har and --otlp.";

const CALL: &str = "\
Call a tool

Arguments are KEY=VALUE, where the tool's input schema says whether a value is text, a number, a boolean or a list \
(separated by commas, or by repeating the key), KEY:=JSON for anything else, or one JSON object for all of them. \
KEY=@FILE and KEY:=@FILE take the value from a file, @FILE all arguments, and - all of them from standard input; \
KEY=@@TEXT is the text @TEXT:

    mcpio call get-sum a=2 b=3 -- npx -y @modelcontextprotocol/server-everything
    mcpio call search query='green tea' filter:='{\"new\":true}' -- SERVER
    mcpio call search '{\"query\":\"green tea\"}' -- SERVER
    mcpio call summarize text=@notes.txt -- SERVER
    mcpio call --config .mcp.json files read_file path=notes.txt
    generate | mcpio call search - -- SERVER";

fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    let (mut output, mut messages) = (Screen::output(), Screen::messages());
    let mut options = match Options::read(&line) {
        Ok(options) => options,
        Err(error) => return usage(&error, &line, &mut output, &mut messages),
    };
    if options.common.json {
        output.use_json();
    }
    let command = options.command.take().unwrap_or(Command::Demo { http: false });
    // What edits a configuration names the file alone.
    let is_edit = matches!(command, Command::Tap { edit: Some(_), .. });
    let opened = if is_edit { Ok(()) } else { trace::open(&mut options.common, &mut messages) };
    // If the reactor cannot start here, a helper thread would panic later.
    let started = opened.and_then(|()| mcp_smol::start_reactor().map_err(CommandError::server));
    let ended = started.and_then(|()| smol::block_on(run(command, &options.common, &mut output)));
    trace::flush(&options.common, &mut messages);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = failure.with_usage_hint(address_tip(&line));
            failure.print(&mut output, &mut messages);
            failure.exit_code()
        }
    }
}

/// Prints help and version to standard output, and usage errors to standard error.
fn usage(error: &clap::Error, line: &[OsString], output: &mut Screen, messages: &mut Screen) -> ExitCode {
    let text = error.to_string();
    if !error.use_stderr() {
        // If this fails, nothing can be done about it.
        let _ = output.line(Text::block(text.trim_end()));
        return ExitCode::SUCCESS;
    }
    let _ = messages.line(Text::block(text.trim_end()));
    if let Some(tip) = address_tip(line) {
        let _ = messages.line(tip);
    }
    let ours = line.iter().take_while(|word| *word != "--");
    if ours.into_iter().any(|word| word == "--json") {
        let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = output.line(CommandError::usage(message).as_json());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Says how to write an address of the command line as a URL, if there is one.
fn address_tip(line: &[OsString]) -> Option<String> {
    line.iter().skip(2).find_map(|word| url_tip(word.to_str()?))
}

async fn run(command: Command, common: &CommonOptions, screen: &mut Screen) -> Result {
    match command {
        Command::Demo { http: false } => demo::demo(common, screen).await,
        Command::Demo { http: true } => demo::demo_over_http(common, screen).await,
        Command::Serve { skills, listen, demands } => {
            demo::serve(skills.as_deref(), &listen, &demands, common).await
        }
        Command::Mock(options) => replay::mock(&options, common).await,
        Command::Replay(options) => replay::replay(&options, common, screen).await,
        Command::Bundle(options) => replay::bundle(&options, common, screen).await,
        Command::Connect { login, server } => bridge::connect(&server, &login, common).await,
        Command::Trace { file, follow: true, .. } => error::until_signal(tap::follow(&file, screen)).await,
        Command::Trace { file, format, .. } => trace::show(&file, &format, screen),
        Command::Tap { .. } if common.trace_raw => {
            Err(CommandError::usage("`tap` runs no machine whose steps --trace-raw could write"))
        }
        Command::Tap { edit: Some(edit), .. } => tap::edit(&edit, common, screen),
        Command::Tap { server, login, .. } => tap::run(&server, &login, common, screen).await,
        Command::Completions { shell } => Ok(screen.line(Text::block(&Options::completions(shell)))?),
        Command::Login { server, login, config } if config.is_used() || !is_url(server.as_ref()) => {
            many::login(&config, common, &server, &login, screen).await
        }
        Command::Login { server, login, .. } => commands::log_in(&server, &login, common, screen).await,
        Command::Logout { url } => commands::log_out(&url, common, screen).await,
        Command::Whoami { url } => commands::whoami(&url, common, screen).await,
        Command::Tools { typescript: true, server, .. } => {
            many::call::typescript(&server.config, common, screen).await
        }
        Command::Tools { name, server, .. } if server.is_configured() => {
            many::call::tools(&server.config, common, name.as_deref(), screen).await
        }
        Command::Tools { name, server, .. } => {
            let tools = async |connection: &_| commands::tools(connection, name.as_deref(), screen).await;
            with_server(&server.command, common, tools).await
        }
        Command::Call { name, arguments, output, server } if server.is_configured() => {
            let show = |screen: &mut Screen, result: &_| show::tool_result(screen, result, output.as_deref());
            many::call::call(&server.config, common, (&name, &arguments), show, screen).await
        }
        Command::Servers { watch, config } => many::watch::servers(&config, common, watch, screen).await,
        Command::Doctor { config } => many::servers::doctor(&config, common, screen).await,
        Command::Approve { approve } => many::approve::approve(&approve, common, screen).await,
        Command::Import { disabled } => many::import::import(disabled, screen),
        Command::Search { words, limit, config } => {
            many::call::search(&config, common, &words, limit, screen).await
        }
        Command::Call { name, arguments, output, server } => {
            with_server(&server.command, common, async |connection| {
                let result = commands::call(connection, &name, &arguments).await?;
                show::tool_result(screen, &result, output.as_deref())
            })
            .await
        }
        Command::OfServer(command) if command.server().is_configured() => {
            many::of_server(&command, common, screen).await
        }
        Command::OfServer(command) => {
            with_server(&command.server().command, common, async |connection| {
                commands::run(&command, command.words(), connection, screen).await
            })
            .await
        }
    }
}

impl Options {
    /// Reads a command line. A URL can name the server without dashes: the last word that is a URL where a server fits.
    ///
    /// # Errors
    /// Wrong usage, or a request for help.
    pub(crate) fn read(line: &[OsString]) -> Result<Self, clap::Error> {
        let mut typed = line.to_vec();
        let mut read = Self::try_parse_from(&typed);
        // Each turn leaves one unknown option less.
        while let Err(error) = &read
            && let Some(next) = with_argument(&typed, error)
        {
            typed = next;
            read = Self::try_parse_from(&typed);
        }
        // Another command may have the word `call` among its words, and has no arguments of a tool.
        if !matches!(&read, Ok(Self { command: Some(Command::Call { .. }), .. })) {
            typed = line.to_vec();
            read = Self::try_parse_from(line);
        }
        Self::read_url(&typed, read.map_err(without_tips))
    }

    fn read_url(line: &[OsString], read: Result<Self, clap::Error>) -> Result<Self, clap::Error> {
        let is_final = match &read {
            Ok(options) => !options.command.as_ref().is_some_and(Command::takes_url),
            Err(error) => !error.use_stderr(),
        };
        if is_final || line.iter().any(|word| word == "--") {
            return read;
        }
        let names_server =
            |at: &usize| line.get(*at).is_some_and(|word| is_url(word)) && !is_value(line, *at);
        let urls = (1..line.len()).rev().filter(names_server);
        let mut refused = None;
        for at in urls {
            let mut dashed = line.to_vec();
            let url = dashed.remove(at);
            dashed.extend(["--".into(), url]);
            match Self::try_parse_from(dashed) {
                Ok(options) => return Ok(options),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        // A URL is no name of a tool.
        read.and_then(|options| refused.map_or(Ok(options), Err))
    }

    /// The completions of a shell.
    pub(crate) fn completions(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Self::command(), "mcpio", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

/// Whether a word is the value of the option before it: then the command line has the same meaning with `--option=word`.
fn is_value(line: &[OsString], at: usize) -> bool {
    let mut joined = line.to_vec();
    let value = joined.remove(at);
    match at.checked_sub(1).and_then(|before| joined.get_mut(before)) {
        Some(option) if option.to_string_lossy().starts_with("--") => {
            option.push("=");
            option.push(value);
        }
        _ => return false,
    }
    // The server may still be missing, but an option without values refuses one.
    let refused = Options::try_parse_from(joined).err();
    refused.is_none_or(|error| !matches!(error.kind(), ErrorKind::TooManyValues | ErrorKind::UnknownArgument))
}

/// A call with its first unknown option as an argument of the tool: `--key value` and `--key=value` as `key=value`, and
/// `--key` alone as `key:=true`, which no text passes for.
fn with_argument(line: &[OsString], error: &clap::Error) -> Option<Vec<OsString>> {
    let ours = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let is_call = line.iter().take(ours).any(|word| word == "call");
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || !is_call {
        return None;
    }
    let is_it = |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some(unknown));
    let at = line.iter().take(ours).position(is_it)?;
    let option = line.get(at)?.to_str()?.strip_prefix("--")?;
    let is_value = |word: &&OsString| !word.to_str().is_some_and(|word| word.starts_with("--"));
    let value = line.get(at + 1).filter(|_| at + 1 < ours).filter(is_value);
    let (argument, end) = match (option.contains('='), value) {
        (true, _) => (option.into(), at + 1),
        (false, Some(value)) => ([OsStr::new(option), OsStr::new("="), value].into_iter().collect(), at + 2),
        (false, None) => (format!("{option}:=true").into(), at + 1),
    };
    let mut typed = line.to_vec();
    typed.splice(at..end, [argument]);
    Some(typed)
}

/// Removes tips that would lead astray: the words after two dashes are the server's command, not values.
fn without_tips(mut error: clap::Error) -> clap::Error {
    error.remove(ContextKind::Suggested);
    // An option of few letters is like many.
    if let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg)
        && unknown.len() < 5
    {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Options {
        Options::try_parse_from(line).unwrap()
    }

    fn read(line: &[&str]) -> Result<Options, clap::Error> {
        Options::read(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn url_needs_no_dashes() {
        let url = "https://example.com/mcp?a=b";
        let server = |line: &[&str]| match read(&[&["mcpio"], line].concat()).unwrap().command.unwrap() {
            Command::Tools { name, server, .. } => (name.into_iter().collect::<Vec<_>>(), server.command),
            Command::Call { arguments, server, .. } => (arguments, server.command),
            Command::OfServer(ServerCommand::Read { words, server, .. }) => (words, server.command),
            other => panic!("{other:?}"),
        };
        let none: [&str; 0] = [];
        assert_eq!(server(&["tools", url]), (none.map(str::to_owned).to_vec(), vec![url.into()]));
        assert_eq!(server(&["tools", "echo", url, "--json"]), (vec!["echo".to_owned()], vec![url.into()]));
        assert_eq!(
            server(&["call", "x", "u=http://a", url]),
            (vec!["u=http://a".to_owned()], vec![url.into()])
        );
        assert_eq!(server(&["read", "http://doc", url]), (vec!["http://doc".to_owned()], vec![url.into()]));
        assert_eq!(server(&["tools", "--issuer", "https://i", url]).1, [url]);
        assert_eq!(server(&["tools", url, "--issuer", "https://i"]).1, [url]);
        // After dashes it is an argument of the command.
        assert_eq!(server(&["tools", "--", "server", url]).1, ["server", url]);
        // After an option that takes a value it is this value, after others the server.
        assert!(server(&["tools", "--issuer", url, "echo"]).1.is_empty());
        assert_eq!(server(&["tools", "--json", url]).1, [url]);
        assert!(read(&["mcpio", "call", "--json", url]).is_err());
        let replay = read(&["mcpio", "replay", "--server", url, "file"]).unwrap().command;
        assert!(matches!(replay, Some(Command::Replay(options)) if options.command.is_empty()));
        assert_eq!(read(&["mcpio", "tolls", url]).unwrap_err().exit_code(), 2);
        assert!(matches!(read(&["mcpio", "login", url]).unwrap().command, Some(Command::Login { .. })));
    }

    #[test]
    fn help_is_a_command() {
        for line in [&["mcpio", "help"][..], &["mcpio", "help", "call"], &["mcpio", "call", "--help"]] {
            let shown = read(line).unwrap_err();
            assert_eq!(shown.exit_code(), 0);
            assert!(shown.to_string().contains("mcpio call get-sum a=2 b=3 -- npx"), "{shown}");
        }
        assert_eq!(read(&["mcpio", "help", "nothing"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = Options::completions(shell);
            assert!(script.contains("completions") && script.contains("whoami"), "{shell}");
        }
    }

    #[test]
    fn unknown_options_of_a_call_are_arguments_of_the_tool() {
        let url = "https://example.com/mcp";
        for (line, expected) in [
            (&["--a", "1", "--b=2"][..], &["a=1", "b=2"][..]),
            (&["--a", "-1", "x=y", "--deep", "--json"], &["a=-1", "x=y", "deep:=true"]),
            (&["--a", "1", url], &["a=1"]),
        ] {
            let options = read(&[&["mcpio", "call", "add"], line].concat()).unwrap();
            let Some(Command::Call { arguments, .. }) = options.command else { panic!("not a call") };
            assert_eq!(arguments, expected, "{line:?}");
        }
        for line in [
            &["mcpio", "tools", "--a", "1"][..],
            &["mcpio", "tools", "--timeout", "-1"],
            &["mcpio", "search", "call", "--a"],
        ] {
            let error = read(line).unwrap_err();
            assert!(error.exit_code() == 2 && !error.to_string().contains("tip:"), "{error}");
        }
    }

    #[test]
    fn option_definition_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_after_the_dashes_belong_to_the_server() {
        let options =
            parse(&["mcpio", "call", "add", "a=1", "--json", "--", "npx", "-y", "--json", "server"]);
        let Some(Command::Call { name, arguments, server, .. }) = options.command else {
            panic!("not a call")
        };
        assert_eq!((name.as_str(), arguments.as_slice()), ("add", ["a=1".to_owned()].as_slice()));
        assert_eq!(server.command, ["npx", "-y", "--json", "server"]);
        assert!(options.common.json);
    }

    #[test]
    fn token_options_need_an_issuer_and_http() {
        let serve = |more: &[&str]| Options::try_parse_from([&["mcpio", "serve"], more].concat());
        let http = ["--http", "127.0.0.1:0"];
        let issuer = ["--issuer", "https://login.example"];
        assert!(serve(&[&http[..], &issuer, &["--tool-scope", "add=sums", "--dpop"]].concat()).is_ok());
        assert!(serve(&issuer).is_err());
        for other in [["--scope", "a"], ["--resource", "https://a"], ["--audience", "a"]] {
            assert!(serve(&[http, other].concat()).is_err());
        }
    }
}
