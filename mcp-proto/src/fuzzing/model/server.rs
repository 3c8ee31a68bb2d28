//! The reference model of a server on a byte stream that speaks both eras.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;

use super::{InputLines, LEGACY, MODERN, Message, VERSION};
use crate::Instant;
use crate::peer::server::Event;
use crate::peer::{InboundId, Outcome, RequestId};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The methods that the fuzzed server serves at 2025-11-25 and at 2026-07-28, by its capabilities.
const LEGACY_METHODS: [&str; 6] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];
const LEGACY_TASK_METHODS: [&str; 4] = ["tasks/get", "tasks/cancel", "tasks/result", "tasks/list"];
const MODERN_METHODS: [&str; 5] =
    ["tools/call", "tools/list", "resources/read", "server/discover", "subscriptions/listen"];
const MODERN_TASK_METHODS: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];
/// The methods whose result may ask for input.
const WITH_INPUT: [&str; 2] = ["tools/call", "resources/read"];

/// How the application answers a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fuzzing) enum SentAnswer {
    Result,
    InputRequired,
    Error(i64),
}

/// An output or event that must follow an operation.
#[derive(Clone, Debug, PartialEq)]
enum Expected {
    /// An answer to the request of this id, which is over with it.
    Answer(Value, Content),
    /// The application gets the request of this id.
    RequestEvent(Value),
    /// A notification of this method, for the subscription of an id.
    Notification(&'static str, Option<Value>),
    /// A request of the server, of this method.
    Request(&'static str),
    /// The application is informed that the request of this handle is cancelled.
    Cancelled(Option<InboundId>),
    /// A notification that the request of the server with this number is cancelled.
    CancelledOnWire(i64),
    /// The request of the server with this number ends so.
    Outcome(i64, ExpectedOutcome),
    Initialized,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    /// A result with these values of members.
    Result(Vec<(&'static str, Value)>),
    Error(i64),
}

/// How a request of the server ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ExpectedOutcome {
    Result,
    Error(i64),
    Cancelled,
}

#[derive(Debug)]
struct Session {
    revision: &'static str,
    is_initialized: bool,
    has_requested: bool,
    /// The URIs that the client has subscribed to.
    subscribed: BTreeSet<String>,
    /// The methods of changes since the handshake, which wait until the client is ready.
    changed: BTreeSet<(&'static str, String)>,
}

/// A request of the client without an answer.
#[derive(Debug)]
struct OpenRequest {
    id: Value,
    method: String,
    is_modern: bool,
    in_batch: bool,
    token: Value,
    handle: Option<InboundId>,
    /// The topics of a subscription: methods of notifications, with a URI or a task where they have one.
    topics: Option<BTreeSet<(&'static str, String)>>,
}

/// A request of the server without an outcome.
#[derive(Debug)]
struct OwnRequest {
    asked_at: Instant,
    timeout: Option<Duration>,
    is_sent: bool,
}

/// The reference model of a server.
#[derive(Debug)]
pub(in crate::fuzzing) struct ServerModel {
    speaks_legacy: bool,
    speaks_modern: bool,
    /// Whether its limits are so low that a request may be refused for them.
    is_tight: bool,
    session: Option<Session>,
    requests: Vec<OpenRequest>,
    own: BTreeMap<i64, OwnRequest>,
    next_number: i64,
    expected: Vec<Expected>,
    /// Answers to requests of batches: they come with the last answer of their batch.
    batched: Vec<Expected>,
    /// The URIs whose subscriptions were reported to the application.
    reported: BTreeSet<String>,
    input: InputLines,
    is_covered: bool,
}

impl ServerModel {
    pub(in crate::fuzzing) fn new(speaks_legacy: bool, speaks_modern: bool, is_tight: bool) -> Self {
        Self {
            speaks_legacy,
            speaks_modern,
            is_tight,
            session: None,
            requests: Vec::new(),
            own: BTreeMap::new(),
            next_number: 1,
            expected: Vec::new(),
            batched: Vec::new(),
            reported: BTreeSet::new(),
            input: InputLines::default(),
            is_covered: true,
        }
    }

    /// Ends the coverage: what follows is not predicted.
    pub(in crate::fuzzing) fn end_coverage(&mut self) {
        self.is_covered = false;
    }

    // --- Inputs ---

    pub(in crate::fuzzing) fn handle_input(&mut self, bytes: &[u8]) {
        for line in self.input.take(bytes) {
            let is_long = self.is_tight && line.len() > 768;
            match Message::read_line(&line) {
                Some((messages, in_batch)) if !is_long => self.handle_line(messages, in_batch),
                _ => self.is_covered = false,
            }
        }
    }

    fn handle_line(&mut self, messages: Vec<Message>, in_batch: bool) {
        let has_batches = self.session.as_ref().is_some_and(|session| session.revision == "2025-03-26");
        if in_batch && (!has_batches || messages.is_empty()) {
            return self.expect(Expected::Answer(Value::Null, Content::Error(-32600)));
        }
        for message in messages {
            match message {
                Message::Request { id, method, params } => self.handle_request(id, method, &params, in_batch),
                Message::Notification { method, params } => self.handle_notification(&method, &params),
                Message::Result { id, .. } => self.handle_answer(&id, ExpectedOutcome::Result),
                Message::Error { id, error } => self.handle_answer(&id, ExpectedOutcome::Error(code(&error))),
            }
        }
        self.release_batches();
    }

    fn handle_request(&mut self, id: Value, method: String, params: &Value, in_batch: bool) {
        // A request with the id of an open one gets no answer, which would seem to answer the other.
        if self.requests.iter().any(|open| open.id == id) {
            return;
        }
        let meta = &params["_meta"];
        let request = OpenRequest {
            token: meta["progressToken"].clone(),
            is_modern: false,
            topics: None,
            handle: None,
            id: id.clone(),
            method,
            in_batch,
        };
        let names_sender =
            meta.get(VERSION).is_some() || (meta.get(CAPABILITIES).is_some() && self.session.is_none());
        let predicted = if names_sender && self.speaks_modern {
            self.predict_modern(request, params)
        } else {
            self.predict_legacy(request, params)
        };
        if let Err(code) = predicted {
            self.expect_answer(id, Content::Error(code), in_batch);
        }
    }

    /// Predicts the reaction to a request that names its sender.
    fn predict_modern(&mut self, mut request: OpenRequest, params: &Value) -> Result<(), i64> {
        request.is_modern = true;
        if request.in_batch {
            return Err(-32600);
        }
        let meta = &params["_meta"];
        let declares_tasks = meta[CAPABILITIES]["extensions"].get(TASKS).is_some();
        let method = request.method.as_str();
        if meta[VERSION] != MODERN {
            return Err(-32022);
        }
        if !meta[CAPABILITIES].is_object() {
            return Err(-32602);
        }
        if MODERN_TASK_METHODS.contains(&method) && !declares_tasks {
            return Err(-32021);
        }
        if !MODERN_METHODS.contains(&method) && !MODERN_TASK_METHODS.contains(&method) {
            return Err(-32601);
        }
        match method {
            "server/discover" => {
                let members = Vec::from([
                    ("resultType", "complete".into()),
                    ("supportedVersions", Value::from([MODERN].as_slice())),
                ]);
                self.expect_answer(request.id, Content::Result(members), false);
            }
            "subscriptions/listen" => {
                let filter = &params["notifications"];
                let of = |name: &str, method| {
                    filter[name]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(move |topic| Some((method, topic.as_str()?.to_string())))
                };
                let mut topics: BTreeSet<_> =
                    of("resourceSubscriptions", "notifications/resources/updated").collect();
                if filter.get("taskIds").is_some() && !declares_tasks {
                    return Err(-32021);
                }
                topics.extend(of("taskIds", "notifications/tasks"));
                for (name, method) in [
                    ("toolsListChanged", "notifications/tools/list_changed"),
                    ("resourcesListChanged", "notifications/resources/list_changed"),
                ] {
                    if filter[name] == true {
                        topics.insert((method, String::new()));
                    }
                }
                request.topics = Some(topics);
                self.expect(Expected::Notification(
                    "notifications/subscriptions/acknowledged",
                    Some(request.id.clone()),
                ));
                self.requests.push(request);
            }
            _ => self.pass_on(request),
        }
        Ok(())
    }

    /// Predicts the reaction to a request of the era of handshakes.
    fn predict_legacy(&mut self, request: OpenRequest, params: &Value) -> Result<(), i64> {
        let method = request.method.as_str();
        if method == "initialize" {
            if !self.speaks_legacy {
                return Err(-32022);
            }
            if request.in_batch {
                return Err(-32600);
            }
            let asked = params["protocolVersion"].as_str().ok_or(-32602)?;
            let revision = LEGACY.into_iter().find(|revision| *revision == asked).unwrap_or("2025-11-25");
            self.session = Some(Session {
                revision,
                is_initialized: false,
                has_requested: false,
                subscribed: BTreeSet::new(),
                changed: BTreeSet::new(),
            });
            self.expect_answer(
                request.id,
                Content::Result(Vec::from([("protocolVersion", revision.into())])),
                false,
            );
            return Ok(());
        }
        if method == "ping" && self.speaks_legacy {
            self.expect_answer(request.id, Content::Result(Vec::new()), request.in_batch);
            return Ok(());
        }
        let is_served = |revision: &str| {
            LEGACY_METHODS.contains(&method)
                || (revision == "2025-11-25" && LEGACY_TASK_METHODS.contains(&method))
        };
        let Some(session) = &mut self.session else {
            return Err(match self.speaks_modern {
                true => -32602,
                false if is_served("2025-11-25") => -32600,
                false => -32601,
            });
        };
        if method == "server/discover" && self.speaks_modern {
            return Err(-32602);
        }
        if !is_served(session.revision) {
            return Err(-32601);
        }
        session.has_requested = true;
        self.send_changes();
        let session = self.session.as_mut().expect("it is open");
        let uri = params["uri"].as_str().unwrap_or_default().to_string();
        match method {
            "logging/setLevel" => {}
            "resources/subscribe" => {
                session.subscribed.insert(uri);
            }
            "resources/unsubscribe" => {
                session.subscribed.remove(&uri);
            }
            _ => {
                self.pass_on(request);
                return Ok(());
            }
        }
        self.expect_answer(request.id, Content::Result(Vec::new()), request.in_batch);
        Ok(())
    }

    fn handle_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                if let Some(session) = self.session.as_mut().filter(|session| !session.is_initialized) {
                    session.is_initialized = true;
                    self.expect(Expected::Initialized);
                    self.send_changes();
                }
            }
            "notifications/cancelled" => {
                let cancelled = &params["requestId"];
                let Some(at) = self.requests.iter().position(|open| open.id == *cancelled) else { return };
                let request = self.requests.remove(at);
                if request.topics.is_none() {
                    self.expect(Expected::Cancelled(request.handle));
                }
                if request.in_batch {
                    self.release_batches();
                }
            }
            _ => {}
        }
    }

    /// Handles the client's answer to a request of the server; one of another id is none.
    fn handle_answer(&mut self, id: &Value, outcome: ExpectedOutcome) {
        if let Some(number) = id.as_i64().filter(|number| self.own.remove(number).is_some()) {
            self.expect(Expected::Outcome(number, outcome));
        }
    }

    // --- Commands ---

    pub(in crate::fuzzing) fn respond(&mut self, handle: InboundId, answer: SentAnswer) {
        let Some(at) = self.requests.iter().position(|open| open.handle == Some(handle)) else { return };
        let request = self.requests.remove(at);
        let content = match answer {
            SentAnswer::Result if request.is_modern => {
                Content::Result(Vec::from([("resultType", "complete".into())]))
            }
            SentAnswer::Result => Content::Result(Vec::new()),
            SentAnswer::InputRequired if request.is_modern && WITH_INPUT.contains(&&*request.method) => {
                Content::Result(Vec::from([("resultType", "input_required".into())]))
            }
            SentAnswer::InputRequired => Content::Error(-32603),
            SentAnswer::Error(code) => Content::Error(code),
        };
        self.expect_answer(request.id, content, request.in_batch);
        if request.in_batch {
            self.release_batches();
        }
    }

    /// Handles that the application reports a change: the method of its notification, and the resource or task.
    pub(in crate::fuzzing) fn change(&mut self, method: &'static str, about: &str) {
        let topic = (method, about.to_string());
        let listening = self
            .requests
            .iter()
            .filter(|open| open.topics.as_ref().is_some_and(|topics| topics.contains(&topic)));
        let listening: Vec<_> =
            listening.map(|open| Expected::Notification(method, Some(open.id.clone()))).collect();
        if let Some(session) = &mut self.session {
            let is_list = about.is_empty() && method != "notifications/prompts/list_changed";
            if is_list || (method == "notifications/resources/updated" && session.subscribed.contains(about))
            {
                session.changed.insert(topic);
            }
        }
        self.expected.extend(listening);
        self.send_changes();
    }

    /// The session's notifications of changes follow once its client is ready.
    fn send_changes(&mut self) {
        let Some(session) =
            self.session.as_mut().filter(|session| session.is_initialized || session.has_requested)
        else {
            return;
        };
        for (method, _) in core::mem::take(&mut session.changed) {
            self.expected.push(Expected::Notification(method, None));
        }
    }

    /// Handles that the machine has accepted or refused a request to list the client's roots.
    pub(in crate::fuzzing) fn request_roots(
        &mut self,
        now: Instant,
        accepted: Option<RequestId>,
        timeout: Option<Duration>,
    ) {
        let is_ready =
            self.session.as_ref().is_some_and(|session| session.is_initialized) && self.speaks_legacy;
        if !self.is_covered {
            return;
        }
        let Some(request) = accepted else {
            return assert!(
                !is_ready || self.is_tight,
                "model: a request to a client that is ready is refused"
            );
        };
        assert!(is_ready, "model: a request to a client that is not ready");
        self.own.insert(request.number(), OwnRequest { asked_at: now, timeout, is_sent: false });
        self.expect(Expected::Request("roots/list"));
    }

    pub(in crate::fuzzing) fn cancel(&mut self, request: RequestId) {
        if self.own.remove(&request.number()).is_some() {
            self.expect(Expected::CancelledOnWire(request.number()));
            self.expect(Expected::Outcome(request.number(), ExpectedOutcome::Cancelled));
        }
    }

    // --- Outputs and events of the machine ---

    pub(in crate::fuzzing) fn handle_event(&mut self, now: Instant, event: &Event) {
        if !self.is_covered {
            return;
        }
        match event {
            Event::Request { id, method, .. } => {
                let expected = &self.expected;
                let passed = |open: &&mut OpenRequest| {
                    open.handle.is_none() && open.topics.is_none() && open.method == **method
                };
                let request = self
                    .requests
                    .iter_mut()
                    .find(passed)
                    .unwrap_or_else(|| panic!("model: {method} was not asked, only {expected:?}"));
                request.handle = Some(*id);
                let id = request.id.clone();
                self.meet(&Expected::RequestEvent(id));
            }
            Event::Cancelled { id, .. } => self.meet(&Expected::Cancelled(Some(*id))),
            Event::Initialized => self.meet(&Expected::Initialized),
            Event::Subscribed { uri } => {
                assert!(self.reported.insert(uri.clone()), "model: {uri} is subscribed to")
            }
            Event::Unsubscribed { uri } => {
                assert!(self.reported.remove(uri), "model: {uri} is not subscribed to")
            }
            Event::Outcome { request, outcome } => self.handle_outcome(now, request.number(), outcome),
            Event::Closed(_) => self.is_covered = false,
            _ => {}
        }
    }

    fn handle_outcome(&mut self, now: Instant, number: i64, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Result(_) => ExpectedOutcome::Result,
            Outcome::Error(error) => ExpectedOutcome::Error(error.code),
            Outcome::Cancelled => ExpectedOutcome::Cancelled,
            Outcome::TimedOut { .. } => {
                let request = self.own.remove(&number).expect("model: a request timed out that has ended");
                let elapsed = now.saturating_since(request.asked_at);
                assert!(
                    request.timeout.is_none_or(|timeout| elapsed >= timeout),
                    "model: a timeout after {elapsed:?}"
                );
                return self.expect(Expected::CancelledOnWire(number));
            }
            other => panic!("model: {number} cannot end with {other:?}"),
        };
        self.meet(&Expected::Outcome(number, outcome));
    }

    /// Handles a line that the machine sends.
    pub(in crate::fuzzing) fn handle_output(&mut self, line: &[u8]) {
        let (messages, _) = Message::read_line(line).expect("model: output is not messages");
        if !self.is_covered {
            return;
        }
        for message in messages {
            match message {
                Message::Result { id, result } => self.meet_answer(&id, |content| match content {
                    Content::Result(members) => members.iter().all(|(name, value)| result[*name] == *value),
                    Content::Error(_) => false,
                }),
                Message::Error { id, error } => self.meet_error(&id, code(&error)),
                Message::Request { id, method, .. } => self.handle_own_request(&id, &method),
                Message::Notification { method, params } => self.handle_sent_notification(&method, &params),
            }
        }
    }

    fn meet_error(&mut self, id: &Value, code: i64) {
        let passed = Expected::RequestEvent(id.clone());
        if self.is_tight && code == -32603 {
            // The request is refused for a limit, in place of whatever was to follow.
            let before = self.expected.len();
            self.requests.retain(|open| open.id != *id);
            self.expected.retain(|expected| match expected {
                Expected::Answer(of, _) => of != id,
                Expected::Notification(_, subscription) => subscription.as_ref() != Some(id),
                other => *other != passed,
            });
            let batched = self
                .batched
                .iter()
                .position(|expected| matches!(expected, Expected::Answer(of, _) if of == id));
            let is_pending =
                self.expected.len() < before || batched.map(|at| self.batched.remove(at)).is_some();
            assert!(is_pending, "model: {id} is refused, and was not asked");
            return;
        }
        self.meet_answer(id, |content| *content == Content::Error(code));
    }

    fn meet_answer(&mut self, id: &Value, fits: impl Fn(&Content) -> bool) {
        for list in [&mut self.expected, &mut self.batched] {
            let found = list.iter().position(
                |expected| matches!(expected, Expected::Answer(of, content) if of == id && fits(content)),
            );
            if let Some(at) = found {
                list.remove(at);
                return;
            }
        }
        panic!("model: {id} gets another answer than {:?}", self.expected);
    }

    fn handle_own_request(&mut self, id: &Value, method: &str) {
        let number = id.as_i64().expect("model: a request's id is a number");
        assert!(number >= self.next_number, "model: an id is used twice");
        self.next_number = number + 1;
        let request = self.own.get_mut(&number).expect("model: a request that the application did not make");
        assert!(!core::mem::replace(&mut request.is_sent, true), "model: a request is sent twice");
        assert_eq!(method, "roots/list");
        self.meet(&Expected::Request("roots/list"));
    }

    fn handle_sent_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/progress" => {
                let token = &params["progressToken"];
                // Its report may have waited for the answer of this operation.
                let is_active = self.requests.iter().any(|open| !token.is_null() && open.token == *token);
                let is_answered =
                    self.expected.iter().any(|expected| matches!(expected, Expected::Answer(..)));
                assert!(is_active || is_answered, "model: progress on a request that is over");
            }
            "notifications/message" => {
                assert!(self.session.is_some(), "model: a log message that no client has asked for");
            }
            "notifications/cancelled" if params["_meta"].get(SUBSCRIPTION).is_none() => {
                self.meet(&Expected::CancelledOnWire(params["requestId"].as_i64().unwrap_or_default()));
            }
            method => {
                let subscription = params["_meta"].get(SUBSCRIPTION).cloned();
                let found = self.expected.iter().position(|expected| {
                    matches!(expected, Expected::Notification(of, id) if *of == method && *id == subscription)
                });
                let at = found.unwrap_or_else(|| {
                    panic!("model: {method} for {subscription:?}, not {:?}", self.expected)
                });
                self.expected.remove(at);
            }
        }
    }

    // --- Checks ---

    /// Checks that nothing is missing, after all output and events of an operation. Returns whether the model covers it.
    pub(in crate::fuzzing) fn settle(&mut self) -> bool {
        if !self.is_covered {
            return false;
        }
        assert!(self.expected.is_empty(), "model: missing: {:?}", self.expected);
        let of_session = self.session.iter().flat_map(|session| session.subscribed.iter().cloned());
        let of_streams = self.requests.iter().flat_map(|open| open.topics.iter().flatten());
        let resources = of_streams.filter(|(method, _)| *method == "notifications/resources/updated");
        let subscribed: BTreeSet<_> = resources.map(|(_, uri)| uri.clone()).chain(of_session).collect();
        assert!(
            self.is_tight || subscribed == self.reported,
            "model: {subscribed:?} is not {:?}",
            self.reported
        );
        true
    }

    fn pass_on(&mut self, request: OpenRequest) {
        self.expect(Expected::RequestEvent(request.id.clone()));
        self.requests.push(request);
    }

    fn expect(&mut self, expected: Expected) {
        self.expected.push(expected);
    }

    fn expect_answer(&mut self, id: Value, content: Content, in_batch: bool) {
        let list = if in_batch { &mut self.batched } else { &mut self.expected };
        list.push(Expected::Answer(id, content));
    }

    /// The answers of batches are due once none of their requests is open.
    fn release_batches(&mut self) {
        if !self.requests.iter().any(|open| open.in_batch) {
            self.expected.append(&mut self.batched);
        }
    }

    fn meet(&mut self, met: &Expected) {
        let found = self.expected.iter().position(|expected| expected == met);
        let at = found.unwrap_or_else(|| panic!("model: {met:?}, not {:?}", self.expected));
        self.expected.remove(at);
    }
}

fn code(error: &Value) -> i64 {
    error["code"].as_i64().unwrap_or_default()
}
