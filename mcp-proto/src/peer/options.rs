//! Options of a single request.

use core::time::Duration;

use crate::schema::{LoggingLevel, Meta};

/// Options of a request. Every default leaves the choice to the configuration of the peer.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::peer::RequestOptions;
///
/// let patient = RequestOptions::default().timeout(Duration::from_secs(120));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "options do nothing without a request"]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestOptions {
    /// How long to wait for the answer; each progress notification restarts the wait. `None` takes the peer's default;
    /// `Some(Duration::MAX)` waits for ever, within `hard_timeout`.
    pub timeout: Option<Duration>,
    /// How long to wait at most, whatever progress is reported. `None` takes the peer's default.
    pub hard_timeout: Option<Duration>,
    /// Whether to ask for progress.
    pub progress: ProgressOption,
    /// The lowest severity of log messages to send along with the answer (2026-07-28 only; none by default).
    pub log_level: Option<LoggingLevel>,
    /// Further `_meta` entries. Keys that the protocol reserves for itself are overwritten.
    pub meta: Meta,
    /// Whether the request is sent again if its answer is lost on the way (HTTP only).
    pub reissue: ReissuePolicy,
    /// Whether the request may become a task, and how the client treats it then. `None` takes the peer's default,
    /// [`ClientConfig::tasks`](crate::peer::client::ClientConfig::tasks).
    pub task: Option<TaskMode>,
    /// How the client proceeds if the server needs input before it can finish.
    pub input: InputMode,
    /// Whether a cached answer may be used (2026-07-28; a client's requests only).
    pub cache: CacheMode,
}

/// How a client proceeds if a server answers a request by asking for input: in its result (2026-07-28), or with the
/// error `URL_ELICITATION_REQUIRED` (2025-11-25).
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum InputMode {
    /// The client asks the application for each input, and sends the request again with the answers. The inputs are
    /// events like a legacy server's requests. The handle of the request stays the same, and it ends once.
    #[default]
    Automatic,
    /// The request ends: as [`Outcome::InputRequired`](crate::peer::Outcome::InputRequired), or with the error. The
    /// application makes a new request with the answers among its parameters.
    Manual,
}

/// Whether a request may be answered from the cache.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum CacheMode {
    /// Use a cached answer while the server's lifetime for it lasts.
    #[default]
    Use,
    /// Ask the server, and replace the cached answer with the new one.
    Refresh,
    /// Ask the server, and cache nothing.
    Bypass,
}

/// Whether a request may become a task, and how the client treats it then. So far only tool calls do.
///
/// A server of 2026-07-28 decides by itself, for clients that declare tasks. A client asks a server of 2025-11-25 for a
/// task if server and tool allow that: always for a tool that requires it, and with [`Handle`](Self::Handle) for a tool
/// that allows it. The tool's setting is known from the last tool lists.
///
/// A request that has become a task ends with the task: [`RequestOptions::timeout`] no longer applies, and
/// [`RequestOptions::hard_timeout`] only if it was set for the request. Cancelling the request cancels the task.
///
/// <https://modelcontextprotocol.io/extensions/tasks>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum TaskMode {
    /// The client follows the task; the task's result is the outcome of the request.
    #[default]
    Await,
    /// The request resolves as [`Outcome::Task`](crate::peer::Outcome::Task) once the task exists. The task continues
    /// on the server.
    Handle,
    /// The request may not become a task. A server that requires one answers with an error.
    Never,
}

/// Whether a request is sent again, as a new one, if the connection that carries its answer breaks. The server may have
/// acted on the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum ReissuePolicy {
    /// Send it again if the method only reads, or if a trusted server declares the tool read-only or idempotent:
    /// `HttpClientConfig::annotations`.
    #[default]
    WhereSafe,
    /// Always send it again.
    Always,
    /// Never send it again.
    Never,
}

/// Whether a request asks for progress notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum ProgressOption {
    /// Ask for methods that may take long: calling tools, reading resources, getting prompts, sampling, elicitation.
    #[default]
    WhereLong,
    /// Always ask.
    Always,
    /// Never ask; the timeout is then never extended.
    Never,
}

impl RequestOptions {
    setters! {
        /// Sets how long to wait for the answer or for the next progress.
        pub fn timeout(self, timeout: Duration) { self.timeout = Some(timeout) }

        /// Sets how long to wait at most.
        pub fn hard_timeout(self, maximum: Duration) { self.hard_timeout = Some(maximum) }

        /// Sets whether to ask for progress.
        pub fn progress(self, progress: ProgressOption) { self.progress = progress }

        /// Asks for log messages of at least this level (2026-07-28 only).
        pub fn log_level(self, level: LoggingLevel) { self.log_level = Some(level) }

        /// Adds `_meta` entries.
        pub fn meta(self, meta: Meta) { self.meta = meta }

        /// Sets whether the request may become a task.
        pub fn task(self, task: TaskMode) { self.task = Some(task) }

        /// Sets whether to send the request again if its answer is lost (HTTP only).
        pub fn reissue(self, reissue: ReissuePolicy) { self.reissue = reissue }

        /// Sets how the client proceeds if the server needs input first.
        pub fn input(self, input: InputMode) { self.input = input }

        /// Sets whether a cached answer may be used.
        pub fn cache(self, cache: CacheMode) { self.cache = cache }
    }
}
