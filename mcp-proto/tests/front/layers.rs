//! Layers around the requests that a router answers.

use std::sync::{Arc, Mutex};

use mcp_proto::front::layer::{Layer, LayerRequest, MessageDirection, Next, Side};
use mcp_proto::front::{HandlerMode, NoArguments, Router};
use mcp_proto::schema::{Json, Tool};
use mcp_proto::testing::pair;
use serde_json::json;

type Log = Arc<Mutex<Vec<String>>>;

/// Records what it sees before and after each request.
#[derive(Clone)]
struct Record {
    name: &'static str,
    log: Log,
}

impl Record {
    fn new(name: &'static str, log: &Log) -> Self {
        Self { name, log: log.clone() }
    }

    fn note(&self, what: impl AsRef<str>) {
        self.log.lock().unwrap().push(format!("{} {}", self.name, what.as_ref()));
    }
}

impl<M: HandlerMode> Layer<M> for Record {
    fn request(&self, request: LayerRequest, next: Next<M>) -> M::HandlerFuture {
        let this = self.clone();
        let what = match request.item() {
            Some(item) => format!("{} {item}", request.method()),
            None => request.method().to_owned(),
        };
        assert_eq!((request.side(), request.direction()), (Side::Server, MessageDirection::Received));
        this.note(format!("before {what}{}", if request.is_retry() { " again" } else { "" }));
        next.run_then(request, move |reply| {
            let how = match &reply {
                reply if reply.is_input_required() => "input",
                reply if reply.is_failure() => "failure",
                _ => "success",
            };
            this.note(format!("after {what}: {how}"));
            reply
        })
    }
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "", Json::empty_object())
}

fn router(log: &Log) -> Router {
    Router::new("test", "1")
        .layer(Record::new("outer", log))
        .layer(Record::new("inner", log))
        .tool_with(tool("greet"), async |NoArguments {}, _| "hello")
        .tool_with(tool("panic"), async |NoArguments {}, _| -> String { panic!("for the test") })
}

#[test]
fn first_layer_is_outermost_and_sees_each_request_once() {
    for legacy in [false, true] {
        for http in [false, true] {
            let log = Log::default();
            let mut pair = pair(router(&log));
            if legacy {
                pair = pair.legacy();
            }
            if http {
                pair = pair.http();
            }
            let text =
                pair.run(async |client| client.call_tool("greet", json!({})).await.unwrap().text_content());
            assert_eq!(text, "hello");
            let expected = [
                "outer before tools/call greet",
                "inner before tools/call greet",
                "inner after tools/call greet: success",
                "outer after tools/call greet: success",
            ];
            assert_eq!(taken(&log), expected, "legacy {legacy}, HTTP {http}");
        }
    }
}
