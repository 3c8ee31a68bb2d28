//! Capabilities of clients and servers.

use alloc::string::String;
use core::fmt;

use super::Meta;
use super::containers::Map;
use super::json::Json;
use super::object::object;
use super::revision::Revision;
use super::tasks::legacy::{ClientTasksCapability, ServerTasksCapability};

object! {
    /// Capabilities of a client.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities>
    pub struct ClientCapabilities {
        required {}
        optional {
            /// Roots: the directories and files that a server may work in.
            roots: Option<RootsCapability> = "roots";
            /// Sampling: asking the client's model.
            sampling: Option<SamplingCapability> = "sampling";
            /// Elicitation: asking the user.
            elicitation: Option<ElicitationCapability> = "elicitation" since V2025_06_18;
            /// Tasks of 2025-11-25 with the client as receiver.
            tasks: Option<ClientTasksCapability> = "tasks" since V2025_11_25 until V2025_11_25;
            /// Extensions of the protocol by identifier, each with its settings: an object.
            extensions: Option<Map<Json>> = "extensions" since V2026_07_28;
            /// Experimental capabilities, each with its settings: an object.
            experimental: Option<Map<Json>> = "experimental";
        }
    }
}

object! {
    /// Roots: the directories and files that a server may work in.
    pub struct RootsCapability {
        required {}
        optional {
            /// Whether the client notifies the server of changes.
            list_changed: Option<bool> = "listChanged" until V2025_11_25;
        }
    }
}

object! {
    /// Sampling. Without further settings: text without tools.
    pub struct SamplingCapability {
        required {}
        optional {
            /// Whether the request may ask for the context of servers: an object.
            context: Option<Json> = "context" since V2025_11_25;
            /// Whether the request may offer tools: an object.
            tools: Option<Json> = "tools" since V2025_11_25;
        }
    }
}

object! {
    /// Elicitation. Without further settings: form mode.
    pub struct ElicitationCapability {
        required {}
        optional {
            /// Whether form mode is supported: an object.
            form: Option<Json> = "form" since V2025_11_25;
            /// Whether URL mode is supported: an object.
            url: Option<Json> = "url" since V2025_11_25;
        }
    }
}

/// A capability of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ClientCapability {
    /// Roots.
    Roots,
    /// Notifications of changed roots.
    RootsListChanged,
    /// Sampling.
    Sampling,
    /// Sampling with tools.
    SamplingTools,
    /// Sampling with the context of servers.
    SamplingContext,
    /// Elicitation in any mode.
    Elicitation,
    /// Elicitation in form mode.
    ElicitationForm,
    /// Elicitation in URL mode.
    ElicitationUrl,
    /// Tasks of 2025-11-25, with the client as receiver.
    Tasks,
    /// Listing those tasks.
    TasksList,
    /// Cancelling those tasks.
    TasksCancel,
    /// The tasks extension of 2026-07-28.
    TasksExtension,
}

impl ClientCapability {
    /// Path in the capabilities object, such as `elicitation.url`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::RootsListChanged => "roots.listChanged",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling.tools",
            Self::SamplingContext => "sampling.context",
            Self::Elicitation => "elicitation",
            Self::ElicitationForm => "elicitation.form",
            Self::ElicitationUrl => "elicitation.url",
            Self::Tasks => "tasks",
            Self::TasksList => "tasks.list",
            Self::TasksCancel => "tasks.cancel",
            Self::TasksExtension => super::tasks::EXTENSION,
        }
    }
}

