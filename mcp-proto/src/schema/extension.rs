//! What the protocol does not define: extensions as values, and methods by their names.

use alloc::borrow::Cow;

use super::{
    At, CallTool, ClientCapability, Complete, CustomParams, CustomResult, Direction, GetPrompt,
    InvalidExtensionError, Json, ListPrompts, ListResourceTemplates, ListResources, ListTools, Meta, Method,
    MethodInfo, NotificationInfo, ReadResource, Revision, ServerCapability,
};
#[cfg(any(feature = "client", feature = "server"))]
use super::{ClientCapabilities, ServerCapabilities};
use crate::prelude::*;
use crate::rpc::Raw;

/// An extension of the protocol: its identifier, settings, methods, notifications and result types, and what it needs and
/// provides.
///
/// A client or a server that registers it declares it with its capabilities. It is negotiated with a peer of 2026-07-28
/// that declares it too, with what it [needs](Self::with_need) of that side. Until it is negotiated,
///
/// - a client sends none of its messages, and treats results of its types as invalid;
/// - a server answers requests of its methods with
///   [`MISSING_REQUIRED_CLIENT_CAPABILITY`](crate::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY), and does not return
///   results of its types.
///
/// Peers of 2025-11-25 and earlier learn only of extensions that are data alone: those without methods, notifications and
/// result types, such as [MCP Apps](super::apps). What such a peer declares is in its capabilities. Extensions with messages,
/// among them tasks and skills, are not declared to it, and never negotiated with it.
///
/// The extensions of a client or of a server are checked together: see [`ExtensionError`](super::ExtensionError). Those in
/// [`BUILT_IN_EXTENSIONS`](super::BUILT_IN_EXTENSIONS) need not be registered.
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
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct Extension {
    identifier: String,
    settings: Json,
    methods: Vec<ExtensionMethod>,
    notifications: Vec<(String, Direction)>,
    result_types: Vec<Box<str>>,
    needs: Vec<Requirement>,
    provides: Vec<Requirement>,
    conflicts: Vec<String>,
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
            needs: Vec::new(),
            provides: Vec::new(),
            conflicts: Vec::new(),
        })
    }

    setters! {
        /// Sets the settings that this side declares: an object.
        #[must_use]
        pub fn with_settings(self, settings: impl Into<Json>) { self.settings = settings.into() }

        /// Adds a method.
        #[must_use]
        pub fn with_method(self, method: ExtensionMethod) { self.methods.push(method) }

        /// Adds a notification.
        #[must_use]
        pub fn with_notification(self, name: impl Into<String>, direction: Direction) {
            self.notifications.push((name.into(), direction))
        }

        /// Adds a value of `resultType`, which results of any method may have.
        ///
        /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#resulttype>
        #[must_use]
        pub fn with_result_type(self, name: impl Into<Box<str>>) { self.result_types.push(name.into()) }

        /// Adds what it needs: a capability of the client or of the server, or another extension of the side that registers it.
        ///
        /// Of the own side it must be declared, or the configuration is [invalid](super::ExtensionError::Missing). Of the other side it
        /// must be declared for the extension to be negotiated.
        ///
        /// ```
        /// use mcp_proto::schema::{ClientCapability, Extension, Requirement, ServerCapability};
        ///
        /// let printing = Extension::new("com.example/colour-printing")?
        ///     .with_need(Requirement::extension("com.example/printing"))
        ///     .with_need(ServerCapability::Resources)
        ///     .with_need(ClientCapability::ElicitationForm);
        /// # drop(printing);
        /// # Ok::<(), mcp_proto::schema::InvalidExtensionError>(())
        /// ```
        #[must_use]
        pub fn with_need(self, need: impl Into<Requirement>) { self.needs.push(need.into()) }

        /// Adds what the side that registers it declares with it: a capability of that side, or another extension, without
        /// settings unless it has some. Capabilities of the other side are not declared.
        ///
        /// ```
        /// use mcp_proto::front::Router;
        /// use mcp_proto::schema::{Extension, ServerCapability};
        ///
        /// let ledger = Extension::new("com.example/ledger")?.with_provided(ServerCapability::ResourcesSubscribe);
        /// let router = Router::new("ledger", "1.0.0").with_extension(ledger);
        /// assert!(router.capabilities().has(ServerCapability::ResourcesSubscribe));
        /// # Ok::<(), mcp_proto::schema::InvalidExtensionError>(())
        /// ```
        #[must_use]
        pub fn with_provided(self, provided: impl Into<Requirement>) { self.provides.push(provided.into()) }

        /// Adds an extension that one side cannot declare beside this one.
        #[must_use]
        pub fn with_conflict(self, identifier: impl Into<String>) { self.conflicts.push(identifier.into()) }
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

    /// Its methods.
    pub fn methods(&self) -> &[ExtensionMethod] {
        &self.methods
    }

    /// Its notifications.
    pub fn notifications(&self) -> impl Iterator<Item = (&str, Direction)> {
        self.notifications.iter().map(|(name, direction)| (name.as_str(), *direction))
    }

    /// Its values of `resultType`.
    pub fn result_types(&self) -> impl Iterator<Item = &str> {
        self.result_types.iter().map(|name| &**name)
    }

    /// What it needs.
    pub fn needs(&self) -> &[Requirement] {
        &self.needs
    }

    /// What it provides.
    pub fn provides(&self) -> &[Requirement] {
        &self.provides
    }

    /// The extensions that exclude it.
    pub fn conflicts(&self) -> impl Iterator<Item = &str> {
        self.conflicts.iter().map(String::as_str)
    }

    /// Whether it defines this value of `resultType`.
    pub fn has_result_type(&self, name: &str) -> bool {
        self.result_types.iter().any(|own| **own == *name)
    }

    /// Declares it in the `extensions` of capabilities, and those that it provides.
    #[cfg(any(feature = "client", feature = "server"))]
    fn declare(&self, extensions: &mut Option<super::Map<Json>>) {
        let extensions = extensions.get_or_insert_default();
        extensions.insert(self.identifier.as_str(), self.settings.clone());
        for provided in &self.provides {
            if let Requirement::Extension(identifier) = provided
                && !extensions.contains(identifier)
            {
                extensions.insert(&**identifier, Json::empty_object());
            }
        }
    }

    /// Whether a server with these capabilities declares it, and what it needs of a server.
    #[cfg(feature = "client")]
    pub(crate) fn is_declared_by_server(&self, declared: &ServerCapabilities) -> bool {
        declared.has_extension(&self.identifier)
            && self.needs.iter().all(|need| need.is_met_by_server(declared))
    }

    /// What a client with these capabilities lacks of it: itself, and what it needs of a client.
    #[cfg(feature = "server")]
    pub(crate) fn undeclared_by_client(&self, declared: &ClientCapabilities) -> Option<ClientCapabilities> {
        let unmet: Vec<_> = self.needs.iter().filter(|need| !need.is_met_by_client(declared)).collect();
        if declared.has_extension(&self.identifier) && unmet.is_empty() {
            return None;
        }
        let mut required = ClientCapabilities::new();
        required.extensions.get_or_insert_default().insert(self.identifier.as_str(), Json::empty_object());
        for need in unmet {
            match need {
                Requirement::Client(capability) => required = required.with(*capability),
                Requirement::Extension(identifier) => {
                    let extensions = required.extensions.get_or_insert_default();
                    extensions.insert(&**identifier, Json::empty_object());
                }
                Requirement::Server(_) => {}
            }
        }
        Some(required)
    }
}

