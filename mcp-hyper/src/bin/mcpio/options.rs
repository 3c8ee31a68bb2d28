//! The options of the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use mcp_hyper::host::TraceFile;

use crate::demo::{ListenOptions, ProtectionOptions};
use crate::tap::{self, TapEdit};
use crate::{bridge, replay};

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
/// them.
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

/// Options of all subcommands.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct CommonOptions {
    /// Print results as JSON: the result object as the server sent it, or an object with `error`
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print every message to standard error, as it is sent or received, and what a server that is a program writes to
    /// its own; without secrets
    #[arg(long, global = true)]
    pub(crate) trace: bool,

    /// Write every message into this file, without secrets: mcpio trace FILE shows it. A trace that is there is replaced
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) trace_file: Option<PathBuf>,

    /// Write each step of the client's machine into that file as well, WITH ALL SECRETS: mcpio replay FILE runs it again
    #[arg(long, global = true, requires = "trace_file")]
    pub(crate) trace_raw: bool,

    /// The file that --trace-file names, once it is open
    #[arg(skip)]
    pub(crate) traced: Option<TraceFile>,

    /// Which era of the protocol to speak
    #[arg(long, global = true, value_enum, default_value_t, value_name = "ERA")]
    pub(crate) era: EraOption,

    /// Seconds to wait until the server is ready [default: 120], and for each answer or progress report [default: 30]
    #[arg(long, global = true, value_parser = seconds, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,

    /// Request log messages of this level and above; they go to standard error
    #[arg(long, global = true, value_name = "LEVEL", value_parser = LEVELS)]
    pub(crate) log: Option<String>,

    /// Send a header with every request to a server at a URL; may be repeated
    #[arg(long = "header", global = true, value_parser = header, value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<(String, String)>,

    /// Send the headers of this file, with NAME: VALUE on each line; may be repeated
    #[arg(long = "header-file", global = true, value_name = "FILE")]
    pub(crate) header_files: Vec<PathBuf>,

    /// Send a header with the value of an environment variable; may be repeated
    #[arg(long = "header-env", global = true, value_parser = header_variable, value_name = "NAME=VARIABLE")]
    pub(crate) header_variables: Vec<(String, String)>,

    /// Client id, if the client was registered beforehand at the server's authorization server; its secret is read from
    /// the variable MCP_CLIENT_SECRET and needs --issuer
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) client_id: Option<String>,

    /// The authorization server that --client-id and its secret are for; they are sent to no other
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) issuer: Option<String>,

    /// Trust the certificates in this PEM file, instead of the system's, for servers at a URL
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// Allow authorization servers in private networks
    #[arg(long, global = true)]
    pub(crate) private_networks: bool,

    /// The folder for tokens [default: mcpio/tokens below the folder for state, such as ~/.local/state]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) tokens: Option<PathBuf>,

    /// Set a variable in the server's environment, or pass on the variable of this name; may be repeated
    #[arg(long = "env", global = true, value_parser = set_or_passed, value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<(String, Option<String>)>,

    /// Set the variables of this file, with NAME=VALUE on each line, in the server's environment; may be repeated
    #[arg(long = "env-file", global = true, value_name = "FILE")]
    pub(crate) env_files: Vec<PathBuf>,

    /// Pass this process's whole environment on to the server, instead of a few variables known to be harmless
    #[arg(long, global = true)]
    pub(crate) whole_env: bool,

    /// The working directory of the server
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Which era of the protocol to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraOption {
    /// Detect the era that the server speaks
    #[default]
    Auto,
    /// 2026-07-28 only
    Modern,
    /// 2025-11-25 and earlier only
    Legacy,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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

/// How `mcpio trace` shows a trace; without any of these in words, or as JSON.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct TraceFormat {
    /// Print a sequence diagram for Mermaid, as GitHub shows it in a block of code
    #[arg(long, conflicts_with = "json")]
    pub(crate) mermaid: bool,
    /// Write a page for a browser: messages with their payloads as a diagram, requests as bars, search and filters. It needs
    /// no other file
    #[arg(long, value_name = "OUT", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,
    /// Print the exchanges over HTTP as an archive (HAR 1.2), for the tools of browsers
    #[arg(long)]
    pub(crate) har: bool,
    /// Print the requests as spans of OpenTelemetry, in the JSON of OTLP
    #[arg(long)]
    pub(crate) otlp: bool,
}

