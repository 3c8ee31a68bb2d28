//! Spans of requests for the crate `tracing` (feature `tracing`).
//!
//! Each request that reaches a handler has a span of the target `mcp_proto::server`, and each request of a
//! [`Request`](crate::front::Request) or a [`Call`](crate::front::Call) one of the target `mcp_proto::client`, at the
//! level `INFO`. The span begins when the request is sent or its handler starts, and ends with the answer; its duration
//! is the latency. A handler runs inside its span, so that its events and its own requests belong there. A client's
//! span is a child of the span in which the request is sent.
//!
//! The fields have the names of [OpenTelemetry's conventions for MCP] where these have one:
//!
//! | field | value |
//! |---|---|
//! | `otel.name` | the method, and the name of the tool or prompt |
//! | `otel.kind` | `client` or `server` |
//! | `otel.status_code` | `ERROR` if the request failed |
//! | `mcp.method.name` | the method |
//! | `jsonrpc.request.id` | the request's id; a client may send a request again with another one |
//! | `mcp.protocol.version` | the revision |
//! | `gen_ai.operation.name` | `execute_tool` for tool calls |
//! | `gen_ai.tool.name`, `gen_ai.prompt.name` | the name of the tool or prompt |
//! | `mcp.resource.uri` | the resource's URI without user, query and fragment |
//! | `error.type` | the peer's error code, `tool_error`, an HTTP status, or one of `timeout`, `connection_lost`, `not_sent`, `invalid_answer`, `input_failed`, `task_cancelled` |
//! | `rpc.response.status_code` | the code of a JSON-RPC error |
//! | `era` | `legacy` or `modern` |
//! | `outcome` | `ok`, `tool_error`, `error`, `input_required`, `task`, or `cancelled`: by the caller, or as the connection ended |
//! | `traceparent` | the [trace context](TraceContext) that the request came with, on its receiver's side |
//!
//! Arguments, results, messages of errors, task ids and session ids are in no field. Names are escaped and cut at 128
//! characters. On the receiver's side `otel.name` has only methods, tools and prompts that exist there, and `_OTHER` for
//! another method, so that a peer cannot make up any number of span names.
//!
//! Without a span are requests that the machines make or answer by themselves, such as the handshake, `ping`
//! and subscriptions, those of a [`TaskHandle`](crate::front::TaskHandle), and work that goes on as a task after its call
//! was answered.
//!
//! A handler that blocks its driver, or that logs although the server does not declare logging, is an event of the target
//! `mcp_proto::server` at the level `WARN`.
//!
//! # Distributed traces
//!
//! By default a received trace context is data: a field of the span, and
//! [`Context::trace_context`](crate::front::Context::trace_context). Nothing is sent but what
//! [`Request::trace_context`](crate::front::Request::trace_context) sets. A [`Propagator`] connects the spans on both
//! sides, here those of `tracing-opentelemetry` 0.34:
//!
//! ```ignore
//! use mcp_proto::front::trace::{Propagator, set_propagator};
//! use mcp_proto::schema::TraceContext;
//! use opentelemetry::propagation::TextMapPropagator;
//! use opentelemetry_sdk::propagation::TraceContextPropagator;
//! use tracing_opentelemetry::OpenTelemetrySpanExt;
//!
//! struct OpenTelemetry(TraceContextPropagator);
//!
//! impl Propagator for OpenTelemetry {
//!     fn inject(&self, span: &tracing::Span) -> Option<TraceContext> {
//!         let mut carrier = std::collections::HashMap::<String, String>::new();
//!         self.0.inject_context(&span.context(), &mut carrier);
//!         let context = TraceContext::new(carrier.remove("traceparent")?).ok()?;
//!         match carrier.remove("tracestate").filter(|state| !state.is_empty()) {
//!             Some(state) => Some(context.clone().with_state(state).unwrap_or(context)),
//!             None => Some(context),
//!         }
//!     }
//!
//!     fn extract(&self, span: &tracing::Span, context: &TraceContext) {
//!         let state = context.tracestate().unwrap_or_default();
//!         let carrier = [("traceparent", context.traceparent()), ("tracestate", state)];
//!         let carrier = carrier.map(|(key, value)| (key.to_owned(), value.to_owned()));
//!         let remote = self.0.extract(&std::collections::HashMap::<String, String>::from(carrier));
//!         // A server of untrusted clients links the remote span instead: `span.add_link(…)`.
//!         let _ = span.set_parent(remote);
//!     }
//! }
//!
//! set_propagator(OpenTelemetry(TraceContextPropagator::new()));
//! ```
//!
//! A remote context must not decide what is sampled. OpenTelemetry's sampler `ParentBased` follows the remote parent's
//! flag; a server whose clients are not trusted uses `TraceIdRatioBased` or `AlwaysOn`. Baggage is neither sent nor read,
//! unless the application uses [`Meta::set_baggage`](crate::schema::Meta::set_baggage) and
//! [`Meta::baggage`](crate::schema::Meta::baggage).
//!
//! [OpenTelemetry's conventions for MCP]: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md

