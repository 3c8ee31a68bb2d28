//! Why a connection ended, and whether another attempt may help.

use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::front::{Client, Error};
use mcp_proto::host::config::ResolveError;
use mcp_proto::host::control::{Failure, FailureKind};
use mcp_proto::peer::CacheMode;
use mcp_proto::peer::client::{CloseReason, ConnectError};
use mcp_smol::{SpawnError, SpawnErrorKind, StderrLine};

/// The failure that an error of a client means.
pub(super) fn of_error(error: &Error) -> Failure {
    let kind = match error {
        _ if error.unauthorized().is_some() => FailureKind::NeedsAuthorization,
        Error::Closed(CloseReason::Connect(error)) if is_permanent(error) => FailureKind::Permanent,
        _ => FailureKind::Transient,
    };
    Failure::new(kind, error.to_string())
}

/// Whether the server refuses the client's credentials, for any request.
pub(super) fn is_unauthorized(error: &Error) -> bool {
    error.unauthorized().is_some_and(|http| http.status == 401)
}

/// Whether the server would refuse the client again.
fn is_permanent(error: &ConnectError) -> bool {
    match error {
        ConnectError::NoCommonVersion { .. }
        | ConnectError::MissingCapabilities { .. }
        | ConnectError::LegacyServer { .. }
        | ConnectError::HeadersChanged { .. }
        | ConnectError::Extensions(_) => true,
        ConnectError::AllFailed(errors) => errors.last().is_some_and(is_permanent),
        _ => false,
    }
}

/// The failure of a program that could not be started. Its arguments may be secrets that were looked up.
pub(super) fn of_spawn(error: &SpawnError) -> Failure {
    // All other reasons stay until the user acts.
    let kind = match error.kind() {
        SpawnErrorKind::System => FailureKind::Transient,
        _ => FailureKind::Permanent,
    };
    Failure::new(kind, error.without_arguments().to_string())
}

/// The failure of options that are wrong.
pub(super) fn of_options(error: &crate::ConnectError) -> Failure {
    let kind = match error {
        crate::ConnectError::Runtime(_) | crate::ConnectError::NoEntropy => FailureKind::Transient,
        _ => FailureKind::Permanent,
    };
    Failure::new(kind, error.to_string())
}

pub(super) fn of_resolution(error: &ResolveError) -> Failure {
    permanent(error.to_string())
}

pub(super) fn permanent(reason: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Permanent, reason)
}

/// Finds out whether the server still answers.
///
/// # Errors
/// If it does not.
pub(super) async fn check(client: &Client) -> Result<(), Error> {
    match client.list_tools_page(None).cache(CacheMode::Bypass).await {
        Err(error) if error.is_disconnect() || error.is_timeout() => Err(error),
        _ => Ok(()),
    }
}

/// The last lines that a program wrote to its standard error, at most [`Failure::LIMIT`] bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct StderrTail(Arc<Mutex<String>>);

impl StderrTail {
    pub(super) fn push(&self, line: &StderrLine) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&line.text);
        text.push('\n');
        // Half as much again may gather before the start is removed.
        if text.len() > Failure::LIMIT + Failure::LIMIT / 2 {
            let start = text.ceil_char_boundary(text.len() - Failure::LIMIT);
            text.drain(..start);
        }
    }

    pub(super) fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = text.ceil_char_boundary(text.len().saturating_sub(Failure::LIMIT));
        text.get(start..).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_of_standard_error_keeps_the_last_lines_within_its_limit() {
        let tail = StderrTail::default();
        for text in ["é".repeat(3000), "x".repeat(3000), "last".to_owned()] {
            tail.0.lock().unwrap().push_str(&text);
            let mut text = tail.0.lock().unwrap();
            text.push('\n');
        }
        let text = tail.text();
        assert!(text.ends_with("x\nlast\n") && text.len() <= Failure::LIMIT);
    }
}
