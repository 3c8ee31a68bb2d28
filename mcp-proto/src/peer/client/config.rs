//! Configuration of a client.

use core::time::Duration;

use super::CacheConfig;
use crate::Limits;
use crate::peer::{Strictness, TaskMode};
use crate::prelude::*;
use crate::schema::{
    ClientCapabilities, DeclaredCapabilities, Era, Extension, ExtensionError, Implementation, LoggingLevel,
    Revision,
};
#[cfg(feature = "trace-file")]
use crate::trace_file::MachineRecorder;

use super::WatchConfig;

config! {
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
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct ClientConfig {
        //= F17 "Name and version of the client are configurable"
        /// The client's name and version.
        pub info: Implementation = info,
        /// Whether modern requests carry `info`. Default: yes, as the specification asks.
        pub send_info: bool = true,
        /// The capabilities offered to the server. Declare only those that the application serves; the default is none.
        pub capabilities: ClientCapabilities = ClientCapabilities::default(),
        /// The extensions that the client supports, which it declares in addition to `capabilities`. Default: none.
        pub extensions: Vec<Extension> = Vec::new(),
        /// Methods beyond the protocol's that the application answers, for servers of 2025-11-25 and earlier: newer
        /// ones send no requests. Default: none. A request of any other method is answered with
        /// [`METHOD_NOT_FOUND`](crate::rpc::code::METHOD_NOT_FOUND).
        pub custom_methods: Vec<String> = Vec::new(),
        /// Whether the application answers requests of any method that the protocol does not define, as a proxy does.
        /// Default: no.
        pub other_methods: bool = false,
        /// The eras to speak. Default: detect the server's.
        pub era_policy: EraPolicy = EraPolicy::Auto,
        /// The era of this server as an earlier connection found it. Default: unknown.
        pub known_era: Option<KnownEra> = None,
        /// Whether the link can be opened a second time, as a child process can be restarted. Default: no.
        pub can_reopen: bool = false,
        /// Whether a strict client continues with a legacy server that answers with a version unknown to it, as a
        /// lenient one does: with the newest legacy revision that is not later, or else the oldest. Default: no.
        pub tolerate_unknown_version: bool = false,
        /// Whether to accept the result of a tool that has an output schema but sends no structured content, and to
        /// report it as [`Leniency::MissingOutput`](crate::peer::Leniency::MissingOutput). Default: no, the call fails.
        /// Matters where results are checked (feature `schema-validate`), and not to a strict client.
        pub tolerate_missing_output: bool = false,
        /// How strictly to hold the server to the specification. Default: lenient, because deployed servers deviate
        /// from it; each deviation is reported as [`Diagnostic::Tolerated`](super::Diagnostic::Tolerated).
        pub strictness: Strictness = Strictness::Lenient,
        /// How long a request waits for its answer or for progress. Default 30 s, as users of other clients expect.
        pub request_timeout: Duration = Duration::from_secs(30),
        /// How long a request waits at most, whatever progress is reported. Default 10 min: longer work belongs in a
        /// task.
        pub request_hard_timeout: Duration = Duration::from_secs(600),
        /// The timeouts of connecting.
        pub connect: ConnectTimeouts = ConnectTimeouts::default(),
        /// How long [`close`](super::ClientCommands::close) lets requests in flight finish. Default 2 s.
        pub close_timeout: Duration = Duration::from_secs(2),
        /// How long queued bytes may wait without the transport accepting any before the connection fails. Default 60
        /// s: a peer that reads nothing for a minute has hung.
        pub write_timeout: Duration = Duration::from_secs(60),
        /// The lowest severity of log messages to request: from a modern server with each request, from a legacy server
        /// with logging once per connection. Default: modern servers send none, legacy servers choose.
        pub log_level: Option<LoggingLevel> = None,
        /// Configuration of watches.
        pub watch: WatchConfig = WatchConfig::default(),
        //= F69 "The interval of pings is optional"
        /// Pings to legacy servers. Default: none.
        pub keepalive: Option<Keepalive> = None,
        /// Whether tool calls may become tasks, and how the client treats these; a request's own option overrides it.
        /// Default: they may, and the client awaits the task's result. With [`TaskMode::Never`] the client does not
        /// declare support for tasks.
        pub tasks: TaskMode = TaskMode::Await,
        /// Configuration of the response cache (2026-07-28). Default: answers are cached for as long as the server
        /// allows, within bounds.
        pub cache: CacheConfig = CacheConfig::default(),
        /// Limits on the memory that the server can make this side use.
        pub limits: Limits = Limits::default(),
        /// What takes the records of the machine, to run it again. Default: none.
        #[serde(skip)]
        pub recorder: Option<MachineRecorder> = None; only with "trace-file",
    }

    /// A configuration with every default.
    pub fn new(info: Implementation);
}