use alloc::borrow::Cow;
use core::any::Any;
use core::cell::OnceCell;
use core::fmt::Write as _;
use std::sync::OnceLock;

use tracing::Span;
use tracing::field::Empty;

use super::reply::Reply;
use crate::consent::SafeText;
use crate::peer::{Outcome, RequestId, RequestOptions};
use crate::prelude::*;
use crate::redact::url_without_secrets;
use crate::rpc::{Id, Raw, decode_member, read_members};
use crate::schema::{
    CallTool, CallToolParams, CallToolResult, CustomParams, Era, GetPrompt, GetPromptParams, Meta, Method,
    MethodInfo, ReadResource, ReadResourceParams, Revision, SubscribeResource, SubscribeResourceParams,
    TraceContext, UnsubscribeResource, UnsubscribeResourceParams, meta,
};

/// Connects the spans of requests with a distributed trace: see the [module](self).
pub trait Propagator: Send + Sync + 'static {
    /// The trace context of a span, which its request takes along. `None` sends none.
    ///
    /// The span is that of the request; if the subscriber does not record it, the one around it. A request that has a
    /// `traceparent` already keeps it.
    fn inject(&self, span: &Span) -> Option<TraceContext>;

    /// Connects the span of a received request with the context that the request came with, which is the peer's claim.
    ///
    /// It is called before the span is first entered.
    fn extract(&self, span: &Span, context: &TraceContext);
}

static PROPAGATOR: OnceLock<Box<dyn Propagator>> = OnceLock::new();

/// Sets the propagator of all clients and servers of the program. Returns whether it is the first; a later one changes
/// nothing.
pub fn set_propagator(propagator: impl Propagator) -> bool {
    PROPAGATOR.set(Box::new(propagator)).is_ok()
}

/// Creates a span with the fields of all requests.
macro_rules! request_span {
    ($target:literal, $kind:literal, $fields:expr) => {{
        let fields = $fields;
        tracing::info_span!(
            target: $target,
            "mcp.request",
            otel.name = &*fields.span_name(),
            otel.kind = $kind,
            otel.status_code = Empty,
            mcp.method.name = &*shown(fields.method),
            jsonrpc.request.id = fields.id(),
            mcp.protocol.version = fields.revision.map(Revision::as_str),
            era = fields.revision.map(era),
            gen_ai.operation.name = (fields.method == CallTool::NAME).then_some("execute_tool"),
            gen_ai.tool.name = fields.item_of(&[CallTool::NAME]).map(shown).as_deref(),
            gen_ai.prompt.name = fields.item_of(&[GetPrompt::NAME]).map(shown).as_deref(),
            mcp.resource.uri = fields.item_of(&RESOURCE_METHODS).map(shown_uri).as_deref(),
            traceparent = fields.trace_context().map(TraceContext::traceparent),
            outcome = Empty,
            "error.type" = Empty,
            rpc.response.status_code = Empty,
        )
    }};
}