impl ClientCapabilities {
    /// Whether `capability` is declared.
    ///
    /// ```
    /// use mcp_proto::schema::{ClientCapabilities, ClientCapability};
    ///
    /// let declared: ClientCapabilities = serde_json::from_str(r#"{"elicitation":{}}"#)?;
    /// assert!(declared.has(ClientCapability::ElicitationForm));
    /// assert!(!declared.has(ClientCapability::ElicitationUrl));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn has(&self, capability: ClientCapability) -> bool {
        let sampling = self.sampling.as_ref();
        let elicitation = self.elicitation.as_ref();
        let tasks = self.tasks.as_ref();
        match capability {
            ClientCapability::Roots => self.roots.is_some(),
            ClientCapability::RootsListChanged => {
                self.roots.as_ref().is_some_and(|roots| roots.list_changed == Some(true))
            }
            ClientCapability::Sampling => sampling.is_some(),
            ClientCapability::SamplingTools => sampling.is_some_and(|sampling| sampling.tools.is_some()),
            ClientCapability::SamplingContext => sampling.is_some_and(|sampling| sampling.context.is_some()),
            ClientCapability::Elicitation => elicitation.is_some(),
            ClientCapability::ElicitationForm => {
                //= C10.1 "`{}` = form only"
                elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
            }
            ClientCapability::ElicitationUrl => {
                elicitation.is_some_and(|elicitation| elicitation.url.is_some())
            }
            ClientCapability::Tasks => tasks.is_some(),
            ClientCapability::TasksList => tasks.is_some_and(|tasks| tasks.list.is_some()),
            ClientCapability::TasksCancel => tasks.is_some_and(|tasks| tasks.cancel.is_some()),
            ClientCapability::TasksExtension => self.has_extension(super::tasks::EXTENSION),
        }
    }

    /// Whether the extension `identifier` is declared.
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.contains(identifier))
    }

    /// Declares `capability` and the capabilities that it implies.
    #[must_use]
    pub fn with(mut self, capability: ClientCapability) -> Self {
        match capability {
            ClientCapability::Roots => _ = self.roots.get_or_insert_default(),
            ClientCapability::RootsListChanged => {
                self.roots.get_or_insert_default().list_changed = Some(true);
            }
            ClientCapability::Sampling => _ = self.sampling.get_or_insert_default(),
            ClientCapability::SamplingTools => self.sampling.get_or_insert_default().tools = present(),
            ClientCapability::SamplingContext => self.sampling.get_or_insert_default().context = present(),
            ClientCapability::Elicitation => _ = self.elicitation.get_or_insert_default(),
            ClientCapability::ElicitationForm => self.elicitation.get_or_insert_default().form = present(),
            ClientCapability::ElicitationUrl => self.elicitation.get_or_insert_default().url = present(),
            ClientCapability::Tasks => _ = self.tasks.get_or_insert_default(),
            ClientCapability::TasksList => self.tasks.get_or_insert_default().list = present(),
            ClientCapability::TasksCancel => self.tasks.get_or_insert_default().cancel = present(),
            ClientCapability::TasksExtension => {
                let extensions = self.extensions.get_or_insert_default();
                extensions.insert(super::tasks::EXTENSION, Json::empty_object());
            }
        }
        self
    }
}

object! {
    /// Capabilities of a server.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities>
    pub struct ServerCapabilities {
        required {}
        optional {
            /// Tools.
            tools: Option<ListChangedCapability> = "tools";
            /// Resources and resource templates.
            resources: Option<ResourcesCapability> = "resources";
            /// Prompts.
            prompts: Option<ListChangedCapability> = "prompts";
            /// Completion of arguments: an object.
            completions: Option<Json> = "completions" since V2025_03_26;
            /// Log messages: an object.
            logging: Option<Json> = "logging";
            /// Tasks of 2025-11-25 with the server as receiver.
            tasks: Option<ServerTasksCapability> = "tasks" since V2025_11_25 until V2025_11_25;
            /// Extensions of the protocol by identifier, each with its settings: an object.
            extensions: Option<Map<Json>> = "extensions" since V2026_07_28;
            /// Experimental capabilities, each with its settings: an object.
            experimental: Option<Map<Json>> = "experimental";
        }
    }
}

object! {
    /// A capability to list something.
    pub struct ListChangedCapability {
        required {}
        optional {
            /// Whether the server notifies the client when the list changes.
            list_changed: Option<bool> = "listChanged";
        }
    }
}

