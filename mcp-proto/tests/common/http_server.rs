//! A server over HTTP, whose clients the test plays.

use core::time::Duration;

use mcp_proto::peer::InboundId;
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Event, ServerConfig};
use mcp_proto::schema::{CallToolResult, Implementation, ServerCapability};
use mcp_proto::transport::http::param_headers::ParamHeaders;
use mcp_proto::transport::http::server::{
    BodyKind, Chunk, ConnectionId, Exchange, HttpResponse, HttpServerConfig, ModernRequest, Post,
    PostOutcome, RequestHead, RequestIntake, RequestRoute, ResponseHead, Session, SessionId, Setup,
};
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};

use super::messages::{MODERN, request, with_request_meta};

pub const NOW: Instant = Instant::ORIGIN;

pub fn after(duration: Duration) -> Instant {
    NOW + duration
}

pub fn seconds(seconds: u64) -> Instant {
    after(Duration::from_secs(seconds))
}

pub fn server_config() -> ServerConfig {
    let mut config = ServerConfig::new(Implementation::new("test-server", "2.0"));
    for capability in [
        ServerCapability::ToolsListChanged,
        ServerCapability::ResourcesSubscribe,
        ServerCapability::PromptsListChanged,
        ServerCapability::Logging,
        ServerCapability::TasksExtension,
    ] {
        config.capabilities = config.capabilities.with(capability);
    }
    // Many tests take progress reports as messages of any number.
    config.limits.progress_out = u32::MAX;
    config
}

pub fn config() -> HttpServerConfig {
    HttpServerConfig::new(server_config())
}

/// The same with another configuration of the server itself.
pub fn config_with(set: impl FnOnce(&mut ServerConfig)) -> HttpServerConfig {
    let mut server = server_config();
    set(&mut server);
    HttpServerConfig::new(server)
}

pub fn setup() -> Setup {
    Setup::new(config())
}

/// A request of HTTP.
#[derive(Clone)]
pub struct TestRequest {
    method: &'static str,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    params: Option<ParamHeaders>,
}

impl TestRequest {
    pub fn new(method: &'static str) -> Self {
        let asked = Self { method, path: "/mcp".into(), headers: Vec::new(), body: Vec::new(), params: None };
        asked.header("Host", "localhost:3000").header("Accept", "application/json, text/event-stream")
    }

    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    /// The tool `t` has these parameters that are headers as well.
    pub fn with_param_headers(mut self, params: &ParamHeaders) -> Self {
        self.params = Some(params.clone());
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(this, _)| !this.eq_ignore_ascii_case(name));
        self
    }

    pub fn with(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).header(name, value)
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// The same with another text in its body.
    pub fn replaced(mut self, from: &str, to: &str) -> Self {
        self.body = String::from_utf8(self.body).unwrap().replace(from, to).into_bytes();
        self
    }

    /// Where it goes, given whole; and the same, given a byte at a time.
    pub fn route(&self, setup: &Setup) -> RequestRoute {
        let pieces = self.body.iter().map(|byte| Bytes::copy_from_slice(&[*byte]));
        let routed = self.feed(setup, [Bytes::from(self.body.clone())]);
        assert_eq!(format!("{routed:?}"), format!("{:?}", self.feed(setup, pieces)));
        routed
    }

    fn feed(&self, setup: &Setup, body: impl IntoIterator<Item = Bytes>) -> RequestRoute {
        let fields = &self.headers;
        let head = RequestHead { method: self.method, path: &self.path, fields, client: None };
        let mut intake = match RequestIntake::new(setup, &head) {
            Ok(intake) => intake,
            Err(answer) => return RequestRoute::Answer(answer),
        };
        if let (Some(tool), Some(params)) = (intake.tool(), &self.params) {
            assert_eq!(tool, "t");
            intake.retain_params(params, fields);
        }
        for piece in body {
            if let Err(answer) = intake.handle_body(piece) {
                return RequestRoute::Answer(answer);
            }
        }
        intake.finish()
    }

    /// The answer to a request that is answered at once.
    #[track_caller]
    pub fn answer(&self, setup: &Setup) -> HttpResponse {
        match self.route(setup) {
            RequestRoute::Answer(answer) => answer,
            RequestRoute::Notification(posted) => posted.answer(),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn modern(&self, setup: &Setup) -> ModernRequest {
        match self.route(setup) {
            RequestRoute::Modern(request) => request,
            other => panic!("{other:?}"),
        }
    }

    /// The exchange that it becomes, now.
    #[track_caller]
    pub fn exchange(&self, setup: &Setup) -> Exchange {
        Exchange::open(setup, self.modern(setup), NOW)
    }

    #[track_caller]
    pub fn post(&self, setup: &Setup) -> Post {
        match self.route(setup) {
            RequestRoute::OpenSession(post)
            | RequestRoute::Session { post, .. }
            | RequestRoute::LegacyPost { post, .. } => post,
            other => panic!("{other:?}"),
        }
    }

    /// The status of the answer, and the code of its error.
    #[track_caller]
    pub fn expect_refusal(&self, setup: &Setup) -> (u16, i64) {
        let (status, body) = match self.route(setup) {
            RequestRoute::Answer(answer) => {
                assert_json(&answer.headers);
                (answer.status, answer.body)
            }
            RequestRoute::Modern(request) => {
                let whole = read(&mut Exchange::open(setup, request, NOW));
                assert_json(&whole.head.headers);
                (whole.head.status, whole.body)
            }
            other => panic!("{other:?}"),
        };
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["jsonrpc"], "2.0");
        (status, body["error"]["code"].as_i64().unwrap())
    }
}