/// The span of a request until its end. Dropped before that, it records that the request was cancelled.
pub(in crate::front) struct RequestSpan {
    span: Span,
    /// Whether the revision is recorded.
    has_revision: bool,
}

impl RequestSpan {
    /// The absent span of work that belongs to no request.
    pub(super) fn none() -> Self {
        Self { span: Span::none(), has_revision: true }
    }

    /// Starts the span of a request that this side makes, and adds its trace context to the request.
    pub(super) fn of_call<M: Method>(
        name: Option<&str>,
        params: &M::Params,
        revision: impl FnOnce() -> Option<Revision>,
        options: &mut RequestOptions,
    ) -> Self {
        let fields =
            RequestFields::new(name.unwrap_or(M::NAME), Params::Own(params), revision(), &|| None, &|_| true);
        let has_revision = fields.revision.is_some();
        let span = request_span!("mcp_proto::client", "client", &fields);
        if let Some(propagator) = PROPAGATOR.get()
            && options.meta.get(meta::TRACEPARENT).is_none()
        {
            let context = match span.is_disabled() {
                true => propagator.inject(&Span::current()),
                false => propagator.inject(&span),
            };
            if let Some(context) = context {
                options.meta.set_trace_context(&context);
            }
        }
        Self { span, has_revision }
    }

    /// Starts the span of a request that this side answers. `serves` tells whether it has a handler for the method, or
    /// for the item that the request names.
    pub(super) fn of_request(
        method: &str,
        params: Option<&Raw>,
        revision: Option<Revision>,
        id: impl Fn() -> Option<Id>,
        serves: impl Fn(Option<&str>) -> bool,
    ) -> Self {
        let fields = RequestFields::new(method, Params::Received(params), revision, &id, &serves);
        let span = request_span!("mcp_proto::server", "server", &fields);
        if let Some(propagator) = PROPAGATOR.get()
            && !span.is_disabled()
            && let Some(context) = fields.trace_context()
        {
            propagator.extract(&span, context);
        }
        Self { span, has_revision: true }
    }

    /// Runs code within the span.
    pub(super) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
        self.span.in_scope(run)
    }

    /// Records the id of a request that was sent, or ends the span of one that was not.
    pub(super) fn record_sent<E>(&mut self, sent: &Result<RequestId, E>) {
        match sent {
            Ok(id) => {
                self.span.record("jsonrpc.request.id", id.number().to_string());
            }
            Err(_) => self.end(&SpanEnd::error("not_sent"), None),
        }
    }

    /// Ends the span of a request of this side.
    pub(super) fn resolve(&mut self, end: &SpanEnd, revision: impl FnOnce() -> Option<Revision>) {
        if !self.span.is_disabled() {
            let revision = if self.has_revision { None } else { revision() };
            self.end(end, revision);
        }
    }

    /// Ends the span of a request that this side has answered.
    pub(super) fn resolve_reply(&mut self, reply: &Reply) {
        if !self.span.is_disabled() {
            self.end(&SpanEnd::of_reply(reply), None);
        }
    }

    fn end(&mut self, end: &SpanEnd, revision: Option<Revision>) {
        let span = core::mem::replace(&mut self.span, Span::none());
        if let Some(revision) = revision {
            span.record("mcp.protocol.version", revision.as_str());
            span.record("era", era(revision));
        }
        span.record("outcome", end.outcome);
        if let Some(error) = &end.error {
            span.record("error.type", &**error);
            span.record("otel.status_code", "ERROR");
        }
        if let Some(code) = end.code {
            span.record("rpc.response.status_code", code.to_string());
        }
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if !self.span.is_disabled() {
            self.span.record("outcome", "cancelled");
        }
    }
}

