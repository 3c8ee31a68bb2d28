//! JSON-RPC errors and their codes.

use alloc::string::String;
use core::fmt;

use super::{Raw, read_members};
use crate::text::SafeText;

/// A JSON-RPC error object, received from a peer or sent to one.
///
/// Errors that occur on this side have types of their own, so that they are never mistaken for a peer's answer.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-responses>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorObject {
    /// The kind of error: see [`code`].
    pub code: i64,
    /// A sentence that describes the error.
    pub message: String,
    /// Further information, as raw JSON.
    pub data: Option<Raw>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets [`data`](Self::data).
    #[must_use]
    pub fn with_data(mut self, data: Raw) -> Self {
        self.data = Some(data);
        self
    }

    /// Whether this answer to `resources/read` means that the resource does not exist: the code is
    /// [`RESOURCE_NOT_FOUND`](code::RESOURCE_NOT_FOUND), or [`INVALID_PARAMS`](code::INVALID_PARAMS) with a `uri` in the
    /// data. Invalid parameters without a `uri` may have another reason.
    ///
    /// ```
    /// use mcp_proto::rpc::{ErrorObject, Raw, code};
    ///
    /// assert!(ErrorObject::new(code::RESOURCE_NOT_FOUND, "2025-11-25").is_resource_not_found());
    /// let data = Raw::new(r#"{"uri":"file:///missing.txt"}"#)?;
    /// assert!(ErrorObject::new(code::INVALID_PARAMS, "2026-07-28").with_data(data).is_resource_not_found());
    /// assert!(!ErrorObject::new(code::INVALID_PARAMS, "`uri` is missing").is_resource_not_found());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling>
    pub fn is_resource_not_found(&self) -> bool {
        let names_uri = || {
            let members = self.data.as_ref().and_then(|data| read_members(data.as_str(), ["uri"]).ok());
            matches!(members, Some([Some(_)]))
        };
        //= C1.13 "Still accept -32002 as "resource not found" from older servers"
        self.code == code::RESOURCE_NOT_FOUND || (self.code == code::INVALID_PARAMS && names_uri())
    }
}

impl fmt::Display for ErrorObject {
    /// Writes the message as [`SafeText`](crate::consent::SafeText), and the code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = SafeText::block(&self.message);
        match self.code {
            code::UNREADABLE => message.fmt(f),
            code => write!(f, "{message} ({code})"),
        }
    }
}

impl core::error::Error for ErrorObject {}

/// The error codes of JSON-RPC and of all MCP revisions.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes>
pub mod code {
    /// Placeholder for a code that the peer left out or that is not an integer. It is not a code of JSON-RPC, and
    /// [`ErrorObject`](super::ErrorObject) does not display it.
    pub const UNREADABLE: i64 = 0;
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The receiver has no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed to process the request.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The resource does not exist: 2025-11-25 and earlier; since then [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit a URL first: 2025-11-25 only.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header is missing or contradicts the body: since 2026-07-28.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare with it: since 2026-07-28.
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
    /// The server does not speak the requested version: since 2026-07-28.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
    /// The user rejected a sampling request.
    pub const USER_REJECTED: i64 = -1;

    /// Whether a code is in the range that JSON-RPC reserves, and neither JSON-RPC nor MCP defines it.
    pub(crate) const fn is_undefined(code: i64) -> bool {
        let defined = matches!(
            code,
            PARSE_ERROR
                | INVALID_REQUEST
                | METHOD_NOT_FOUND
                | INVALID_PARAMS
                | INTERNAL_ERROR
                | RESOURCE_NOT_FOUND
                | URL_ELICITATION_REQUIRED
                | HEADER_MISMATCH
                | MISSING_REQUIRED_CLIENT_CAPABILITY
                | UNSUPPORTED_PROTOCOL_VERSION
        );
        matches!(code, -32_768..=-32_000) && !defined
    }
}