impl Command {
    /// Whether one of its words may be the URL of a server, as it names no server and no file.
    pub(crate) fn takes_url(&self) -> bool {
        let server = match self {
            Self::Tools { server, .. } | Self::Call { server, .. } => server,
            Self::OfServer(command) => command.server(),
            Self::Replay(replay) => return replay.command.is_empty(),
            _ => return false,
        };
        server.is_configured() && !server.config.is_used()
    }
}

/// A command for one server. Its words begin with the name of the server if that is one of configuration files.
#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// List the resources and resource templates
    Resources(OneServer),
    /// Read a resource
    Read {
        /// The resource; of configuration files SERVER URI
        #[arg(required = true, num_args = 1..=2, value_name = "URI")]
        words: Vec<String>,
        /// Write the contents to standard output byte for byte, including control characters
        #[arg(long, conflicts_with = "json")]
        raw: bool,
        /// Save the contents instead of printing them: the first part in this file, further ones beside it with a
        /// number, unless there is such a file
        #[arg(long, value_name = "FILE", conflicts_with = "raw")]
        output: Option<PathBuf>,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// List the skills: folders of instructions for a model. With a skill, show it and its instructions
    Skills {
        /// The skill to show, by its URI, or by its name if the server lists one of that name; of configuration files
        /// SERVER SKILL
        #[arg(num_args = 0..=2, value_name = "SKILL")]
        words: Vec<String>,
        /// Read every file of the skill, or of all listed ones, and compare it with the listing. Exit code 1 if one differs
        #[arg(long)]
        verify: bool,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// Print changes as they happen: of the lists of tools, prompts and resources, and of the named resources. With
    /// --timeout it fails if nothing happens for so long
    Watch {
        /// A resource to watch; may be repeated. Of configuration files SERVER URI…
        #[arg(value_name = "URI")]
        words: Vec<String>,
        /// End after this many changes
        #[arg(long, value_name = "COUNT")]
        changes: Option<u64>,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// List the prompts
    Prompts(OneServer),
    /// Get a prompt
    Get {
        /// The prompt and its arguments, all of them text, or in one JSON object; of configuration files SERVER PROMPT…
        #[arg(required = true, value_names = ["PROMPT", "KEY=VALUE"])]
        words: Vec<String>,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// Complete an argument of a prompt, or a variable of a resource template
    Complete {
        /// The name of the prompt, or the URI template; its argument or variable; the beginning of the value, typed so
        /// far. Of configuration files SERVER PROMPT…
        #[arg(required = true, num_args = 2..=4, value_name = "PROMPT|TEMPLATE ARGUMENT [VALUE]")]
        words: Vec<String>,
        #[command(flatten)]
        server: ServerOrConfig,
    },
    /// Measure how long the server takes to answer
    Ping(OneServer),
    /// Show the server's description of itself
    Info(OneServer),
}

/// One server, and nothing else.
#[derive(Debug, Args)]
pub(crate) struct OneServer {
    /// A server of the configuration files
    #[arg(num_args = 0..=1, value_name = "SERVER")]
    words: Vec<String>,
    #[command(flatten)]
    server: ServerOrConfig,
}

impl ServerCommand {
    fn parts(&self) -> (&[String], &ServerOrConfig) {
        match self {
            Self::Resources(one) | Self::Prompts(one) | Self::Ping(one) | Self::Info(one) => {
                (&one.words, &one.server)
            }
            Self::Read { words, server, .. }
            | Self::Skills { words, server, .. }
            | Self::Watch { words, server, .. }
            | Self::Get { words, server }
            | Self::Complete { words, server } => (words, server),
        }
    }

    /// The words before the server.
    pub(crate) fn words(&self) -> &[String] {
        self.parts().0
    }

    /// The command that starts the server, its URL, or the configuration files.
    pub(crate) fn server(&self) -> &ServerOrConfig {
        self.parts().1
    }
}

/// Options of a login.
#[derive(Debug, Args)]
pub(crate) struct LoginOptions {
    /// Print the authorization page, and open no browser
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// The local port of the redirect; a free one unless given
    #[arg(long, value_name = "PORT", default_value_t, hide_default_value = true)]
    pub(crate) port: u16,

    /// The scopes to request if the server names none, instead of all that it supports
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
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

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "write a number of seconds, such as 0.5 or 90".to_owned())
}

pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME: VALUE".to_owned()),
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

fn header_variable(text: &str) -> Result<(String, String), String> {
    variable(text).map_err(|_| "write NAME=VARIABLE".to_owned())
}

/// A variable with its value, or without: that of this process is passed on.
fn set_or_passed(text: &str) -> Result<(String, Option<String>), String> {
    if text.contains('=') {
        return variable(text).map(|(name, value)| (name, Some(value)));
    }
    if text.is_empty() { Err("write NAME or NAME=VALUE".to_owned()) } else { Ok((text.to_owned(), None)) }
}

/// The configuration files of many servers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Many servers")]
pub(crate) struct ConfigOptions {
    /// A configuration file with servers, in the format of any known application; may be repeated. It counts as a
    /// project's, whose servers need `mcpio approve` first, unless it is a file in which a known application keeps the
    /// user's own configuration, such as ~/.claude.json
    #[arg(long = "config", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A configuration file that is your own, wherever it is: its servers start without approval; may be repeated
    #[arg(long = "user-config", value_name = "FILE")]
    pub(crate) user_files: Vec<PathBuf>,

    /// The folder for approvals and remembered lists [default: mcpio/servers below the folder for state]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

impl ConfigOptions {
    /// Whether any file is named; if not, those of known applications are read.
    pub(crate) fn is_used(&self) -> bool {
        !(self.files.is_empty() && self.user_files.is_empty())
    }
}

/// One server, or the configuration files of many.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerOrConfig {
    /// The command that starts the server, or its URL, which needs no dashes; without it and without --config, the servers
    /// that known applications have for you and for the project in this folder
    #[arg(
        last = true,
        conflicts_with_all = ["files", "user_files"],
        value_name = "COMMAND|URL"
    )]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
}

