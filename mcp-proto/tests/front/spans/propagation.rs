//! Trace contexts between the spans of both sides.

use std::cell::RefCell;

use mcp_proto::front::trace::{Propagator, set_propagator};
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::schema::TraceContext;
use mcp_proto::testing::pair;
use serde_json::json;
use tracing::Span;

use super::subscriber::Recorder;
use super::{CLIENT, SERVER, tool};

thread_local! {
    /// The context to send, while a test of this thread uses the propagator, and its calls.
    static SENT: RefCell<Option<TraceContext>> = const { RefCell::new(None) };
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
const OTHER: &str = "00-1bf7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";

struct TestPropagator;

impl Propagator for TestPropagator {
    fn inject(&self, span: &Span) -> Option<TraceContext> {
        let context = SENT.with_borrow(Clone::clone)?;
        let target = span.metadata().map_or("none", |metadata| metadata.target());
        CALLS.with_borrow_mut(|calls| calls.push(format!("inject {target}")));
        Some(context)
    }

    fn extract(&self, span: &Span, context: &TraceContext) {
        let target = span.metadata().map_or("none", |metadata| metadata.target());
        let state = context.tracestate().unwrap_or("no state");
        CALLS.with_borrow_mut(|calls| {
            calls.push(format!("extract {target} {} {state}", context.traceparent()))
        });
    }
}

fn router() -> Router {
    Router::new("a", "1").tool_with(tool("trace"), async |NoArguments {}, cx: Context| {
        cx.trace_context().map_or("none".to_owned(), |context| context.traceparent().to_owned())
    })
}

#[test]
fn received_trace_context_is_a_field_of_the_span() {
    let context = TraceContext::new(PARENT).unwrap();
    let (_, recorder) = Recorder::record(|| {
        pair(router()).run(async |client| {
            let seen = client.call_tool("trace", json!({})).trace_context(context.clone()).await.unwrap();
            assert_eq!(seen.text_content(), PARENT);
        });
    });
    assert_eq!(recorder.only(SERVER, "tools/call").get("traceparent"), Some(PARENT));
    assert_eq!(recorder.only(CLIENT, "tools/call").get("traceparent"), None);
}

#[test]
fn propagator_connects_the_spans_of_both_sides() {
    set_propagator(TestPropagator);
    assert!(!set_propagator(TestPropagator), "the first propagator stays");
    SENT.set(Some(TraceContext::new(PARENT).unwrap().with_state("a=1").unwrap()));
    let (_, recorder) = Recorder::record(|| {
        pair(router()).run(async |client| {
            let seen = client.call_tool("trace", json!({})).await.unwrap();
            assert_eq!(seen.text_content(), PARENT);
            // A context that the caller has set stays.
            let own = TraceContext::new(OTHER).unwrap();
            let seen = client.call_tool("trace", json!({})).trace_context(own).await.unwrap();
            assert_eq!(seen.text_content(), OTHER);
        });
    });
    assert_eq!(recorder.spans().len(), 4);
    let expected = [
        "inject mcp_proto::client".to_owned(),
        format!("extract mcp_proto::server {PARENT} a=1"),
        format!("extract mcp_proto::server {OTHER} no state"),
    ];
    assert_eq!(CALLS.take(), expected);
    SENT.set(None);
}

#[test]
fn propagator_without_a_recorded_span_uses_the_one_around_it() {
    set_propagator(TestPropagator);
    SENT.set(Some(TraceContext::new(PARENT).unwrap()));
    Recorder::ignore(|| {
        pair(router()).run(async |client| {
            assert_eq!(client.call_tool("trace", json!({})).await.unwrap().text_content(), PARENT);
        });
    });
    assert_eq!(CALLS.take(), ["inject none"]);
    SENT.set(None);
}
