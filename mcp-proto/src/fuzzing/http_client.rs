//! Fuzzing of an HTTP client with arbitrary operations of the server, the application, the driver and the clock.

mod operation;

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use crate::Instant;
use crate::peer::client::{ClientConfig, EraPolicy, Event, Keepalive, WatchId, WatchStart, WatchState};
use crate::peer::{InboundId, LostReason, ReissuePolicy, RequestError, RequestId, RequestOptions};
use crate::rpc::{ErrorObject, Id};
use crate::schema::{
    CallTool, CallToolParams, ClientCapability, EmptyParams, Implementation, Json, ListRootsResult,
    ListTools, PaginatedParams, RootsListChanged, SubscriptionFilter, SubscriptionsListen,
    SubscriptionsListenParams,
};
use crate::transport::http::client::{
    Action, AuthorizationRequired, HttpClient, HttpClientConfig, ListenPolicy, UnauthorizedPolicy,
};
use crate::transport::http::{ExchangeEnd, ExchangeId, SentState, Verb};

use operation::{EndKind, Kind, Operation, ServerMessage, Status};

pub(super) use operation::Run;

/// How bodies are split before the machine sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ChunkMode {
    Whole,
    Bytewise,
}

/// Runs the operations twice, with whole and with split bodies, and checks the contracts on the way.
pub(super) fn http_client(run: &Run) {
    let whole = Harness::run(run, ChunkMode::Whole);
    let chopped = Harness::run(run, ChunkMode::Bytewise);
    assert_eq!(whole, chopped, "contract 4: chunk invariance");
}

/// The members of a client's message that the checks need.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SentMessage {
    id: Option<i64>,
    params: Params,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    arguments: Arguments,
    #[serde(rename = "requestState")]
    request_state: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Arguments {
    marker: Option<u64>,
}

/// A tool call, and the state that the server has returned for it.
type Marker = (u64, Option<String>);

struct Exchange {
    id: Option<i64>,
    /// The round and tool call of the exchange, the same however often it is sent.
    marker: Option<Marker>,
    begun: bool,
}

struct Harness {
    client: HttpClient,
    now: Instant,
    /// The accepted requests, with the number of outcomes of each.
    accepted: BTreeMap<RequestId, u32>,
    accepted_order: Vec<RequestId>,
    open: BTreeMap<ExchangeId, Exchange>,
    seen: BTreeSet<ExchangeId>,
    challenges: VecDeque<AuthorizationRequired>,
    markers: u64,
    /// The tool calls that the server may have acted on.
    acted_on: BTreeSet<Marker>,
    inbound: Vec<InboundId>,
    /// The watches, and whether the end of each was reported.
    watches: BTreeMap<WatchId, bool>,
    cut: ChunkMode,
    transcript: String,
    closed: bool,
}

