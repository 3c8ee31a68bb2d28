//! The extensions of a client or of a server together: those that are built in, and the check of all.

#[cfg(feature = "client")]
use super::ClientCapabilities;
#[cfg(feature = "server")]
use super::ServerCapabilities;
#[cfg(any(feature = "client", feature = "server"))]
use super::{Direction, Extension, Json, Map, MethodInfo, NotificationInfo};
use super::{Requirement, ServerCapability, apps, skills, tasks};
#[cfg(any(feature = "client", feature = "server"))]
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

/// An extension that is built in: its declaration. Its types and its machinery stand elsewhere.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltInExtension {
    /// The identifier.
    pub identifier: &'static str,
    /// What it needs.
    pub needs: &'static [Requirement],
    /// What the names begin with that it reserves, beside those of its methods and notifications.
    pub reserved: &'static [&'static str],
    /// The values of `resultType` that it defines.
    pub result_types: &'static [&'static str],
}

/// The extension of a client that acts on its own behalf.
///
/// <https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials>
pub const OAUTH_CLIENT_CREDENTIALS: &str = "io.modelcontextprotocol/oauth-client-credentials";

/// The extension of a client whose identity provider decides what it may use.
///
/// <https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization>
pub const ENTERPRISE_MANAGED_AUTHORIZATION: &str = "io.modelcontextprotocol/enterprise-managed-authorization";

/// The extensions that are built in. Their methods and notifications are in the tables of
/// [`MethodInfo`](super::MethodInfo) and [`NotificationInfo`](super::NotificationInfo).
///
/// ```
/// use mcp_proto::schema::{BUILT_IN_EXTENSIONS, tasks};
///
/// assert!(BUILT_IN_EXTENSIONS.iter().any(|extension| extension.identifier == tasks::EXTENSION));
/// ```
pub const BUILT_IN_EXTENSIONS: &[BuiltInExtension] = &[
    BuiltInExtension {
        reserved: &["tasks/", "notifications/tasks/"],
        result_types: &["task"],
        ..BuiltInExtension::declaration(tasks::EXTENSION)
    },
    BuiltInExtension::declaration(apps::EXTENSION),
    BuiltInExtension {
        needs: &[Requirement::Server(ServerCapability::Resources)],
        ..BuiltInExtension::declaration(skills::EXTENSION)
    },
    BuiltInExtension::declaration(OAUTH_CLIENT_CREDENTIALS),
    BuiltInExtension::declaration(ENTERPRISE_MANAGED_AUTHORIZATION),
];

impl BuiltInExtension {
    /// An extension that is declared, and nothing else.
    const fn declaration(identifier: &'static str) -> Self {
        Self { identifier, needs: &[], reserved: &[], result_types: &[] }
    }

    #[cfg(any(feature = "client", feature = "server"))]
    fn find(identifier: &str) -> Option<&'static Self> {
        BUILT_IN_EXTENSIONS.iter().find(|extension| extension.identifier == identifier)
    }
}

/// Removes the extensions that a legacy handshake does not declare: those with messages, which are messages of 2026-07-28.
/// Extensions that are data alone, such as MCP Apps, remain: deployed hosts and servers negotiate them at 2025-11-25.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) fn remove_modern_extensions(declared: &mut Option<Map<Json>>, registered: &[Extension]) {
    let has_messages = |identifier: &str| {
        // The tasks and skills extensions have methods of the protocol.
        MethodInfo::all().any(|info| info.server_capability.is_some_and(|needed| needed.path() == identifier))
            || registered
                .iter()
                .any(|extension| extension.identifier() == identifier && extension.names().next().is_some())
    };
    let remaining: Map<Json> =
        declared.take().into_iter().flatten().filter(|(identifier, _)| !has_messages(identifier)).collect();
    *declared = (!remaining.is_empty()).then_some(remaining);
}

