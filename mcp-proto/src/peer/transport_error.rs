//! Errors of exchanges that the transport ended without an answer.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::HumanDuration;
use crate::text::SafeText;

/// An exchange of the transport that ended with a status instead of an answer.
///
/// Only transports with an exchange for each message report it, as HTTP does, or one that opens the connection, as
/// WebSocket does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportError {
    /// The name of the protocol that the status belongs to, for messages: `HTTP`.
    pub protocol: &'static str,
    /// The status of the exchange.
    pub status: u16,
    /// Whether the same request may succeed later.
    pub retry: RetryAdvice,
    /// How long the server asks the client to wait before a retry.
    pub retry_after: Option<Duration>,
    /// Whether the server, or a gateway in front of it, cannot answer any request now.
    pub is_unavailable: bool,
    /// Whether the server requires the client to authenticate, or to obtain a wider grant.
    pub needs_authorization: bool,
    /// The start of the body: at most [`MAX_DETAIL`](Self::MAX_DETAIL) characters, without line breaks and other
    /// characters that cannot be displayed.
    pub detail: Box<str>,
    /// The authentication challenges: the server's `WWW-Authenticate` headers, joined by commas.
    pub challenge: Option<Box<str>>,
    /// The target of a redirect that was not followed.
    pub location: Option<Box<str>>,
    /// The error of the client's own authorization flow, not of the server.
    pub unauthorized: Option<Box<str>>,
}

/// Whether it helps to repeat a request that ended with a [`TransportError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// The same request may succeed later: the server or a gateway is busy, or failed.
    Later,
    /// The status gives no indication.
    Unknown,
    /// The server rejected the request, and will reject it again.
    Never,
}

impl TransportError {
    /// The maximum length of [`detail`](Self::detail) in characters: enough to identify the program that wrote the
    /// body, and its reason.
    pub const MAX_DETAIL: usize = 512;

    /// Adds the error of the client's own authorization flow: at most [`MAX_DETAIL`](Self::MAX_DETAIL) characters.
    #[must_use]
    pub fn with_unauthorized(mut self, why: &str) -> Self {
        self.unauthorized = Some(Self::excerpt(why));
        self
    }

    /// The size in bytes of its server-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let length = |text: Option<&str>| text.map_or(0, str::len);
        let texts = [self.detail.len(), length(self.challenge.as_deref()), length(self.location.as_deref())];
        texts.into_iter().fold(0, usize::saturating_add)
    }
}

impl TransportError {
    /// Creates an error from a status and the start of the body, with no other details.
    pub(crate) fn new(protocol: &'static str, status: u16, body: &str) -> Self {
        Self {
            protocol,
            status,
            retry: RetryAdvice::Unknown,
            retry_after: None,
            is_unavailable: false,
            needs_authorization: false,
            detail: Self::excerpt(body),
            challenge: None,
            location: None,
            unauthorized: None,
        }
    }

    /// The start of a server-supplied text, made fit for display: at most [`MAX_DETAIL`](Self::MAX_DETAIL) characters
    /// on one line.
    pub(crate) fn excerpt(text: &str) -> Box<str> {
        let mut excerpt = alloc::string::String::new();
        let mut room = Self::MAX_DETAIL;
        for word in text.split(|char: char| char.is_whitespace() || char.is_control()) {
            let gap = if excerpt.is_empty() || word.is_empty() { "" } else { " " };
            for char in gap.chars().chain(word.chars()).take(room) {
                excerpt.push(char);
                room = room.saturating_sub(1);
            }
            if room == 0 {
                break;
            }
        }
        excerpt.into()
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} status {}", self.protocol, self.status)?;
        if let Some(why) = &self.unauthorized {
            write!(f, " ({why})")?;
        }
        if let Some(location) = &self.location {
            write!(f, " (it redirects to {}, which is not followed)", SafeText::line(location))?;
        }
        if let Some(pause) = self.retry_after {
            write!(f, " (retry after {})", HumanDuration(pause))?;
        }
        match &*self.detail {
            "" => Ok(()),
            detail => write!(f, ": {}", SafeText::line(detail)),
        }
    }
}

impl core::error::Error for TransportError {}
