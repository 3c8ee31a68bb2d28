//! Fuzzing of a server with arbitrary operations of the client, the application, the driver and the clock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use arbitrary::Arbitrary;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::peer::server::{
    Answer, Eras, Event, ListKind, NONCE_BYTES, SealError, SealKey, Sealer, ServerConfig,
};
use crate::peer::{InboundId, LostReason, RequestId, RequestOptions};
use crate::rpc::{self, ErrorObject, Frame, Id, Message};
use crate::schema::tasks::{GetTaskResult, TaskStatus, TaskUpdatedParams};
use crate::schema::{
    CallToolResult, EmptyParams, Implementation, InputRequiredResult, ListRoots, LoggingLevel,
    LoggingMessageParams, ProgressParams, ServerCapability,
};
use crate::transport::StreamServer;
use crate::{Instant, UnixTime};

#[derive(Arbitrary, Clone, Debug)]
pub(super) enum Operation {
    SendRequest {
        id: u8,
        method: u8,
        modern: bool,
    },
    Batch {
        ids: Vec<u8>,
    },
    Notify {
        method: u8,
        id: u8,
    },
    AnswerRequest {
        which: u8,
        error: bool,
    },
    Input(Vec<u8>),
    Line(Vec<u8>),
    Eof,
    Respond {
        which: u8,
        with: u8,
    },
    Progress {
        which: u8,
        value: u8,
    },
    Log {
        which: Option<u8>,
        level: bool,
    },
    Changed {
        list: u8,
    },
    Updated {
        uri: u8,
    },
    Request {
        timeout_ms: Option<u16>,
    },
    Cancel(u8),
    Close,
    Abort,
    Advance {
        ms: u16,
    },
    Backwards {
        ms: u16,
    },
    Timeout,
    PollEvents,
    PollTransmit,
    TaskUpdated {
        task: u8,
        over: bool,
    },
    /// A call with a state that was issued for it, or for another call.
    CallWithState {
        id: u8,
        which: u8,
    },
}

#[derive(Arbitrary, Clone, Debug)]
pub(super) struct Run {
    eras: u8,
    tight: bool,
    operations: Vec<Operation>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ChunkMode {
    Whole,
    Bytewise,
}

/// Runs the operations twice, with whole and with split input, and checks the contracts on the way.
pub(super) fn server(run: &Run) {
    let whole = Harness::run(run, ChunkMode::Whole);
    let chopped = Harness::run(run, ChunkMode::Bytewise);
    assert_eq!(whole, chopped, "contract 4: chunk invariance");
}

struct Harness {
    server: StreamServer,
    now: Instant,
    /// The requests passed to the application, and whether they were answered or cancelled.
    inbound: BTreeMap<InboundId, bool>,
    inbound_order: Vec<InboundId>,
    cancelled: BTreeSet<InboundId>,
    accepted: BTreeMap<RequestId, u32>,
    server_requests: Vec<RequestId>,
    unanswered: Vec<Id>,
    /// The number of answers sent under each id, minus the number of requests received.
    balance: BTreeMap<String, i64>,
    /// Whether input was received that the balance does not count.
    has_uncounted_input: bool,
    sealer: Sealer,
    /// The subject of each request, to which its states are bound.
    request_subjects: BTreeMap<InboundId, String>,
    /// The issued states, with the subject that each is bound to.
    states: Vec<(String, String)>,
    transcript: String,
    cut: ChunkMode,
    closed: bool,
}

const METHODS: [&str; 17] = [
    "tools/call",
    "tools/list",
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "resources/read",
    "completion/complete",
    "nonsense",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "tasks/result",
    "tasks/list",
];

/// The lifetime of states.
const LIFETIME: Duration = Duration::from_secs(30);

/// The members of a request that the checks need.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SentRequest {
    uri: String,
    request_state: Option<String>,
}

