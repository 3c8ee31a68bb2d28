//! Refusals for lack of authorization, and what the client does with them.

use alloc::string::String;
use core::fmt;

use crate::transport::http::ExchangeId;

/// What the client does with an exchange that the server refuses for lack of authorization: with 401, or with 403 and a
/// challenge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnauthorizedPolicy {
    /// The request ends with the refusal.
    #[default]
    Report,
    /// The exchange is parked, and reported as
    /// [`Action::AuthorizationRequired`](super::Action::AuthorizationRequired), until
    /// [`resume`](super::HttpClient::resume) or [`refuse`](super::HttpClient::refuse). The hard timeout of the request still counts.
    Park,
}

/// An exchange that is parked until the client is authorized.
#[derive(Clone)]
pub struct AuthorizationRequired {
    /// The exchange. It has ended; [`resume`](super::HttpClient::resume) and [`refuse`](super::HttpClient::refuse) take its id.
    pub exchange: ExchangeId,
    /// Its status, 401 or 403.
    pub status: u16,
    /// The `WWW-Authenticate` headers, joined by commas; at most [`Limits::header_bytes`](crate::Limits::header_bytes)
    /// bytes.
    pub header: Option<String>,
    /// The nonce for the next proof of possession, by RFC 9449.
    pub dpop_nonce: Option<String>,
    /// How often this request was resumed before.
    pub attempt: u32,
}

impl fmt::Debug for AuthorizationRequired {
    /// Omits what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequired")
            .field("exchange", &self.exchange)
            .field("status", &self.status)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
