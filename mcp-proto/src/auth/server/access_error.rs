//! Reasons to refuse requests.

use alloc::string::String;

/// How a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Bearer,
    Dpop,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AccessError {
    /// The request has no token.
    NoToken,
    /// The request's authorization is malformed.
    Malformed(&'static str),
    /// The token is invalid.
    Token { scheme: Scheme, why: String },
    /// The proof of possession is invalid.
    Proof(String),
    /// The proof needs this nonce.
    #[cfg_attr(not(feature = "auth-jwt"), allow(dead_code, reason = "there are no proofs"))]
    Nonce(String),
    /// The token lacks scopes that every request needs.
    Scope { scheme: Scheme },
    /// The token cannot be verified at present.
    Unavailable,
    /// The owner has too many tokens under verification, or too many recorded proofs.
    OverQuota,
}

impl AccessError {
    //= S10.3 "401 no/invalid token, 403 insufficient scope, 400 malformed"
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::NoToken | Self::Token { .. } | Self::Proof(_) | Self::Nonce(_) => 401,
            Self::Malformed(_) => 400,
            Self::Scope { .. } => 403,
            Self::Unavailable => 503,
            Self::OverQuota => 429,
        }
    }

    pub(super) fn error(&self) -> Option<&'static str> {
        match self {
            // RFC 6750, section 3.1: a request without credentials gets no error code.
            Self::NoToken | Self::Unavailable | Self::OverQuota => None,
            Self::Malformed(_) => Some("invalid_request"),
            Self::Token { .. } => Some("invalid_token"),
            Self::Proof(_) => Some("invalid_dpop_proof"),
            Self::Nonce(_) => Some("use_dpop_nonce"),
            Self::Scope { .. } => Some("insufficient_scope"),
        }
    }

    pub(super) fn description(&self) -> &str {
        match self {
            Self::NoToken => "a token is needed",
            Self::Malformed(what) => what,
            Self::Token { why, .. } | Self::Proof(why) => why,
            Self::Nonce(_) => "the proof needs the nonce that comes with this answer",
            Self::Scope { .. } => "the token is not good for this",
            Self::Unavailable => "tokens cannot be checked at the moment",
            Self::OverQuota => "too many requests are being authenticated for you",
        }
    }
}
