//! A recorded server that answers again, and its clients' requests that are made again.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::UnixTime;
use mcp_proto::front::{
    Client, ClientHandlers, Context, Error, Event, HandlerError, HandlerMode, NoArguments, Progress, Replay,
    ReplayOutcome, ReplayReport, Router,
};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitSchema, Json, LoggingLevel,
    Map, PromptReference, Resource, SamplingMessage, ServerCapability, Tool,
};
use mcp_proto::testing::{self, RouterPair};
use mcp_proto::trace_file::{Recording, Sender, Trace, TraceEvent, TraceHeader, TraceRecord, TracedFrame};
use serde_json::{Value, json};

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

/// A server whose answers change, that asks for input, reports progress, logs and fails.
fn server() -> Router {
    let count = Arc::new(AtomicU32::new(0));
    Router::new("recorded", "1.2.3")
        .instructions("Ask it twice.")
        .declare(ServerCapability::Logging)
        .page_size(2)
        .tool_with(tool("count"), move |NoArguments {}, _| {
            let count = count.fetch_add(1, Ordering::Relaxed);
            async move { count.to_string() }
        })
        .tool_with(tool("add"), async |sum: Value, cx: Context| {
            cx.progress(Progress::new(1).total(2).message("adding"));
            cx.log(LoggingLevel::Warning, "sums are hard");
            (sum["a"].as_i64().unwrap() + sum["b"].as_i64().unwrap()).to_string()
        })
        .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let form = ElicitParams::form("Are you sure?", ElicitSchema::empty());
            let answer = cx.elicit("sure", form).await?;
            let question = CreateMessageParams::new(vec![SamplingMessage::user("Why?")], 100_u64);
            let reason = cx.sample("why", question).await?;
            Ok::<_, HandlerError>(format!("{}: {}", answer.action, reason.content.text_content()))
        })
        .tool_with(tool("fail"), async |NoArguments {}, _| Err::<String, _>(HandlerError::new("it failed")))
        .tool_with(tool("never"), async |NoArguments {}, _| core::future::pending::<()>().await)
        .resource(Resource::new("demo://a", "a"), async |_, _| "the text")
}

fn with_handlers<M: HandlerMode>(pair: RouterPair<M>) -> RouterPair<M> {
    pair.handlers(
        ClientHandlers::new()
            .elicitation(async |_, _| ElicitResult::accept(Map::new()))
            .sampling(async |_, _| CreateMessageResult::text("because", "model")),
    )
}

/// The messages of a pair as a trace.
fn trace<M: HandlerMode>(pair: &RouterPair<M>) -> Trace {
    let transcript = pair.transcript();
    let messages = transcript.lines().zip(1_u64..).map(|(line, at)| {
        let mut parts = line.splitn(3, ' ').skip(1);
        let from = if parts.next() == Some(">") { Sender::Client } else { Sender::Server };
        let text = parts.next().unwrap();
        let event = TraceEvent::Message { from, exchange: None, frame: TracedFrame::new(text, text.len()) };
        TraceRecord::new(Duration::from_millis(at), 1, event)
    });
    let opened = TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() };
    let opened = TraceRecord::new(Duration::ZERO, 1, opened);
    let mut file = TraceHeader::new("test", UnixTime::EPOCH, true).to_line();
    file.extend([opened].into_iter().chain(messages).flat_map(|record| record.to_line()));
    Trace::parse(&file).unwrap()
}

/// A trace of these messages.
fn trace_of(messages: &[(Sender, &str)]) -> Trace {
    let records = messages.iter().map(|(from, text)| {
        let frame = TracedFrame::new(*text, text.len());
        let event = TraceEvent::Message { from: *from, exchange: None, frame };
        TraceRecord::new(Duration::ZERO, 1, event).to_line()
    });
    let header = TraceHeader::new("test", UnixTime::EPOCH, true).to_line();
    Trace::parse(&[header, records.flatten().collect()].concat()).unwrap()
}

/// What a client learns from the server, but for what it never answers.
async fn session(client: Client) -> Vec<String> {
    let mut seen = Vec::new();
    let server = client.ready().await.unwrap();
    seen.push(format!("{:?} {:?}", server.implementation.as_ref().map(|it| &it.name), server.instructions));
    let tools = client.list_tools().await.unwrap();
    seen.extend(tools.into_iter().map(|tool| tool.name));
    let progress = Arc::new(Mutex::new(Vec::new()));
    let reports = progress.clone();
    let mut events = client.events();
    let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).log_level(LoggingLevel::Info);
    let sum = sum.on_progress(move |report| reports.lock().unwrap().push(format!("{report:?}")));
    seen.push(sum.await.unwrap().text_content());
    seen.append(&mut progress.lock().unwrap().iter().map(|it| it.contains("adding").to_string()).collect());
    if let Some(Event::Notification(log)) = events.next().await {
        seen.push(log.params.unwrap().as_str().contains("sums are hard").to_string());
    }
    for name in ["count", "ask", "count", "fail"] {
        seen.push(client.call_tool(name, json!({})).await.unwrap().text_content());
    }
    seen.push(format!("{:?}", client.read_resource("demo://a").await.unwrap().contents));
    let missing = client.read_resource("demo://b").await.unwrap_err();
    let Error::Peer(missing) = missing else { panic!("{missing}") };
    // Its code belongs to the era.
    seen.push(missing.message);
    seen
}

