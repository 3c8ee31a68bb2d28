//! A server on a byte stream, whose client the test plays.

use core::time::Duration;

use mcp_proto::peer::InboundId;
use mcp_proto::peer::server::{Event, ServerConfig};
use mcp_proto::schema::{Implementation, List, ListToolsResult, ServerCapability, Tool};
use mcp_proto::transport::StreamServer;
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};

use super::messages::{notification, parse_lines, request, with_request_meta};

/// A server whose client is the test itself.
pub struct ServerHarness {
    pub server: StreamServer,
    pub now: Instant,
    lines: std::collections::VecDeque<Value>,
}

pub fn config() -> ServerConfig {
    let mut config = ServerConfig::new(Implementation::new("test-server", "2.0"));
    config.instructions = Some("Be kind.".into());
    for capability in [
        ServerCapability::ToolsListChanged,
        ServerCapability::ResourcesSubscribe,
        ServerCapability::PromptsListChanged,
        ServerCapability::Logging,
    ] {
        config.capabilities = config.capabilities.with(capability);
    }
    config
}

impl ServerHarness {
    pub fn new(config: ServerConfig) -> Self {
        Self { server: StreamServer::new(config), now: Instant::ORIGIN, lines: Default::default() }
    }

    pub fn legacy_at(version: &str) -> Self {
        Self::legacy_with(config(), version, json!({"roots": {}, "elicitation": {}}))
    }

    pub fn legacy_with(config: ServerConfig, version: &str, capabilities: Value) -> Self {
        let mut s = Self::new(config);
        let mut params = initialize(version);
        params["capabilities"] = capabilities;
        s.request_with_id(1, "initialize", params);
        assert_eq!(s.line()["result"]["protocolVersion"], version);
        s.notify("notifications/initialized", json!({}));
        s.events();
        s
    }

    pub fn send(&mut self, text: &str) {
        self.server.handle_input(self.now, Bytes::from(format!("{text}\n")));
    }

    pub fn request_with_id(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.send(&request(&id.into(), method, params).to_string());
    }

    pub fn modern(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.request_with_id(id, method, with_request_meta(params));
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&notification(method, params).to_string());
    }

    pub fn try_line(&mut self) -> Option<Value> {
        let mut out = Vec::new();
        if self.server.poll_transmit(&mut out) {
            self.lines.extend(parse_lines(&out));
        }
        self.lines.pop_front()
    }

    /// Everything that was written since the last line was taken.
    pub fn lines(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.try_line()).collect()
    }

    /// Lets time pass, timeout by timeout.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.server.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.server.handle_timeout(self.now);
            assert!(self.server.poll_timeout().is_none_or(|next| next > self.now), "contract 5: livelock");
        }
        self.now = end;
        self.server.handle_timeout(self.now);
    }

    pub fn line(&mut self) -> Value {
        self.try_line().expect("the server wrote nothing")
    }

    pub fn expect_silence(&mut self) {
        assert_eq!(self.try_line(), None);
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.server.poll_event()).collect()
    }

    pub fn request(&mut self) -> InboundId {
        let asked = self.events().into_iter().find_map(|event| match event {
            Event::Request { id, .. } => Some(id),
            _ => None,
        });
        asked.expect("no request reached the application")
    }

    pub fn code(&mut self) -> Value {
        self.line()["error"]["code"].clone()
    }
}

pub fn initialize(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"roots": {}, "elicitation": {}},
        "clientInfo": {"name": "c", "version": "1"},
    })
}

pub fn tools() -> ListToolsResult {
    ListToolsResult::new(List::from(vec![Tool::new("t", "A tool", json!({"type": "object"}))]))
}
