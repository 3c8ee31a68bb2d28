//! The audit log: who called what, and how it ended.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::mem;
use core::time::Duration;

use super::{Layer, LayerRequest, MessageDirection, Next, Reply, Side};
use crate::UnixTime;
use crate::adapter::Clock;
use crate::front::HandlerMode;
use crate::peer::Principal;
use crate::prelude::*;
use crate::redact::Redactor;
use crate::rpc::read_members;
use crate::schema::CallToolResult;
use crate::sync::{Mutex, PoisonError};

/// The maximum length of a recorded request in bytes.
const MAX_REQUEST: usize = 16 * 1024;

/// The maximum length of a recorded method, item or name in bytes.
const MAX_NAME: usize = 1024;

/// The maximum length of a recorded error in bytes.
const MAX_ERROR: usize = 1024;

/// A [layer](super) that records each request once it has ended: who made it, what it asked for and how it ended, without its
/// secrets. What is refused before any layer runs reaches no audit: a request without a valid token, without the scopes of
/// its tool, or beyond a rate of the router; nor does one that is cancelled before its handler begins.
///
/// It belongs outside of the layers that deny requests, so that it records what they deny: add it first.
///
/// ```
/// use mcp_proto::front::Router;
/// use mcp_proto::front::layer::Audit;
///
/// let router = Router::new("notes", "1.0.0").layer(Audit::new(|record| {
///     let by = record.principal.as_ref().map_or("nobody", |principal| principal.as_str());
///     println!("{by}: {} {:?} after {:?}", record.method, record.outcome, record.elapsed);
/// }));
/// # drop(router);
/// ```
pub struct Audit(Arc<AuditLog>);

struct AuditLog {
    redactor: Mutex<Redactor>,
    sink: Box<dyn Fn(&AuditRecord) + Send + Sync>,
}

/// A request that has ended, as [`Audit`] records it.
///
/// Texts of the other side are in it as they are: a terminal shows them by [`SafeText`](crate::consent::SafeText).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The time of day when the request began.
    pub time: UnixTime,
    /// How long it took.
    pub elapsed: Duration,
    /// The side that the layer stands in.
    pub side: Side,
    /// Whether the other side made the request, or this one.
    pub direction: MessageDirection,
    /// In a server, the principal on whose behalf the request was made, if the transport knew one.
    pub principal: Option<Principal>,
    /// The name of the other side, as it reports it, without its secrets; after 1 KiB it is cut.
    pub peer: Option<String>,
    /// In a host, the name of the server in its configuration.
    pub server: Option<String>,
    /// The method, without its secrets; after 1 KiB it is cut.
    pub method: String,
    /// The name of the called tool or of the prompt, or the URI of the resource, without its secrets; after 1 KiB it is cut.
    pub item: Option<String>,
    /// The method and the parameters as a JSON object, without their secrets; after 16 KiB it is cut.
    pub request: String,
    /// Whether a client repeated its request, with the input that the server required (2026-07-28).
    pub is_retry: bool,
    /// How the request ended.
    pub outcome: AuditOutcome,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// With a result; a task was created, perhaps.
    Success,
    /// The server requires input first: the client may repeat the request.
    InputRequired,
    /// With the result of a tool that has `isError`: the tool failed, or a server denied the call.
    ToolError {
        /// The text of the result without its secrets; after 1 KiB it is cut.
        message: String,
    },
    /// With an error.
    Error {
        /// The code of the JSON-RPC error, if it was one.
        code: Option<i64>,
        /// The message without its secrets; after 1 KiB it is cut.
        message: String,
    },
    /// It was cancelled, timed out or lost: its future was dropped.
    Dropped,
}

impl Audit {
    /// Records each request by `sink`, which runs wherever requests end, and must not block.
    pub fn new(sink: impl Fn(&AuditRecord) + Send + Sync + 'static) -> Self {
        Self::with_redactor(Redactor::new(), sink)
    }

    /// Records each request by `sink`, without the secrets that `redactor` knows or finds. Ids of tasks, cursors and states of
    /// requests are hidden as well; a redactor with [pseudonyms](Redactor::pseudonyms) shows which of them are the same.
    pub fn with_redactor(redactor: Redactor, sink: impl Fn(&AuditRecord) + Send + Sync + 'static) -> Self {
        let redactor = Mutex::new(redactor.without_identifiers());
        Self(Arc::new(AuditLog { redactor, sink: Box::new(sink) }))
    }
}

