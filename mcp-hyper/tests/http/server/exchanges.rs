//! Requests and responses over HTTP/1.1, as bytes on a socket.

use crate::common::server::*;
use serde_json::json;

struct TestServer {
    log: HandlerLog,
    address: std::net::SocketAddr,
}

fn start_server() -> TestServer {
    let log = HandlerLog::default();
    let (listener, address) = listener();
    let (_, driver) = serving(router(&log)).listen(listener);
    run(driver);
    TestServer { log, address }
}

#[test]
fn client_calls_a_tool_twice_on_one_connection() {
    let mut client = RawClient::connect(start_server().address);
    for message in ["one", "two", "three"] {
        client.echo(message);
    }
}

/// S3.7
#[test]
fn single_response_is_json_of_a_known_length() {
    let mut client = RawClient::connect(start_server().address);
    client.call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    let (head, body) = client.answer();
    assert_eq!(head.get("content-type"), Some("application/json"));
    assert_eq!(head.get("content-length"), Some(&*body.len().to_string()));
    assert_eq!(text(&body), "hello");
}

/// S3.7, S3.13, S3.14, F57
#[test]
fn server_answers_by_a_stream_after_a_notification() {
    let mut client = RawClient::connect(start_server().address);
    client.call("report", &json!({ "message": "hello" }), Progress::Wanted);
    let head = client.head();
    assert_eq!(head.get("content-type"), Some("text/event-stream"));
    assert_eq!(head.get("x-accel-buffering"), Some("no"));
    assert_eq!(client.event()["method"], "notifications/progress");
    assert_eq!(client.event()["result"]["content"][0]["text"], "hello");
    assert_eq!(client.chunk(), None);
    client.echo("and the connection goes on");
}

/// S3.1
#[test]
fn other_paths_have_status_404() {
    let mut client = RawClient::connect(start_server().address);
    for path in ["/", "/mcp/", "/mcp/x", "/MCP"] {
        client.post(path, "", "{}");
        assert_eq!(client.answer().0.status, 404, "{path}");
    }
    client.echo("still there");
}

#[test]
fn path_with_a_query_is_the_same_endpoint() {
    let mut client = RawClient::connect(start_server().address);
    let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    client.post("/mcp?key=value", &headers, &body);
    assert_eq!(client.answer().0.status, 200);
}

/// S3.16
#[test]
fn disconnect_before_the_response_cancels_the_request() {
    let TestServer { log, address } = start_server();
    let mut client = RawClient::connect(address);
    client.call("wait", &json!({}), Progress::Unwanted);
    wait_until("the handler runs", || log.begun_calls() == 1);
    assert_eq!(log.ended_calls(), 0);
    drop(client);
    wait_until("the handler is dropped", || log.ended_calls() == 1);
}

/// S3.16
#[test]
fn disconnect_of_a_silent_stream_cancels_the_request() {
    let TestServer { log, address } = start_server();
    let mut client = RawClient::connect(address);
    client.call("wait", &json!({}), Progress::Wanted);
    client.head();
    client.event();
    assert_eq!(log.ended_calls(), 0);
    drop(client);
    wait_until("the handler is dropped", || log.ended_calls() == 1);
}

/// S3.23
#[test]
fn disconnect_of_a_legacy_client_cancels_nothing() {
    let TestServer { log, address } = start_server();
    let mut client = RawClient::connect(address);
    let session = client.initialize();
    drop(client);

    let mut client = RawClient::connect(address);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "soon" } });
    client.post("/mcp", &in_session(&session), &request.to_string());
    wait_until("the handler runs", || log.begun_calls() == 1);
    drop(client);
    let mut other = RawClient::connect(address);
    other.echo("one round trip, in which the server sees that the client has gone");
    assert_eq!(log.ended_calls(), 0);
    wait_until("the handler finishes", || log.ended_calls() == 1);
}

#[test]
fn server_answers_pipelined_requests_in_order() {
    let mut client = RawClient::connect(start_server().address);
    for message in ["one", "two", "three"] {
        client.call("echo", &json!({ "message": message }), Progress::Unwanted);
    }
    for message in ["one", "two", "three"] {
        assert_eq!(text(&client.answer().1), message);
    }
}

#[test]
fn server_accepts_chunked_bodies_and_expect_continue() {
    let mut client = RawClient::connect(start_server().address);
    let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    client.send(format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nexpect: 100-continue\r\n\
         transfer-encoding: chunked\r\n{headers}\r\n"
    ));
    assert_eq!(client.head().status, 100);
    for piece in body.as_bytes().chunks(7) {
        client.send(format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()));
    }
    client.send("0\r\n\r\n");
    assert_eq!(text(&client.answer().1), "hello");
}

/// S3.8
#[test]
fn server_passes_headers_to_the_protocol() {
    let mut client = RawClient::connect(start_server().address);
    let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    client.post("/mcp", &headers.replace("mcp-name: echo", "mcp-name: other"), &body);
    let (head, body) = client.answer();
    assert_eq!(head.status, 400);
    assert!(body.contains("-32020"), "{body}");
}