/// The span in which a handler runs.
#[cfg(feature = "server")]
pub(in crate::front) use tracing::Span as HandlerSpan;

/// How a request ended.
pub(in crate::front) struct SpanEnd {
    outcome: &'static str,
    error: Option<Cow<'static, str>>,
    code: Option<i64>,
}

impl SpanEnd {
    const TOOL_ERROR: Self =
        Self { outcome: "tool_error", error: Some(Cow::Borrowed("tool_error")), code: None };

    const fn plain(outcome: &'static str) -> Self {
        Self { outcome, error: None, code: None }
    }

    const fn error(kind: &'static str) -> Self {
        Self { outcome: "error", error: Some(Cow::Borrowed(kind)), code: None }
    }

    fn code(code: i64) -> Self {
        Self { outcome: "error", error: Some(code.to_string().into()), code: Some(code) }
    }

    /// The end of a request of this side, before its result is decoded.
    pub(super) fn of_outcome(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Result(_) | Outcome::ExtensionResult { .. } => Self::plain("ok"),
            Outcome::InputRequired(_) => Self::plain("input_required"),
            Outcome::Task(_) => Self::plain("task"),
            Outcome::Cancelled => Self::plain("cancelled"),
            Outcome::Error(error) => Self::code(error.code),
            Outcome::Transport(error) => {
                Self { outcome: "error", error: Some(error.status.to_string().into()), code: None }
            }
            Outcome::TimedOut { .. } => Self::error("timeout"),
            Outcome::Lost(_) => Self::error("connection_lost"),
            Outcome::Refused(_) => Self::error("not_sent"),
            Outcome::Invalid(_) => Self::error("invalid_answer"),
            Outcome::Input(_) => Self::error("input_failed"),
            Outcome::TaskCancelled { .. } => Self::error("task_cancelled"),
        }
    }

    /// The same once the result is decoded.
    pub(super) fn decoded<R: 'static, E>(self, answer: &Result<R, E>) -> Self {
        match answer {
            Ok(result) if is_tool_error(result) => Self::TOOL_ERROR,
            Err(_) if self.outcome == "ok" => Self::error("invalid_answer"),
            _ => self,
        }
    }

    fn of_reply(reply: &Reply) -> Self {
        match reply {
            Reply::Result(result) if is_tool_error(result.as_any()) => Self::TOOL_ERROR,
            Reply::Result(_) | Reply::Received(_) => Self::plain("ok"),
            Reply::InputRequired(_) => Self::plain("input_required"),
            Reply::Error(error) | Reply::Denied(error, _) => Self::code(error.code),
            Reply::Detached(_) => Self::plain("task"),
            Reply::Failed(_) => Self::error("not_sent"),
        }
    }
}

fn is_tool_error(result: &dyn Any) -> bool {
    result.downcast_ref::<CallToolResult>().is_some_and(CallToolResult::failed)
}

/// The maximum length of a name in characters, before it is escaped.
const MAX_CHARACTERS: usize = 128;

/// The methods of one resource.
const RESOURCE_METHODS: [&str; 3] = [ReadResource::NAME, SubscribeResource::NAME, UnsubscribeResource::NAME];

/// A request as its span describes it. Nothing is computed for a span that is not recorded.
struct RequestFields<'a> {
    method: &'a str,
    params: Params<'a>,
    revision: Option<Revision>,
    id: &'a dyn Fn() -> Option<Id>,
    /// Whether the method, or the item of the request, exists. Names that a client makes up name no span.
    serves: &'a dyn Fn(Option<&str>) -> bool,
    item: OnceCell<Option<String>>,
    trace: OnceCell<Option<TraceContext>>,
}

