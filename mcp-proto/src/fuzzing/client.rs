//! Fuzzing of a client with arbitrary operations of the server, the application, the driver and the clock.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use arbitrary::Arbitrary;
use bytes::Bytes;

use crate::Instant;
use crate::peer::client::{ClientConfig, EraPolicy, Event, Keepalive, WatchId, WatchStart, WatchState};
use crate::peer::{InboundId, LostReason, RequestError, RequestId, RequestOptions};
use crate::rpc::{self, ErrorObject, Frame, Id, Message};
use crate::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitAction, ElicitResult, EmptyParams, Implementation,
    ListRootsResult, ListTools, PaginatedParams, Ping, SubscriptionsListen, SubscriptionsListenParams,
};
use crate::transport::StreamClient;

/// One operation of a run.
#[derive(Arbitrary, Clone, Debug)]
pub(super) enum Operation {
    Call { timeout_ms: Option<u16> },
    List,
    Listen,
    Ping,
    Cancel(u8),
    Respond(u8),
    Close,
    Abort,
    Open,
    OpenFailed,
    Input(Vec<u8>),
    Line(Vec<u8>),
    Answer { which: u8, with: Answer },
    Progress(u8),
    ServerRequest { id: u8, method: u8 },
    ServerCancels(u8),
    Eof,
    Advance { ms: u16 },
    Backwards { ms: u16 },
    Timeout,
    PollEvents,
    PollTransmit,
    PollLink,
    Watch { interest: u8, before: bool },
    SetInterest { which: u8, interest: u8 },
    Unwatch(u8),
    Task { command: u8, timeout_ms: Option<u16> },
    ServerNotifies { which: u8, what: u8 },
}

/// How the server answers.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Answer {
    Discovered,
    Initialized,
    Complete,
    InputRequired,
    Strange,
    Error,
    Unsupported,
    Broken,
    WithoutId,
}

/// The configuration and the operations of one run.
#[derive(Arbitrary, Clone, Debug)]
pub(super) struct Run {
    mode: u8,
    reopen: bool,
    keepalive: bool,
    tight: bool,
    operations: Vec<Operation>,
}

/// How input is split before the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ChunkMode {
    Whole,
    Bytewise,
}

/// Runs the operations twice, with whole and with split input, and checks the contracts on the way.
pub(super) fn client(run: &Run) {
    let whole = Harness::run(run, ChunkMode::Whole);
    let chopped = Harness::run(run, ChunkMode::Bytewise);
    assert_eq!(whole, chopped, "contract 4: chunk invariance");
}

struct Harness {
    client: StreamClient,
    now: Instant,
    /// The accepted requests, with the number of outcomes of each.
    accepted: BTreeMap<RequestId, u32>,
    accepted_order: Vec<RequestId>,
    /// The ids of the client's requests that are not answered.
    unanswered: VecDeque<Id>,
    inbound: Vec<InboundId>,
    /// The watches, and whether the end of each was reported.
    watches: BTreeMap<WatchId, bool>,
    /// The ids of the subscriptions.
    listens: Vec<String>,
    cut: ChunkMode,
    transcript: String,
    closed: bool,
}

