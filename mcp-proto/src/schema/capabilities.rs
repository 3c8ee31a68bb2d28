//! Capabilities of clients and servers.

use super::object::{Object, object};
use super::read::read_text;
use super::tasks::legacy::{ClientTasksCapability, ServerTasksCapability};
use super::{Json, Map, Meta, Revision, skills, tasks};
use crate::prelude::*;
use crate::rpc::first_member;

/// What declares a capability.
trait Part {
    fn declared() -> Self;

    fn is_declared(&self) -> bool {
        true
    }
}

impl<T: Object + Default> Part for T {
    fn declared() -> Self {
        Self::default()
    }
}

impl Part for Json {
    fn declared() -> Self {
        Self::empty_object()
    }
}

impl Part for bool {
    fn declared() -> Self {
        true
    }

    fn is_declared(&self) -> bool {
        *self
    }
}

/// Declares the part, unless it is declared with settings.
fn declare<T: Part>(part: &mut Option<T>) -> &mut T {
    part.take_if(|part| !part.is_declared());
    part.get_or_insert_with(T::declared)
}

/// Whether a setting of an extension is `true`.
fn is_set(settings: &Json, name: &str) -> bool {
    first_member(settings.as_str(), name).is_ok_and(|value| value == Some("true"))
}

/// Declares an extension, unless it is declared with settings; and one setting of it as `true`.
fn declare_extension(extensions: &mut Option<Map<Json>>, identifier: &str, setting: Option<&str>) {
    let extensions = extensions.get_or_insert_default();
    let settings = extensions.get(identifier).cloned().unwrap_or_else(Json::empty_object);
    let settings = match setting {
        Some(name) if !is_set(&settings, name) => {
            let mut members: Map<Json> = read_text(settings.as_str()).unwrap_or_default();
            members.insert(name, true);
            Json::encode(&members).unwrap_or(settings)
        }
        _ => settings,
    };
    extensions.insert(identifier, settings);
}

/// Declares the capabilities of one side: their names, their paths in the capabilities object, and their fields; and the
/// extensions among them, each with its path, its identifier, and the setting that must be `true`.
macro_rules! capabilities {
    ($(#[$attr:meta])* pub enum $name:ident of $object:ident {
        $( $(#[$vattr:meta])* $variant:ident = $path:literal: $($field:ident).+ $(or $implied:ident)?, )*
    } extensions {
        $( $(#[$eattr:meta])* $extension:ident = $epath:expr, of $identifier:path $(, set $setting:literal)?; )*
    }) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$vattr])* $variant, )*
            $( $(#[$eattr])* $extension, )*
        }

        impl $name {
            /// Path in the capabilities object, such as `elicitation.url` or `resources.subscribe`.
            pub const fn path(self) -> &'static str {
                match self {
                    $( Self::$variant => $path, )*
                    $( Self::$extension => $epath, )*
                }
            }
        }

        impl $object {
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
            pub fn has(&self, capability: $name) -> bool {
                match capability {
                    $( $name::$variant => {
                        let part = Some(self)$(.and_then(|part| part.$field.as_ref()))+;
                        part.is_some_and(Part::is_declared) $(|| $implied(self))?
                    } )*
                    $( $name::$extension => {
                        let settings = self.extension($identifier);
                        settings$(.filter(|settings| is_set(settings, $setting)))?.is_some()
                    } )*
                }
            }

            /// Declares `capability` and the capabilities that it implies.
            #[must_use]
            pub fn with(mut self, capability: $name) -> Self {
                self.declare(capability);
                self
            }

            fn declare(&mut self, capability: $name) {
                match capability {
                    $( $name::$variant => {
                        let part = self;
                        $( let part = declare(&mut part.$field); )+
                        _ = part;
                    } )*
                    $( $name::$extension => {
                        let setting: Option<&str> = None$(.or(Some($setting)))?;
                        declare_extension(&mut self.extensions, $identifier, setting);
                    } )*
                }
            }

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

            /// The settings of an experimental capability that is declared.
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
                if !Meta::is_extension(identifier) {
                    return Err(InvalidExtensionError { identifier: identifier.into() });
                }
                self.extensions.get_or_insert_default().insert(identifier, settings);
                Ok(self)
            }

            /// The settings of an extension that is declared.
            pub fn extension(&self, identifier: &str) -> Option<&Json> {
                self.extensions.as_ref()?.get(identifier)
            }

            /// Whether the extension `identifier` is declared.
            pub fn has_extension(&self, identifier: &str) -> bool {
                self.extension(identifier).is_some()
            }
        }
    };
}

object! {
    /// Capabilities of a client.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities>
    pub struct ClientCapabilities {
        optional {
            /// Roots: the directories and files that a server may work in.
            roots: Option<RootsCapability> = "roots";
            /// Sampling: asking the client's model.
            sampling: Option<SamplingCapability> = "sampling";
            /// Elicitation: asking the user.
            elicitation: Option<ElicitationCapability> = "elicitation" since V2025_06_18;
            /// Tasks of 2025-11-25 with the client as receiver.
            tasks: Option<ClientTasksCapability> = "tasks" since V2025_11_25 until V2025_11_25;
            /// Extensions of the protocol by identifier, each with its settings: an object. Peers of all revisions may declare
            /// some; those with messages take effect at 2026-07-28 alone.
            extensions: Option<Map<Json>> = "extensions";
            /// Experimental capabilities, each with its settings: an object.
            experimental: Option<Map<Json>> = "experimental";
        }
    }

