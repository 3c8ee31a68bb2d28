//! Options of commands for many servers.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

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
    /// Whether any file is named.
    pub(crate) fn is_used(&self) -> bool {
        !(self.files.is_empty() && self.user_files.is_empty())
    }
}

/// The configuration files of a command that needs some.
#[derive(Clone, Debug, Args)]
#[group(id = "configuration", required = true, multiple = true, args = ["files", "user_files"])]
pub(crate) struct RequiredConfig {
    #[command(flatten)]
    pub(crate) options: ConfigOptions,
}

/// One server, or the configuration files of many.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerOrConfig {
    /// The command that starts the server, or its URL, which needs no dashes
    #[arg(
        last = true,
        required_unless_present_any = ["files", "user_files"],
        conflicts_with_all = ["files", "user_files"],
        value_name = "COMMAND|URL"
    )]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
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
    pub(crate) config: RequiredConfig,
}
