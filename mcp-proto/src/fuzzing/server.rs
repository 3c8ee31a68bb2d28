//! Fuzzing of a server with arbitrary operations of the client, the application, the driver and the clock.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use arbitrary::Arbitrary;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::harness::{RunState, Target, check_limits, choose, pick_key, read_messages, timeout};
use super::model::{SentAnswer, ServerModel};
use crate::peer::server::{
    Answer, Eras, Event, ListKind, NONCE_BYTES, SealError, SealKey, Sealer, ServerConfig,
};
use crate::peer::{InboundId, LostReason};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, Message};
use crate::schema::tasks::{GetTaskResult, TaskStatus, TaskUpdatedParams};
use crate::schema::{
    CallToolResult, EmptyParams, Implementation, InputRequiredResult, ListRoots, LoggingLevel,
    LoggingMessageParams, ProgressParams, ServerCapability,
};
use crate::transport::StreamServer;
use crate::{Instant, Limits, UnixTime};

#[derive(Arbitrary, Debug)]
pub(super) enum Operation {
    SendRequest { id: u8, method: u8, modern: bool },
    Batch { ids: Vec<u8> },
    Notify { method: u8, id: u8 },
    AnswerRequest { which: u8, error: bool },
    Input(Vec<u8>),
    Line(Vec<u8>),
    Eof,
    Respond { which: u8, with: u8 },
    Progress { which: u8, value: u8 },
    Log { which: Option<u8>, level: bool },
    Changed { list: u8 },
    Updated { uri: u8 },
    Request { timeout_ms: Option<u16> },
    Cancel(u8),
    Close,
    Abort,
    Advance { ms: u16 },
    Backwards { ms: u16 },
    Timeout,
    PollEvents,
    PollTransmit,
    TaskUpdated { task: u8, over: bool },
    // A call with a state that was issued for it, or for another call.
    CallWithState { id: u8, which: u8 },
}

/// The configuration of one run.
#[derive(Arbitrary, Debug)]
pub(super) struct Config {
    eras: u8,
    tight: bool,
}

/// A server on a byte stream, its application and its client.
pub(super) struct Server {
    server: StreamServer,
    run: RunState,
    /// The requests passed to the application, and whether they were answered or cancelled.
    inbound: BTreeMap<InboundId, bool>,
    cancelled: BTreeSet<InboundId>,
    /// The ids of the server's requests that are not answered.
    unanswered: Vec<Id>,
    /// The number of answers sent under each id, minus the number of requests received.
    balance: BTreeMap<Id, i64>,
    /// Whether input was received that the balance does not count.
    has_uncounted_input: bool,
    sealer: Sealer,
    /// The subject of each request, to which its states are bound.
    request_subjects: BTreeMap<InboundId, String>,
    /// The issued states, with the subject that each is bound to.
    states: Vec<(String, String)>,
    model: Option<ServerModel>,
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

impl Target for Server {
    type Config = Config;
    type Operation = Operation;
    type Event = Event;

    fn new(config: &Config, run: RunState) -> Self {
        let mut server = ServerConfig::new(Implementation::new("fuzz", "0"));
        server.eras = choose([Eras::Both, Eras::ModernOnly, Eras::LegacyOnly], config.eras);
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
            server.capabilities = server.capabilities.with(capability);
        }
        if config.tight {
            server.limits = Limits {
                message_bytes: 768,
                events: 16,
                requests_in: 3,
                requests_out: 2,
                subscriptions: 2,
                queued_bytes: 1024,
                reply_bytes: 1024,
                ..server.limits
            };
        }
        server.recorder = run.recording.recorder();
        Self {
            server: StreamServer::new(server),
            run,
            inbound: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            unanswered: Vec::new(),
            balance: BTreeMap::new(),
            has_uncounted_input: false,
            sealer: Sealer::new(SealKey::new([7; 32]), []),
            request_subjects: BTreeMap::new(),
            states: Vec::new(),
            model: None,
        }
    }

