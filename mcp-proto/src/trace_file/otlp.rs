//! The requests of a trace as spans of OpenTelemetry.

use core::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::report::{RequestOutcome, TraceReport, TracedConnection, TracedRequest};
use super::{Finding, Sender, Trace};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::redact::url_without_secrets;
use crate::rpc::Id;
use crate::schema::{Meta, Revision, TraceContext};

/// The numbers of the protocol's enumerations.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;

/// Writes the spans: see [`Trace::to_otlp`].
pub(super) fn spans(trace: &Trace, report: &TraceReport) -> Value {
    let spans = Spans::new(trace, report);
    let connections = report.connections.iter().map(|it| spans.of_connection(it));
    let requests = report.requests.iter().zip(1..).filter_map(|(it, place)| spans.of_request(it, place));
    let (name, version) = trace.header.program_and_version();
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes([("service.name", name.into()), ("service.version", version.into())]) },
        "scopeSpans": [{
            "scope": { "name": "mcp_proto::trace_file", "version": env!("CARGO_PKG_VERSION") },
            "spans": connections.chain(requests).collect::<Vec<_>>(),
        }],
    }]})
}

struct Spans<'a> {
    trace: &'a Trace,
    /// The connections by number, with the times of their first and last records.
    connections: OrderedMap<u64, (&'a TracedConnection, Duration, Duration)>,
    /// The findings on each connection.
    findings: OrderedMap<u64, Vec<&'a Finding>>,
}

impl<'a> Spans<'a> {
    fn new(trace: &'a Trace, report: &'a TraceReport) -> Self {
        let mut times = OrderedMap::new();
        for record in &trace.records {
            times.entry(record.connection).or_insert((record.at(), record.at())).1 = record.at();
        }
        let connections = report.connections.iter().map(|it| {
            let (first, last) = times.get(&it.number).copied().unwrap_or_default();
            (it.number, (it, first, last))
        });
        let mut findings: OrderedMap<u64, Vec<_>> = OrderedMap::new();
        for finding in &report.findings {
            findings.entry(finding.connection).or_default().push(finding);
        }
        Self { trace, connections: connections.collect(), findings }
    }

    /// The span that holds the requests of a connection that name no parent, with what was found as events.
    fn of_connection(&self, connection: &TracedConnection) -> Value {
        let (first, last) = self.times(connection.number);
        let found = self.findings.get(&connection.number).into_iter().flatten();
        let server = Some(&*connection.server).filter(|server| !server.is_empty());
        let name =
            server.map_or_else(|| "mcp connection".to_owned(), |server| format!("mcp connection {server}"));
        json!({
            "traceId": self.trace_id(connection.number),
            "spanId": self.span_id(connection.number, 0),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": self.nanos(first),
            "endTimeUnixNano": self.nanos(last),
            "attributes": attributes(transport(connection)),
            "events": found.map(|it| self.event(it)).collect::<Vec<_>>(),
        })
    }

    fn event(&self, finding: &Finding) -> Value {
        json!({
            "timeUnixNano": self.nanos(finding.at),
            "name": "mcp.broken_requirement",
            "attributes": attributes([
                ("requirement", finding.breach.row(finding.sender).into()),
                ("page", finding.breach.page().into()),
                ("sender", side(finding.sender).into()),
                ("message", format!("{}: {}", finding.breach, finding.detail)),
            ]),
        })
    }

    fn of_request(&self, request: &TracedRequest, place: u64) -> Option<Value> {
        let (connection, ..) = self.connections.get(&request.connection)?;
        let context = trace_context(request);
        let (trace, parent) = match &context {
            Some(context) => (context.trace_id().to_owned(), context.parent_id().to_owned()),
            None => (self.trace_id(request.connection), self.span_id(request.connection, 0)),
        };
        let end = request.end.unwrap_or_else(|| self.times(request.connection).1);
        let mut span = json!({
            "traceId": trace,
            "spanId": self.span_id(request.connection, place),
            "parentSpanId": parent,
            "name": name(request),
            "kind": CLIENT,
            "startTimeUnixNano": self.nanos(request.start),
            "endTimeUnixNano": self.nanos(end),
            "attributes": attributes(transport(connection).chain(of_request(request))),
            "status": status(request),
        });
        let state = context.as_ref().and_then(TraceContext::tracestate);
        if let Some((span, state)) = span.as_object_mut().zip(state) {
            span.insert("traceState".to_owned(), state.into());
        }
        Some(span)
    }

