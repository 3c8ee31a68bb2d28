//! The client request that a server's request is related to: transports with a stream per request route by it.

use crate::peer::Machine as _;
use serde_json::{Value, json};

use super::*;
use crate::Bytes;
use crate::peer::RequestOptions;
use crate::peer::server::{Answer, Event, ServerConfig};
use crate::rpc;
use crate::schema::{Implementation, List, ListRoots, ListRootsParams, ListToolsResult, ServerCapability};

const NOW: Instant = Instant::ORIGIN;

/// Records the related request of each request of the server.
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

/// A server with a session and an unanswered request of the id "seven".
fn server_with_request() -> (Server, Recorder, InboundId) {
    let mut config = ServerConfig::new(Implementation::new("test-server", "2.0"));
    config.capabilities = config.capabilities.with(ServerCapability::Tools);
    let (mut server, mut out) = (Server::new(config), Recorder::default());
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
    let asked = core::iter::from_fn(|| server.poll_event())
        .find_map(|event| if let Event::Request { id, .. } = event { Some(id) } else { None });
    (server, out, asked.unwrap())
}

fn roots(server: &mut Server, out: &mut Recorder, of: Option<InboundId>) {
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    server.send(NOW, of, request, out).unwrap();
}

#[test]
fn request_is_related_to_the_client_request_it_is_made_for() {
    let (mut server, mut out, of) = server_with_request();
    roots(&mut server, &mut out, Some(of));
    roots(&mut server, &mut out, None);
    assert_eq!(out.related, [Some(rpc::Id::from("seven")), None]);
}

#[test]
fn request_is_not_related_to_an_answered_client_request() {
    let (mut server, mut out, of) = server_with_request();
    server.respond(of, Answer::Result(&ListToolsResult::new(List::new())), &mut out);
    roots(&mut server, &mut out, Some(of));
    assert_eq!(out.related, [None]);
}