impl Harness {
    fn run(run: &Run, cut: ChunkMode) -> String {
        let mut config = ClientConfig::new(Implementation::new("fuzz", "0"));
        config.era_policy =
            [EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly][usize::from(run.mode % 3)];
        config.keepalive = run.keepalive.then_some(Keepalive::PRESET);
        config.capabilities = config.capabilities.with(ClientCapability::RootsListChanged);
        if run.tight {
            config.limits.message_bytes = 256;
            config.limits.events = 16;
            config.limits.requests_out = 4;
            config.limits.requests_in = 2;
            config.limits.queued_bytes = 1024;
            config.limits.reply_bytes = 1024;
            config.cache.entries = 1;
            config.cache.bytes = 1500;
            config.cache.stale_if_error = Duration::from_secs(1);
            config.limits.exchanges = 1;
            config.limits.header_bytes = 64;
        }
        let mut config = HttpClientConfig::new(config, "http://localhost/mcp");
        config.seed = run.seed;
        config.chunked_results = run.dialect;
        if run.mode >= 128 {
            config.authorization = UnauthorizedPolicy::Park;
        }
        config.listen = if run.listen { ListenPolicy::IfOffered } else { ListenPolicy::Never };
        let now = Instant::ORIGIN;
        let mut harness = Self {
            client: HttpClient::new(config, now).expect("the URL is one"),
            now,
            accepted: BTreeMap::new(),
            accepted_order: Vec::new(),
            open: BTreeMap::new(),
            seen: BTreeSet::new(),
            challenges: VecDeque::new(),
            markers: 0,
            acted_on: BTreeSet::new(),
            inbound: Vec::new(),
            watches: BTreeMap::new(),
            cut,
            transcript: String::new(),
            closed: false,
        };
        for operation in &run.operations {
            harness.apply(operation);
            harness.check();
        }
        harness.client.at(harness.now).abort(LostReason::DriverDropped);
        harness.actions();
        harness.events();
        for (request, outcomes) in &harness.accepted {
            assert_eq!(*outcomes, 1, "contract 1: {request:?} has {outcomes} outcomes");
        }
        assert!(harness.closed, "the end of a connection is told");
        assert_eq!(harness.client.poll_timeout(), None, "nothing is waited for after the end");
        assert_eq!(harness.client.queued(), 0, "nothing waits to be sent after the end");
        assert!(harness.open.is_empty(), "every exchange is ended or broken off");
        assert!(harness.challenges.is_empty(), "what nobody waits for is not held");
        harness.transcript
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.now;
        match operation {
            Operation::Call { timeout_ms } => {
                let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
                let options = RequestOptions { timeout, ..RequestOptions::default() };
                let mut params = CallToolParams::new("fuzz");
                self.markers += 1;
                params.arguments = Json::new(format!("{{\"marker\":{}}}", self.markers)).ok();
                let accepted = self.client.at(now).request::<CallTool>(&params, options);
                self.accept(accepted);
            }
            Operation::List => {
                let options = RequestOptions::default().reissue(ReissuePolicy::Always);
                let accepted = self.client.at(now).request::<ListTools>(&PaginatedParams::default(), options);
                self.accept(accepted);
            }
            Operation::Listen => {
                let params = SubscriptionsListenParams::new(SubscriptionFilter::default());
                let accepted =
                    self.client.at(now).request::<SubscriptionsListen>(&params, RequestOptions::default());
                self.accept(accepted);
            }
            Operation::Notify => {
                let told = self.client.at(now).notify::<RootsListChanged>(&EmptyParams::default());
                self.note(&told);
            }
            Operation::Cancel(which) => {
                if let Some(request) = pick(&self.accepted_order, *which) {
                    self.client.at(now).cancel(request, None);
                }
            }
            Operation::Respond(which) => {
                if let Some(request) = pick(&self.inbound, *which) {
                    self.client.at(now).respond(request, Ok(&ListRootsResult::new(Vec::new())));
                    self.client.at(now).respond(request, Err(ErrorObject::new(1, "twice")));
                }
            }
            Operation::Close => self.client.at(now).close(),
            Operation::Abort => self.client.at(now).abort(LostReason::Closed),
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
            Operation::Advance { ms } => self.now = now + Duration::from_millis(u64::from(*ms) * 4),
            Operation::Backwards { ms } => {
                let back = Duration::from_millis((*ms).into());
                self.now = Instant::from_origin(now.since_origin().saturating_sub(back));
            }
            Operation::Timeout => {
                self.client.handle_timeout(now);
                let next = self.client.poll_timeout();
                assert!(next.is_none_or(|next| next > now), "contract 5: {next:?} at {now:?}");
            }
            Operation::PollEvents => self.events(),
            Operation::PollActions => {
                self.actions();
                self.resolve_challenge();
            }
            Operation::Watch { interest, before } => {
                let since = if *before { WatchStart::Before } else { WatchStart::Now };
                let watch = self.client.at(now).watch(super::watch_filter(*interest), since);
                self.note(&watch);
                if let Ok(watch) = watch {
                    assert!(self.watches.insert(watch, false).is_none(), "a handle is used twice");
                }
            }
            Operation::SetInterest { which, interest } => {
                if let Some(watch) = self.pick_watch(*which) {
                    self.client.at(now).set_watch_filter(watch, super::watch_filter(*interest));
                }
            }
            Operation::Unwatch(which) => {
                if let Some(watch) = self.pick_watch(*which) {
                    self.client.at(now).unwatch(watch);
                }
            }
            Operation::Task { command, timeout_ms } => {
                let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
                let options = RequestOptions { timeout, ..RequestOptions::default() };
                let accepted = self.client.at(now).task("t", super::task_command(*command), options);
                self.accept(accepted);
            }
        }
    }