/// A session recorded in the one era or the other.
fn recorded(legacy: bool) -> (Vec<String>, Trace) {
    let pair = with_handlers(testing::pair(server()));
    let mut pair = if legacy { pair.legacy() } else { pair };
    let seen = pair.run(session);
    let never = pair.run(async |client| client.call_tool("never", json!({})).await);
    assert!(matches!(never, Err(Error::TimedOut { .. })));
    (seen, trace(&pair))
}

#[test]
fn recorded_server_answers_clients_of_each_era_as_it_did() {
    for was_legacy in [true, false] {
        let (seen, trace) = recorded(was_legacy);
        let router = || Recording::new(&trace, Some("demo")).unwrap().router();
        router().check().unwrap();
        let pairs = [
            testing::pair(router()),
            testing::pair(router()).legacy(),
            testing::pair(router()).http(),
            testing::pair(router()).http().legacy(),
        ];
        for (number, pair) in pairs.into_iter().enumerate() {
            let mut pair = with_handlers(pair);
            assert_eq!(pair.run(session), seen, "recorded legacy: {was_legacy}, pair {number}");
            let again = pair.run(async |client| client.call_tool("count", json!({})).await).unwrap();
            assert_eq!(again.text_content(), "1", "the last answer, again");
            let never = pair.run(async |client| client.call_tool("never", json!({})).await);
            assert!(matches!(never, Err(Error::TimedOut { .. })));
        }
    }
}

#[test]
fn recorded_server_says_what_the_recording_lacks() {
    let mut pair = testing::pair(Recording::new(&recorded(true).1, None).unwrap().router());
    let unknown = pair.run(async |client| client.call_tool("add", json!({ "b": 3, "a": 9 })).await);
    let Err(Error::Peer(error)) = unknown else { panic!("{unknown:?}") };
    assert_eq!(error.code, code::INVALID_PARAMS);
    assert!(
        error.message.starts_with("the recording lacks tools/call {") && error.message.contains("it has {")
    );
    // The order of members does not count.
    pair.run(async |client| client.call_tool("add", json!({ "b": 3, "a": 2 })).await).unwrap();
    let complete = pair.run(async |client| client.complete(PromptReference::new("x"), "a", "").await);
    assert!(complete.is_err());
    let templates = pair.run(async |client| client.list_resource_templates().await).unwrap_err();
    assert!(templates.to_string().contains("no request of this method"), "{templates}");
}

#[test]
fn recording_is_of_one_server() {
    let opened = |connection, server: &str| {
        let event = TraceEvent::Opened { server: server.into(), transport: "stdio".into() };
        TraceRecord::new(Duration::ZERO, connection, event).to_line()
    };
    let header = TraceHeader::new("test", UnixTime::EPOCH, true).to_line();
    let parse = |lines: &[Vec<u8>]| Trace::parse(&[&*header, &*lines.concat()].concat()).unwrap();
    let two = parse(&[opened(1, "a"), opened(2, "b"), opened(3, "a")]);
    assert!(Recording::new(&two, Some("a")).is_ok());
    let message = |trace: &Trace, name| Recording::new(trace, name).unwrap_err().to_string();
    assert_eq!(message(&two, None), "the trace has several servers, name one: a, b");
    assert_eq!(message(&two, Some("c")), "the trace has no server \"c\", but a, b");
    assert_eq!(message(&parse(&[]), None), "the trace has no connection to a server");
}

#[test]
fn call_that_became_a_task_is_answered_by_its_result() {
    let lines = [
        (
            Sender::Client,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bake","task":{}}}"#,
        ),
        (Sender::Server, r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#),
        (Sender::Client, r#"{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t"}}"#),
        (Sender::Server, r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"bread"}]}}"#),
    ];
    let trace = trace_of(&lines);
    let mut pair = testing::pair(Recording::new(&trace, None).unwrap().router());
    let bread = pair.run(async |client| client.call_tool("bake", json!({})).await).unwrap();
    assert_eq!(bread.text_content(), "bread");
}

/// A session with what a client of 2026-07-28 and an older one can both do.
fn replayed(router: Router, recording: &Recording, legacy: bool, replay: &Replay) -> ReplayReport {
    let pair = testing::pair(router).handlers(recording.client_handlers());
    let mut pair = if legacy { pair.legacy() } else { pair };
    pair.run(async |client| replay.run(&client).await)
}