impl Harness {
    fn run(run: &Run, cut: ChunkMode) -> String {
        let mut config = ServerConfig::new(Implementation::new("fuzz", "0"));
        config.eras = [Eras::Both, Eras::ModernOnly, Eras::LegacyOnly][usize::from(run.eras % 3)];
        for capability in [
            ServerCapability::ToolsListChanged,
            ServerCapability::ResourcesSubscribe,
            ServerCapability::ResourcesListChanged,
            ServerCapability::Logging,
            ServerCapability::TasksExtension,
            ServerCapability::Tasks,
            ServerCapability::TasksCancel,
            ServerCapability::TasksList,
        ] {
            config.capabilities = config.capabilities.with(capability);
        }
        if run.tight {
            config.limits.message_bytes = 768;
            config.limits.events = 16;
            config.limits.requests_in = 3;
            config.limits.requests_out = 2;
            config.limits.subscriptions = 2;
            config.limits.queued_bytes = 1024;
            config.limits.reply_bytes = 1024;
        }
        let mut harness = Self {
            server: StreamServer::new(config),
            now: Instant::ORIGIN,
            inbound: BTreeMap::new(),
            inbound_order: Vec::new(),
            cancelled: BTreeSet::new(),
            accepted: BTreeMap::new(),
            server_requests: Vec::new(),
            unanswered: Vec::new(),
            balance: BTreeMap::new(),
            has_uncounted_input: false,
            sealer: Sealer::new(SealKey::new([7; 32]), []),
            request_subjects: BTreeMap::new(),
            states: Vec::new(),
            transcript: String::new(),
            cut,
            closed: false,
        };
        for operation in &run.operations {
            harness.apply(operation);
            harness.check();
        }
        harness.server.at(harness.now).abort(LostReason::DriverDropped);
        harness.drain_events();
        for (request, outcomes) in &harness.accepted {
            assert_eq!(*outcomes, 1, "contract 1: {request:?} has {outcomes} outcomes");
        }
        assert!(harness.inbound.values().all(|&over| over), "a handler is left without a word");
        assert!(harness.closed, "the end of a connection is told");
        assert_eq!(harness.server.poll_timeout(), None, "nothing is waited for after the end");
        harness.transcript
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.now;
        match operation {
            Operation::SendRequest { id, method, modern } => {
                let text = request_text(*id, METHODS[usize::from(*method) % METHODS.len()], *modern);
                *self.balance.entry(format!("{id}")).or_default() -= 1;
                self.input(format!("{text}\n").as_bytes());
            }
            Operation::Batch { ids } => {
                let items: Vec<_> = ids
                    .iter()
                    .map(|id| request_text(*id, METHODS[usize::from(*id) % METHODS.len()], false))
                    .collect();
                self.has_uncounted_input = true;
                self.input(format!("[{}]\n", items.join(",")).as_bytes());
            }
            Operation::Notify { method, id } => {
                let (method, params) = match method % 4 {
                    0 => ("notifications/initialized", String::from("{}")),
                    1 => ("notifications/cancelled", format!(r#"{{"requestId":{id}}}"#)),
                    2 => ("notifications/progress", format!(r#"{{"progressToken":{id},"progress":1}}"#)),
                    _ => ("notifications/roots/list_changed", String::from("{}")),
                };
                self.input(
                    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n")
                        .as_bytes(),
                );
            }
            Operation::AnswerRequest { which, error } => {
                self.transmit();
                let index = usize::from(*which) % self.unanswered.len().max(1);
                if index >= self.unanswered.len() {
                    return;
                }
                let id = self.unanswered.remove(index);
                let outcome =
                    if *error { r#""error":{"code":-1,"message":"no"}"# } else { r#""result":{"roots":[]}"# };
                self.input(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{outcome}}}\n").as_bytes());
            }
            Operation::Input(bytes) => {
                self.has_uncounted_input = true;
                self.input(bytes);
            }
            Operation::Line(bytes) => {
                self.has_uncounted_input = true;
                self.input(bytes);
                self.input(b"\n");
            }
            Operation::Eof => self.server.handle_eof(now, "fuzz"),
            Operation::Respond { which, with } => {
                let Some(request) = pick(&self.inbound_order, *which) else { return };
                let state = (with % 4 == 1).then(|| self.seal_state(request));
                let required = InputRequiredResult { request_state: state, ..InputRequiredResult::new() };
                let result = CallToolResult::text("fuzz");
                let task: GetTaskResult = task();
                let answer = match with % 4 {
                    0 => Answer::Result(&result),
                    1 => Answer::InputRequired(&required),
                    2 => Answer::Result(&task),
                    _ => Answer::Error(ErrorObject::new(1, "fuzz")),
                };
                self.server.at(now).respond(request, answer);
                self.inbound.insert(request, true);
            }
            Operation::Progress { which, value } => {
                if let Some(request) = pick(&self.inbound_order, *which) {
                    let sent =
                        self.server.at(now).progress(request, &ProgressParams::new(0, u32::from(*value)));
                    assert!(!(sent && self.inbound[&request]), "progress after the end of a request");
                }
            }
            Operation::Log { which, level } => {
                let level = if *level { LoggingLevel::Error } else { LoggingLevel::Debug };
                let request = which.and_then(|which| pick(&self.inbound_order, which));
                let sent = self.server.at(now).log(request, &LoggingMessageParams::new(level, "fuzz"));
                self.note(&sent);
            }
            Operation::Changed { list } => {
                let list = [ListKind::Tools, ListKind::Prompts, ListKind::Resources][usize::from(list % 3)];
                self.server.at(now).list_changed(list);
            }
            Operation::Updated { uri } => {
                self.server.at(now).resource_updated(&format!("fuzz://{}", uri % 4))
            }
            Operation::Request { timeout_ms } => {
                let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
                let options = RequestOptions { timeout, ..RequestOptions::default() };
                let accepted = self.server.at(now).request::<ListRoots>(&EmptyParams::default(), options);
                self.note(&accepted);
                if let Ok(request) = accepted {
                    assert!(self.accepted.insert(request, 0).is_none(), "a handle is used twice");
                    self.server_requests.push(request);
                }
            }
            Operation::Cancel(which) => {
                if let Some(request) = pick(&self.server_requests, *which) {
                    self.server.at(now).cancel(request, None);
                }
            }
            Operation::Close => self.server.at(now).close(),
            Operation::Abort => self.server.at(now).abort(LostReason::Closed),
            Operation::Advance { ms } => self.now = now + Duration::from_millis(u64::from(*ms) * 4),
            Operation::Backwards { ms } => {
                let back = Duration::from_millis((*ms).into());
                self.now = Instant::from_origin(now.since_origin().saturating_sub(back));
            }
            Operation::Timeout => {
                self.server.handle_timeout(now);
                let next = self.server.poll_timeout();
                assert!(next.is_none_or(|next| next > now), "contract 5: {next:?} at {now:?}");
            }
            Operation::PollEvents => self.drain_events(),
            Operation::PollTransmit => self.transmit(),
            Operation::TaskUpdated { task: which, over } => {
                let mut params: TaskUpdatedParams = task();
                params.task_id = format!("t{}", which % 3);
                if *over {
                    params.status = TaskStatus::Cancelled;
                }
                let sent = self.server.at(now).task_updated(&params);
                self.note(&sent);
            }
            Operation::CallWithState { id, which } => {
                let at = usize::from(*which) % self.states.len().max(1);
                let state = self.states.get(at).map_or("s", |(state, _)| state);
                let state = format!(r#""requestState":"{state}","inputResponses":{{}},"taskId":"#);
                let text = request_text(*id, "tools/call", true).replacen(r#""taskId":"#, &state, 1);
                *self.balance.entry(format!("{id}")).or_default() -= 1;
                self.input(format!("{text}\n").as_bytes());
            }
        }
    }

    /// The wall-clock time, which advances with the simulated clock.
    fn unix_time(&self) -> UnixTime {
        UnixTime::from_epoch(self.now.since_origin())
    }

    /// Seals a state for a request.
    fn seal_state(&mut self, request: InboundId) -> String {
        let about = self.request_subjects.get(&request).cloned().unwrap_or_default();
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&(self.states.len() as u64).to_be_bytes());
        let expires = self.unix_time() + LIFETIME;
        let state = self.sealer.seal(nonce, about.as_bytes(), expires, about.as_bytes());
        self.states.push((state.clone(), about));
        state
    }

    /// Checks that a state opens for the request that it was issued for, and for no other.
    fn check_opens(&self, carried: &SentRequest) {
        let Some(state) = &carried.request_state else { return };
        let opened = self.sealer.open(self.unix_time(), carried.uri.as_bytes(), state);
        let given = self.states.iter().find(|(given, _)| given == state).map(|(_, about)| about);
        match &opened {
            Ok(opened) => assert_eq!(opened.payload, carried.uri.as_bytes(), "a state of another request"),
            Err(SealError::Expired) => {}
            Err(_) => assert_ne!(given, Some(&carried.uri), "a state is refused to its own request"),
        }
        assert!(opened.is_err() || given == Some(&carried.uri), "a state that was never given is accepted");
    }

    /// Checks the invariants.
    fn check(&mut self) {
        let limits = self.server.peer().config().limits;
        assert!(
            self.server.queued() <= limits.queued_bytes + limits.reply_bytes + limits.message_bytes + 8192,
            "contract 8: {} bytes are queued",
            self.server.queued()
        );
        assert!(self.server.peer().unanswered() <= limits.requests_in, "contract 8");
        assert!(self.server.peer().in_flight() <= limits.requests_out, "contract 8");
        assert!(
            self.server.peer().backlog_len() == 0 || !self.server.is_closed(),
            "what is held outlives its connection"
        );
    }

    fn input(&mut self, bytes: &[u8]) {
        match self.cut {
            ChunkMode::Whole => self.server.handle_input(self.now, Bytes::copy_from_slice(bytes)),
            ChunkMode::Bytewise => {
                for byte in bytes {
                    self.server.handle_input(self.now, Bytes::copy_from_slice(&[*byte]));
                }
            }
        }
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        let any = self.server.poll_transmit(&mut out);
        assert_eq!(any, !out.is_empty());
        for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let line = Bytes::copy_from_slice(line);
            match rpc::read(&line, 128) {
                Ok(Frame::Single(message)) => self.handle_sent(message),
                Ok(Frame::Batch(batch)) => {
                    assert!(!batch.is_empty(), "an empty batch goes out");
                    batch.for_each(|message| self.handle_sent(message.expect("what goes out can be read")));
                }
                other => panic!("what goes out can be read: {other:?}"),
            }
        }
        self.note(&out);
    }

    fn handle_sent(&mut self, message: Message) {
        match message {
            Message::Request(request) => self.unanswered.push(request.id),
            Message::Notification(_) => {}
            Message::Response(response) => {
                let Some(id) = response.id else { return };
                let balance = self.balance.entry(format!("{id}")).or_default();
                *balance += 1;
                assert!(
                    self.has_uncounted_input || *balance <= 0,
                    "request {id} was answered more often than it was asked"
                );
            }
        }
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.server.poll_event() {
            assert!(!self.closed, "nothing follows the end: {event:?}");
            self.note(&event);
            match event {
                Event::Request { id, params, .. } => {
                    let carried =
                        params.and_then(|params| params.decode::<SentRequest>().ok()).unwrap_or_default();
                    self.check_opens(&carried);
                    self.request_subjects.insert(id, carried.uri);
                    assert!(self.inbound.insert(id, false).is_none(), "a handle is used twice");
                    self.inbound_order.push(id);
                }
                Event::Cancelled { id, .. } => {
                    // The request may have been answered while this event was queued.
                    assert!(
                        self.inbound.insert(id, true).is_some(),
                        "{id:?} is cancelled and was never asked"
                    );
                    assert!(self.cancelled.insert(id), "{id:?} is cancelled twice");
                }
                Event::Outcome { request, .. } => {
                    let outcomes =
                        self.accepted.get_mut(&request).expect("an outcome of an accepted request");
                    *outcomes += 1;
                    assert_eq!(*outcomes, 1, "contract 1: {request:?} ended twice");
                }
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
    }

    fn note(&mut self, what: &impl core::fmt::Debug) {
        use core::fmt::Write as _;
        let _ = writeln!(self.transcript, "{what:?}");
    }
}

/// A task for notifications and answers.
fn task<T: DeserializeOwned>() -> T {
    let text = r#"{"taskId":"t0","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null}"#;
    serde_json::from_str(text).expect("a task")
}

fn request_text(id: u8, method: &str, modern: bool) -> String {
    let extensions =
        if id.is_multiple_of(2) { "" } else { r#""extensions":{"io.modelcontextprotocol/tasks":{}}"# };
    let meta = if modern {
        format!(
            r#","_meta":{{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{{extensions}}}}}"#
        )
    } else {
        String::new()
    };
    let version = if id.is_multiple_of(2) { "2025-03-26" } else { "2025-11-25" };
    let params = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"roots":{{}}}},"clientInfo":{{"name":"f","version":"0"}},"level":"error","uri":"fuzz://{}","name":"t","taskId":"t{}","notifications":{{"toolsListChanged":true,"resourceSubscriptions":["fuzz://{}"],"taskIds":["t{}"]}}{meta}}}"#,
        id % 4,
        id % 3,
        id % 3,
        id % 5,
    );
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn pick<T: Copy>(from: &[T], which: u8) -> Option<T> {
    from.get(usize::from(which) % from.len().max(1)).copied()
}