impl Harness {
    fn run(run: &Run, cut: ChunkMode) -> String {
        let mut config = ClientConfig::new(Implementation::new("fuzz", "0"));
        config.era_policy =
            [EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly][usize::from(run.mode % 3)];
        config.can_reopen = run.reopen;
        config.keepalive = run.keepalive.then_some(Keepalive::PRESET);
        config.capabilities.roots = Some(Default::default());
        config.capabilities = config.capabilities.with(ClientCapability::ElicitationUrl);
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
        }
        let mut harness = Self {
            client: StreamClient::new(config),
            now: Instant::ORIGIN,
            accepted: BTreeMap::new(),
            accepted_order: Vec::new(),
            unanswered: VecDeque::new(),
            inbound: Vec::new(),
            watches: BTreeMap::new(),
            listens: Vec::new(),
            cut,
            transcript: String::new(),
            closed: false,
        };
        for operation in &run.operations {
            harness.apply(operation);
            harness.check();
        }
        harness.client.at(harness.now).abort(LostReason::DriverDropped);
        harness.drain_events();
        for (request, outcomes) in &harness.accepted {
            assert_eq!(*outcomes, 1, "contract 1: {request:?} has {outcomes} outcomes");
        }
        assert!(harness.closed, "the end of a connection is told");
        assert_eq!(harness.client.poll_timeout(), None, "nothing is waited for after the end");
        harness.transcript
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.now;
        match operation {
            Operation::Call { timeout_ms } => {
                let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
                let options = RequestOptions { timeout, ..RequestOptions::default() };
                let accepted = self.client.at(now).request::<CallTool>(&CallToolParams::new("fuzz"), options);
                self.accept(accepted);
            }
            Operation::List => {
                let accepted = self
                    .client
                    .at(now)
                    .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
                self.accept(accepted);
            }
            Operation::Listen => {
                let params = SubscriptionsListenParams::new(crate::schema::SubscriptionFilter::default());
                let accepted =
                    self.client.at(now).request::<SubscriptionsListen>(&params, RequestOptions::default());
                self.accept(accepted);
            }
            Operation::Ping => {
                let accepted =
                    self.client.at(now).request::<Ping>(&EmptyParams::default(), RequestOptions::default());
                self.accept(accepted);
            }
            Operation::Cancel(which) => {
                if let Some(request) = pick(&self.accepted_order, *which) {
                    self.client.at(now).cancel(request, None);
                }
            }
            Operation::Respond(which) => {
                if let Some(request) = pick(&self.inbound, *which) {
                    match which % 2 {
                        0 => self.client.at(now).respond(request, Ok(&ListRootsResult::new(Vec::new()))),
                        _ => {
                            self.client.at(now).respond(request, Ok(&ElicitResult::new(ElicitAction::Accept)))
                        }
                    }
                    self.client.at(now).respond(request, Err(ErrorObject::new(1, "twice")));
                }
            }
            Operation::Close => self.client.at(now).close(),
            Operation::Abort => self.client.at(now).abort(LostReason::Closed),
            Operation::Open => self.client.handle_open(now),
            Operation::OpenFailed => self.client.handle_open_failed("fuzz"),
            Operation::Input(bytes) => self.input(bytes),
            Operation::Line(bytes) => {
                self.input(bytes);
                self.input(b"\n");
            }
            Operation::Answer { which, with } => self.answer(*which, *with),
            Operation::Progress(which) => {
                let token =
                    self.accepted_order.get(usize::from(*which)).map_or(0, |request| request.number());
                self.send_line(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
                ));
            }
            Operation::ServerRequest { id, method } => {
                let method = ["ping", "roots/list", "sampling/createMessage", "x"][usize::from(method % 4)];
                self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
            }
            Operation::ServerCancels(id) => self.send_line(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            )),
            Operation::Eof => self.client.handle_eof(now, "fuzz"),
            Operation::Advance { ms } => {
                self.now = now + Duration::from_millis(u64::from(*ms) * 4);
            }
            Operation::Backwards { ms } => {
                let back = Duration::from_millis((*ms).into());
                self.now = Instant::from_origin(now.since_origin().saturating_sub(back));
            }
            Operation::Timeout => {
                self.client.handle_timeout(now);
                let next = self.client.poll_timeout();
                assert!(next.is_none_or(|next| next > now), "contract 5: {next:?} at {now:?}");
            }
            Operation::PollEvents => self.drain_events(),
            Operation::PollTransmit => self.transmit(),
            Operation::PollLink => {
                let action = self.client.poll_link();
                self.note(&action);
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
            Operation::ServerNotifies { which, what } => {
                self.transmit();
                let at = usize::from(*which) % self.listens.len().max(1);
                let subscription = self.listens.get(at).map_or("0", String::as_str);
                self.send_line(&super::subscription_message(*what, subscription));
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

    fn input(&mut self, bytes: &[u8]) {
        match self.cut {
            ChunkMode::Whole => self.client.handle_input(self.now, Bytes::copy_from_slice(bytes)),
            ChunkMode::Bytewise => {
                for byte in bytes {
                    self.client.handle_input(self.now, Bytes::copy_from_slice(&[*byte]));
                }
            }
        }
    }

    fn send_line(&mut self, text: &str) {
        self.input(format!("{text}\n").as_bytes());
    }

    fn answer(&mut self, which: u8, with: Answer) {
        self.transmit();
        let index = usize::from(which) % self.unanswered.len().max(1);
        let Some(id) = self.unanswered.remove(index) else { return };
        let task;
        let outcome = match with {
            Answer::Discovered => {
                r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#
            }
            Answer::Initialized => {
                r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}"#
            }
            Answer::Complete if matches!(id, Id::Number(id) if id % 2 == 0) => {
                task = super::task(&id);
                &task
            }
            Answer::Complete => {
                r#""result":{"content":[],"tools":[{"name":"fuzz","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}],"ttlMs":300,"cacheScope":"private"}"#
            }
            Answer::InputRequired if matches!(id, Id::Number(id) if id % 2 == 0) => {
                r#""result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}}"#
            }
            Answer::InputRequired => r#""result":{"resultType":"input_required","requestState":"s"}"#,
            Answer::Strange => r#""result":[{"resultType":7}]"#,
            Answer::Error if matches!(id, Id::Number(id) if id % 2 == 0) => {
                r#""error":{"code":-32042,"message":"no","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.b","message":"m"}]}}"#
            }
            Answer::Error => r#""error":{"code":-32601,"message":"no"}"#,
            Answer::Unsupported => {
                r#""error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28","2025-06-18"]}}"#
            }
            Answer::Broken => r#""result":{"content":["#,
            Answer::WithoutId => {
                return self
                    .send_line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#);
            }
        };
        self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        let any = self.client.poll_transmit(&mut out);
        assert_eq!(any, !out.is_empty());
        assert!(out.is_empty() || out.ends_with(b"\n"), "only whole lines go out");
        for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let line = Bytes::copy_from_slice(line);
            match rpc::read(&line, 128) {
                Ok(Frame::Single(Message::Request(request))) => {
                    if &*request.method == "subscriptions/listen" {
                        self.listens.push(format!("{}", request.id));
                    }
                    self.unanswered.push_back(request.id);
                }
                Ok(Frame::Single(_)) => {}
                other => panic!("what goes out can be read: {other:?}"),
            }
        }
        self.note(&out);
    }

    fn drain_events(&mut self) {
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
                Event::Progress { request, .. } => {
                    assert_eq!(self.accepted.get(&request), Some(&0), "progress comes before the outcome");
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

fn pick<T: Copy>(from: &[T], which: u8) -> Option<T> {
    from.get(usize::from(which) % from.len().max(1)).copied()
}