/// What an [`Extension`] needs or provides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Requirement {
    /// A capability of the client.
    Client(ClientCapability),
    /// A capability of the server.
    Server(ServerCapability),
    /// Another extension, by its identifier.
    Extension(Cow<'static, str>),
}

impl Requirement {
    /// Another extension.
    pub fn extension(identifier: impl Into<Cow<'static, str>>) -> Self {
        Self::Extension(identifier.into())
    }

    #[cfg(any(feature = "client", feature = "server"))]
    pub(super) fn is_met_by_client(&self, declared: &ClientCapabilities) -> bool {
        match self {
            Self::Client(capability) => declared.has(*capability),
            Self::Server(_) => true,
            Self::Extension(identifier) => declared.has_extension(identifier),
        }
    }

    #[cfg(any(feature = "client", feature = "server"))]
    pub(super) fn is_met_by_server(&self, declared: &ServerCapabilities) -> bool {
        match self {
            Self::Client(_) => true,
            Self::Server(capability) => declared.has(*capability),
            Self::Extension(identifier) => declared.has_extension(identifier),
        }
    }
}

impl From<ClientCapability> for Requirement {
    fn from(capability: ClientCapability) -> Self {
        Self::Client(capability)
    }
}

impl From<ServerCapability> for Requirement {
    fn from(capability: ServerCapability) -> Self {
        Self::Server(capability)
    }
}

