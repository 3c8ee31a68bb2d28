//! What a token endpoint answers.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use super::{Scopes, Secret};

/// How a token is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// By whoever has it.
    Bearer,
    /// With a proof that the key is held which it is bound to (RFC 9449).
    Dpop,
    /// Not at a resource: it is an assertion that another authorization server takes (RFC 8693, `N_A`).
    Assertion,
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// The token.
    pub access: Secret,
    /// How it is used.
    pub kind: TokenKind,
    /// What gets the next one.
    pub refresh: Option<Secret>,
    /// How long it is good for, from when it was asked for. At most ten years.
    pub lifetime: Option<Duration>,
    /// What it is good for, if that is not what was asked for.
    pub scope: Option<Scopes>,
    /// What kind of token an exchange gave (RFC 8693).
    pub issued_type: Option<String>,
    /// Who agreed (OpenID Connect).
    pub id_token: Option<Secret>,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The server says why.
    Refused {
        /// The code, as `invalid_grant`.
        error: String,
        /// The same for people, fit to be shown.
        description: Option<String>,
    },
    /// It is granted, but the answer can not be used.
    Unreadable(TokenFault),
    /// The server answers with this status, and says nothing that can be understood.
    Status(u16),
}

/// What is wrong with an answer that grants a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFault {
    /// It is longer than [`DOCUMENT_BYTES`](super::DOCUMENT_BYTES).
    TooLong,
    /// It is no JSON object.
    Json,
    /// It is a form, as old servers answer.
    Form,
    /// A member is there twice.
    Twice(&'static str),
    /// A member is missing.
    Missing(&'static str),
    /// A member is of another type than it should be, or too long, or can not be sent.
    Member(&'static str),
    /// The token is of a kind that is not known here.
    Kind,
}

/// Reads the answer of a token endpoint.
///
/// # Errors
/// If it grants no token that can be used.
pub fn read_token_answer(status: u16, body: &[u8]) -> Result<Granted, TokenRefusal> {
    let _ = body;
    Err(TokenRefusal::Status(status))
}

impl TokenRefusal {
    /// Whether asking again in the same way is bound to fail: what was presented is of no more use.
    pub fn is_definitive(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether the same request is wanted again with the nonce that came with the answer.
    pub fn is_use_dpop_nonce(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error == "use_dpop_nonce")
    }
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error, description: None } => {
                write!(f, "the authorization server refuses: {error}")
            }
            Self::Refused { error, description: Some(description) } => {
                write!(f, "the authorization server refuses: {error}: {description}")
            }
            Self::Unreadable(fault) => fault.fmt(f),
            Self::Status(status) => write!(f, "the token endpoint answers with status {status}"),
        }
    }
}

impl core::error::Error for TokenRefusal {}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the answer of the token endpoint is too long"),
            Self::Json => f.write_str("the answer of the token endpoint is no JSON object"),
            Self::Form => f.write_str("the token endpoint answers with a form rather than JSON"),
            Self::Twice(name) => write!(f, "the token endpoint says twice what {name} is"),
            Self::Missing(name) => write!(f, "the answer of the token endpoint lacks {name}"),
            Self::Member(name) => {
                write!(f, "in the answer of the token endpoint, {name} is not what it should be")
            }
            Self::Kind => f.write_str("the token is of a kind that is not known here"),
        }
    }
}

impl core::error::Error for TokenFault {}