fn assert_json(headers: &[(&'static str, std::borrow::Cow<'static, str>)]) {
    assert!(headers.contains(&("content-type", "application/json".into())), "{headers:?}");
}

/// A message that is posted as every client does.
pub fn post(body: &Value) -> TestRequest {
    TestRequest::new("POST").header("Content-Type", "application/json").body(body.to_string())
}

/// A modern request with all its headers.
pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> TestRequest {
    let params = with_request_meta(params);
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => params["taskId"].as_str(),
    };
    let body = request(&id.into(), method, params.clone());
    let asked = post(&body).header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
    match name {
        Some(name) => asked.header("Mcp-Name", name),
        None => asked,
    }
}

/// The output of an exchange.
#[derive(Debug)]
pub struct TestResponse {
    pub head: ResponseHead,
    pub body: Bytes,
    pub ended: bool,
}

impl TestResponse {
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_json(&self.head.headers);
        assert_eq!(self.head.body, BodyKind::Sized(self.body.len()));
        assert!(self.ended);
        serde_json::from_slice(&self.body).unwrap()
    }

    #[track_caller]
    pub fn events(&self) -> Vec<ReceivedEvent> {
        assert!(self.head.headers.contains(&("content-type", "text/event-stream".into())), "{self:?}");
        assert_eq!((self.head.status, self.head.body), (200, BodyKind::Stream));
        events(&self.body)
    }

    /// The messages of the events.
    #[track_caller]
    pub fn messages(&self) -> Vec<Value> {
        self.events().into_iter().filter_map(|event| event.message).collect()
    }
}

/// An event as the client has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedEvent {
    pub id: Option<String>,
    pub name: Option<String>,
    pub retry: Option<u64>,
    pub message: Option<Value>,
    pub data: String,
}

/// Parses events that have one line of data each.
pub fn events(body: &[u8]) -> Vec<ReceivedEvent> {
    let text = std::str::from_utf8(body).unwrap();
    let blocks = text.split("\n\n").filter(|block| !block.is_empty() && *block != ":");
    let read = |block: &str| {
        let field = |name: &str| {
            let prefix = format!("{name}: ");
            block.lines().find_map(|line| line.strip_prefix(&prefix)).map(String::from)
        };
        let data = field("data").unwrap();
        ReceivedEvent {
            id: field("id"),
            name: field("event"),
            retry: field("retry").map(|retry| retry.parse().unwrap()),
            message: serde_json::from_str(&data).ok(),
            data,
        }
    };
    blocks.map(read).collect()
}

