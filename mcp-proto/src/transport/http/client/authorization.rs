//! Exchanges refused for lack of authorization.

use alloc::string::String;
use core::fmt;

use crate::transport::http::ExchangeId;

/// How the client handles an exchange that the server refuses for lack of authorization.
///
/// Such a refusal is a 401, or a 403 with a challenge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnauthorizedPolicy {
    /// End the request with the refusal.
    #[default]
    Report,
    /// Park the exchange and report it as [`Action::AuthorizationRequired`](super::Action::AuthorizationRequired).
    ///
    /// It stays parked until [`resume`](super::HttpClient::resume) or [`refuse`](super::HttpClient::refuse). The hard
    /// timeout of the request still counts.
    Park,
}

/// An exchange that is parked until the client is authorized.
#[derive(Clone)]
pub struct AuthorizationRequired {
    /// The id of the exchange, for [`resume`](super::HttpClient::resume) and [`refuse`](super::HttpClient::refuse).
    ///
    /// The HTTP exchange itself has ended.
    pub exchange: ExchangeId,
    /// The HTTP status, 401 or 403.
    pub status: u16,
    /// The `WWW-Authenticate` headers, joined by commas.
    ///
    /// At most [`Limits::header_bytes`](crate::Limits::header_bytes) bytes.
    pub header: Option<String>,
    /// The nonce for the next DPoP proof of possession (RFC 9449).
    pub dpop_nonce: Option<String>,
    /// The number of times that this request was resumed before.
    pub attempt: u32,
}

impl fmt::Debug for AuthorizationRequired {
    /// Omits values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequired")
            .field("exchange", &self.exchange)
            .field("status", &self.status)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