#[test]
fn replay_finds_the_same_answers_in_each_era() {
    for was_legacy in [true, false] {
        let recording = Recording::new(&recorded(was_legacy).1, None).unwrap();
        for legacy in [true, false] {
            let replay = recording.replay().all_calls();
            let report = replayed(server(), &recording, legacy, &replay);
            assert!(report.is_same(), "recorded legacy: {was_legacy}, live legacy: {legacy}: {report}");
            let played =
                replayed(recording.router(), &recording, legacy, &recording.replay().to_recorded_server());
            assert!(played.is_same(), "{played}");
            let asked = |report: &ReplayReport| {
                report
                    .calls
                    .iter()
                    .filter(|it| it.outcome == ReplayOutcome::Same && it.method == "tools/call")
                    .count()
            };
            assert_eq!((asked(&report), asked(&played)), (5, 5), "{report}");
        }
    }
}

#[test]
fn replay_only_reads_unless_calls_are_allowed() {
    let recording = Recording::new(&recorded(false).1, None).unwrap();
    let made = |replay: &Replay| {
        let report = replayed(server(), &recording, false, replay);
        let calls = report.calls.into_iter().filter(|it| it.method == "tools/call");
        calls.filter(|it| it.outcome == ReplayOutcome::Same).map(|it| it.name.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(made(&recording.replay()), [""; 0]);
    assert_eq!(made(&recording.replay().call("add")), ["add"]);
    assert_eq!(made(&recording.replay().read_only_calls()), [""; 0]);
}

#[test]
fn replay_tells_other_answers_and_what_it_leaves_out() {
    let recording = Recording::new(&recorded(true).1, None).unwrap();
    let other = server().instructions("Ask it once.").tool_with(tool("new"), async |NoArguments {}, _| "new");
    let report = replayed(other.clone(), &recording, true, &recording.replay().all_calls());
    assert!(!report.is_same());
    let text = report.to_string();
    for line in [
        "initialize: /result/instructions: recorded \"Ask it twice.\", now \"Ask it once.\"",
        "tools/list: /result/tools/1: recorded nothing, now {",
        "tools/call never: not made: it was not answered",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let replay = recording.replay().ignore("/result/instructions").ignore("/result/tools/*");
    let report = replayed(other, &recording, true, &replay);
    assert!(report.is_same(), "{report}");
}

/// A server of others may leave out what ours always says, and the other way round.
#[test]
fn result_without_a_time_to_live_means_the_same_as_one_that_expires_at_once() {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    for (hints, differs) in [
        (r#""cacheScope":"public""#, false),
        (r#""ttlMs":0"#, false),
        (r#""ttlMs":0,"cacheScope":"public""#, false),
        (r#""ttlMs":60000"#, true),
    ] {
        let result =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","tools":[],{hints}}}}}"#);
        let recording =
            Recording::new(&trace_of(&[(Sender::Client, request), (Sender::Server, &result)]), None).unwrap();
        let live = Router::new("x", "1").declare(ServerCapability::Tools);
        let report = replayed(live, &recording, false, &recording.replay());
        assert_eq!(!report.is_same(), differs, "{hints}: {report}");
        let played = replayed(recording.router(), &recording, false, &recording.replay());
        assert!(played.is_same(), "{hints}: {played}");
    }
}

#[test]
fn replay_never_sends_what_is_hidden() {
    let lines = [
        (
            Sender::Client,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"key":"[redacted]"}}}"#,
        ),
        (
            Sender::Server,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[redacted]"}]}}"#,
        ),
    ];
    let trace = trace_of(&lines);
    let recording = Recording::new(&trace, None).unwrap();
    let router = Router::new("echo", "1").tool_with(tool("echo"), async |_: Value, _| "x");
    let report = replayed(router, &recording, false, &recording.replay().all_calls());
    assert_eq!(report.calls[0].outcome, ReplayOutcome::Skipped("a value is hidden in the trace".into()));
    let played = replayed(recording.router(), &recording, false, &recording.replay().to_recorded_server());
    assert!(played.is_same(), "{played}");
}

#[test]
fn trace_is_a_test_of_a_router() {
    let mut pair = with_handlers(testing::pair(server())).legacy();
    pair.run(session);
    let opened = TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() };
    let mut file = TraceHeader::new("test", UnixTime::EPOCH, true).to_line();
    file.extend(TraceRecord::new(Duration::ZERO, 1, opened).to_line());
    file.extend(trace(&pair).records.iter().flat_map(TraceRecord::to_line));
    testing::replay(server(), &file);
    let failed = std::panic::catch_unwind(|| testing::replay(Router::new("other", "1"), &file)).unwrap_err();
    let message = failed.downcast_ref::<String>().unwrap();
    assert!(message.contains("/result/serverInfo/name: recorded \"recorded\", now \"other\""), "{message}");
}
