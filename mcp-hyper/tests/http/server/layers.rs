//! Layers of a server that deny a call after the event stream of its response has begun.

use mcp_hyper::mcp_proto::front::layer::{
    Decision, Layer, LayerFuture, LayerMessage, LayerRequest, Next, Reply, RuleMatch, Rules,
};
use mcp_hyper::mcp_proto::front::{Client, Context, HandlerError, Router};
use mcp_hyper::mcp_proto::quota::RateLimit;
use mcp_hyper::mcp_proto::rpc::code;
use mcp_hyper::mcp_proto::schema::Tool;
use serde_json::{Value, json};
use smol::channel::{Receiver, Sender, bounded};

use crate::common::client::{self, connect, legacy, modern};
use crate::common::server::{
    HandlerLog, Progress, RawClient, call, in_session, listener, router, run, serving, text, wait_until,
};

/// Lets a call run until the server has sent progress of it, and then denies it.
struct DenyAfterProgress(Sender<()>, Receiver<()>);

impl DenyAfterProgress {
    fn new() -> Self {
        let (sent, is_sent) = bounded(1);
        Self(sent, is_sent)
    }
}

impl Layer for DenyAfterProgress {
    fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
        let (is_sent, denied) = (self.1.clone(), request.deny("that takes too long"));
        let denial = async move {
            is_sent.recv().await.unwrap();
            denied
        };
        Box::pin(smol::future::or(denial, next.run(request)))
    }

    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        if message.method() == Some("notifications/progress") {
            let _ = self.0.try_send(());
        }
        Decision::Keep
    }
}

/// Puts an error in place of each answer of the tool `report`.
struct ReplaceReport;

impl Layer for ReplaceReport {
    fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
        let is_report = request.item().as_deref() == Some("report");
        next.run_then(request, move |reply| match is_report {
            true => Reply::error(code::INVALID_REQUEST, "reports are private"),
            false => reply,
        })
    }
}

struct TestServer {
    log: HandlerLog,
    address: std::net::SocketAddr,
}

fn start(change: impl FnOnce(Router) -> Router) -> TestServer {
    let log = HandlerLog::default();
    let (listener, address) = listener();
    let (_, driver) = serving(change(router(&log))).listen(listener);
    run(driver);
    TestServer { log, address }
}

/// A client's connection in one of the eras.
struct EraClient {
    raw: RawClient,
    session: Option<String>,
}

impl EraClient {
    fn in_both_eras(server: &TestServer) -> [Self; 2] {
        [false, true].map(|is_legacy| {
            let mut raw = RawClient::connect(server.address);
            let session = is_legacy.then(|| raw.initialize());
            Self { raw, session }
        })
    }

    /// Calls a tool and asks for its progress.
    fn call(&mut self, tool: &str, arguments: &Value) {
        let Some(session) = &self.session else { return self.raw.call(tool, arguments, Progress::Wanted) };
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "token" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.raw.post("/mcp", &in_session(session), &body.to_string());
    }

    /// The answer to a call within a stream, after its only progress.
    fn answer_after_progress(&mut self) -> Value {
        let head = self.raw.head();
        assert_eq!((head.status, head.get("content-type")), (200, Some("text/event-stream")));
        assert_eq!(self.raw.event()["method"], "notifications/progress");
        let answer = self.raw.event();
        assert_eq!((self.raw.chunk(), &answer["id"]), (None, &json!(1)));
        answer
    }

    /// Calls another tool on the same connection.
    fn goes_on(&mut self) {
        let Some(session) = &self.session else { return self.raw.echo("still here") };
        let params = json!({ "name": "echo", "arguments": { "message": "still here" } });
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        self.raw.post("/mcp", &in_session(session), &body.to_string());
        let (head, body) = self.raw.answer();
        assert_eq!((head.status, &*text(&body)), (200, "still here"));
    }
}

/// S3.7, S8.8
#[test]
fn call_is_denied_after_its_progress_and_the_connection_goes_on() {
    let server = start(|router| router.layer(DenyAfterProgress::new()));
    for (count, mut client) in EraClient::in_both_eras(&server).into_iter().enumerate() {
        client.call("wait", &json!({}));
        let result = &client.answer_after_progress()["result"];
        assert_eq!(
            (&result["isError"], &result["content"][0]["text"]),
            (&json!(true), &json!("that takes too long"))
        );
        wait_until("the handler is dropped", || server.log.ended_calls() == count + 1);
        client.goes_on();
    }
}

/// S3.7
#[test]
fn answer_after_progress_is_replaced_by_an_error_within_the_stream() {
    let server = start(|router| router.layer(ReplaceReport));
    for mut client in EraClient::in_both_eras(&server) {
        client.call("report", &json!({ "message": "hello" }));
        let answer = client.answer_after_progress();
        assert_eq!(answer["error"]["message"], "reports are private", "{answer}");
        client.goes_on();
    }
    // Without progress it is no stream.
    let mut client = RawClient::connect(server.address);
    let (headers, body) = call("report", &json!({ "message": "hello" }), Progress::Unwanted);
    client.post("/mcp", &headers, &body);
    let (head, body) = client.answer();
    assert_eq!(head.get("content-type"), Some("application/json"));
    assert!(body.contains("reports are private"), "{body}");
    client.echo("still here");
}

/// A tool that reports progress before each call of `echo` at another server.
fn relay(inner: Client) -> impl FnOnce(Router) -> Router {
    let tool = Tool::new("relay", "", json!({ "type": "object" }));
    |router| {
        router.tool_with(tool, move |_: Value, cx: Context| {
            let inner = inner.clone();
            async move {
                for step in 1..=2 {
                    cx.progress(step);
                    let echo = inner.call_tool("echo", json!({ "message": "hi" })).await;
                    echo.map_err(|error| HandlerError::new(format!("step {step}: {error}")))?;
                }
                Ok::<_, HandlerError>("done")
            }
        })
    }
}

/// S8.8
#[test]
fn rate_of_a_nested_call_denies_in_the_middle_of_the_outer_stream() {
    let inner = start(|router| router);
    for is_legacy in [false, true] {
        client::run(async {
            let era = || if is_legacy { legacy() } else { modern() };
            let rate = Rules::new().rate(RuleMatch::tool("echo"), RateLimit::per_minute(1));
            let url = |server: &TestServer| format!("http://{}/mcp", server.address);
            let (nested, _nested) = connect(era().layer(rate), &url(&inner));
            let (client, _driver) = connect(era(), &url(&start(relay(nested))));
            let (progress, reported) = smol::channel::unbounded();
            let called = client.call_tool("relay", json!({})).on_progress(move |report| {
                progress.try_send(report.progress.to_string()).unwrap();
            });
            let denied = called.await.unwrap();
            assert!(denied.failed() && denied.text_content().contains("step 2: "), "{denied:?}");
            assert!(denied.text_content().contains("too many requests"), "{denied:?}");
            assert_eq!(reported.try_recv().unwrap(), "1");
            let echo = client.call_tool("echo", json!({ "message": "still here" })).await.unwrap();
            assert_eq!(echo.text_content(), "still here");
        });
    }
}
