//! HTTP: headers, bodies, and headers that mirror tool arguments.

use std::hint::black_box;

use mcp_proto::Bytes;
use mcp_proto::peer::RequestOptions;
use mcp_proto::rpc::Raw;
use mcp_proto::schema::ListTools;
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig, ListenPolicy};
use mcp_proto::transport::http::param_headers::ParamHeaders;
use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead, RequestIntake, Setup};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};
use mcp_proto::{Instant, Limits};

use super::{Shape, Work, commas, repeat, shape};

const NOW: Instant = Instant::ORIGIN;

pub const SHAPES: [Shape; 14] = [
    shape("http client: headers of an answer", |bytes| receive_headers(headers(bytes, "x-a@", "v"))),
    shape("http client: challenges of an answer", |bytes| {
        receive_headers(headers(bytes, "www-authenticate", "Basic a=\"@\""))
    }),
    shape("http client: events of an answer", |bytes| {
        receive_stream(repeat(bytes, "\n\n", "id: @\ndata: x"), usize::MAX)
    }),
    shape("http client: notifications before an answer", |bytes| {
        let event = r#"data: {"jsonrpc":"2.0","method":"notifications/x","params":{"a":@}}"#;
        receive_stream(repeat(bytes, "\n\n", event), usize::MAX)
    }),
    shape("http client: events in pieces of 7 bytes", |bytes| {
        receive_stream(repeat(bytes, "\n\n", "id: @\ndata: x"), 7)
    }),
    shape("http client: tools and their parameters", |bytes| {
        let schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
        let tools = commas(bytes, &format!(r#"{{"name":"t@","inputSchema":{schema}}}"#));
        let result = format!(r#"{{"resultType":"complete","tools":[{tools}]}}"#);
        receive_stream(format!("data: {{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{result}}}\n\n"), usize::MAX)
    }),
    shape("http server: headers of a request", |bytes| {
        receive_request(
            headers(bytes, "accept", "application/json;a=@, text/event-stream"),
            String::from("{}"),
            1000,
        )
    }),
    shape("http server: revisions of a request", |bytes| {
        receive_request(headers(bytes, "mcp-protocol-version", "@"), String::from("{}"), 1000)
    }),
    shape("http server: a body in pieces of 7 bytes", |bytes| {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{{}}}}}"#, commas(bytes, "\"a@\":1"));
        receive_request(headers(0, "accept", "*/*"), body, 7)
    }),
    shape("tools: properties of a schema", |bytes| {
        schema(format!("{{\"properties\":{{{}}}}}", commas(bytes, "\"a@\":{\"type\":\"string\"}")))
    }),
    shape("tools: marked properties of a schema", |bytes| {
        let property = r#""a@":{"type":"string","x-mcp-header":"A@"}"#;
        schema(format!("{{\"properties\":{{{}}}}}", commas(bytes, property)))
    }),
    shape("tools: choices in a schema", |bytes| {
        schema(format!("{{\"x-mcp-header\":\"a\",\"enum\":[{}]}}", commas(bytes, "\"\\u0041@\"")))
    }),
    shape("tools: types of a parameter", |bytes| {
        let types = commas(bytes, "\"string\"");
        schema(format!(r#"{{"properties":{{"a":{{"x-mcp-header":"a","type":[{types}]}}}}}}"#))
    }),
    shape("tools: arguments of a call", |bytes| {
        let schema = r#"{"properties":{"a":{"properties":{"b":{"type":"string","x-mcp-header":"B"}}}}}"#;
        let headers = ParamHeaders::from_schema(schema).unwrap().unwrap();
        let arguments = Raw::new(format!(
            r#"{{{},"a":{{{},"b":"x"}}}}"#,
            commas(bytes / 2, "\"c@\":1"),
            commas(bytes / 2, "\"d@\":[]")
        ));
        let arguments = arguments.unwrap();
        Box::new(move || drop(black_box(headers.values(Some(&arguments)).unwrap())))
    }),
];

type Headers = Vec<(String, String)>;

fn headers(bytes: usize, name: &str, value: &str) -> Headers {
    let lines = repeat(bytes.max(1), "\n", &format!("{name}\t{value}"));
    lines
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// A ready client, with the exchange of its `tools/list` request.
fn client() -> (HttpClient, ExchangeId) {
    let mut client = crate::common::client::config();
    client.era_policy = mcp_proto::peer::client::EraPolicy::ModernOnly;
    client.limits = Limits { header_bytes: usize::MAX, ..Limits::default() };
    let mut config = HttpClientConfig::new(client, "http://localhost/mcp");
    config.listen = ListenPolicy::Never;
    let mut client = HttpClient::new(config, NOW).unwrap();
    let probe = opened(&mut client);
    client.handle_head(NOW, probe, 200, &[("content-type", "application/json")]);
    let result = crate::common::messages::discover_result();
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    client.handle_body(NOW, probe, Bytes::from(body));
    client.handle_end(NOW, probe, ExchangeEnd::Complete);
    client.at(NOW).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    let exchange = opened(&mut client);
    (client, exchange)
}

fn opened(client: &mut HttpClient) -> ExchangeId {
    match client.poll_action() {
        Some(Action::Open(request)) => request.exchange,
        other => panic!("{other:?}"),
    }
}

fn drain(client: &mut HttpClient) {
    while let Some(event) = client.poll_event() {
        black_box(event);
    }
    while let Some(action) = client.poll_action() {
        black_box(action);
    }
}

fn receive_headers(headers: Headers) -> Work {
    let (mut client, exchange) = client();
    Box::new(move || {
        client.handle_head(NOW, exchange, 401, &headers);
        client.handle_end(NOW, exchange, ExchangeEnd::Complete);
        drain(&mut client);
    })
}

fn receive_stream(stream: String, size: usize) -> Work {
    let (mut client, exchange) = client();
    let stream = Bytes::from(stream);
    Box::new(move || {
        client.handle_head(NOW, exchange, 200, &[("content-type", "text/event-stream")]);
        let size = size.min(stream.len());
        for at in (0..stream.len()).step_by(size) {
            client.handle_body(NOW, exchange, stream.slice(at..stream.len().min(at + size)));
            drain(&mut client);
        }
        client.handle_end(NOW, exchange, ExchangeEnd::Complete);
        drain(&mut client);
    })
}

fn receive_request(mut headers: Headers, body: String, size: usize) -> Work {
    let mut config = crate::common::server::config();
    config.limits = Limits { message_bytes: 1 << 30, ..Limits::default() };
    let setup = Setup::new(HttpServerConfig::new(config));
    headers.push(("content-type".into(), "application/json".into()));
    headers.push(("host".into(), "localhost".into()));
    let body = Bytes::from(body);
    Box::new(move || {
        let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
        let Ok(mut intake) = RequestIntake::new(&setup, &head) else { return };
        for at in (0..body.len()).step_by(size) {
            drop(intake.handle_body(body.slice(at..body.len().min(at + size))));
        }
        drop(black_box(intake.finish()));
    })
}

fn schema(schema: String) -> Work {
    Box::new(move || drop(black_box(ParamHeaders::from_schema(&schema))))
}
