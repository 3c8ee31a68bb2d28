//! Errors of the input that a server asks for before it finishes a request.

use crate::prelude::*;
use crate::rpc::ErrorObject;
use crate::schema::ClientCapability;

/// Why a request ended because of the input that its server asked for. No answer to the input was sent to the server.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The server asked for an input of an unknown method.
    NotAnInput {
        /// The key of the input request.
        key: String,
        /// Its method.
        method: String,
    },
    /// The server asked for an input whose capability this client did not declare.
    Undeclared {
        /// The key of the input request.
        key: String,
        /// Its method.
        method: &'static str,
        /// The missing capability.
        needed: ClientCapability,
    },
    /// The server asked for more inputs at once than this side accepts: see
    /// [`Limits::requests_in`](crate::Limits::requests_in).
    TooMany {
        /// The number of inputs.
        count: usize,
    },
    /// This side answered with an error.
    Failed {
        /// The key of the input request.
        key: String,
        /// The error: this side's own.
        error: ErrorObject,
    },
    /// The server asked for input too many times: see [`Limits::input_rounds`](crate::Limits::input_rounds).
    TooManyRounds {
        /// The number of times that the request was sent again.
        limit: u32,
    },
}

impl InputError {
    /// The key of the input that could not be provided.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::NotAnInput { key, .. } | Self::Undeclared { key, .. } | Self::Failed { key, .. } => {
                Some(key)
            }
            Self::TooMany { .. } | Self::TooManyRounds { .. } => None,
        }
    }

    /// The size in bytes of its peer-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let method = match self {
            Self::NotAnInput { method, .. } => method.len(),
            _ => 0,
        };
        self.key().map_or(0, str::len).saturating_add(method)
    }
}

error_text! { InputError:
    NotAnInput { key, method } =>
        "the input request {key:?} has the method {method:?}, which no input request may have";
    Undeclared { key, method, needed } =>
        "the input request {key:?} ({method}) requires {:?}, which this client does not declare", needed.path();
    TooMany { count: asked } => "the server made {asked} input requests at once, more than the limit";
    Failed { key, error } => "there is no answer to the input {key:?}: {error}";
    TooManyRounds { limit } => "the server still asks for input after {limit} rounds";
}