#[track_caller]
pub fn read(exchange: &mut Exchange) -> TestResponse {
    let head = exchange.poll_head().expect("the head is not known");
    let mut body = Vec::new();
    loop {
        match exchange.poll_body() {
            Chunk::Bytes(bytes) => body.extend_from_slice(&bytes),
            chunk => return TestResponse { head, body: body.into(), ended: chunk == Chunk::End },
        }
    }
}

#[track_caller]
pub fn expect_request(event: Option<Event>) -> InboundId {
    match event {
        Some(Event::Request { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

pub fn result() -> CallToolResult {
    CallToolResult::text("done")
}

// --- Sessions ---

/// A session and its client.
pub struct SessionClient {
    pub setup: Setup,
    pub session: Session,
    pub id: SessionId,
    pub now: Instant,
}

pub fn initialize(version: &str, capabilities: Value) -> Value {
    let params = json!({
        "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"},
    });
    request(&json!(0), "initialize", params)
}

impl SessionClient {
    pub fn at(version: &str) -> Self {
        Self::with(config(), version)
    }

    pub fn with(config: HttpServerConfig, version: &str) -> Self {
        let setup = Setup::new(config);
        let id = SessionId::from_entropy([7; 16]);
        let everything = json!({"roots": {}, "elicitation": {}, "sampling": {}});
        let opening = post(&initialize(version, everything)).post(&setup);
        let (session, answer) = Session::open(&setup, id, opening, NOW).unwrap();
        assert_eq!(answer.status, 200);
        let mut client = Self { setup, session, id, now: NOW };
        assert_eq!(
            client.post_for_answer(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status,
            202
        );
        while client.session.poll_event().is_some() {}
        client
    }

    pub fn post(&mut self, body: &Value) -> PostOutcome {
        let asked = post(body).header("Mcp-Session-Id", self.id.to_string());
        self.post_request(&asked)
    }

    pub fn post_request(&mut self, asked: &TestRequest) -> PostOutcome {
        let post = asked.post(&self.setup);
        self.session.handle_post(self.now, post)
    }

    /// Posts a message that is answered at once.
    #[track_caller]
    pub fn post_for_answer(&mut self, body: Value) -> HttpResponse {
        match self.post(&body) {
            PostOutcome::Answer(answer) => answer,
            PostOutcome::Connection(stream) => panic!("{stream:?}"),
        }
    }

    /// Posts a message that is answered on a stream.
    #[track_caller]
    pub fn stream(&mut self, body: Value) -> ConnectionId {
        match self.post(&body) {
            PostOutcome::Connection(stream) => stream,
            PostOutcome::Answer(answer) => panic!("{answer:?}"),
        }
    }

    #[track_caller]
    pub fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) -> ConnectionId {
        self.stream(request(&id.into(), method, params))
    }

    /// Calls a tool; with the handle of the call.
    #[track_caller]
    pub fn call(&mut self, id: impl Into<Value>) -> (ConnectionId, InboundId) {
        let params = json!({"name": "t", "_meta": {"progressToken": "p"}});
        let stream = self.ask(id, "tools/call", params);
        (stream, expect_request(self.session.poll_event()))
    }

    #[track_caller]
    pub fn listen(&mut self, last_event: Option<&str>) -> ConnectionId {
        self.session.listen(self.now, last_event).unwrap()
    }

    /// The output of a stream so far.
    #[track_caller]
    pub fn read(&mut self, stream: ConnectionId) -> TestResponse {
        let head = self.session.poll_head(stream).expect("the head is not known");
        let mut body = Vec::new();
        loop {
            match self.session.poll_body(self.now, stream) {
                Chunk::Bytes(bytes) => body.extend_from_slice(&bytes),
                chunk => return TestResponse { head, body: body.into(), ended: chunk == Chunk::End },
            }
        }
    }

    pub fn advance(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(due) = self.session.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.session.handle_timeout(self.now);
            let next = self.session.poll_timeout();
            assert!(next.is_none_or(|next| next > self.now), "{next:?} at {:?}", self.now);
        }
        self.now = until;
    }
}
