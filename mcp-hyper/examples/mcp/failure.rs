//! What can go wrong, in words for whoever typed the command, and the exit code for scripts.

use std::fmt;
use std::io;
use std::process::ExitCode;

use mcp_proto::auth::{Demand, Scopes};
use mcp_proto::front;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The tool was called, and says that it failed. It has been shown already.
    Tool,
    /// What was typed makes no sense.
    Usage(String),
    /// The connection or the protocol failed, or the server refused.
    Server(String),
    /// The server wants to know who asks, or more than was agreed to: these scopes, as far as it says.
    Unauthorized { message: String, scopes: Option<Scopes> },
    /// Standard output failed.
    Output(io::Error),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Tool => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Server(_) | Self::Unauthorized { .. } => ExitCode::from(3),
            // Whoever reads has seen enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(_) => ExitCode::from(3),
        }
    }

    pub(crate) fn is_worth_telling(&self) -> bool {
        !matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool => f.write_str("the tool reports a failure"),
            Self::Usage(message) | Self::Server(message) | Self::Unauthorized { message, .. } => {
                f.write_str(message)
            }
            Self::Output(error) => write!(f, "standard output: {error}"),
        }
    }
}

impl From<front::Error> for Failure {
    fn from(error: front::Error) -> Self {
        if let Some(http) = error.unauthorized() {
            let demand = http.challenge.as_deref().and_then(Demand::read);
            let (what, scopes) = match http.status {
                403 => ("this needs more than was agreed to", demand.and_then(|demand| demand.scope)),
                _ => ("the server wants to know who asks", None),
            };
            return Self::Unauthorized { message: format!("{what}: {http}"), scopes };
        }
        let hint = if error.is_timeout() { "\nTo wait longer: --timeout SECONDS" } else { "" };
        Self::Server(format!("{error}{hint}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Server(format!("the answer can not be shown: {error}"))
    }
}