debug_fields! { Audit {} }

impl<M: HandlerMode> Layer<M> for Audit {
    fn request(&self, request: LayerRequest, next: Next<M>) -> M::HandlerFuture {
        let mut pending = PendingRecord::new(self.0.clone(), &request);
        next.run_then(request, move |reply| {
            pending.end(&reply);
            reply
        })
    }
}

impl AuditLog {
    fn redact<R>(&self, act: impl FnOnce(&mut Redactor) -> R) -> R {
        act(&mut self.redactor.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn describe(&self, request: &LayerRequest) -> String {
        let method = serde_json::to_string(request.method()).unwrap_or_default();
        let message = match request.params() {
            Some(params) => format!(r#"{{"method":{method},"params":{}}}"#, params.as_str()),
            None => format!(r#"{{"method":{method}}}"#),
        };
        let shown = self.redact(|redactor| match redactor.frame(message.as_bytes()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(hidden) => Some(hidden),
        });
        cut(shown.map_or(message, |shown| String::from_utf8_lossy(&shown).into_owned()), MAX_REQUEST)
    }

    /// How a request ended, perhaps one about the task of this id.
    fn outcome(&self, reply: &Reply, task: Option<&str>) -> AuditOutcome {
        let shown = |text: &str| match task {
            Some(id) => cut(self.redact(|it| it.clone().known(id).text(text).into_owned()), MAX_ERROR),
            None => self.text(text, MAX_ERROR),
        };
        if reply.is_input_required() {
            return AuditOutcome::InputRequired;
        }
        let (code, message) = match (reply.error_object(), reply.call_error()) {
            (Some(error), _) => (Some(error.code), error.message.to_string()),
            (None, Some(error)) => (None, error.to_string()),
            (None, None) if reply.is_failure() => {
                let text = reply.decode::<CallToolResult>().map(|result| result.text_content());
                return AuditOutcome::ToolError { message: shown(&text.unwrap_or_default()) };
            }
            (None, None) => return AuditOutcome::Success,
        };
        AuditOutcome::Error { code, message: shown(&message) }
    }

    /// A text without its secrets, cut to a maximum of bytes.
    fn text(&self, text: &str, most: usize) -> String {
        cut(self.redact(|redactor| redactor.text(text).into_owned()), most)
    }
}

/// Cuts a text to a maximum of bytes.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

fn task_id(request: &LayerRequest) -> Option<String> {
    let params = request.params().filter(|_| request.method().starts_with("tasks/"))?;
    let [id] = read_members(params.as_str(), ["taskId"]).ok()?;
    serde_json::from_str(id?).ok()
}

/// The record of a request that runs. It is written when the request ends, or is dropped.
struct PendingRecord {
    log: Arc<AuditLog>,
    clock: Arc<dyn Clock>,
    began: crate::Instant,
    /// The id of the task that the request is about, which errors repeat.
    task: Option<String>,
    record: Option<AuditRecord>,
}

impl PendingRecord {
    fn new(log: Arc<AuditLog>, request: &LayerRequest) -> Self {
        let clock = request.clock();
        let name = |text: &str| log.text(text, MAX_NAME);
        let record = AuditRecord {
            time: clock.unix_time(),
            elapsed: Duration::ZERO,
            side: request.side(),
            direction: request.direction(),
            principal: request.principal().cloned(),
            peer: request.peer().map(|peer| name(&peer.name)),
            server: request.server_name().map(String::from),
            method: name(request.method()),
            item: request.item().map(|item| name(&item)),
            request: log.describe(request),
            is_retry: request.is_retry(),
            outcome: AuditOutcome::Dropped,
        };
        Self { log, began: clock.now(), clock, task: task_id(request), record: Some(record) }
    }

    fn end(&mut self, reply: &Reply) {
        let outcome = self.log.outcome(reply, self.task.as_deref());
        self.write(outcome);
    }

    fn write(&mut self, outcome: AuditOutcome) {
        if let Some(mut record) = mem::take(&mut self.record) {
            record.elapsed = self.clock.now().saturating_since(self.began);
            record.outcome = outcome;
            (self.log.sink)(&record);
        }
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        self.write(AuditOutcome::Dropped);
    }
}
