//! What can go wrong with the input that a server asks for before it finishes a request.

use alloc::string::String;
use core::fmt;

use crate::rpc::ErrorObject;
use crate::schema::ClientCapability;

/// Why a request ended over the input that its server asked for. Nothing was sent to the server on that account.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The server asked for something that is no input.
    NotAnInput {
        /// The key under which it was asked for.
        key: String,
        /// What it was.
        method: String,
    },
    /// The server asked for something that this client did not declare.
    Undeclared {
        /// The key under which it was asked for.
        key: String,
        /// What it was.
        method: &'static str,
        /// What would have had to be declared.
        needed: ClientCapability,
    },
    /// The server asked for more at once than this side takes: see [`Limits::requests_in`](crate::Limits::requests_in).
    TooMany {
        /// How much it asked for.
        count: usize,
    },
    /// This side answered with an error.
    Failed {
        /// The key under which it was asked for.
        key: String,
        /// The error: this side's own.
        error: ErrorObject,
    },
    /// The server asked again and again: see [`Limits::rounds`](crate::Limits::rounds).
    TooManyRounds {
        /// How often the request went out again.
        limit: u32,
    },
}

impl InputError {
    /// The key under which the server asked for what could not be given.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::NotAnInput { key, .. } | Self::Undeclared { key, .. } | Self::Failed { key, .. } => {
                Some(key)
            }
            Self::TooMany { .. } | Self::TooManyRounds { .. } => None,
        }
    }

    /// How many bytes of the peer's it holds.
    pub(crate) fn bytes(&self) -> usize {
        let method = match self {
            Self::NotAnInput { method, .. } => method.len(),
            _ => 0,
        };
        self.key().map_or(0, str::len).saturating_add(method)
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnInput { key, method } => {
                write!(f, "the server asks for {method:?} as input {key:?}, which is no input")
            }
            Self::Undeclared { key, method, needed } => write!(
                f,
                "the server asks for {method} as input {key:?}, and this client does not declare {:?}",
                needed.path()
            ),
            Self::TooMany { count: asked } => {
                write!(f, "the server asks for {asked} inputs, too many at once")
            }
            Self::Failed { key, error } => write!(f, "there is no answer to the input {key:?}: {error}"),
            Self::TooManyRounds { limit } => {
                write!(f, "the server still asks for input after {limit} rounds")
            }
        }
    }
}

impl core::error::Error for InputError {}
