//! Configuration of a server.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use crate::Limits;
use crate::peer::{CacheHint, Principal, Strictness};
use crate::prelude::*;
use crate::schema::{
    At, DeclaredCapabilities, Extension, ExtensionError, Implementation, Json, MethodInfo, Revision,
    ServerCapabilities,
};
#[cfg(feature = "trace-file")]
use crate::trace_file::MachineRecorder;

config! {
    /// The configuration of a server.
    ///
    /// ```
    /// use mcp_proto::peer::server::ServerConfig;
    /// use mcp_proto::schema::{Implementation, ServerCapability};
    ///
    /// let mut config = ServerConfig::new(Implementation::new("weather", "1.0.0"));
    /// config.capabilities = config.capabilities.with(ServerCapability::Tools);
    /// ```
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct ServerConfig {
        /// The server's name and version.
        pub info: Implementation = info,
        /// Whether modern results carry `info`. Default: yes, as the specification asks.
        pub send_info: bool = true,
        /// Instructions for using the server, meant for the model.
        pub instructions: Option<String> = None,
        /// The capabilities offered to clients. A method whose capability is missing is answered as unknown.
        pub capabilities: ServerCapabilities = ServerCapabilities::default(),
        /// The extensions that the server supports, which it declares in addition to `capabilities`. The application
        /// answers requests of their methods. Default: none.
        pub extensions: Vec<Extension> = Vec::new(),
        /// Methods beyond the protocol's that the application answers.
        pub custom_methods: Vec<String> = Vec::new(),
        /// Whether the application answers requests of any method that the protocol does not define, as a proxy does.
        /// Default: no; they are answered with [`METHOD_NOT_FOUND`](crate::rpc::code::METHOD_NOT_FOUND).
        pub other_methods: bool = false,
        /// The eras to serve. Default: both.
        pub eras: Eras = Eras::Both,
        /// Cache lifetime and scope of results that specify none (2026-07-28). Default: not cacheable.
        pub cache: CacheHint = CacheHint::default(),
        /// Cache lifetime and scope for the results of single methods, by method name. Default: none.
        /// `server/discover`, for example, can have a longer lifetime than resource contents.
        #[cfg_attr(feature = "trace-file", serde(deserialize_with = "read_methods"))]
        pub cache_by_method: BTreeMap<&'static str, CacheHint> = BTreeMap::new(),
        /// How strictly to hold clients to the specification. Default: lenient, because deployed clients deviate from
        /// it; each deviation is reported as [`Diagnostic::Tolerated`](super::Diagnostic::Tolerated).
        pub strictness: Strictness = Strictness::Lenient,
        /// How long a request to a legacy client waits for its answer or for progress. Default 60 s. Requests that wait
        /// for a person or a model have no timeout unless their options set one.
        pub request_timeout: Duration = Duration::from_secs(60),
        /// How long such a request waits at most. Default 10 min.
        pub request_hard_timeout: Duration = Duration::from_secs(600),
        /// How long requests in flight may take to finish once the connection closes. Default 2 s.
        pub close_timeout: Duration = Duration::from_secs(2),
        /// How long queued bytes may wait without the transport accepting any before the connection fails. Default 60
        /// s: a client that reads nothing for a minute has hung.
        pub write_timeout: Duration = Duration::from_secs(60),
        /// Access control for subscriptions to tasks (the tasks extension). Default: none; a subscription to any task
        /// id is granted.
        pub task_access: Option<TaskAccess> = None,
        /// Access control for subscriptions to resources. Default: none; a subscription to any URI is granted.
        pub subscription_access: Option<SubscriptionAccess> = None,
        /// Limits on the memory that the client can make this side use.
        pub limits: Limits = Limits::default(),
        /// What takes the records of machines, to run them again. Default: none.
        #[serde(skip)]
        pub recorder: Option<MachineRecorder> = None; only with "trace-file",
    }

    /// A configuration with every default and no capabilities.
    pub fn new(info: Implementation);
}

impl ServerConfig {
    /// Checks the extensions together: those that are registered, and those among the capabilities. `Router::check` does
    /// so for its own; who drives a machine without a router calls this.
    ///
    /// # Errors
    /// The first extension that cannot be used with the others.
    pub fn check(&self) -> Result<(), ExtensionError> {
        let mut declared = self.capabilities.clone();
        declared.declare_extensions(&self.extensions);
        DeclaredCapabilities::Server(&declared).check_extensions(&self.extensions)
    }

    /// What no record of the configuration has.
    #[cfg(feature = "trace-file")]
    pub(crate) fn unwritten(&self) -> Option<String> {
        let unknown = |name: &&str| MethodInfo::all().all(|info| info.name != *name);
        self.cache_by_method.keys().any(unknown).then(|| "lifetimes for methods of its own".to_owned())
    }