impl ServerOrConfig {
    /// Whether the servers are those of configuration files.
    pub(crate) fn is_configured(&self) -> bool {
        self.command.is_empty()
    }
}

/// Options of `mcpio approve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApproveOptions {
    /// The servers to approve; all that need it unless given
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Remove the approvals of these servers
    #[arg(long, requires = "servers")]
    pub(crate) revoke: bool,
    /// Start servers that are approved, and ask about definitions that have changed since, which are hidden until then
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) changes: bool,
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &[&str]) -> Options {
        Options::try_parse_from(line).unwrap()
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

    #[test]
    fn seconds_may_be_fractions_and_nothing_else() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "soon", "inf", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_keep_what_follows_the_first_colon() {
        assert_eq!(header("X-Where: a:b"), Ok(("X-Where".to_owned(), "a:b".to_owned())));
        assert!(header(": b").is_err() && header("A").is_err());
    }

    #[test]
    fn variables_keep_what_follows_the_first_equals_sign() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(variable("=b").is_err() && variable("A").is_err());
        assert_eq!(set_or_passed("A=b=c"), Ok(("A".to_owned(), Some("b=c".to_owned()))));
        assert_eq!(set_or_passed("A"), Ok(("A".to_owned(), None)));
        assert!(set_or_passed("=b").is_err() && set_or_passed("").is_err());
    }
}