    /// Checks the invariants.
    fn check(&mut self) {
        let limits = self.client.peer().config().limits;
        assert!(
            self.client.queued() <= limits.queued_bytes + limits.reply_bytes + limits.message_bytes + 4096,
            "contract 8: {} bytes are queued",
            self.client.queued()
        );
        let (kept, most) = (self.client.peer().cache_usage(), &self.client.peer().config().cache);
        assert!(kept.entries <= most.entries && kept.bytes <= most.bytes, "contract 8: {kept:?} of {most:?}");
        // The machine polls tasks by itself, and drops the polls of requests that have their outcome.
        assert!(self.client.peer().in_flight() <= limits.requests_out, "contract 8: too much is in flight");
    }

    fn accept(&mut self, accepted: Result<RequestId, RequestError>) {
        self.note(&accepted);
        if let Ok(request) = accepted {
            assert!(self.accepted.insert(request, 0).is_none(), "a handle is used twice");
            self.accepted_order.push(request);
        }
    }

    fn pick(&mut self, which: u8) -> Option<ExchangeId> {
        self.actions();
        let at = usize::from(which) % self.open.len().max(1);
        self.open.keys().nth(at).copied()
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
        self.client.handle_head(self.now, id, status, &headers);
    }

    fn body(&mut self, id: ExchangeId, bytes: &[u8]) {
        match self.cut {
            ChunkMode::Whole => self.client.handle_body(self.now, id, Bytes::copy_from_slice(bytes)),
            ChunkMode::Bytewise => {
                for byte in bytes {
                    self.client.handle_body(self.now, id, Bytes::copy_from_slice(&[*byte]));
                }
            }
        }
    }

    fn end(&mut self, id: ExchangeId, end: EndKind) {
        let Some(exchange) = self.open.remove(&id) else { return };
        let end = match end {
            EndKind::Complete => ExchangeEnd::Complete,
            EndKind::Truncated => ExchangeEnd::Truncated("fuzz".to_owned()),
            // An exchange with a partial answer was sent.
            EndKind::No if !exchange.begun => {
                ExchangeEnd::Failed { sent: SentState::No, detail: "fuzz".to_owned() }
            }
            EndKind::Maybe | EndKind::No => {
                ExchangeEnd::Failed { sent: SentState::Maybe, detail: "fuzz".to_owned() }
            }
        };
        if !exchange.begun && !matches!(end, ExchangeEnd::Failed { sent: SentState::No, .. }) {
            self.acted_on.extend(exchange.marker);
        }
        self.client.handle_end(self.now, id, end);
    }