    /// The configuration of a machine that is recorded, with the answers of its access control.
    #[cfg(feature = "trace-file")]
    pub(crate) fn recorded(self: Arc<Self>, recorder: &MachineRecorder) -> Arc<Self> {
        if self.task_access.is_none() && self.subscription_access.is_none() {
            return self;
        }
        let mut config = Self::clone(&self);
        for access in [&mut config.task_access, &mut config.subscription_access].into_iter().flatten() {
            let (recorder, own) = (recorder.clone(), access.clone());
            *access =
                SubscriptionAccess::new(move |name, principal| recorder.ask(|| own.allows(name, principal)));
        }
        Arc::new(config)
    }

    /// Whether the application answers requests of a method that the protocol does not define.
    pub(super) fn answers(&self, method: &str) -> bool {
        self.other_methods || self.custom_methods.iter().any(|custom| custom == method)
    }

    /// Cache lifetime and scope for results of a method, if its results are cacheable.
    pub(super) fn cache_hint(&self, method: &MethodInfo) -> Option<CacheHint> {
        method.cacheable.then(|| self.cache_by_method.get(method.name).copied().unwrap_or(self.cache))
    }
}

/// Reads the hints of the protocol's methods.
#[cfg(feature = "trace-file")]
fn read_methods<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<&'static str, CacheHint>, D::Error> {
    let hints: BTreeMap<String, CacheHint> = serde::Deserialize::deserialize(deserializer)?;
    let known = MethodInfo::all().filter_map(|info| Some((info.name, *hints.get(info.name)?)));
    Ok(known.collect())
}

/// The eras that a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Eras {
    /// Both eras; each request determines its own.
    #[default]
    Both,
    /// Requests with metadata of their own only.
    ModernOnly,
    /// Requests after a handshake only.
    LegacyOnly,
}

impl Eras {
    pub(crate) fn modern(self) -> &'static [Revision] {
        match self {
            Self::Both | Self::ModernOnly => Revision::MODERN,
            Self::LegacyOnly => &[],
        }
    }
}

/// Access check for subscriptions to tasks, by their ids: whether a task exists and belongs to the principal.
pub type TaskAccess = SubscriptionAccess;

/// A configuration with the JSON that is encoded from it once.
#[derive(Clone, Debug)]
pub(crate) struct PreparedConfig {
    pub(super) config: Arc<ServerConfig>,
    /// The server information in modern results.
    pub(super) info: Option<Arc<Json>>,
}

impl PreparedConfig {
    pub(crate) fn new(mut config: Arc<ServerConfig>) -> Self {
        if !config.extensions.is_empty() {
            let mut declared = ServerConfig::clone(&config);
            declared.capabilities.declare_extensions(&declared.extensions);
            config = Arc::new(declared);
        }
        let info = config
            .send_info
            .then(|| Json::encode(&At(&config.info, Revision::LATEST)).ok())
            .flatten()
            .map(Arc::new);
        Self { config, info }
    }

    /// That of a machine that is recorded.
    #[cfg(all(feature = "trace-file", feature = "http"))]
    pub(crate) fn recorded(&self, recorder: &MachineRecorder) -> Self {
        Self { config: self.config.clone().recorded(recorder), info: self.info.clone() }
    }
}

/// Access check for subscriptions: whether a principal may learn of the changes of a resource, or of the
/// [status of a task](ServerConfig::task_access).
///
/// ```
/// use mcp_proto::peer::server::{ServerConfig, SubscriptionAccess};
/// use mcp_proto::schema::Implementation;
///
/// let mut config = ServerConfig::new(Implementation::new("notes", "1.0.0"));
/// config.subscription_access =
///     Some(SubscriptionAccess::new(|uri, principal| uri.starts_with("note:") && principal.is_some()));
/// ```
#[derive(Clone)]
pub struct SubscriptionAccess(Arc<SubscriptionAccessFn>);

type SubscriptionAccessFn = dyn Fn(&str, Option<&Principal>) -> bool + Send + Sync;

impl SubscriptionAccess {
    /// Creates a check from a closure over a URI, or the id of a task, and the principal. The server calls it once for
    /// each that a client asks for, in the middle of its work; the closure must not use that server.
    pub fn new(allows: impl Fn(&str, Option<&Principal>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    pub(crate) fn allows(&self, name: &str, principal: Option<&Principal>) -> bool {
        (self.0)(name, principal)
    }

    /// Whether both are clones of one check.
    #[cfg(feature = "std")]
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

debug_fields! { SubscriptionAccess {} }

/// A record has that there is one, and its answers elsewhere.
#[cfg(feature = "trace-file")]
impl serde::Serialize for SubscriptionAccess {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

#[cfg(feature = "trace-file")]
impl<'de> serde::Deserialize<'de> for SubscriptionAccess {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let _: bool = serde::Deserialize::deserialize(deserializer)?;
        Ok(Self::new(|_, _| true))
    }
}