    /// The times of the first and the last record of a connection.
    fn times(&self, connection: u64) -> (Duration, Duration) {
        self.connections.get(&connection).map(|(_, first, last)| (*first, *last)).unwrap_or_default()
    }

    fn nanos(&self, at: Duration) -> String {
        (self.trace.header.started() + at).since_epoch().as_nanos().to_string()
    }

    /// Ids are digests of where a span is in the trace: the spans of one file are always the same.
    fn trace_id(&self, connection: u64) -> String {
        format!("{:016x}{:016x}", self.digest("trace", connection, 0), self.digest("trace", connection, 1))
    }

    fn span_id(&self, connection: u64, place: u64) -> String {
        format!("{:016x}", self.digest("span", connection, place))
    }

    /// FNV-1a, which is never zero here: zero is no id.
    fn digest(&self, kind: &str, connection: u64, place: u64) -> u64 {
        let numbers = [connection.to_le_bytes(), place.to_le_bytes()].concat();
        let bytes = self.trace.header.to_line().into_iter().chain(kind.bytes()).chain(numbers);
        let step = |digest: u64, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        bytes.fold(0xcbf2_9ce4_8422_2325, step).max(1)
    }
}

/// The span of a distributed trace that a request says it belongs to.
fn trace_context(request: &TracedRequest) -> Option<TraceContext> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    request.params.as_ref()?.decode::<Params>().ok()?.meta.trace_context()
}

/// The name of a span has no URI, of which there may be any number.
fn name(request: &TracedRequest) -> String {
    match request.name.as_deref().filter(|_| ITEMS.iter().any(|(method, _)| *method == request.method)) {
        Some(item) => format!("{} {item}", request.method),
        None => request.method.clone(),
    }
}

/// The methods that name something, and the attribute that has its name.
const ITEMS: [(&str, &str); 2] = [("tools/call", "gen_ai.tool.name"), ("prompts/get", "gen_ai.prompt.name")];

fn transport(connection: &TracedConnection) -> impl Iterator<Item = (&'static str, String)> {
    let (transport, protocol) = match &*connection.transport {
        "stdio" => (Some("pipe"), None),
        "stdio-v2" => (Some("pipe"), Some("http")),
        "http" => (Some("tcp"), Some("http")),
        "websocket" => (Some("tcp"), Some("websocket")),
        _ => (None, None),
    };
    let all = [
        ("network.transport", transport),
        ("network.protocol.name", protocol),
        ("mcp.protocol.version", connection.revision.map(Revision::as_str)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?.to_owned())))
}

fn of_request(request: &TracedRequest) -> impl Iterator<Item = (&'static str, String)> {
    let item = |method: &str| request.name.clone().filter(|_| request.method == method);
    let uri = request.name.as_deref().filter(|_| request.method.starts_with("resources/"));
    let id = match &request.id {
        Id::Number(id) => id.to_string(),
        Id::String(id) => id.to_string(),
    };
    let (outcome, error, code) = match &request.outcome {
        RequestOutcome::Answered => ("ok", None, None),
        RequestOutcome::ToolFailed => ("tool_error", Some("tool_error".to_owned()), None),
        RequestOutcome::InputRequired => ("input_required", None, None),
        RequestOutcome::Refused { code, .. } => ("error", Some(code.to_string()), Some(code.to_string())),
        RequestOutcome::Cancelled => ("cancelled", None, None),
        RequestOutcome::Unanswered => ("no_answer", Some("no_answer".to_owned()), None),
    };
    let [tool, prompt] = ITEMS.map(|(method, key)| (key, item(method)));
    let operation = (request.method == "tools/call").then(|| "execute_tool".to_owned());
    let all = [
        ("mcp.method.name", Some(request.method.clone())),
        ("jsonrpc.request.id", Some(id)),
        ("gen_ai.operation.name", operation),
        tool,
        prompt,
        ("mcp.resource.uri", uri.map(|uri| url_without_secrets(uri).into_owned())),
        ("error.type", error),
        ("rpc.response.status_code", code),
        ("outcome", Some(outcome.to_owned())),
        ("sender", Some(side(request.sender).to_owned())),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?)))
}

fn status(request: &TracedRequest) -> Value {
    match &request.outcome {
        RequestOutcome::Refused { message, .. } => json!({ "code": ERROR, "message": message }),
        RequestOutcome::ToolFailed | RequestOutcome::Unanswered => {
            json!({ "code": ERROR, "message": request.outcome.to_string() })
        }
        _ => json!({}),
    }
}

fn side(sender: Sender) -> &'static str {
    match sender {
        Sender::Client => "client",
        Sender::Server => "server",
    }
}

