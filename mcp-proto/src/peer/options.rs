//! How one request is to be made.

use core::time::Duration;

use crate::schema::{LoggingLevel, Meta};

/// How one request is made. The default leaves every choice to the configuration of the peer.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::peer::RequestOptions;
///
/// let patient = RequestOptions::default().timeout(Duration::from_secs(120));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RequestOptions {
    /// How long to wait for the answer, counted anew from each progress notification. `None` takes the peer's default;
    /// `Some(Duration::MAX)` waits for ever, within `hard_timeout`.
    pub timeout: Option<Duration>,
    /// How long to wait at most, whatever progress is reported. `None` takes the peer's default.
    pub hard_timeout: Option<Duration>,
    /// Whether to ask for progress.
    pub progress: ProgressOption,
    /// The least severe log messages to send along with the answer (2026-07-28 only; none without it).
    pub log_level: Option<LoggingLevel>,
    /// Further `_meta` entries. Keys that the protocol reserves for itself are overwritten.
    pub meta: Meta,
    /// Whether the request is made once more if its answer is lost on the way (HTTP only).
    pub reissue: ReissuePolicy,
    /// Whether the request may become a task, and what follows if it does. `None` takes the peer's default,
    /// [`ClientConfig::tasks`](crate::peer::client::ClientConfig::tasks).
    pub task: Option<TaskMode>,
    /// What happens if the server needs input before it can finish.
    pub input: InputMode,
    /// Whether an answer that was kept will do (2026-07-28; a client's requests only).
    pub cache: CacheMode,
}

/// What happens if a server answers a request by asking for input: by its result (2026-07-28), or by the error
/// `URL_ELICITATION_REQUIRED` (2025-11-25).
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputMode {
    /// The application is asked for each input, as by a legacy server's request, and the request goes out again with
    /// the answers. Its handle stays the same, and it ends once.
    #[default]
    Automatic,
    /// The request ends: as [`Outcome::InputRequired`](crate::peer::Outcome::InputRequired), or with the error. Whoever
    /// made it makes a new one that has the answers among its parameters.
    Manual,
}

/// Whether a request may be answered by what was kept of an earlier one like it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// If the server has said that it may be kept for so long.
    #[default]
    Use,
    /// No: the server is asked, and its answer kept in the place of the former.
    Refresh,
    /// No, and nothing is kept.
    Bypass,
}

/// Whether a request may become a task, and what follows if it does. So far only tool calls do.
///
/// A server of 2026-07-28 decides by itself among the clients that are ready for it. One of 2025-11-25 is asked for a
/// task, if it and the tool allow that: a tool that requires it in any case, one that allows it for
/// [`Handle`](Self::Handle). What tools allow is known from the last lists of them.
///
/// A request that has become a task has no end but that of the task: [`RequestOptions::timeout`] is over with, and
/// [`RequestOptions::hard_timeout`] goes on only where it was set for the request. Cancelling it cancels the task.
///
/// <https://modelcontextprotocol.io/extensions/tasks>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskMode {
    /// The task is followed, and what it comes to is the outcome of the request.
    #[default]
    Await,
    /// That there is a task is the outcome: [`Outcome::Task`](crate::peer::Outcome::Task). The task goes on by itself.
    Handle,
    /// It may not. A server that has no other way answers with an error.
    Never,
}

/// Whether a request is made once more, as a new one, if the connection that carries its answer breaks. The server may
/// have acted on the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReissuePolicy {
    /// If the method only asks, or the tool is declared read-only or idempotent.
    #[default]
    WhereSafe,
    /// In any case.
    Always,
    /// Never.
    Never,
}

/// Whether a request asks for progress notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgressOption {
    /// Ask where the method may take long: calling tools, reading resources, getting prompts, sampling, elicitation.
    #[default]
    WhereLong,
    /// Ask.
    Always,
    /// Do not ask; the timeout is then never extended.
    Never,
}

impl RequestOptions {
    /// Sets how long to wait for the answer or for the next progress.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long to wait at most.
    #[must_use]
    pub fn hard_timeout(mut self, maximum: Duration) -> Self {
        self.hard_timeout = Some(maximum);
        self
    }

    /// Sets whether to ask for progress.
    #[must_use]
    pub fn progress(mut self, progress: ProgressOption) -> Self {
        self.progress = progress;
        self
    }

    /// Asks for log messages of at least this level (2026-07-28 only).
    #[must_use]
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Adds `_meta` entries.
    #[must_use]
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Sets whether the request may become a task.
    #[must_use]
    pub fn task(mut self, task: TaskMode) -> Self {
        self.task = Some(task);
        self
    }

    /// Sets whether to make the request once more if its answer is lost (HTTP only).
    #[must_use]
    pub fn reissue(mut self, reissue: ReissuePolicy) -> Self {
        self.reissue = reissue;
        self
    }

    /// Sets what happens if the server needs input first.
    #[must_use]
    pub fn input(mut self, input: InputMode) -> Self {
        self.input = input;
        self
    }

    /// Sets whether an answer that was kept will do.
    #[must_use]
    pub fn cache(mut self, cache: CacheMode) -> Self {
        self.cache = cache;
        self
    }
}