display_text! { Requirement:
    Client(capability) => "the capability {:?} of the client", capability.path();
    Server(capability) => "the capability {:?} of the server", capability.path();
    Extension(identifier) => "the extension {identifier:?}";
}

/// A method of an [`Extension`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
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

    setters! {
        /// Sets the direction of its requests. Servers of 2026-07-28 send none.
        #[must_use]
        pub fn in_direction(self, direction: Direction) { self.direction = direction }

        /// Sets the parameter whose value the header `Mcp-Name` repeats over HTTP: a member of the parameters, a string. The
        /// client sends the header, and the server checks it.
        ///
        /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>
        #[must_use]
        pub fn with_name_param(self, name: impl Into<String>) { self.name_param = Some(name.into()) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The direction of its requests.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// The parameter whose value the header `Mcp-Name` repeats.
    pub fn name_param(&self) -> Option<&str> {
        self.name_param.as_deref()
    }
}

#[cfg(feature = "client")]
impl ClientCapabilities {
    /// Declares extensions with their settings, and what they provide.
    pub(crate) fn declare_extensions<'a>(&mut self, extensions: impl IntoIterator<Item = &'a Extension>) {
        for extension in extensions {
            extension.declare(&mut self.extensions);
            for provided in &extension.provides {
                if let Requirement::Client(capability) = provided {
                    *self = core::mem::take(self).with(*capability);
                }
            }
        }
    }
}

#[cfg(feature = "server")]
impl ServerCapabilities {
    /// Declares extensions with their settings, and what they provide.
    pub(crate) fn declare_extensions<'a>(&mut self, extensions: impl IntoIterator<Item = &'a Extension>) {
        for extension in extensions {
            extension.declare(&mut self.extensions);
            for provided in &extension.provides {
                if let Requirement::Server(capability) = provided {
                    *self = core::mem::take(self).with(*capability);
                }
            }
        }
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

/// Writes a result with the fields of a revision.
type WriteResult = fn(&CustomResult, Revision) -> serde_json::Result<CustomResult>;

impl CustomMethod {
    const WRITERS: [(&str, WriteResult); 8] = [
        (ListTools::NAME, result_at::<ListTools>),
        (CallTool::NAME, result_at::<CallTool>),
        (ListPrompts::NAME, result_at::<ListPrompts>),
        (GetPrompt::NAME, result_at::<GetPrompt>),
        (ListResources::NAME, result_at::<ListResources>),
        (ListResourceTemplates::NAME, result_at::<ListResourceTemplates>),
        (ReadResource::NAME, result_at::<ReadResource>),
        (Complete::NAME, result_at::<Complete>),
    ];

    /// Returns the methods about tools, prompts, resources and completions, whose results
    /// [`result_at`](Self::result_at) knows.
    pub fn known() -> impl Iterator<Item = &'static str> {
        Self::WRITERS.iter().map(|(name, _)| *name)
    }

    /// Returns the result of a [known](Self::known) method with the fields of a revision, and that of any other method as it
    /// is: for what passes a result on to a client of another revision than the server's.
    ///
    /// ```
    /// use mcp_proto::schema::{CustomMethod, CustomResult, Revision};
    ///
    /// let tools = r#"{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"}}],"ttlMs":0}"#;
    /// let older =
    ///     CustomMethod::result_at("tools/list", &serde_json::from_str(tools)?, Revision::V2024_11_05)?;
    /// let expected = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#;
    /// assert_eq!(serde_json::to_string(&older)?, expected);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the result is not one of the method.
    pub fn result_at(
        method: &str,
        result: &CustomResult,
        revision: Revision,
    ) -> serde_json::Result<CustomResult> {
        let writer = Self::WRITERS.iter().find(|(name, _)| *name == method);
        writer.map_or_else(|| Ok(result.clone()), |(_, write)| write(result, revision))
    }
}

fn result_at<M: Method>(result: &CustomResult, revision: Revision) -> serde_json::Result<CustomResult> {
    let typed: M::Result = Raw::encode(result)?.decode()?;
    Raw::encode(&At(&typed, revision))?.decode()
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
