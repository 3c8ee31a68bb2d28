//! How a client behaves.

use alloc::string::String;
use core::time::Duration;

use super::CacheConfig;
use crate::Limits;
use crate::peer::{Conduct, TaskMode};
use crate::schema::{ClientCapabilities, Era, Implementation, LoggingLevel, Revision};

use super::WatchConfig;

/// The configuration of a client.
///
/// ```
/// use mcp_proto::peer::client::{ClientConfig, EraPolicy};
/// use mcp_proto::schema::Implementation;
///
/// let mut config = ClientConfig::new(Implementation::new("my-host", "1.0.0"));
/// config.era_policy = EraPolicy::Auto;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// What this client calls itself.
    pub info: Implementation,
    /// Whether modern requests carry `info`. Default: yes, as the specification asks.
    pub send_info: bool,
    /// What the server may ask of this client. Declare only what the application answers; the default is nothing.
    pub capabilities: ClientCapabilities,
    /// Which eras to speak. Default: detect the server's.
    pub era_policy: EraPolicy,
    /// What an earlier connection to the same server found out. Default: nothing.
    pub known_era: Option<KnownEra>,
    /// Whether the link can be opened a second time, as a child process can be started afresh. Default: no.
    pub can_reopen: bool,
    /// Whether to go on with a legacy server that answers with a version unknown to this client. Default: no.
    pub tolerate_unknown_version: bool,
    /// How strictly to hold the server to the specification. Default: lenient, because servers in use deviate from it;
    /// each deviation is reported as [`Diagnostic::Tolerated`](super::Diagnostic::Tolerated).
    pub conduct: Conduct,
    /// How long a request waits for its answer or for progress. Default 30 s, as users of other clients expect.
    pub request_timeout: Duration,
    /// How long a request waits at most, whatever progress is reported. Default 10 min: longer work belongs in a task.
    pub request_hard_timeout: Duration,
    /// The times of connecting.
    pub connect: ConnectTimeouts,
    /// How long [`close`](super::ClientCommands::close) lets requests in flight finish. Default 2 s.
    pub close_timeout: Duration,
    /// How long queued bytes may wait without any being taken before the connection fails. Default 60 s: a peer that
    /// reads nothing for a minute is not coming back.
    pub write_timeout: Duration,
    /// The least severe log messages wanted: a modern server is told with each request, a legacy one that logs is told
    /// once. Default: modern servers send none, legacy ones what they like.
    pub log_level: Option<LoggingLevel>,
    /// How changes are watched.
    pub watch: WatchConfig,
    /// Pings to legacy servers. Default: none.
    pub keepalive: Option<Keepalive>,
    /// Whether tool calls may become tasks, and what follows if they do, where a request does not say so itself. Default:
    /// they may, and are followed to their end. With [`TaskMode::Never`] servers are not told that this client has tasks.
    pub tasks: TaskMode,
    /// What is kept of the server's answers (2026-07-28). Default: what the server says may be kept, within bounds.
    pub cache: CacheConfig,
    /// What the server may make this side hold.
    pub limits: Limits,
}

impl ClientConfig {
    /// A configuration with every default.
    pub fn new(info: Implementation) -> Self {
        Self {
            info,
            send_info: true,
            capabilities: ClientCapabilities::default(),
            era_policy: EraPolicy::Auto,
            known_era: None,
            can_reopen: false,
            tolerate_unknown_version: false,
            conduct: Conduct::Lenient,
            request_timeout: Duration::from_secs(30),
            request_hard_timeout: Duration::from_secs(600),
            connect: ConnectTimeouts::default(),
            close_timeout: Duration::from_secs(2),
            write_timeout: Duration::from_secs(60),
            log_level: None,
            watch: WatchConfig::default(),
            keepalive: None,
            tasks: TaskMode::Await,
            cache: CacheConfig::default(),
            limits: Limits::default(),
        }
    }
}

/// Which eras a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraPolicy {
    /// Probe for a modern server; fall back to the legacy handshake.
    #[default]
    Auto,
    /// Probe, and fail if the server is not modern.
    ModernOnly,
    /// Start with the legacy handshake.
    LegacyOnly,
}