impl ClientConfig {
    /// Checks the extensions together: those that are registered, and those among the capabilities. The front does so
    /// before it connects; who drives a machine without it calls this.
    ///
    /// # Errors
    /// The first extension that cannot be used with the others.
    pub fn check(&self) -> Result<(), ExtensionError> {
        let mut declared = self.capabilities.clone();
        declared.declare_extensions(&self.extensions);
        DeclaredCapabilities::Client(&declared).check_extensions(&self.extensions)
    }

    /// Whether the application answers requests of a method that the protocol does not define.
    pub(super) fn answers(&self, method: &str) -> bool {
        self.other_methods || self.custom_methods.iter().any(|custom| custom == method)
    }
}

/// The eras that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
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

/// The era of a server as a connection found it, for the next connection to the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct KnownEra {
    /// The era to try first.
    pub era: Era,
    /// The negotiated version.
    pub version: Revision,
    /// Whether the era probe makes the server exit.
    pub probe_breaks_server: bool,
}

config! {
    /// Timeouts of connecting, of single steps and in total.
    ///
    /// `total` bounds everything until the server is ready: opening the link, the era probe, the handshake, retries,
    /// fallbacks and a restart of the process. The time in which a user logs in does not count. The other fields say
    /// when the client moves on to the next step within it.
    ///
    /// Over HTTP the server runs already, and an answer crosses a network: the timeouts differ. A step that gets no
    /// answer in time is repeated there, for an unanswered probe says nothing about the era.
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
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct ConnectTimeouts {
        /// Timeout of the era probe. Default 5 s; then the legacy handshake is tried beside it. Never more than half of
        /// `total`, so that time for the handshake remains. A client of [`EraPolicy::ModernOnly`] has no other step and
        /// waits until `total` is over.
        pub probe: Duration = Duration::from_secs(5),
        /// Timeout of `initialize`. Default 60 s: a package may be downloaded first.
        pub initialize: Duration = Duration::from_secs(60),
        /// Timeout of the era probe over HTTP. Default 10 s: a cloud function may need a cold start.
        pub probe_http: Duration = Duration::from_secs(10),
        /// Timeout of `initialize` over HTTP. Default 30 s.
        pub initialize_http: Duration = Duration::from_secs(30),
        /// Timeout of connecting as a whole. Default 120 s. Then the connection fails with [`ConnectError::NotReady`].
        ///
        /// [`ConnectError::NotReady`]: super::ConnectError::NotReady
        pub total: Duration = Duration::from_secs(120),
    }
}

impl ConnectTimeouts {
    /// Timeouts for a client that must be ready within `total`, with the single steps scaled to it: with a long total
    /// the client waits longer for a slow server instead of asking again.
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

    /// The timeout of the era probe on a stream, after which the handshake is tried beside it.
    pub(super) fn probe_within_total(&self) -> Duration {
        self.probe.min(self.total.checked_div(2).unwrap_or(self.total))
    }
}

/// Regular pings to a legacy server, to detect one that hangs.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct Keepalive {
    /// The time between pings.
    pub interval: Duration,
    /// The timeout of each ping.
    pub timeout: Duration,
    /// The number of consecutive missing answers after which the connection counts as lost.
    pub misses: u32,
    /// Whether missing answers do not count while the server works on a request: many servers do one thing at a time, and
    /// answer pings afterwards. Such a request ends by its own timeout.
    pub tolerates_busy: bool,
}

impl Keepalive {
    //= K2 "every 30 s, 5 s for the answer, 3 misses"
    /// A ping every 30 s, 5 s for the answer, lost after 3 misses, also while the server works.
    pub const PRESET: Self = Self {
        interval: Duration::from_secs(30),
        timeout: Duration::from_secs(5),
        misses: 3,
        tolerates_busy: false,
    };

    /// The same, but missing answers of a server that works do not count.
    pub const BUSY_TOLERANT: Self = Self { tolerates_busy: true, ..Self::PRESET };
}