object! {
    /// Resources and resource templates.
    pub struct ResourcesCapability {
        required {}
        optional {
            /// Whether the server notifies the client when the list changes.
            list_changed: Option<bool> = "listChanged";
            /// Whether the client can subscribe to single resources.
            subscribe: Option<bool> = "subscribe";
        }
    }
}

/// A capability of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerCapability {
    /// Tools.
    Tools,
    /// Notifications of a changed list of tools.
    ToolsListChanged,
    /// Resources and resource templates.
    Resources,
    /// Notifications of changed lists of resources and templates.
    ResourcesListChanged,
    /// Notifications of changed resources.
    ResourcesSubscribe,
    /// Prompts.
    Prompts,
    /// Notifications of a changed list of prompts.
    PromptsListChanged,
    /// Completion of arguments.
    Completions,
    /// Log messages.
    Logging,
    /// Tasks of 2025-11-25, with the server as receiver.
    Tasks,
    /// Listing those tasks.
    TasksList,
    /// Cancelling those tasks.
    TasksCancel,
    /// The tasks extension of 2026-07-28.
    TasksExtension,
}

impl ServerCapability {
    /// Path in the capabilities object, such as `resources.subscribe`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::ToolsListChanged => "tools.listChanged",
            Self::Resources => "resources",
            Self::ResourcesListChanged => "resources.listChanged",
            Self::ResourcesSubscribe => "resources.subscribe",
            Self::Prompts => "prompts",
            Self::PromptsListChanged => "prompts.listChanged",
            Self::Completions => "completions",
            Self::Logging => "logging",
            Self::Tasks => "tasks",
            Self::TasksList => "tasks.list",
            Self::TasksCancel => "tasks.cancel",
            Self::TasksExtension => super::tasks::EXTENSION,
        }
    }
}

impl ServerCapabilities {
    /// Whether `capability` is declared.
    pub fn has(&self, capability: ServerCapability) -> bool {
        let changes = |listed: &Option<ListChangedCapability>| {
            listed.as_ref().is_some_and(|listed| listed.list_changed == Some(true))
        };
        let resources = self.resources.as_ref();
        let tasks = self.tasks.as_ref();
        match capability {
            ServerCapability::Tools => self.tools.is_some(),
            ServerCapability::ToolsListChanged => changes(&self.tools),
            ServerCapability::Resources => resources.is_some(),
            ServerCapability::ResourcesListChanged => {
                resources.is_some_and(|resources| resources.list_changed == Some(true))
            }
            ServerCapability::ResourcesSubscribe => {
                resources.is_some_and(|resources| resources.subscribe == Some(true))
            }
            ServerCapability::Prompts => self.prompts.is_some(),
            ServerCapability::PromptsListChanged => changes(&self.prompts),
            ServerCapability::Completions => self.completions.is_some(),
            ServerCapability::Logging => self.logging.is_some(),
            ServerCapability::Tasks => tasks.is_some(),
            ServerCapability::TasksList => tasks.is_some_and(|tasks| tasks.list.is_some()),
            ServerCapability::TasksCancel => tasks.is_some_and(|tasks| tasks.cancel.is_some()),
            ServerCapability::TasksExtension => self.has_extension(super::tasks::EXTENSION),
        }
    }