    fn run(&mut self) -> &mut RunState {
        &mut self.run
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.run.now;
        match operation {
            Operation::SendRequest { id, method, modern } => {
                let text = request_text(*id, choose(METHODS, *method), *modern);
                *self.balance.entry(Id::Number((*id).into())).or_default() -= 1;
                self.send_line(&text);
            }
            Operation::Batch { ids } => {
                let items: Vec<_> =
                    ids.iter().map(|id| request_text(*id, choose(METHODS, *id), false)).collect();
                self.has_uncounted_input = true;
                self.send_line(&format!("[{}]", items.join(",")));
            }
            Operation::Notify { method, id } => {
                let (method, params) = match method % 4 {
                    0 => ("notifications/initialized", String::from("{}")),
                    1 => ("notifications/cancelled", format!(r#"{{"requestId":{id}}}"#)),
                    2 => ("notifications/progress", format!(r#"{{"progressToken":{id},"progress":1}}"#)),
                    _ => ("notifications/roots/list_changed", String::from("{}")),
                };
                self.send_line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
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
                self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
            }
            Operation::Input(bytes) | Operation::Line(bytes) => {
                self.has_uncounted_input = true;
                self.tell_model(ServerModel::end_coverage);
                self.input(bytes);
                if matches!(operation, Operation::Line(_)) {
                    self.input(b"\n");
                }
            }
            Operation::Eof => {
                self.tell_model(ServerModel::end_coverage);
                self.server.handle_eof(now, "fuzz");
            }
            Operation::Respond { which, with } => {
                let Some(request) = pick_key(&self.inbound, *which) else { return };
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
                let sent = match with % 4 {
                    0 | 2 => SentAnswer::Result,
                    1 => SentAnswer::InputRequired,
                    _ => SentAnswer::Error(1),
                };
                self.tell_model(|model| model.respond(request, sent));
                self.server.at(now).respond(request, answer);
                self.inbound.insert(request, true);
            }
            Operation::Progress { which, value } => {
                if let Some(request) = pick_key(&self.inbound, *which) {
                    let sent =
                        self.server.at(now).progress(request, &ProgressParams::new(0, u32::from(*value)));
                    assert!(!(sent && self.inbound[&request]), "progress after the end of a request");
                    self.run.note(&sent);
                }
            }
            Operation::Log { which, level } => {
                let level = if *level { LoggingLevel::Error } else { LoggingLevel::Debug };
                let request = which.and_then(|which| pick_key(&self.inbound, which));
                let sent = self.server.at(now).log(request, &LoggingMessageParams::new(level, "fuzz"));
                self.run.note(&sent);
            }
            Operation::Changed { list } => {
                let list = choose([ListKind::Tools, ListKind::Prompts, ListKind::Resources], *list);
                self.tell_model(|model| model.change(list.notification(), ""));
                self.server.at(now).list_changed(list);
            }
            Operation::Updated { uri } => {
                let uri = format!("fuzz://{}", uri % 4);
                self.tell_model(|model| model.change("notifications/resources/updated", &uri));
                self.server.at(now).resource_updated(&uri);
            }
            Operation::Request { timeout_ms } => {
                let options = timeout(*timeout_ms);
                let limit = options.timeout;
                let accepted = self.server.at(now).request::<ListRoots>(&EmptyParams::default(), options);
                self.tell_model(|model| model.request_roots(now, accepted.as_ref().ok().copied(), limit));
                self.run.accept(accepted);
            }
            Operation::Cancel(which) => {
                if let Some(request) = self.run.pick_request(*which) {
                    self.tell_model(|model| model.cancel(request));
                    self.server.at(now).cancel(request, None);
                }
            }
            Operation::Close => {
                self.tell_model(ServerModel::end_coverage);
                self.server.at(now).close();
            }
            Operation::Abort => {
                self.tell_model(ServerModel::end_coverage);
                self.server.at(now).abort(LostReason::Closed);
            }
            Operation::Advance { ms } => self.run.advance(*ms),
            Operation::Backwards { ms } => self.run.set_back(*ms),
            Operation::Timeout => self.check_timeout(),
            Operation::PollEvents => self.drain_events(),
            Operation::PollTransmit => self.transmit(),
            Operation::TaskUpdated { task: which, over } => {
                let mut params: TaskUpdatedParams = task();
                params.task_id = format!("t{}", which % 3);
                if *over {
                    params.status = TaskStatus::Cancelled;
                }
                self.tell_model(|model| model.change("notifications/tasks", &params.task_id));
                let sent = self.server.at(now).task_updated(&params);
                self.run.note(&sent);
            }
            Operation::CallWithState { id, which } => {
                let at = usize::from(*which) % self.states.len().max(1);
                let state = self.states.get(at).map_or("s", |(state, _)| state);
                let state = format!(r#""requestState":"{state}","inputResponses":{{}},"taskId":"#);
                let text = request_text(*id, "tools/call", true).replacen(r#""taskId":"#, &state, 1);
                *self.balance.entry(Id::Number((*id).into())).or_default() -= 1;
                self.send_line(&text);
            }
        }
    }

    fn handle_timeout(&mut self) {
        self.server.handle_timeout(self.run.now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.server.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.server.poll_event()
    }

    fn in_flight(&self) -> usize {
        self.server.peer().in_flight()
    }

    fn handle_event(&mut self, event: Event) {
        let now = self.run.now;
        self.tell_model(|model| model.handle_event(now, &event));
        match event {
            Event::Request { id, params, .. } => {
                let carried =
                    params.and_then(|params| params.decode::<SentRequest>().ok()).unwrap_or_default();
                self.check_opens(&carried);
                self.request_subjects.insert(id, carried.uri);
                assert!(self.inbound.insert(id, false).is_none(), "a handle is used twice");
            }
            Event::Cancelled { id, .. } => {
                // The request may have been answered while this event was queued.
                assert!(self.inbound.insert(id, true).is_some(), "{id:?} is cancelled and was never asked");
                assert!(self.cancelled.insert(id), "{id:?} is cancelled twice");
            }
            Event::Outcome { request, .. } => self.run.resolve(request),
            Event::Closed(_) => self.run.closed = true,
            _ => {}
        }
    }

    fn check(&self) {
        let peer = self.server.peer();
        peer.check();
        let limits = &peer.config().limits;
        check_limits(limits, self.server.queued(), 8192, (peer.in_flight(), limits.requests_out));
        assert!(peer.unanswered() <= limits.requests_in, "contract 8: too many requests are unanswered");
        assert!(peer.backlog_len() == 0 || !self.server.is_closed(), "a backlog outlives its connection");
    }

    fn drain_output(&mut self) {
        self.transmit();
    }

    fn preludes() -> [Vec<Operation>; 2] {
        let initialize = Operation::SendRequest { id: 1, method: 2, modern: false };
        [Vec::new(), Vec::from([initialize, Operation::Notify { method: 0, id: 0 }])]
    }

    fn attach_model(&mut self, config: &Config) -> bool {
        let eras = choose([Eras::Both, Eras::ModernOnly, Eras::LegacyOnly], config.eras);
        self.model = Some(ServerModel::new(eras != Eras::ModernOnly, eras != Eras::LegacyOnly, config.tight));
        true
    }

    fn settle_model(&mut self) -> bool {
        self.model.as_mut().is_some_and(ServerModel::settle)
    }

    fn is_end(operation: &Operation) -> bool {
        matches!(operation, Operation::Close | Operation::Abort | Operation::Eof)
    }

    fn end(&mut self) {
        self.server.at(self.run.now).abort(LostReason::DriverDropped);
    }

    fn check_end(&self) {
        assert!(self.inbound.values().all(|&over| over), "a request is neither answered nor cancelled");
        let peer = self.server.peer();
        assert_eq!((peer.unanswered(), peer.backlog_len()), (0, 0), "requests are held after the end");
    }
}

impl Server {
    /// The wall-clock time, which advances with the simulated clock.
    fn unix_time(&self) -> UnixTime {
        UnixTime::from_epoch(self.run.now.since_origin())
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

    /// Passes something to the model, if one is attached.
    fn tell_model(&mut self, act: impl FnOnce(&mut ServerModel)) {
        if let Some(model) = &mut self.model {
            act(model);
        }
    }

    fn input(&mut self, bytes: &[u8]) {
        self.tell_model(|model| model.handle_input(bytes));
        for chunk in self.run.split(bytes) {
            self.server.handle_input(self.run.now, chunk);
        }
    }

    fn send_line(&mut self, text: &str) {
        self.input(format!("{text}\n").as_bytes());
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        let any = self.server.poll_transmit(&mut out);
        assert_eq!(any, !out.is_empty());
        for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            self.tell_model(|model| model.handle_output(line));
            read_messages(line).into_iter().for_each(|message| self.handle_sent(message));
        }
        self.run.note(&Bytes::from(out));
    }

    fn handle_sent(&mut self, message: Message) {
        match message {
            Message::Request(request) => self.unanswered.push(request.id),
            Message::Notification(_) => {}
            Message::Response(response) => {
                let Some(id) = response.id else { return };
                let balance = self.balance.entry(id.clone()).or_default();
                *balance += 1;
                assert!(
                    self.has_uncounted_input || *balance <= 0,
                    "request {id} was answered more often than it was asked"
                );
            }
        }
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
