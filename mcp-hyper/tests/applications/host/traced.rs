//! Events and spans of a host for the crate `tracing`.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use mcp_hyper::host::{CallError, Host};
use serde_json::json;
use smol::future::or;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};
use tracing_core::span::Current;

use super::testbed::*;
use crate::common::runtime::within;
use crate::common::server::*;

/// Keeps the text of each event of hosts, and the targets of all spans, each with the target of the one around it.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    events: Vec<String>,
    spans: Vec<(&'static str, Option<&'static str>)>,
    metadata: Vec<&'static Metadata<'static>>,
    entered: Vec<usize>,
}

/// Subscribers that stay. With a single one in the program, an event that another thread reports first would be switched
/// off for all threads.
static LASTING: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Recorder::default())));

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.push_str(&format!(" {value:?}")),
            "latency_ms" => self.0.push_str(" latency_ms"),
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

fn position(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

impl Subscriber for Recorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["mcp_hyper::host", "mcp_proto::client", "caller"].contains(&metadata.target())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut state = self.0.lock().unwrap();
        let around = state.entered.last().map(|position| state.spans[*position].0);
        state.spans.push((attributes.metadata().target(), around));
        state.metadata.push(attributes.metadata());
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Text(&mut text));
        self.0.lock().unwrap().events.push(text);
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(position(span));
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.0.lock().unwrap().entered.pop(), Some(position(span)));
    }

    fn current_span(&self) -> Current {
        let state = self.0.lock().unwrap();
        let current =
            |position: &usize| Current::new(Id::from_u64(*position as u64 + 1), state.metadata[*position]);
        state.entered.last().map_or_else(Current::none, current)
    }
}

/// Runs a test beside the driver of its host, on this thread. Returns the events and spans.
fn record(
    host: (Host, impl Future<Output = io::Result<()>>),
    test: impl AsyncFnOnce(Host),
) -> (Vec<String>, Vec<(&'static str, Option<&'static str>)>) {
    LazyLock::force(&LASTING);
    let recorder = Recorder::default();
    tracing::subscriber::with_default(recorder.clone(), || {
        let (host, driver) = host;
        let driver = async {
            within(driver).await.unwrap();
            std::future::pending().await
        };
        bounded(or(test(host), driver));
    });
    let state = recorder.0.lock().unwrap();
    (state.events.clone(), state.spans.clone())
}

#[test]
fn host_traces_statuses_and_calls_without_secrets() {
    let (listener, address) = listener();
    let log = HandlerLog::default();
    let (_server, driver) = serving(router(&log)).listen(listener);
    let _serving = smol::spawn(within(driver));
    let servers = json!({
        "web": { "url": format!("http://{address}/mcp?key=hunter2"), "headers": { "x-key": "hunter2" } },
        "lost": { "command": "/no/such/program", "args": ["hunter2"] },
        "\u{1b}]0;title\u{7}": { "command": "/no/such/program", "disabled": true },
    });
    let (events, _) = record(options(config(servers)).start(), async |host| {
        host.ready().await;
        host.call_tool("mcp__web__echo", json!({ "message": "hunter2" })).await.unwrap();
        assert!(host.call_tool("mcp__web__echo", json!({ "text": "hunter2" })).await.unwrap().failed());
        let wait = host.call_tool("mcp__web__wait", json!({})).timeout(Duration::from_millis(20));
        assert!(matches!(wait.await, Err(CallError::TimedOut)));
        // Dropped before its answer.
        let (wait, begun) = (host.call_tool("mcp__web__wait", json!({})), log.begun_calls());
        or(async { drop(wait.await) }, until("the handler runs", || log.begun_calls() > begun)).await;
        host.close().await;
    });
    for expected in [
        r#"INFO server status server="web" status="starting""#,
        r#"INFO server status server="web" status="connected""#,
        r#"WARN server status server="lost" status="failed" error.type="permanent""#,
        r#"DEBUG call ended server="web" mcp.method.name="tools/call" gen_ai.tool.name="echo" latency_ms outcome="ok""#,
        r#"DEBUG call ended server="web" mcp.method.name="tools/call" gen_ai.tool.name="echo" latency_ms outcome="tool_error""#,
        r#"INFO call ended server="web" mcp.method.name="tools/call" gen_ai.tool.name="wait" latency_ms outcome="error" phase="sent""#,
        r#"INFO call ended server="web" mcp.method.name="tools/call" gen_ai.tool.name="wait" latency_ms outcome="cancelled" phase="sent""#,
    ] {
        assert!(events.iter().any(|event| event == expected), "{expected}: {events:#?}");
    }
    for event in &events {
        assert!(!event.contains("hunter2") && !event.contains('\u{1b}'), "{event}");
    }
}

#[test]
fn request_of_a_call_is_within_the_span_of_its_caller() {
    let folder = Folder::new();
    let (_, spans) = record(options(config(json!({ "one": folder.demo("one") }))).start(), async |host| {
        host.ready().await;
        let caller = tracing::info_span!(target: "caller", "caller");
        let call = async { host.call_tool("mcp__one__add", json!({ "a": 1, "b": 2 })).await.unwrap() };
        tracing::Instrument::instrument(call, caller).await;
        host.close().await;
    });
    let of_caller: Vec<_> = spans.iter().filter(|(_, around)| *around == Some("caller")).collect();
    assert_eq!(of_caller, [&("mcp_proto::client", Some("caller"))], "{spans:?}");
    // The host's own requests, for lists, belong to no caller.
    assert!(spans.contains(&("mcp_proto::client", None)), "{spans:?}");
}