    /// Removes the capabilities that are written as empty arrays, and returns their names.
    #[cfg(feature = "client")]
    pub(crate) fn take_empty_arrays(&mut self) -> alloc::vec::Vec<&'static str> {
        let is_empty = |value: &Json| value.as_str() == "[]";
        let names = ["tools", "resources", "prompts", "tasks", "extensions", "experimental"];
        let mut found = alloc::vec::Vec::from(names);
        found.retain(|name| {
            let is_found = self.extra.get(name).is_some_and(is_empty);
            is_found.then(|| self.extra.remove(name)).is_some()
        });
        for (name, value) in [("completions", &mut self.completions), ("logging", &mut self.logging)] {
            found.extend(value.take_if(|value| is_empty(value)).map(|_| name));
        }
        found
    }

    /// Declares the capability of this name, without settings.
    #[cfg(feature = "client")]
    pub(crate) fn declare_empty(&mut self, name: &str) {
        match name {
            "tools" => self.tools = Some(ListChangedCapability::default()),
            "resources" => self.resources = Some(ResourcesCapability::default()),
            "prompts" => self.prompts = Some(ListChangedCapability::default()),
            "tasks" => self.tasks = Some(ServerTasksCapability::default()),
            "extensions" => self.extensions = Some(Map::new()),
            "experimental" => self.experimental = Some(Map::new()),
            "completions" => self.completions = present(),
            "logging" => self.logging = present(),
            _ => {}
        }
    }

    /// Whether a client may use `capability` at `revision`.
    ///
    /// It may if the server declares the capability, or if the revision has no way to declare it.
    pub fn allows(&self, capability: ServerCapability, revision: Revision) -> bool {
        let undeclarable =
            capability == ServerCapability::Completions && !revision.differences().completion_capability;
        undeclarable || self.has(capability)
    }

    /// Whether the extension `identifier` is declared.
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.contains(identifier))
    }

    /// Declares `capability` and the capabilities that it implies.
    #[must_use]
    pub fn with(mut self, capability: ServerCapability) -> Self {
        match capability {
            ServerCapability::Tools => _ = self.tools.get_or_insert_default(),
            ServerCapability::ToolsListChanged => {
                self.tools.get_or_insert_default().list_changed = Some(true);
            }
            ServerCapability::Resources => _ = self.resources.get_or_insert_default(),
            ServerCapability::ResourcesListChanged => {
                self.resources.get_or_insert_default().list_changed = Some(true);
            }
            ServerCapability::ResourcesSubscribe => {
                self.resources.get_or_insert_default().subscribe = Some(true);
            }
            ServerCapability::Prompts => _ = self.prompts.get_or_insert_default(),
            ServerCapability::PromptsListChanged => {
                self.prompts.get_or_insert_default().list_changed = Some(true);
            }
            ServerCapability::Completions => self.completions = present(),
            ServerCapability::Logging => self.logging = present(),
            ServerCapability::Tasks => _ = self.tasks.get_or_insert_default(),
            ServerCapability::TasksList => self.tasks.get_or_insert_default().list = present(),
            ServerCapability::TasksCancel => self.tasks.get_or_insert_default().cancel = present(),
            ServerCapability::TasksExtension => {
                let extensions = self.extensions.get_or_insert_default();
                extensions.insert(super::tasks::EXTENSION, Json::empty_object());
            }
        }
        self
    }
}

/// Settings of a capability without settings: the presence of the object declares it.
fn present() -> Option<Json> {
    Some(Json::empty_object())
}

impl ClientCapabilities {
    /// Declares an experimental capability with its settings: an object.
    ///
    /// ```
    /// use mcp_proto::schema::{ClientCapabilities, Json};
    ///
    /// let declared = ClientCapabilities::new().with_experimental("charts", Json::empty_object());
    /// assert!(declared.experimental("charts").is_some());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities-experimental>
    #[must_use]
    pub fn with_experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        self.experimental.get_or_insert_default().insert(name, settings);
        self
    }

    /// The settings of an experimental capability that the client declares.
    pub fn experimental(&self, name: &str) -> Option<&Json> {
        self.experimental.as_ref()?.get(name)
    }
}

impl ServerCapabilities {
    /// Declares an experimental capability with its settings: an object.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities-experimental>
    #[must_use]
    pub fn with_experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        self.experimental.get_or_insert_default().insert(name, settings);
        self
    }

    /// The settings of an experimental capability that the server declares.
    ///
    /// ```
    /// # use mcp_proto::front::Client;
    /// # fn example(client: &Client) {
    /// if let Some(server) = client.server()
    ///     && let Some(declared) = &server.capabilities
    ///     && declared.experimental("charts").is_some()
    /// {
    ///     // …
    /// }
    /// # }
    /// ```
    pub fn experimental(&self, name: &str) -> Option<&Json> {
        self.experimental.as_ref()?.get(name)
    }
}

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