/// Why the extensions of a client or of a server cannot be used together.
///
/// A router reports it by `Router::check`, and a server whose router is invalid answers each request with the error. A client
/// does not connect: it ends with `ConnectError::Extensions` before it sends anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtensionError {
    /// An extension is registered twice, or declared with other settings than those that it is registered with.
    Duplicate {
        /// The identifier.
        identifier: String,
    },
    /// The settings of an extension are not a JSON object.
    Settings {
        /// The identifier.
        identifier: String,
    },
    /// Two extensions [exclude](super::Extension::with_conflict) each other.
    Conflict {
        /// The one that names the other.
        identifier: String,
        /// The other.
        other: String,
    },
    /// An extension [needs](super::Extension::with_need) what this side does not declare.
    Missing {
        /// The identifier.
        identifier: String,
        /// The need.
        needed: Requirement,
    },
    /// An extension defines a method, a notification or a value of `resultType` that is defined already.
    Redefined {
        /// The identifier.
        identifier: String,
        /// The name.
        name: String,
        /// The extension that defines it; `None` if the protocol does.
        owner: Option<String>,
    },
    /// An extension that is built in is registered with messages of its own.
    BuiltIn {
        /// The identifier.
        identifier: String,
    },
}

error_text! { ExtensionError:
    Duplicate { identifier } => "the extension {identifier:?} is registered or declared twice: register it once";
    Settings { identifier } => "the settings of the extension {identifier:?} are not a JSON object";
    Conflict { identifier, other } =>
        "the extensions {identifier:?} and {other:?} exclude each other: register one of them";
    Missing { identifier, needed } =>
        "the extension {identifier:?} needs {needed}, which is not declared: declare it, or remove the extension";
    Redefined { identifier, name, owner: None } =>
        "the extension {identifier:?} defines {name:?}, which the protocol defines: use a prefix of your own, such as \
                 com.example/";
    Redefined { identifier, name, owner: Some(owner) } =>
        "the extension {identifier:?} defines {name:?}, which the extension {owner:?} defines: register one of them";
    BuiltIn { identifier } =>
        "the extension {identifier:?} is built in: register it without methods, notifications and result types";
}

/// The capabilities of the side that has the extensions.
#[cfg(any(feature = "client", feature = "server"))]
#[derive(Clone, Copy)]
pub(crate) enum DeclaredCapabilities<'a> {
    #[cfg(feature = "client")]
    Client(&'a ClientCapabilities),
    #[cfg(feature = "server")]
    Server(&'a ServerCapabilities),
}

#[cfg(any(feature = "client", feature = "server"))]
impl<'a> DeclaredCapabilities<'a> {
    /// Checks the extensions that are registered and those that are only declared, of one side together.
    ///
    /// # Errors
    /// The first that cannot be used with the others.
    pub(crate) fn check_extensions(self, registered: &[Extension]) -> Result<(), ExtensionError> {
        let mut by_identifier = OrderedMap::new();
        for extension in registered {
            let identifier = extension.identifier();
            let is_duplicate = by_identifier.insert(identifier, extension).is_some()
                || self.extension(identifier).is_some_and(|declared| declared != extension.settings());
            if is_duplicate {
                return Err(ExtensionError::Duplicate { identifier: identifier.into() });
            }
        }
        let mut names = OrderedMap::new();
        registered.iter().try_for_each(|extension| self.check_extension(extension, &mut names))?;
        // Those that are built in are mostly declared only.
        let declared = self.extensions().into_iter().flat_map(Map::iter);
        let mut built_in = declared.filter_map(|(identifier, _)| BuiltInExtension::find(identifier));
        built_in.try_for_each(|extension| self.check_needs(extension.identifier, extension.needs))
    }

    fn check_extension<'e>(
        self,
        extension: &'e Extension,
        names: &mut OrderedMap<(NameKind, &'e str), &'e str>,
    ) -> Result<(), ExtensionError> {
        let identifier = extension.identifier();
        if !extension.settings().is_object() {
            return Err(ExtensionError::Settings { identifier: identifier.into() });
        }
        if let Some(other) = extension.conflicts().find(|other| self.extension(other).is_some()) {
            return Err(ExtensionError::Conflict { identifier: identifier.into(), other: other.into() });
        }
        self.check_needs(identifier, extension.needs())?;
        let mut defined = extension.names().peekable();
        if BuiltInExtension::find(identifier).is_some() && defined.peek().is_some() {
            return Err(ExtensionError::BuiltIn { identifier: identifier.into() });
        }
        for (kind, name) in defined {
            let owner = names.insert((kind, name), identifier);
            if let Some(owner) = owner.map(|owner| Some(owner.into())).or_else(|| kind.owner(name)) {
                return Err(ExtensionError::Redefined {
                    identifier: identifier.into(),
                    name: name.into(),
                    owner,
                });
            }
        }
        Ok(())
    }

    fn check_needs(self, identifier: &str, needs: &[Requirement]) -> Result<(), ExtensionError> {
        let is_met = |need: &&Requirement| match self {
            #[cfg(feature = "client")]
            Self::Client(declared) => need.is_met_by_client(declared),
            #[cfg(feature = "server")]
            Self::Server(declared) => need.is_met_by_server(declared),
        };
        match needs.iter().find(|need| !is_met(need)) {
            Some(need) => {
                Err(ExtensionError::Missing { identifier: identifier.into(), needed: need.clone() })
            }
            None => Ok(()),
        }
    }

    fn extensions(self) -> Option<&'a Map<Json>> {
        match self {
            #[cfg(feature = "client")]
            Self::Client(declared) => declared.extensions.as_ref(),
            #[cfg(feature = "server")]
            Self::Server(declared) => declared.extensions.as_ref(),
        }
    }

    fn extension(self, identifier: &str) -> Option<&'a Json> {
        self.extensions()?.get(identifier)
    }
}

