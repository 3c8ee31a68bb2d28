//! Fuzzing of an HTTP client with arbitrary operations of the server, the application, the driver and the clock.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use arbitrary::Arbitrary;
use serde_json::Value;

use super::client as server_messages;
use super::harness::{self, Application};
use super::harness::{RunState, Target, pick_key, timeout};
use crate::Instant;
use crate::peer::client::Event;
use crate::peer::{LostReason, ReissuePolicy, RequestOptions};
use crate::prelude::*;
use crate::rpc::Id;
use crate::schema::{
    CallTool, CallToolParams, ClientCapability, EmptyParams, Json, ListRootsResult, ListTools,
    PaginatedParams, RootsListChanged,
};
use crate::transport::http::client::{
    Action, AuthorizationRequired, HttpClient, HttpClientConfig, ListenPolicy, UnauthorizedPolicy,
};
use crate::transport::http::{ExchangeEnd, ExchangeId, SentState, Verb};

/// One operation of a run.
#[derive(Arbitrary, Debug)]
pub(super) enum Operation {
    Call { timeout_ms: Option<u16> },
    List,
    Listen,
    Notify,
    Cancel(u8),
    Respond(u8),
    Close,
    Abort,
    Head { which: u8, status: Status, kind: Kind },
    Body { which: u8, bytes: Vec<u8> },
    Events { which: u8, message: ServerMessage, id: bool },
    End { which: u8, end: EndKind },
    // A complete answer.
    Answer { which: u8, status: Status, message: ServerMessage },
    Advance { ms: u16 },
    Backwards { ms: u16 },
    Timeout,
    PollEvents,
    PollActions,
    Watch { interest: u8, before: bool },
    SetInterest { which: u8, interest: u8 },
    Unwatch(u8),
    Task { command: u8, timeout_ms: Option<u16> },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Status {
    Ok,
    Accepted,
    Moved,
    BadRequest,
    Unauthorized,
    NotFound,
    NotAllowed,
    Unavailable,
    Any(u16),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Kind {
    Json,
    Events,
    Html,
    None,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum EndKind {
    Complete,
    Truncated,
    Maybe,
    No,
}

/// A message from a server.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum ServerMessage {
    Discovered,
    Initialized,
    Complete,
    Tools,
    Error,
    HeaderMismatch,
    Unsupported,
    Broken,
    WithoutId,
    Elsewhere(u8),
    Batch,
    Request(u8),
    Progress(u8),
    Cancelled(u8),
    Endpoint,
    Fragment,
    Last,
    Nothing,
    Notification(u8),
    Task,
}

/// The configuration of one run.
#[derive(Arbitrary, Debug)]
pub(super) struct Config {
    mode: u8,
    tight: bool,
    keepalive: bool,
    listen: bool,
    dialect: bool,
    seed: u64,
}

/// A tool call, and the state that the server has returned for it.
type Marker = (u64, Option<String>);

struct Exchange {
    id: Option<i64>,
    /// The round and tool call of the exchange, the same however often it is sent.
    marker: Option<Marker>,
    begun: bool,
}

/// A client over HTTP, its application and its server.
pub(super) struct Client {
    app: Application<HttpClient>,
    open: BTreeMap<ExchangeId, Exchange>,
    seen: BTreeSet<ExchangeId>,
    challenges: VecDeque<AuthorizationRequired>,
    markers: u64,
    /// The tool calls that the server may have acted on.
    acted_on: BTreeSet<Marker>,
}

impl Target for Client {
    type Config = Config;
    type Operation = Operation;
    type Event = Event;

    fn new(config: &Config, run: RunState) -> Self {
        let mut client = harness::config(config.mode, config.keepalive, config.tight);
        client.capabilities = client.capabilities.with(ClientCapability::RootsListChanged);
        if config.tight {
            client.limits.exchanges = 1;
            client.limits.header_bytes = 64;
        }
        client.recorder = run.recording.recorder();
        let mut http = HttpClientConfig::new(client, "http://localhost/mcp");
        http.seed = config.seed;
        http.chunked_results = config.dialect;
        if config.mode >= 128 {
            http.authorization = UnauthorizedPolicy::Park;
        }
        http.listen = if config.listen { ListenPolicy::IfOffered } else { ListenPolicy::Never };
        let client = HttpClient::new(http, run.now).expect("the URL is valid");
        Self {
            app: Application::new(client, run),
            open: BTreeMap::new(),
            seen: BTreeSet::new(),
            challenges: VecDeque::new(),
            markers: 0,
            acted_on: BTreeSet::new(),
        }
    }

    harness::application_methods!();

    fn handle_event(&mut self, event: Event) {
        self.app.handle_event(event);
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Call { timeout_ms } => {
                let mut params = CallToolParams::new("fuzz");
                self.markers += 1;
                params.arguments = Json::new(format!("{{\"marker\":{}}}", self.markers)).ok();
                self.app.request::<CallTool>(&params, timeout(*timeout_ms));
            }
            Operation::List => {
                let options = RequestOptions::default().reissue(ReissuePolicy::Always);
                self.app.request::<ListTools>(&PaginatedParams::default(), options);
            }
            Operation::Listen => self.app.listen(),
            Operation::Notify => {
                let now = self.app.run.now;
                let sent = self.app.client.at(now).notify::<RootsListChanged>(&EmptyParams::default());
                self.app.run.note(&sent);
            }
            Operation::Cancel(which) => {
                self.app.cancel(*which);
            }
            Operation::Respond(which) => {
                self.app.respond(*which, &ListRootsResult::new(Vec::new()));
            }
            Operation::Close => self.app.close(),
            Operation::Abort => self.app.abort(LostReason::Closed),
            Operation::Head { which, status, kind } => {
                if let Some(exchange) = self.pick(*which) {
                    self.head(exchange, *status, *kind);
                }
            }
            Operation::Body { which, bytes } => {
                if let Some(exchange) = self.pick(*which) {
                    self.body(exchange, bytes);
                }
            }
            Operation::Events { which, message: say, id } => {
                if let Some(exchange) = self.pick(*which) {
                    let name = match say {
                        ServerMessage::Endpoint => "event: endpoint\n",
                        ServerMessage::Fragment => "event: result\n",
                        ServerMessage::Last => "event: complete\n",
                        _ => "",
                    };
                    let id = if *id { "id: 7\nretry: 300\n" } else { "" };
                    let text = format!("{id}{name}data: {}\n\n", self.message_text(exchange, *say));
                    self.body(exchange, text.as_bytes());
                }
            }
            Operation::End { which, end } => {
                if let Some(exchange) = self.pick(*which) {
                    self.end(exchange, *end);
                }
            }
            Operation::Answer { which, status, message: say } => {
                if let Some(exchange) = self.pick(*which) {
                    let text = self.message_text(exchange, *say);
                    self.head(exchange, *status, Kind::Json);
                    self.body(exchange, text.as_bytes());
                    self.end(exchange, EndKind::Complete);
                }
            }
            Operation::Advance { ms } => self.app.run.advance(*ms),
            Operation::Backwards { ms } => self.app.run.set_back(*ms),
            Operation::Timeout => self.check_timeout(),
            Operation::PollEvents => self.drain_events(),
            Operation::PollActions => {
                self.actions();
                self.resolve_challenge();
            }
            Operation::Watch { interest, before } => self.app.watch(*interest, *before),
            Operation::SetInterest { which, interest } => self.app.set_watch_filter(*which, *interest),
            Operation::Unwatch(which) => self.app.unwatch(*which),
            Operation::Task { command, timeout_ms } => self.app.task(*command, *timeout_ms),
        }
    }

    fn drain_output(&mut self) {
        self.actions();
    }

    fn preludes() -> [Vec<Operation>; 2] {
        let answer = |status, message| Operation::Answer { which: 0, status, message };
        [
            Vec::from([answer(Status::Ok, ServerMessage::Discovered)]),
            Vec::from([
                answer(Status::BadRequest, ServerMessage::Error),
                answer(Status::Ok, ServerMessage::Initialized),
                answer(Status::Accepted, ServerMessage::Nothing),
            ]),
        ]
    }

    fn is_end(operation: &Operation) -> bool {
        matches!(operation, Operation::Close | Operation::Abort)
    }

    fn end(&mut self) {
        self.app.abort(LostReason::DriverDropped);
        self.actions();
    }

    fn check_end(&self) {
        assert_eq!(self.app.client.queued(), 0, "output is queued after the end");
        assert!(self.open.is_empty(), "an exchange is neither ended nor aborted");
        assert!(self.challenges.is_empty(), "an exchange is parked after the end");
    }
}

impl Client {
    fn pick(&mut self, which: u8) -> Option<ExchangeId> {
        self.actions();
        pick_key(&self.open, which)
    }

