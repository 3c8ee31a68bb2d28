//! Input from a client to a router behind HTTP.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mcp_proto::adapter::{Entropy, SystemClock};
use mcp_proto::front::Router;
use mcp_proto::front::http::{HttpServer, http_server};
use mcp_proto::schema::{Prompt, ResourceTemplate, Tool};
use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead};
use mcp_proto::{Bytes, Limits};
use serde_json::{Value, json};

use super::{Shape, Work, commas, repeat, shape};
use crate::common::messages::request_meta;

pub const SHAPES: [Shape; 7] = [
    shape("router: a resource of many segments", |bytes| read(&format!("f:{}", repeat(bytes, "/", "%41@")))),
    shape("router: a resource that nearly matches", |bytes| {
        read(&format!("t:{}", repeat(bytes, "", "a-@-b")))
    }),
    shape("router: a resource with a query", |bytes| read(&format!("q:x?{}", repeat(bytes, "&", "a=@&b=1")))),
    shape("router: arguments of a tool", |bytes| {
        request("tools/call", "t", &format!(r#""name":"t","arguments":{{{}}}"#, commas(bytes, "\"a@\":1")))
    }),
    shape("router: arguments of a prompt", |bytes| {
        request(
            "prompts/get",
            "p",
            &format!(r#""name":"p","arguments":{{{}}}"#, commas(bytes, "\"a@\":\"\"")),
        )
    }),
    shape("router: unexpected input responses", |bytes| {
        let answers = commas(bytes, r#""a@":{"action":"cancel"}"#);
        request("tools/call", "t", &format!(r#""name":"t","arguments":{{}},"inputResponses":{{{answers}}}"#))
    }),
    shape("router: a request state", |bytes| {
        let state = repeat(bytes, "", "@");
        request("tools/call", "t", &format!(r#""name":"t","arguments":{{}},"requestState":"{state}""#))
    }),
];

struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn server() -> HttpServer {
    let template = |uri: &str| ResourceTemplate::new(uri, "t");
    let join = async |values: BTreeMap<String, String>, _| values.into_values().collect::<String>();
    let router = Router::new("growth", "1")
        .template(template("f:{/path*}"), join)
        .template(template("f:{+path}"), join)
        .template(template("t:{+a}-{+b}-{+c}/end"), join)
        .template(template("q:{name}{?a,b}"), join)
        .prompt(Prompt::new("p"), async |values: BTreeMap<String, String>, _| values.len().to_string())
        .tool_with(
            Tool::new("t", "", json!({"type": "object"})),
            async |values: BTreeMap<String, Value>, _| values.len().to_string(),
        );
    router.check().unwrap();
    let mut config = router.config();
    config.limits = Limits { message_bytes: 1 << 30, ..Limits::default() };
    let config = HttpServerConfig::new(config);
    // These requests need no driver.
    http_server(router, config, Arc::new(SystemClock::new()), Arc::new(NoEntropy)).0
}

fn read(uri: &str) -> Work {
    request("resources/read", uri, &format!(r#""uri":"{uri}""#))
}

fn request(method: &'static str, name: &str, params: &str) -> Work {
    let server = server();
    let (name, meta) = (name.to_owned(), request_meta());
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{meta},{params}}}}}"#);
    let body = Bytes::from(body);
    Box::new(move || {
        let headers = [
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", &name),
        ];
        let mut exchange = server
            .exchange(&RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None }, None);
        exchange.handle_body(body);
        exchange.handle_body_end();
        let mut cx = Context::from_waker(Waker::noop());
        black_box(exchange.poll_head(&mut cx)).is_ready().then_some(()).expect("the server answers at once");
        while let Poll::Ready(Some(part)) = exchange.poll_body(&mut cx) {
            black_box(part);
        }
    })
}
