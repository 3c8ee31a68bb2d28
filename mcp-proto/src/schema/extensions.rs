//! Extensions of the protocol: both sides must declare an extension to use it.

use alloc::string::String;
use core::fmt;

use super::json::Json;
use super::map::Map;
use super::{ClientCapabilities, Meta, ServerCapabilities};

/// Error: the text is not an extension identifier.
///
/// An identifier is a prefix of dot-separated labels, a slash and a name, such as `com.example/charts`. Prefixes are
/// reversed domain names.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExtensionError {
    /// The invalid identifier.
    pub identifier: String,
}

impl fmt::Display for InvalidExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an extension identifier: use a form such as com.example/name", self.identifier)
    }
}

impl core::error::Error for InvalidExtensionError {}

impl ClientCapabilities {
    /// Declares an extension with its settings: an object.
    ///
    /// ```
    /// use mcp_proto::schema::{ClientCapabilities, Json};
    ///
    /// let declared = ClientCapabilities::new().with_extension("com.example/charts", Json::empty_object())?;
    /// assert!(declared.extension("com.example/charts").is_some());
    /// assert!(ClientCapabilities::new().with_extension("charts", Json::empty_object()).is_err());
    /// # Ok::<(), mcp_proto::schema::InvalidExtensionError>(())
    /// ```
    ///
    /// # Errors
    /// If the identifier has no prefix, or is invalid.
    pub fn with_extension(
        mut self,
        identifier: &str,
        settings: impl Into<Json>,
    ) -> Result<Self, InvalidExtensionError> {
        insert(&mut self.extensions, identifier, settings.into())?;
        Ok(self)
    }

    /// The settings of an extension that the client declares.
    pub fn extension(&self, identifier: &str) -> Option<&Json> {
        self.extensions.as_ref()?.get(identifier)
    }
}

impl ServerCapabilities {
    /// Declares an extension with its settings: an object.
    ///
    /// # Errors
    /// If the identifier has no prefix, or is invalid.
    pub fn with_extension(
        mut self,
        identifier: &str,
        settings: impl Into<Json>,
    ) -> Result<Self, InvalidExtensionError> {
        insert(&mut self.extensions, identifier, settings.into())?;
        Ok(self)
    }

    /// The settings of an extension that the server declares.
    pub fn extension(&self, identifier: &str) -> Option<&Json> {
        self.extensions.as_ref()?.get(identifier)
    }
}

fn insert(
    extensions: &mut Option<Map<Json>>,
    identifier: &str,
    settings: Json,
) -> Result<(), InvalidExtensionError> {
    if !Meta::is_extension(identifier) {
        return Err(InvalidExtensionError { identifier: identifier.into() });
    }
    extensions.get_or_insert_default().insert(identifier, settings);
    Ok(())
}
