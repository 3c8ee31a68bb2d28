//! Why a WebSocket ends, in words, and the close code that tells the other side.

use async_tungstenite::tungstenite::Error;
use async_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use async_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};

/// The end of a WebSocket, as this side sees it.
pub(crate) struct Closing {
    /// The code of this side's close frame, if it sends one of its own.
    pub(super) code: Option<CloseCode>,
    /// A description for the user, whose subject is the other side.
    pub(super) detail: String,
}

impl Closing {
    /// The other side sent this close frame, or ended without one.
    pub(super) fn of_peer(frame: Option<&CloseFrame>) -> Self {
        let detail = match frame {
            None => "WebSocket close frame without a code".to_owned(),
            // How tungstenite reports a code that no frame may have.
            Some(CloseFrame { code: CloseCode::Protocol, reason })
                if reason.as_str() == "Protocol violation" =>
            {
                "WebSocket close frame with an invalid code".to_owned()
            }
            Some(CloseFrame { code, reason }) => {
                let (number, name) = (u16::from(*code), code_name(*code));
                match reason.as_str() {
                    "" => format!("WebSocket close code {number}{name}"),
                    // Escaped: a terminal may show it.
                    reason => format!("WebSocket close code {number}{name}: {}", reason.escape_debug()),
                }
            }
        };
        Self { code: None, detail }
    }

    /// The other side sent a binary message.
    pub(super) fn binary() -> Self {
        let detail = "it sent a binary message; MCP messages are text".to_owned();
        Self { code: Some(CloseCode::Unsupported), detail }
    }

    /// Reading failed.
    pub(super) fn of_error(error: &Error) -> Self {
        let (code, detail) = match error {
            Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
                (Some(CloseCode::Size), format!("it sent a message of {size} bytes; {max_size} are accepted"))
            }
            Error::Utf8(_) => (Some(CloseCode::Invalid), "it sent text that is not UTF-8".to_owned()),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                (None, "the WebSocket broke off without a close frame".to_owned())
            }
            Error::Protocol(error) => {
                (Some(CloseCode::Protocol), format!("it violates the WebSocket protocol: {error}"))
            }
            Error::Io(error) => (None, format!("reading from it failed: {error}")),
            error => (None, error.to_string()),
        };
        Self { code, detail }
    }
}

/// The meaning of a code, in parentheses. RFC 6455, section 7.4.1, and its registry.
fn code_name(code: CloseCode) -> &'static str {
    match code {
        CloseCode::Normal => " (normal closure)",
        CloseCode::Away => " (going away)",
        CloseCode::Protocol => " (protocol error)",
        CloseCode::Unsupported => " (unsupported data)",
        CloseCode::Invalid => " (invalid text)",
        CloseCode::Policy => " (policy violation)",
        CloseCode::Size => " (message too big)",
        CloseCode::Extension => " (missing extension)",
        CloseCode::Error => " (internal error)",
        CloseCode::Restart => " (service restart)",
        CloseCode::Again => " (try again later)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(code: CloseCode, reason: &'static str) -> String {
        Closing::of_peer(Some(&CloseFrame { code, reason: reason.into() })).detail
    }

    #[test]
    fn description_names_code_and_reason() {
        assert_eq!(
            detail(CloseCode::Error, "out of disk"),
            "WebSocket close code 1011 (internal error): out of disk"
        );
        assert_eq!(detail(CloseCode::Library(4000), ""), "WebSocket close code 4000");
    }

    #[test]
    fn description_escapes_control_characters() {
        assert_eq!(
            detail(CloseCode::Normal, "\u{1b}[2Jbye"),
            "WebSocket close code 1000 (normal closure): \\u{1b}[2Jbye"
        );
    }
}
