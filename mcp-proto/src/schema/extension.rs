//! What the protocol does not define: extensions as values, and methods by their names.

use super::{
    CustomParams, CustomResult, Direction, InvalidExtensionError, Json, Meta, Method, MethodInfo,
    NotificationInfo,
};
use crate::prelude::*;

/// An extension of the protocol: its identifier, settings, methods, notifications and result types.
///
/// A client or a server that registers it declares it with its capabilities. It is negotiated with a peer of 2026-07-28
/// that declares it too; earlier revisions have no extensions. Until it is negotiated,
///
/// - a client sends none of its messages, and treats results of its types as invalid;
/// - a server answers requests of its methods with
///   [`MISSING_REQUIRED_CLIENT_CAPABILITY`](crate::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY), and does not return
///   results of its types.
///
/// The protocol's own names keep their meaning if an extension repeats one. The [tasks](super::tasks) extension is built
/// in, and need not be registered.
///
/// ```
/// use mcp_proto::schema::{Direction, Extension, ExtensionMethod};
/// use serde_json::json;
///
/// let printing = Extension::new("com.example/printing")?
///     .with_settings(json!({ "colour": true }))
///     .with_method(ExtensionMethod::new("com.example/print").with_name_param("printer"))
///     .with_notification("com.example/paperLow", Direction::ServerToClient)
///     .with_result_type("com.example/queued");
/// assert_eq!(printing.identifier(), "com.example/printing");
/// assert!(Extension::new("printing").is_err());
/// # Ok::<(), mcp_proto::schema::InvalidExtensionError>(())
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    identifier: String,
    settings: Json,
    methods: Vec<ExtensionMethod>,
    notifications: Vec<(String, Direction)>,
    result_types: Vec<Box<str>>,
}

impl Extension {
    /// Creates an extension with this identifier, without settings or messages.
    ///
    /// # Errors
    /// If the identifier has no prefix, or is invalid.
    pub fn new(identifier: impl Into<String>) -> Result<Self, InvalidExtensionError> {
        let identifier = identifier.into();
        //= C2.9 "Extension ids follow `_meta` naming"
        if !Meta::is_extension(&identifier) {
            return Err(InvalidExtensionError { identifier });
        }
        Ok(Self {
            identifier,
            settings: Json::empty_object(),
            methods: Vec::new(),
            notifications: Vec::new(),
            result_types: Vec::new(),
        })
    }

    /// Sets the settings that this side declares: an object.
    #[must_use]
    pub fn with_settings(mut self, settings: impl Into<Json>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Adds a method.
    #[must_use]
    pub fn with_method(mut self, method: ExtensionMethod) -> Self {
        self.methods.push(method);
        self
    }

    /// Adds a notification.
    #[must_use]
    pub fn with_notification(mut self, name: impl Into<String>, direction: Direction) -> Self {
        self.notifications.push((name.into(), direction));
        self
    }

    /// Adds a value of `resultType`, which results of any method may have.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#resulttype>
    #[must_use]
    pub fn with_result_type(mut self, name: impl Into<Box<str>>) -> Self {
        self.result_types.push(name.into());
        self
    }

    /// Its identifier.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Its settings.
    pub fn settings(&self) -> &Json {
        &self.settings
    }

    /// Its method `name` of requests in `direction`.
    pub fn method(&self, name: &str, direction: Direction) -> Option<&ExtensionMethod> {
        self.methods.iter().find(|method| method.name == name && method.direction.includes(direction))
    }

    /// Whether it has a notification `name` in `direction`.
    pub fn has_notification(&self, name: &str, direction: Direction) -> bool {
        self.notifications.iter().any(|(own, its)| own == name && its.includes(direction))
    }

    /// Whether it defines this value of `resultType`.
    pub fn has_result_type(&self, name: &str) -> bool {
        self.result_types.iter().any(|own| **own == *name)
    }

    /// Declares it in the `extensions` of capabilities.
    #[cfg(any(feature = "client", feature = "server"))]
    fn declare(&self, extensions: &mut Option<super::Map<Json>>) {
        extensions.get_or_insert_default().insert(self.identifier.as_str(), self.settings.clone());
    }
}

/// A method of an [`Extension`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionMethod {
    name: String,
    direction: Direction,
    name_param: Option<String>,
}

impl ExtensionMethod {
    /// Creates a method of requests from the client to the server.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), direction: Direction::ClientToServer, name_param: None }
    }

    /// Sets the direction of its requests. Servers of 2026-07-28 send none.
    #[must_use]
    pub fn in_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Sets the parameter whose value the header `Mcp-Name` repeats over HTTP: a member of the parameters, a string. The
    /// client sends the header, and the server checks it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>
    #[must_use]
    pub fn with_name_param(mut self, name: impl Into<String>) -> Self {
        self.name_param = Some(name.into());
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameter whose value the header `Mcp-Name` repeats.
    pub fn name_param(&self) -> Option<&str> {
        self.name_param.as_deref()
    }
}

#[cfg(feature = "client")]
impl super::ClientCapabilities {
    /// Declares extensions with their settings.
    pub(crate) fn declare_extensions<'a>(&mut self, extensions: impl IntoIterator<Item = &'a Extension>) {
        extensions.into_iter().for_each(|extension| extension.declare(&mut self.extensions));
    }
}

#[cfg(feature = "server")]
impl super::ServerCapabilities {
    /// Declares extensions with their settings.
    pub(crate) fn declare_extensions<'a>(&mut self, extensions: impl IntoIterator<Item = &'a Extension>) {
        extensions.into_iter().for_each(|extension| extension.declare(&mut self.extensions));
    }
}

/// A method whose name is known only at run time: the type of the front's requests by name.
///
/// Its parameters and its result are objects of any members, which are passed on unchanged.
#[derive(Clone, Copy, Debug)]
pub enum CustomMethod {}

impl Method for CustomMethod {
    const INFO: &'static MethodInfo = &MethodInfo::custom("a custom method").in_direction(Direction::Both);
    type Params = CustomParams;
    type Result = CustomResult;
}

impl MethodInfo {
    /// Sets the direction of the requests. A request of a server to its client reaches clients of 2025-11-25 and
    /// earlier only.
    ///
    /// ```
    /// use mcp_proto::schema::{Direction, MethodInfo};
    ///
    /// const CONFIRM: &MethodInfo = &MethodInfo::custom("com.example/confirm").in_direction(Direction::ServerToClient);
    /// assert_eq!(CONFIRM.direction, Direction::ServerToClient);
    /// ```
    #[must_use]
    pub const fn in_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }
}

impl NotificationInfo {
    /// Creates a notification that the protocol does not define, such as an extension's, in both directions and at all
    /// revisions.
    ///
    /// ```
    /// use mcp_proto::schema::{CustomParams, Notification, NotificationInfo};
    ///
    /// /// The paper of a printer runs low.
    /// enum PaperLow {}
    ///
    /// impl Notification for PaperLow {
    ///     const INFO: &'static NotificationInfo = &NotificationInfo::custom("com.example/paperLow");
    ///     type Params = CustomParams;
    /// }
    /// assert_eq!(PaperLow::NAME, "com.example/paperLow");
    /// ```
    pub const fn custom(name: &'static str) -> Self {
        Self { name, direction: Direction::Both, ..Self::BASE }
    }
}
