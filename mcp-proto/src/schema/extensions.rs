//! Extensions of the protocol: declared by both sides, or not used.

use alloc::string::String;
use core::fmt;

use super::json::Json;
use super::map::Map;
use super::{ClientCapabilities, Meta, ServerCapabilities};

/// What was to identify an extension does not: a prefix of dot-separated labels, a slash and a name, as
/// `com.example/charts`. Prefixes are domain names, the other way round.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExtensionError {
    /// What it was.
    pub identifier: String,
}

impl fmt::Display for InvalidExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} does not identify an extension, as com.example/name would", self.identifier)
    }
}

impl core::error::Error for InvalidExtensionError {}

impl ClientCapabilities {
    /// The same with an extension declared, with its settings: an object.
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
    /// If it has no prefix, or is no identifier at all.
    pub fn with_extension(
        mut self,
        identifier: &str,
        settings: impl Into<Json>,
    ) -> Result<Self, InvalidExtensionError> {
        insert(&mut self.extensions, identifier, settings.into())?;
        Ok(self)
    }

    /// The settings of an extension, if the client declares it.
    pub fn extension(&self, identifier: &str) -> Option<&Json> {
        self.extensions.as_ref()?.get(identifier)
    }
}

impl ServerCapabilities {
    /// The same with an extension declared, with its settings: an object.
    ///
    /// # Errors
    /// If it has no prefix, or is no identifier at all.
    pub fn with_extension(
        mut self,
        identifier: &str,
        settings: impl Into<Json>,
    ) -> Result<Self, InvalidExtensionError> {
        insert(&mut self.extensions, identifier, settings.into())?;
        Ok(self)
    }

    /// The settings of an extension, if the server declares it.
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