fn attributes(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Vec<Value> {
    pairs.into_iter().map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixTime;
    use crate::trace_file::{TraceEvent, TraceHeader, TraceRecord, TracedFrame};

    /// The spans of a connection on standard streams, each message a microsecond after the one before.
    fn spans(messages: &[(Sender, &str)]) -> Vec<Value> {
        let opened = TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() };
        let messages = messages.iter().map(|(from, text)| TraceEvent::Message {
            from: *from,
            exchange: None,
            frame: TracedFrame::new(*text, text.len()),
        });
        let record = |(event, at)| TraceRecord::new(Duration::from_micros(at), 1, event);
        let header = TraceHeader::new("my agent 1.0", UnixTime::from_epoch(Duration::from_millis(5)), true);
        let records = [opened].into_iter().chain(messages).zip(0..).map(record).collect();
        let exported = Trace { header, records, unread: Vec::new() }.to_otlp();
        let resource = &exported["resourceSpans"][0];
        assert_eq!(attribute(&resource["resource"], "service.name"), "my agent");
        resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    }

    fn attribute<'a>(of: &'a Value, key: &str) -> &'a Value {
        let found = of["attributes"].as_array().unwrap().iter().find(|it| it["key"] == key);
        found.map_or(&Value::Null, |it| &it["value"]["stringValue"])
    }

    const C: Sender = Sender::Client;
    const S: Sender = Sender::Server;

    #[test]
    fn each_request_is_a_span_of_its_connection() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let call =
            format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"add",{meta}}}}}"#);
        let read = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{{"uri":"demo://a?key=1",{meta}}}}}"#
        );
        let spans = spans(&[
            (C, &call),
            (C, &read),
            (S, r#"{"jsonrpc":"2.0","id":"a","result":{"content":[],"isError":true}}"#),
            (S, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"no such resource"}}"#),
            (S, "noise"),
        ]);
        let [connection, call, read] = &*spans else { panic!("{spans:?}") };
        assert_eq!((&connection["name"], &connection["kind"]), (&json!("mcp connection demo"), &json!(1)));
        assert_eq!(connection["endTimeUnixNano"], "5005000");
        assert_eq!(attribute(connection, "mcp.protocol.version"), "2026-07-28");
        assert_eq!(attribute(&connection["events"][0], "requirement"), "S2.1");

        assert_eq!((&call["name"], &call["kind"]), (&json!("tools/call add"), &json!(3)));
        assert_eq!(
            (&call["traceId"], &call["parentSpanId"]),
            (&connection["traceId"], &connection["spanId"])
        );
        assert_eq!(
            (&call["startTimeUnixNano"], &call["endTimeUnixNano"]),
            (&json!("5001000"), &json!("5003000"))
        );
        let expected = [
            ("mcp.method.name", "tools/call"),
            ("jsonrpc.request.id", "a"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "add"),
            ("network.transport", "pipe"),
            ("error.type", "tool_error"),
        ];
        for (key, value) in expected {
            assert_eq!(attribute(call, key), value, "{key}");
        }
        assert_eq!(read["name"], "resources/read");
        assert_eq!(attribute(read, "mcp.resource.uri"), "demo://a");
        assert_eq!(attribute(read, "rpc.response.status_code"), "-32002");
        assert_eq!(read["status"], json!({ "code": 2, "message": "no such resource" }));
    }

    #[test]
    fn parent_is_the_span_that_the_request_names() {
        let request = |id, parent| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"_meta":{{"traceparent":"{parent}","tracestate":"a=1"}}}}}}"#
            )
        };
        let named = request(1, "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01");
        let broken = request(2, "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01");
        let spans = spans(&[(C, &named), (C, &broken)]);
        assert_eq!(spans[1]["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(spans[1]["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!(spans[1]["traceState"], "a=1");
        assert_eq!(spans[2]["parentSpanId"], spans[0]["spanId"]);
        // Neither has an answer: they last as long as the trace.
        assert_eq!(
            (&spans[1]["status"]["code"], &spans[1]["endTimeUnixNano"]),
            (&json!(2), &json!("5002000"))
        );
    }

    #[test]
    fn ids_have_their_lengths_and_differ() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let spans = spans(&[(C, ping), (S, ping)]);
        let ids: alloc::collections::BTreeSet<_> =
            spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 3);
        assert!(ids.iter().all(|id| id.len() == 16));
        assert_eq!(spans[0]["traceId"].as_str().unwrap().len(), 32);
    }
}