/// The kinds of names that extensions define. Methods and notifications of different directions do not meet.
#[cfg(any(feature = "client", feature = "server"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameKind {
    Method(Direction),
    Notification(Direction),
    ResultType,
}

#[cfg(any(feature = "client", feature = "server"))]
impl NameKind {
    /// What defines a name already: the protocol, or an extension that is built in.
    fn owner(self, name: &str) -> Option<Option<String>> {
        let in_protocol = match self {
            Self::Method(direction) => {
                MethodInfo::all().any(|info| info.name == name && info.direction.includes(direction))
            }
            Self::Notification(direction) => {
                NotificationInfo::all().any(|info| info.name == name && info.direction.includes(direction))
            }
            Self::ResultType => matches!(name, "complete" | "input_required"),
        };
        let by_extension = |extension: &&BuiltInExtension| match self {
            Self::Method(_) | Self::Notification(_) => {
                extension.reserved.iter().any(|start| name.starts_with(start))
            }
            Self::ResultType => extension.result_types.contains(&name),
        };
        let built_in = BUILT_IN_EXTENSIONS.iter().find(by_extension);
        let by_extension = built_in.map(|extension| Some(extension.identifier.into()));
        by_extension.or_else(|| in_protocol.then_some(None))
    }

    /// The single directions of a direction.
    fn directions(direction: Direction) -> impl Iterator<Item = Direction> {
        let single = [Direction::ClientToServer, Direction::ServerToClient];
        single.into_iter().filter(move |single| direction.includes(*single))
    }
}

#[cfg(any(feature = "client", feature = "server"))]
impl Extension {
    /// The names that it defines.
    fn names(&self) -> impl Iterator<Item = (NameKind, &str)> {
        let methods = self.methods().iter().flat_map(|method| {
            NameKind::directions(method.direction())
                .map(|direction| (NameKind::Method(direction), method.name()))
        });
        let notifications = self.notifications().flat_map(|(name, direction)| {
            NameKind::directions(direction).map(move |direction| (NameKind::Notification(direction), name))
        });
        methods.chain(notifications).chain(self.result_types().map(|name| (NameKind::ResultType, name)))
    }
}
