//! A host's events for the subscribers of the crate `tracing`.

use std::time::Duration;

use mcp_proto::consent::SafeText;
use mcp_proto::host::control::{FailureKind, Status};
use mcp_proto::schema::{Era, TraceContext};
use tracing::instrument::Instrumented;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, Level, Span, event};

use super::events::{CallEnd, CallPhase, HostEvent, ServerReport};

/// The maximum length of a name in characters, before it is escaped.
const MAX_CHARACTERS: usize = 128;

macro_rules! host_event {
    ($level:expr, $($fields:tt)*) => {
        event!(target: "mcp_hyper::host", $level, $($fields)*)
    };
}

/// Events to trace, once no lock is held.
#[derive(Default)]
pub(super) struct TracedEvents(Vec<HostEvent>);

impl TracedEvents {
    pub(super) fn push(&mut self, event: &HostEvent) {
        let is_traced = matches!(
            event,
            HostEvent::DriverNotPolled
                | HostEvent::Status { .. }
                | HostEvent::Connected { .. }
                | HostEvent::CallEnded { .. }
        );
        if is_traced && LevelFilter::current() != LevelFilter::OFF {
            self.0.push(event.clone());
        }
    }

    pub(super) fn emit(self) {
        for event in self.0 {
            match event {
                HostEvent::DriverNotPolled => {
                    host_event!(Level::WARN, "the driver of the host is not polled: spawn it on an executor");
                }
                HostEvent::Status { server, status, failure } => {
                    trace_status(&server, status, failure.map(|failure| failure.kind));
                }
                HostEvent::Connected { report, .. } => trace_connection(&report),
                HostEvent::CallEnded { server, method, item, meta, latency, end } => {
                    let trace = meta.and_then(|meta| meta.trace_context());
                    trace_call(&server, method, item.as_deref(), trace, latency, &end);
                }
                _ => {}
            }
        }
    }
}

fn trace_status(server: &str, status: Option<Status>, failure: Option<FailureKind>) {
    let server = shown(server);
    let is_bad = matches!(status, Some(Status::Failed | Status::Suspended | Status::NeedsAuthorization));
    let is_connected = status == Some(Status::Connected);
    let error = failure.filter(|_| !is_connected).map(|kind| match kind {
        FailureKind::Transient => "transient",
        FailureKind::Permanent => "permanent",
        FailureKind::NeedsAuthorization => "needs_authorization",
    });
    let status = status.map_or_else(|| "removed".to_owned(), |status| status.to_string());
    if is_bad {
        host_event!(Level::WARN, server, status, "error.type" = error, "server status");
    } else {
        host_event!(Level::INFO, server, status, "error.type" = error, "server status");
    }
}

fn trace_connection(report: &ServerReport) {
    let server = shown(&report.name);
    let info = report.info.as_deref();
    let described = info.and_then(|info| info.implementation.as_ref());
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    host_event!(
        Level::INFO,
        server,
        transport = report.entry.spec().transport.name(),
        era = info.map(|info| if info.era == Era::Modern { "modern" } else { "legacy" }),
        mcp.protocol.version = info.map(|info| info.revision.as_str()),
        server.name = described.map(|server| shown(&server.name)),
        server.version = described.map(|server| shown(&server.version)),
        tools = report.items.tools,
        start_ms = report.start_time.map(milliseconds),
        "server connected"
    );
}

fn trace_call(
    server: &str,
    method: &str,
    item: Option<&str>,
    trace: Option<TraceContext>,
    latency: Duration,
    end: &CallEnd,
) {
    let server = shown(server);
    // URIs can hold secrets. The span of the request has a URI without its secret parts.
    let named = |of: &str| item.filter(|_| method == of).map(shown);
    let (tool, prompt) = (named("tools/call"), named("prompts/get"));
    let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    let (outcome, phase) = match end {
        CallEnd::Answered => ("ok", None),
        CallEnd::ToolFailed => ("tool_error", None),
        CallEnd::Cancelled { phase } => ("cancelled", Some(phase)),
        CallEnd::Failed { phase, .. } => ("error", Some(phase)),
    };
    let phase = phase.map(|phase| match phase {
        CallPhase::Waiting => "waiting",
        CallPhase::Sent => "sent",
    });
    macro_rules! call_ended {
        ($level:expr) => {
            host_event!(
                $level,
                server,
                mcp.method.name = method,
                gen_ai.tool.name = tool,
                gen_ai.prompt.name = prompt,
                traceparent = trace.as_ref().map(TraceContext::traceparent),
                latency_ms,
                outcome,
                phase,
                "call ended"
            )
        };
    }
    if phase.is_some() { call_ended!(Level::INFO) } else { call_ended!(Level::DEBUG) }
}

/// A name, escaped and cut.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{}…", SafeText::line(start)),
        None => SafeText::line(text).to_string(),
    }
}

/// The span in which a call was made: the host's driver sends its request within it.
pub(super) struct CallerSpan(Span);

impl CallerSpan {
    pub(super) fn current() -> Self {
        Self(Span::current())
    }

    pub(super) fn surround<F: Future>(&self, request: F) -> Instrumented<F> {
        request.instrument(self.0.clone())
    }
}
