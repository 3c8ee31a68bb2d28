//! How a server behaves.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::Limits;
use crate::peer::{CacheHint, Conduct, Principal};
use crate::schema::{Implementation, MethodInfo, Revision, ServerCapabilities};

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
pub struct ServerConfig {
    /// What this server calls itself.
    pub info: Implementation,
    /// Whether modern results carry `info`. Default: yes, as the specification asks.
    pub send_info: bool,
    /// How the server wants to be used, for the model.
    pub instructions: Option<String>,
    /// What clients may ask for. A method whose capability is missing is answered as unknown.
    pub capabilities: ServerCapabilities,
    /// Methods beyond the protocol's that the application answers.
    pub custom_methods: Vec<String>,
    /// Which eras to serve. Default: both.
    pub eras: Eras,
    /// How long and by whom results may be kept that do not say so themselves (2026-07-28). Default: not at all.
    pub cache: CacheHint,
    /// The same for the results of single methods, by their names. Default: none. `server/discover`, for one, may be
    /// kept for longer than what is read.
    pub cache_by_method: BTreeMap<&'static str, CacheHint>,
    /// How strictly to hold clients to the specification. Default: lenient, because clients in use deviate from it;
    /// each deviation is reported as [`Diagnostic::Tolerated`](super::Diagnostic::Tolerated).
    pub conduct: Conduct,
    /// How long a request to a legacy client waits for its answer or for progress. Default 60 s. What waits for a
    /// person or a model has no limit unless one comes with the request.
    pub request_timeout: Duration,
    /// How long such a request waits at most. Default 10 min.
    pub request_hard_timeout: Duration,
    /// How long requests in flight may take to finish once the connection is to end. Default 2 s.
    pub close_timeout: Duration,
    /// How long queued bytes may wait without any being taken before the connection fails. Default 60 s: a client that
    /// reads nothing for a minute is not coming back.
    pub write_timeout: Duration,
    /// Who may listen for which task (the tasks extension). Default: nothing is checked, and a subscription is granted
    /// for whatever name it gives.
    pub task_access: Option<TaskAccess>,
    /// What the client may make this side hold.
    pub limits: Limits,
}

impl ServerConfig {
    /// A configuration with every default: it offers nothing yet.
    pub fn new(info: Implementation) -> Self {
        Self {
            info,
            send_info: true,
            instructions: None,
            capabilities: ServerCapabilities::default(),
            custom_methods: Vec::new(),
            eras: Eras::Both,
            cache: CacheHint::default(),
            cache_by_method: BTreeMap::new(),
            conduct: Conduct::Lenient,
            request_timeout: Duration::from_secs(60),
            request_hard_timeout: Duration::from_secs(600),
            close_timeout: Duration::from_secs(2),
            write_timeout: Duration::from_secs(60),
            task_access: None,
            limits: Limits::default(),
        }
    }

    /// How long and by whom results of a method may be kept, where they can be.
    pub(super) fn cache_hint(&self, method: &MethodInfo) -> Option<CacheHint> {
        method.cacheable.then(|| self.cache_by_method.get(method.name).copied().unwrap_or(self.cache))
    }
}

/// Which eras a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eras {
    /// Each request as it comes.
    #[default]
    Both,
    /// Those with metadata in each request.
    ModernOnly,
    /// Those after a handshake.
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

/// Says whether somebody may listen for a task, by its identifier: it exists, and is theirs.
#[derive(Clone)]
pub struct TaskAccess(Arc<TaskAccessFn>);

type TaskAccessFn = dyn Fn(&str, Option<&Principal>) -> bool + Send + Sync;

impl TaskAccess {
    /// As `allows` says. It is asked while the machine is at work, and must not use that.
    pub fn new(allows: impl Fn(&str, Option<&Principal>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    pub(super) fn allows(&self, task: &str, principal: Option<&Principal>) -> bool {
        (self.0)(task, principal)
    }
}

impl fmt::Debug for TaskAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskAccess").finish_non_exhaustive()
    }
}
