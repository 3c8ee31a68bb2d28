//! A client and a server joined in memory, with a tool that returns its message.

use std::hint::black_box;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcp_proto::peer::client::{self, ClientConfig, EraPolicy, LinkAction, State};
use mcp_proto::peer::server::{Answer, Event, ServerConfig};
use mcp_proto::peer::{InboundId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, CallToolResult, Era, Implementation, Json, Params as _, ServerCapability,
};
use mcp_proto::transport::{StreamClient, StreamServer};
use mcp_proto::{Instant, Limits};
use serde::Deserialize;

/// About a hundred bytes.
pub(crate) const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog, again and again, until the dog has had enough of it all.";

#[derive(Deserialize)]
struct Echo {
    message: String,
}

/// One direction of the connection, with a read buffer that needs one allocation for many reads.
#[derive(Default)]
pub(crate) struct Wire {
    written: Vec<u8>,
    read: BytesMut,
}

impl Wire {
    /// Copies the output of `write`, if any, into the read buffer.
    pub(crate) fn carry(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<Bytes> {
        self.written.clear();
        if !write(&mut self.written) {
            return None;
        }
        if self.read.capacity() < self.written.len() {
            self.read.reserve(64 * 1024);
        }
        self.read.extend_from_slice(&self.written);
        Some(self.read.split().freeze())
    }
}

/// The bare state machines, joined.
pub(crate) struct Pair {
    pub(crate) client: StreamClient,
    server: StreamServer,
    up: Wire,
    down: Wire,
    now: Instant,
    params: CallToolParams,
}

impl Pair {
    /// Two connected sides of `era` that are ready for requests, with room for `in_flight` of them.
    pub(crate) fn ready(era: Era, in_flight: usize) -> Self {
        let limits = Limits { requests_out: in_flight, requests_in: in_flight, ..Limits::default() };
        let mut config = ClientConfig::new(Implementation::new("benchmark", "1.0.0"));
        config.era_policy = if era == Era::Modern { EraPolicy::ModernOnly } else { EraPolicy::LegacyOnly };
        config.limits = limits;
        let client = StreamClient::new(config);
        let mut config = ServerConfig::new(Implementation::new("echo", "1.0.0"));
        config.capabilities = config.capabilities.with(ServerCapability::Tools);
        config.limits = limits;
        let server = StreamServer::new(config);
        let arguments = Json::encode(&serde_json::json!({ "message": MESSAGE })).unwrap();
        let params = CallToolParams::new("echo").with_arguments(arguments);
        let (up, down) = Default::default();
        let mut pair = Self { client, server, up, down, now: Instant::ORIGIN, params };
        assert_eq!(pair.client.poll_link(), Some(LinkAction::Open));
        pair.client.handle_open(pair.now);
        while pair.upwards() | pair.downwards() {}
        assert_eq!(pair.client.state(), State::Ready);
        while pair.client.poll_event().is_some() {}
        while pair.server.poll_event().is_some() {}
        pair
    }

    fn upwards(&mut self) -> bool {
        let Some(bytes) = self.up.carry(|out| self.client.poll_transmit(out)) else { return false };
        self.server.handle_input(self.now, bytes);
        true
    }

    fn downwards(&mut self) -> bool {
        let Some(bytes) = self.down.carry(|out| self.server.poll_transmit(out)) else { return false };
        self.client.handle_input(self.now, bytes);
        true
    }

    /// Sends a request, which the server's application decodes.
    pub(crate) fn ask(&mut self) -> (InboundId, CallToolResult) {
        self.now = self.now + Duration::from_micros(1);
        self.client.at(self.now).request::<CallTool>(&self.params, RequestOptions::default()).unwrap();
        assert!(self.upwards());
        let Some(Event::Request { id, params: Some(params), .. }) = self.server.poll_event() else {
            panic!("the server has not received the request")
        };
        let params = CallToolParams::from_raw(&params).unwrap();
        let Echo { message } = params.arguments.unwrap().decode().unwrap();
        (id, CallToolResult::text(message))
    }

    /// Sends the result, which the client's application decodes.
    pub(crate) fn answer(&mut self, id: InboundId, result: &CallToolResult) {
        self.server.at(self.now).respond(id, Answer::Result(result));
        assert!(self.downwards());
        let Some(client::Event::Outcome { outcome, .. }) = self.client.poll_event() else {
            panic!("the client has not received the answer")
        };
        let result = outcome.decode::<CallTool>().unwrap();
        assert_eq!(result.content.len(), 1);
        black_box((result, self.client.poll_timeout(), self.server.poll_timeout()));
    }

    pub(crate) fn round_trip(&mut self) {
        let (id, result) = self.ask();
        self.answer(id, &result);
    }
}
