//! The options that commands share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use mcp_hyper::host::TraceFile;

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

    /// Write each step of the machines of the client or server into that file as well, WITH ALL SECRETS: mcpio replay FILE
    /// runs them again
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

    /// Speak HTTP/2 over the standard input and output of the server: the transport stdio-v2, an experiment
    #[arg(long, global = true)]
    pub(crate) stdio_v2: bool,

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