/// The parameters of a request.
enum Params<'a> {
    Own(&'a dyn Any),
    Received(Option<&'a Raw>),
}

impl<'a> RequestFields<'a> {
    fn new(
        method: &'a str,
        params: Params<'a>,
        revision: Option<Revision>,
        id: &'a dyn Fn() -> Option<Id>,
        serves: &'a dyn Fn(Option<&str>) -> bool,
    ) -> Self {
        Self { method, params, revision, id, serves, item: OnceCell::new(), trace: OnceCell::new() }
    }

    /// The method with the tool or prompt, as far as they exist.
    fn span_name(&self) -> Cow<'_, str> {
        let exists = MethodInfo::all().any(|info| info.name == self.method) || (self.serves)(None);
        if !exists {
            return Cow::Borrowed("_OTHER");
        }
        let is_named = matches!(self.method, CallTool::NAME | GetPrompt::NAME);
        match self.item().filter(|item| is_named && (self.serves)(Some(item))) {
            Some(item) => Cow::Owned(alloc::format!("{} {}", self.method, shown(item))),
            None => shown(self.method),
        }
    }

    fn id(&self) -> Option<String> {
        (self.id)().map(|id| match id {
            Id::Number(number) => number.to_string(),
            Id::String(text) => shown(&text).into_owned(),
        })
    }

    /// The trace context that a received request came with.
    fn trace_context(&self) -> Option<&TraceContext> {
        let read = || match self.params {
            Params::Received(Some(params)) => {
                let [meta] = read_members(params.as_str(), ["_meta"]).ok()?;
                decode_member::<Meta>(meta)?.trace_context()
            }
            _ => None,
        };
        self.trace.get_or_init(read).as_ref()
    }

    fn item_of(&self, methods: &[&str]) -> Option<&str> {
        if methods.contains(&self.method) { self.item() } else { None }
    }

    /// The name of the tool or prompt, or the URI of the resource.
    fn item(&self) -> Option<&str> {
        self.item.get_or_init(|| self.params.item(self.method)).as_deref()
    }
}

impl Params<'_> {
    fn item(&self, method: &str) -> Option<String> {
        let member = match method {
            CallTool::NAME | GetPrompt::NAME => "name",
            method if RESOURCE_METHODS.contains(&method) => "uri",
            _ => return None,
        };
        match self {
            Self::Received(params) => {
                let [item] = read_members((*params)?.as_str(), [member]).ok()?;
                decode_member(item)
            }
            Self::Own(params) => own_item(*params, member),
        }
    }
}

fn own_item(params: &dyn Any, member: &str) -> Option<String> {
    if let Some(params) = params.downcast_ref::<CustomParams>() {
        return params.extra.get(member)?.decode().ok();
    }
    let typed = None
        .or_else(|| Some(&params.downcast_ref::<CallToolParams>()?.name))
        .or_else(|| Some(&params.downcast_ref::<GetPromptParams>()?.name))
        .or_else(|| Some(&params.downcast_ref::<ReadResourceParams>()?.uri))
        .or_else(|| Some(&params.downcast_ref::<SubscribeResourceParams>()?.uri))
        .or_else(|| Some(&params.downcast_ref::<UnsubscribeResourceParams>()?.uri));
    typed.cloned()
}

fn era(revision: Revision) -> &'static str {
    match revision.era() {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// A name, escaped and cut.
fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |byte| matches!(byte, b' '..=b'~');
    if text.len() <= MAX_CHARACTERS && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let cut = text.char_indices().nth(MAX_CHARACTERS).and_then(|(end, _)| text.get(..end));
    let mut shown = SafeText::line(cut.unwrap_or(text)).to_string();
    if cut.is_some() {
        let _ = shown.write_char('…');
    }
    Cow::Owned(shown)
}

/// A URI without the parts that can hold secrets: user, query and fragment.
fn shown_uri(uri: &str) -> Cow<'_, str> {
    match url_without_secrets(uri) {
        Cow::Borrowed(uri) => shown(uri),
        Cow::Owned(uri) => Cow::Owned(shown(&uri).into_owned()),
    }
}