    fn head(&mut self, id: ExchangeId, status: Status, kind: Kind) {
        let status = match status {
            Status::Ok => 200,
            Status::Accepted => 202,
            Status::Moved => 307,
            Status::BadRequest => 400,
            Status::Unauthorized => 401,
            Status::NotFound => 404,
            Status::NotAllowed => 405,
            Status::Unavailable => 503,
            Status::Any(status) => status,
        };
        let kind = match kind {
            Kind::Json => "application/json",
            Kind::Events => "text/event-stream",
            Kind::Html => "text/html",
            Kind::None => "",
        };
        if let Some(exchange) = self.open.get_mut(&id)
            && !core::mem::replace(&mut exchange.begun, status >= 200)
            && (200..300).contains(&status)
        {
            self.acted_on.extend(exchange.marker.clone());
        }
        let headers =
            [("content-type", kind), ("mcp-session-id", "s"), ("location", "/other"), ("retry-after", "1")];
        self.app.client.handle_head(self.app.run.now, id, status, &headers);
    }

    fn body(&mut self, id: ExchangeId, bytes: &[u8]) {
        for chunk in self.app.run.split(bytes) {
            self.app.client.handle_body(self.app.run.now, id, chunk);
        }
    }

    fn end(&mut self, id: ExchangeId, end: EndKind) {
        let Some(exchange) = self.open.remove(&id) else { return };
        let end = match end {
            EndKind::Complete => ExchangeEnd::Complete,
            EndKind::Truncated => ExchangeEnd::Truncated("fuzz".to_owned()),
            // An exchange with a partial answer was sent.
            EndKind::No if !exchange.begun => {
                ExchangeEnd::Failed { sent: SentState::NotSent, detail: "fuzz".to_owned() }
            }
            EndKind::Maybe | EndKind::No => {
                ExchangeEnd::Failed { sent: SentState::MaybeSent, detail: "fuzz".to_owned() }
            }
        };
        if !exchange.begun && !matches!(end, ExchangeEnd::Failed { sent: SentState::NotSent, .. }) {
            self.acted_on.extend(exchange.marker);
        }
        self.app.client.handle_end(self.app.run.now, id, end);
    }