    /// Roots: the directories and files that a server may work in.
    pub struct RootsCapability {
        optional {
            /// Whether the client notifies the server of changes.
            list_changed: Option<bool> = "listChanged" until V2025_11_25;
        }
    }

    /// Sampling. Without further settings: text without tools.
    pub struct SamplingCapability {
        optional {
            /// Whether the request may ask for the context of servers: an object.
            context: Option<Json> = "context" since V2025_11_25;
            /// Whether the request may offer tools: an object.
            tools: Option<Json> = "tools" since V2025_11_25;
        }
    }

    /// Elicitation. Without further settings: form mode.
    pub struct ElicitationCapability {
        optional {
            /// Whether form mode is supported: an object.
            form: Option<Json> = "form" since V2025_11_25;
            /// Whether URL mode is supported: an object.
            url: Option<Json> = "url" since V2025_11_25;
        }
    }
}

capabilities! {
    /// A capability of a client.
    pub enum ClientCapability of ClientCapabilities {
        /// Roots.
        Roots = "roots": roots,
        /// Notifications of changed roots.
        RootsListChanged = "roots.listChanged": roots.list_changed,
        /// Sampling.
        Sampling = "sampling": sampling,
        /// Sampling with tools.
        SamplingTools = "sampling.tools": sampling.tools,
        /// Sampling with the context of servers.
        SamplingContext = "sampling.context": sampling.context,
        /// Elicitation in any mode.
        Elicitation = "elicitation": elicitation,
        /// Elicitation in form mode.
        ElicitationForm = "elicitation.form": elicitation.form or lacks_other_modes,
        /// Elicitation in URL mode.
        ElicitationUrl = "elicitation.url": elicitation.url,
        /// Tasks of 2025-11-25, with the client as receiver.
        Tasks = "tasks": tasks,
        /// Listing those tasks.
        TasksList = "tasks.list": tasks.list,
        /// Cancelling those tasks.
        TasksCancel = "tasks.cancel": tasks.cancel,
    } extensions {
        /// The tasks extension of 2026-07-28.
        TasksExtension = tasks::EXTENSION, of tasks::EXTENSION;
    }
}

/// Whether elicitation is declared without the mode that is not by form.
//= C10.1 "`{}` = form only"
fn lacks_other_modes(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_none())
}

object! {
    /// Capabilities of a server.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities>
    pub struct ServerCapabilities {
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
            /// Extensions of the protocol by identifier, each with its settings: an object. Peers of all revisions may declare
            /// some; those with messages take effect at 2026-07-28 alone.
            extensions: Option<Map<Json>> = "extensions";
            /// Experimental capabilities, each with its settings: an object.
            experimental: Option<Map<Json>> = "experimental";
        }
    }

    /// A capability to list something.
    pub struct ListChangedCapability {
        optional {
            /// Whether the server notifies the client when the list changes.
            list_changed: Option<bool> = "listChanged";
        }
    }

    /// Resources and resource templates.
    pub struct ResourcesCapability {
        optional {
            /// Whether the server notifies the client when the list changes.
            list_changed: Option<bool> = "listChanged";
            /// Whether the client can subscribe to single resources.
            subscribe: Option<bool> = "subscribe";
        }
    }
}

capabilities! {
    /// A capability of a server.
    pub enum ServerCapability of ServerCapabilities {
        /// Tools.
        Tools = "tools": tools,
        /// Notifications of a changed list of tools.
        ToolsListChanged = "tools.listChanged": tools.list_changed,
        /// Resources and resource templates.
        Resources = "resources": resources,
        /// Notifications of changed lists of resources and templates.
        ResourcesListChanged = "resources.listChanged": resources.list_changed,
        /// Notifications of changed resources.
        ResourcesSubscribe = "resources.subscribe": resources.subscribe,
        /// Prompts.
        Prompts = "prompts": prompts,
        /// Notifications of a changed list of prompts.
        PromptsListChanged = "prompts.listChanged": prompts.list_changed,
        /// Completion of arguments.
        Completions = "completions": completions,
        /// Log messages.
        Logging = "logging": logging,
        /// Tasks of 2025-11-25, with the server as receiver.
        Tasks = "tasks": tasks,
        /// Listing those tasks.
        TasksList = "tasks.list": tasks.list,
        /// Cancelling those tasks.
        TasksCancel = "tasks.cancel": tasks.cancel,
    } extensions {
        /// The tasks extension of 2026-07-28.
        TasksExtension = tasks::EXTENSION, of tasks::EXTENSION;
        //= C15.1 "only once the server has declared the extension"
        /// The skills extension of 2026-07-28.
        SkillsExtension = skills::EXTENSION, of skills::EXTENSION;
        /// Reading directories, as the skills extension defines it.
        DirectoryRead = "io.modelcontextprotocol/skills.directoryRead", of skills::EXTENSION, set "directoryRead";
    }
}

impl ServerCapabilities {
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
        use ServerCapability::{Completions, Logging, Prompts, Resources, Tasks, Tools};

        match name {
            "extensions" => self.extensions = Some(Map::new()),
            "experimental" => self.experimental = Some(Map::new()),
            _ => {
                let named =
                    [Tools, Resources, Prompts, Tasks, Completions, Logging].map(|one| (one.path(), one));
                named.into_iter().filter(|(path, _)| *path == name).for_each(|(_, one)| self.declare(one));
            }
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

error_text! { InvalidExtensionError { identifier } =>
    "{identifier:?} is not an extension identifier: use a form such as com.example/name"
}