    fn message_text(&self, id: ExchangeId, say: ServerMessage) -> String {
        let own = self.open.get(&id).and_then(|exchange| exchange.id);
        let (error, task);
        let outcome = match say {
            ServerMessage::Discovered => {
                r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#
            }
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
            ServerMessage::Unsupported => {
                r#""error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28","2025-06-18"]}}"#
            }
            ServerMessage::Broken => r#""result":{"content":["#,
            ServerMessage::WithoutId => {
                return r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#
                    .into();
            }
            ServerMessage::Request(method) => {
                let method = ["ping", "roots/list", "sampling/createMessage", "x"][usize::from(method % 4)];
                return format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}"}}"#, own.unwrap_or(0));
            }
            ServerMessage::Progress(token) => {
                return format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
                );
            }
            ServerMessage::Cancelled(which) => {
                return format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{which}}}}}"#
                );
            }
            ServerMessage::Endpoint => return "/post".to_string(),
            ServerMessage::Fragment => return r#"{"content":[1],"isError":false}"#.to_string(),
            ServerMessage::Last => return r#"{"result":{"content":[]}}"#.to_string(),
            ServerMessage::Nothing => return String::new(),
            ServerMessage::Notification(what) => {
                return super::subscription_message(what, &own.unwrap_or(0).to_string());
            }
            ServerMessage::Task => {
                task = super::task(&Id::Number(own.unwrap_or(0)));
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
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Open(request) => {
                    assert!(self.seen.insert(request.exchange), "an exchange is used twice");
                    assert_eq!(
                        request.verb == Verb::Post,
                        !request.body.is_empty(),
                        "only messages have bodies"
                    );
                    let sent: SentMessage = match request.verb {
                        Verb::Post => {
                            serde_json::from_slice(&request.body).expect("what goes out can be read")
                        }
                        _ => SentMessage::default(),
                    };
                    let Params { arguments, request_state } = sent.params;
                    let marker = arguments.marker.map(|marker| (marker, request_state));
                    assert!(
                        marker.as_ref().is_none_or(|marker| !self.acted_on.contains(marker)),
                        "what the server may have acted on is asked again"
                    );
                    self.open.insert(request.exchange, Exchange { id: sent.id, marker, begun: false });
                    self.note(&(&request.url, &request.headers, &request.body));
                }
                Action::AuthorizationRequired(challenge) => {
                    assert!(self.seen.contains(&challenge.exchange), "what was never opened is not held");
                    self.note(&challenge);
                    self.challenges.push_back(challenge);
                }
                Action::Abort(exchange) => {
                    assert!(self.seen.contains(&exchange), "what was never opened is not broken off");
                    self.open.remove(&exchange);
                    self.challenges.retain(|challenge| challenge.exchange != exchange);
                    self.note(&exchange);
                }
            }
        }
    }

    /// Resolves the oldest challenge.
    fn resolve_challenge(&mut self) {
        if let Some(AuthorizationRequired { exchange, attempt, .. }) = self.challenges.pop_front() {
            if attempt < 2 {
                self.client.resume(self.now, exchange);
            } else {
                self.client.refuse(self.now, exchange, "enough");
            }
            self.client.resume(self.now, exchange);
            self.client.refuse(self.now, exchange, "twice");
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            assert!(!self.closed, "nothing follows the end: {event:?}");
            self.note(&event);
            match event {
                Event::Outcome { request, .. } => {
                    let outcomes =
                        self.accepted.get_mut(&request).expect("an outcome of an accepted request");
                    *outcomes += 1;
                    assert_eq!(*outcomes, 1, "contract 1: {request:?} ended twice");
                }
                Event::Progress { request, .. } | Event::PartialResult { request, .. } => {
                    assert_eq!(self.accepted.get(&request), Some(&0), "parts come before the outcome");
                }
                Event::TaskStatus { request, .. } => {
                    assert_eq!(
                        self.accepted.get(&request),
                        Some(&0),
                        "how it is doing comes before the outcome"
                    );
                }
                Event::Changed { watch, .. } => {
                    assert_eq!(
                        self.watches.get(&watch),
                        Some(&false),
                        "a watch that is over is told of a change"
                    );
                }
                Event::Watch { watch, state } => {
                    let over = matches!(state, WatchState::Ended(_));
                    let before = self.watches.insert(watch, over);
                    assert_eq!(before, Some(false), "nothing follows the end of a watch: {state:?}");
                }
                Event::Request { id, .. } => self.inbound.push(id),
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
    }

    fn pick_watch(&self, which: u8) -> Option<WatchId> {
        let at = usize::from(which) % self.watches.len().max(1);
        self.watches.keys().nth(at).copied()
    }

    fn note(&mut self, what: &impl core::fmt::Debug) {
        use core::fmt::Write as _;
        let _ = writeln!(self.transcript, "{what:?}");
    }
}

/// An error, or a result that asks for input, with a state derived from the request's id, so that no state occurs
/// twice.
fn error_or_input_required(own: Option<i64>) -> String {
    match own.map(|id| (id, id.rem_euclid(4))) {
        Some((id, 0)) => super::task(&Id::Number(id)),
        Some((id, 2)) => format!(r#""result":{{"resultType":"input_required","requestState":"{id}"}}"#),
        Some((id, 3)) => format!(
            r#""result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"roots/list"}},"b":{{"method":"roots/list"}}}},"requestState":"{id}"}}"#
        ),
        _ => r#""error":{"code":-32601,"message":"no"}"#.into(),
    }
}

fn pick<T: Copy>(from: &[T], which: u8) -> Option<T> {
    from.get(usize::from(which) % from.len().max(1)).copied()
}