    fn message_text(&self, id: ExchangeId, say: ServerMessage) -> String {
        let own = self.open.get(&id).and_then(|exchange| exchange.id);
        let (error, task);
        let outcome = match say {
            ServerMessage::Discovered => server_messages::DISCOVERED,
            ServerMessage::Initialized => {
                r#""result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#
            }
            ServerMessage::Complete | ServerMessage::Elsewhere(_) | ServerMessage::Batch => {
                r#""result":{"content":[],"tools":[],"ttlMs":300,"cacheScope":"private"}"#
            }
            ServerMessage::Tools => {
                r#""result":{"tools":[{"name":"fuzz","inputSchema":{"type":"object","properties":{"marker":{"type":"integer","x-mcp-header":"M"}}}},{"name":"bad","inputSchema":{"properties":{"a":{"x-mcp-header":""}}}}],"nextCursor":"n"}"#
            }
            ServerMessage::Error => {
                error = error_or_input_required(own);
                &error
            }
            ServerMessage::HeaderMismatch => r#""error":{"code":-32020,"message":"no"}"#,
            ServerMessage::Unsupported => server_messages::UNSUPPORTED,
            ServerMessage::Broken => server_messages::BROKEN,
            ServerMessage::WithoutId => {
                return r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#
                    .into();
            }
            ServerMessage::Request(method) => return server_messages::request(own.unwrap_or(0), method),
            ServerMessage::Progress(token) => return server_messages::progress(token.into()),
            ServerMessage::Cancelled(id) => return server_messages::cancelled(id),
            ServerMessage::Endpoint => return "/post".to_string(),
            ServerMessage::Fragment => return r#"{"content":[1],"isError":false}"#.to_string(),
            ServerMessage::Last => return r#"{"result":{"content":[]}}"#.to_string(),
            ServerMessage::Nothing => return String::new(),
            ServerMessage::Notification(what) => {
                return server_messages::subscription_message(what, &own.unwrap_or(0).to_string());
            }
            ServerMessage::Task => {
                task = server_messages::task_answer(&Id::Number(own.unwrap_or(0)));
                &task
            }
        };
        let id = match say {
            ServerMessage::Elsewhere(id) => i64::from(id),
            _ => own.unwrap_or(0),
        };
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#);
        if matches!(say, ServerMessage::Batch) { format!("[{message},{message}]") } else { message }
    }

