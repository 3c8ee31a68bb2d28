//! To which request of the client a message of the server belongs: what a transport with a stream per request goes by.

use mcp_proto::peer::server::{Answer, Event, Server};
use mcp_proto::peer::{InboundId, MessageKind, Outbox, OutgoingRequest, RequestOptions};
use mcp_proto::rpc;
use mcp_proto::schema::{List, ListRoots, ListRootsParams, ListToolsResult};
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};

use crate::server_common::config;

const NOW: Instant = Instant::ORIGIN;

/// Keeps what each request of the server was said to be related to.
#[derive(Default)]
struct Recorder {
    buffer: Vec<u8>,
    related: Vec<Option<rpc::Id>>,
}

impl Outbox for Recorder {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.clear();
        &mut self.buffer
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        if let MessageKind::Request { related, .. } = about {
            self.related.push(related.cloned());
        }
    }

    fn queued(&self) -> usize {
        0
    }

    fn cancel(&mut self, _: i64, _: Option<&str>) {}
}

fn receive(server: &mut Server, out: &mut Recorder, message: &Value) {
    let frame = rpc::read(&Bytes::from(message.to_string()), 100).unwrap();
    server.handle_frame(NOW, frame, out);
}

/// A server in a session that is answering a request with the id "seven".
fn server_with_request() -> (Server, Recorder, InboundId) {
    let (mut server, mut out) = (Server::new(config()), Recorder::default());
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "c", "version": "1"},
    });
    receive(
        &mut server,
        &mut out,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
    );
    receive(&mut server, &mut out, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    receive(&mut server, &mut out, &json!({"jsonrpc": "2.0", "id": "seven", "method": "tools/list"}));
    let asked = std::iter::from_fn(|| server.poll_event())
        .find_map(|event| if let Event::Request { id, .. } = event { Some(id) } else { None });
    (server, out, asked.unwrap())
}

fn roots(server: &mut Server, out: &mut Recorder, of: Option<InboundId>) {
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    server.request(NOW, of, request, out).unwrap();
}

#[test]
fn a_request_is_related_to_the_one_on_whose_behalf_it_is_made() {
    let (mut server, mut out, of) = server_with_request();
    roots(&mut server, &mut out, Some(of));
    roots(&mut server, &mut out, None);
    assert_eq!(out.related, [Some(rpc::Id::from("seven")), None]);
}

#[test]
fn once_the_clients_request_is_answered_nothing_is_related_to_it() {
    let (mut server, mut out, of) = server_with_request();
    server.respond(of, Answer::Result(&ListToolsResult::new(List::new())), &mut out);
    roots(&mut server, &mut out, Some(of));
    assert_eq!(out.related, [None]);
}