impl EraPolicy {
    /// The versions that the policy allows, newest first.
    pub(crate) fn versions(self) -> impl Iterator<Item = Revision> {
        let (modern, legacy) = match self {
            Self::Auto => (Revision::MODERN, Revision::LEGACY),
            Self::ModernOnly => (Revision::MODERN, [].as_slice()),
            Self::LegacyOnly => ([].as_slice(), Revision::LEGACY),
        };
        modern.iter().chain(legacy).copied()
    }

    /// The newest version that the policy allows and the server offers.
    pub(crate) fn choose_version(self, offered: &[String]) -> Option<Revision> {
        self.versions().find(|version| offered.iter().any(|offered| offered == version.as_str()))
    }
}

/// What a connection found out about the era of a server, for the next connection to the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEra {
    /// The era to try first.
    pub era: Era,
    /// The version that was agreed on.
    pub version: Revision,
    /// Whether the server ends when it is probed.
    pub probe_breaks_server: bool,
}

/// How long the steps of connecting may take, and all of it.
///
/// `total` is the one that bounds everything until the server is ready: opening the link, the era probe, the handshake,
/// retries, fallbacks and a process that is started a second time. The time in which a person logs in does not count.
/// The other fields say when the next thing is tried within it.
///
/// Over HTTP the server runs already, and an answer crosses a network: the times differ. What is not answered in time is
/// tried again there, for a probe that got no answer says nothing about the era.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::peer::client::{ClientConfig, ConnectTimeouts};
/// use mcp_proto::schema::Implementation;
///
/// let mut config = ClientConfig::new(Implementation::new("my-host", "1.0.0"));
/// config.connect = ConnectTimeouts::within(Duration::from_secs(20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectTimeouts {
    /// The answer to the era probe. Default 5 s; then the legacy handshake is tried beside it. Never more than half of
    /// `total`, so that the handshake has its turn. A client of [`EraPolicy::ModernOnly`] has no other step and waits
    /// until `total` is over.
    pub probe: Duration,
    /// The answer to `initialize`. Default 60 s: a package may be downloaded first.
    pub initialize: Duration,
    /// How long the probe's answer is waited for once `initialize` was refused. Default 2 s.
    pub late_probe: Duration,
    /// The answer to the era probe over HTTP. Default 10 s: a function in a cloud may have to be started.
    pub probe_http: Duration,
    /// The answer to `initialize` over HTTP. Default 30 s.
    pub initialize_http: Duration,
    /// Everything together. Default 120 s. Then the connection fails with [`ConnectError::NotReady`].
    ///
    /// [`ConnectError::NotReady`]: super::ConnectError::NotReady
    pub total: Duration,
}

impl ConnectTimeouts {
    /// The timeouts of a client that is to be ready within `total`, with the single steps fitted to that: a caller who
    /// waits for long has a slow server waited for rather than asked again.
    pub fn within(total: Duration) -> Self {
        let defaults = Self::default();
        // Over HTTP each step is tried four times.
        let quarter = total.checked_div(4).unwrap_or(total);
        Self {
            initialize: total,
            probe_http: defaults.probe_http.max(quarter),
            initialize_http: defaults.initialize_http.max(quarter),
            total,
            ..defaults
        }
    }

    /// How long the answer to the era probe is waited for on a stream before the handshake is tried beside it.
    pub(super) fn probe_within_total(&self) -> Duration {
        self.probe.min(self.total.checked_div(2).unwrap_or(self.total))
    }
}

impl Default for ConnectTimeouts {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(5),
            initialize: Duration::from_secs(60),
            late_probe: Duration::from_secs(2),
            probe_http: Duration::from_secs(10),
            initialize_http: Duration::from_secs(30),
            total: Duration::from_secs(120),
        }
    }
}

/// Regular pings to a legacy server, to notice one that hangs.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The time between pings.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How many answers in a row may be missing before the connection counts as lost.
    pub misses: u32,
}

impl Keepalive {
    /// Every 30 s, 5 s for the answer, lost after 3 misses.
    pub const PRESET: Self =
        Self { interval: Duration::from_secs(30), timeout: Duration::from_secs(5), misses: 3 };
}