    fn actions(&mut self) {
        while let Some(action) = self.app.client.poll_action() {
            match action {
                Action::Open(request) => {
                    assert!(self.seen.insert(request.exchange), "an exchange is used twice");
                    assert_eq!(
                        request.verb == Verb::Post,
                        !request.body.is_empty(),
                        "only messages have bodies"
                    );
                    let sent = match request.verb {
                        Verb::Post => {
                            serde_json::from_slice(&request.body).expect("a body is a JSON message")
                        }
                        _ => Value::Null,
                    };
                    let params = &sent["params"];
                    let state = params["requestState"].as_str().map(ToOwned::to_owned);
                    let marker = params["arguments"]["marker"].as_u64().map(|marker| (marker, state));
                    assert!(
                        marker.as_ref().is_none_or(|marker| !self.acted_on.contains(marker)),
                        "a call that the server may have executed is sent again"
                    );
                    self.open
                        .insert(request.exchange, Exchange { id: sent["id"].as_i64(), marker, begun: false });
                    let parts =
                        (request.exchange, request.verb, &request.url, &request.headers, &request.body);
                    self.app.run.note(&parts);
                }
                Action::AuthorizationRequired(challenge) => {
                    assert!(self.seen.contains(&challenge.exchange), "a parked exchange was opened");
                    self.app.run.note(&challenge);
                    self.challenges.push_back(challenge);
                }
                Action::Abort(exchange) => {
                    assert!(self.seen.contains(&exchange), "an aborted exchange was opened");
                    self.open.remove(&exchange);
                    self.challenges.retain(|challenge| challenge.exchange != exchange);
                    self.app.run.note(&exchange);
                }
            }
        }
    }

    /// Resolves the oldest challenge.
    fn resolve_challenge(&mut self) {
        if let Some(AuthorizationRequired { exchange, attempt, .. }) = self.challenges.pop_front() {
            if attempt < 2 {
                self.app.client.resume(self.app.run.now, exchange);
            } else {
                self.app.client.refuse(self.app.run.now, exchange, "enough");
            }
            self.app.client.resume(self.app.run.now, exchange);
            self.app.client.refuse(self.app.run.now, exchange, "twice");
        }
    }
}

/// An error, or a result that asks for input, with a state derived from the request's id, so that no state occurs
/// twice.
fn error_or_input_required(own: Option<i64>) -> String {
    match own.map(|id| (id, id.rem_euclid(4))) {
        Some((id, 0)) => server_messages::task_answer(&Id::Number(id)),
        Some((id, 2)) => format!(r#""result":{{"resultType":"input_required","requestState":"{id}"}}"#),
        Some((id, 3)) => format!(
            r#""result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"roots/list"}},"b":{{"method":"roots/list"}}}},"requestState":"{id}"}}"#
        ),
        _ => r#""error":{"code":-32601,"message":"no"}"#.into(),
    }
}
