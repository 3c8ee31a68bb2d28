//! The reference model of a client on a byte stream that detects the era of its server.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;

use super::{InputLines, LEGACY, MODERN, Message, VERSION};
use crate::Instant;
use crate::peer::client::Event;
use crate::peer::{InboundId, Outcome, RequestId};

/// Methods of requests that only one of the eras has.
const MODERN_ONLY: [&str; 3] = ["server/discover", "subscriptions/listen", "tasks/update"];
const LEGACY_ONLY: [&str; 7] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
    "tasks/list",
];
/// Methods of requests that a client may send before it knows its server.
const BEFORE_READY: [&str; 3] = ["server/discover", "initialize", "ping"];
/// Methods of requests of the server that the application answers, by the capabilities of the fuzzed client.
const PASSED_ON: [&str; 2] = ["roots/list", "elicitation/create"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum KnownEra {
    Unknown,
    Modern,
    Legacy,
}

/// A call of the application without an outcome.
#[derive(Debug)]
struct OpenCall {
    asked_at: Instant,
    timeout: Option<Duration>,
    /// The id of its last request on the wire.
    wire_id: Option<i64>,
    /// How often it may be sent: once, and again after each answer that asks for that.
    may_be_sent: usize,
    /// The server's answer to its last request.
    answer: Option<ReceivedAnswer>,
    /// Whether it has waited for the handshake or the server has reacted to it: its time is counted from then.
    is_delayed: bool,
    has_progress: bool,
}

/// A request on the wire without an answer.
#[derive(Debug)]
struct SentRequest {
    method: String,
    /// The call of the application that it belongs to.
    call: Option<RequestId>,
    is_cancelled: bool,
    asks_for_task: bool,
}

/// A request of the server without an answer.
#[derive(Debug)]
struct ReceivedRequest {
    id: Value,
    method: String,
    handle: Option<InboundId>,
    /// Whether it has come in this operation.
    is_new: bool,
}

/// An answer of the server, by the reaction of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReceivedAnswer {
    /// A result that is complete.
    Complete,
    /// A result that asks for input, or the error that requires a visit to a page.
    AsksForInput,
    /// A result that creates a task.
    Task,
    /// A result of no known type.
    OfUnknownType,
    Error(i64),
}

/// The reference model of a client.
#[derive(Debug)]
pub(in crate::fuzzing) struct ClientModel {
    era: KnownEra,
    may_be_modern: bool,
    may_be_legacy: bool,
    /// Whether its limits are so low that a request may wait or be lost for them.
    is_tight: bool,
    calls: BTreeMap<RequestId, OpenCall>,
    sent: BTreeMap<i64, SentRequest>,
    used_ids: BTreeSet<i64>,
    /// The requests of the server without an answer, and the handle by which the application answers each.
    received: Vec<ReceivedRequest>,
    /// The ids of requests that the application has answered in this operation.
    replies: Vec<Value>,
    /// Whether the server has accepted `initialize`, and the client has not yet confirmed that.
    owes_initialized: bool,
    /// The calls that the application has cancelled in this operation.
    cancelled: BTreeSet<RequestId>,
    /// The ids that the client must cancel on the wire in this operation.
    cancels: BTreeSet<i64>,
    /// The calls that must end in this operation, because their answers have come, or their time is over.
    due: BTreeSet<RequestId>,
    /// Whether the input has had a line that is not a message, so that answers and requests may have come that the model does
    /// not know.
    has_unreadable_input: bool,
    has_irregular_clock: bool,
    input: InputLines,
    is_covered: bool,
}

impl ClientModel {
    pub(in crate::fuzzing) fn new(may_be_modern: bool, may_be_legacy: bool, is_tight: bool) -> Self {
        Self {
            era: KnownEra::Unknown,
            may_be_modern,
            may_be_legacy,
            is_tight,
            calls: BTreeMap::new(),
            sent: BTreeMap::new(),
            used_ids: BTreeSet::new(),
            received: Vec::new(),
            replies: Vec::new(),
            owes_initialized: false,
            cancelled: BTreeSet::new(),
            cancels: BTreeSet::new(),
            due: BTreeSet::new(),
            has_unreadable_input: false,
            has_irregular_clock: false,
            input: InputLines::default(),
            is_covered: true,
        }
    }

    /// Ends the coverage: what follows is not predicted.
    pub(in crate::fuzzing) fn end_coverage(&mut self) {
        self.is_covered = false;
    }

    // --- Commands ---

    pub(in crate::fuzzing) fn call(&mut self, now: Instant, request: RequestId, timeout: Option<Duration>) {
        let call = OpenCall {
            asked_at: now,
            timeout,
            wire_id: None,
            may_be_sent: 1,
            answer: None,
            is_delayed: self.era == KnownEra::Unknown,
            has_progress: false,
        };
        self.calls.insert(request, call);
    }

    pub(in crate::fuzzing) fn cancel(&mut self, request: RequestId) {
        if let Some(call) = self.calls.get(&request) {
            let on_wire = call.wire_id.filter(|id| self.sent.get(id).is_some_and(|sent| !sent.asks_for_task));
            self.cancels.extend(on_wire);
            self.cancelled.insert(request);
        }
    }

    pub(in crate::fuzzing) fn respond(&mut self, handle: InboundId) {
        let answered = self.received.iter().find(|received| received.handle == Some(handle));
        self.replies.extend(answered.map(|received| received.id.clone()));
    }

    pub(in crate::fuzzing) fn set_clock_back(&mut self) {
        self.has_irregular_clock = true;
    }

    /// Handles a reading of the clock: a call must end once its time is over, unless a reaction of the server has delayed that.
    pub(in crate::fuzzing) fn handle_timeout(&mut self, now: Instant) {
        let is_over = |call: &OpenCall| {
            let elapsed = now.saturating_since(call.asked_at);
            !call.is_delayed && call.timeout.is_some_and(|timeout| elapsed >= timeout)
        };
        if !self.has_irregular_clock && !self.is_tight && !self.has_unreadable_input {
            let over = self.calls.iter().filter(|(_, call)| is_over(call));
            self.due.extend(over.map(|(request, _)| *request));
        }
    }

    // --- Inputs ---

    pub(in crate::fuzzing) fn handle_input(&mut self, bytes: &[u8]) {
        for line in self.input.take(bytes) {
            match Message::read_line(&line) {
                Some((messages, false)) => {
                    messages.into_iter().for_each(|message| self.handle_message(message))
                }
                _ => self.expect_any_bytes(),
            }
        }
    }

    /// Handles that input of any bytes follows, of which the client may make something: an answer, for example.
    pub(in crate::fuzzing) fn expect_any_bytes(&mut self) {
        match self.era {
            KnownEra::Unknown => self.is_covered = false,
            _ => self.has_unreadable_input = true,
        }
    }

    fn handle_message(&mut self, message: Message) {
        match message {
            Message::Request { id, method, .. } => {
                // A request with the id of an open one gets no answer, which would seem to answer the other.
                if self.received.iter().all(|received| received.id != id) {
                    self.received.push(ReceivedRequest { id, method, handle: None, is_new: true });
                }
            }
            Message::Notification { method, params } => {
                // A token is the number of its call.
                let of = params["progressToken"].as_i64();
                let call = self.calls.iter_mut().find(|(request, _)| Some(request.number()) == of);
                if let (Some((_, call)), "notifications/progress") = (call, &*method) {
                    call.has_progress = true;
                    call.is_delayed = true;
                }
            }
            Message::Result { id, result } => {
                let is_legacy = self.era == KnownEra::Legacy;
                let answer = match &result["resultType"] {
                    _ if is_legacy && result.get("task").is_none() => ReceivedAnswer::Complete,
                    Value::Null if !result.is_object() => ReceivedAnswer::OfUnknownType,
                    Value::Null if result.get("task").is_some() => ReceivedAnswer::Task,
                    Value::String(kind) if kind == "task" => ReceivedAnswer::Task,
                    Value::String(kind) if kind == "complete" => ReceivedAnswer::Complete,
                    Value::String(kind) if kind == "input_required" => ReceivedAnswer::AsksForInput,
                    Value::Null => ReceivedAnswer::Complete,
                    _ => ReceivedAnswer::OfUnknownType,
                };
                self.handle_answer(&id, answer, &result);
            }
            Message::Error { id, error } => {
                let code = error["code"].as_i64().unwrap_or_default();
                let answer = if code == -32042 && self.era == KnownEra::Legacy {
                    ReceivedAnswer::AsksForInput
                } else {
                    ReceivedAnswer::Error(code)
                };
                self.handle_answer(&id, answer, &error);
            }
        }
    }

    fn handle_answer(&mut self, id: &Value, answer: ReceivedAnswer, result: &Value) {
        let Some(sent) = id.as_i64().and_then(|id| self.sent.remove(&id)) else { return };
        if self.era == KnownEra::Unknown {
            let version = result["protocolVersion"].as_str();
            let versions = result["supportedVersions"].as_array();
            if result["data"]["supported"].is_array() {
                // The next step depends on the revisions that the server has refused before.
                self.is_covered = false;
            } else if versions.is_some_and(|versions| versions.contains(&MODERN.into())) {
                self.era = KnownEra::Modern;
            } else if sent.method == "initialize" && version.is_some_and(|version| LEGACY.contains(&version))
            {
                self.era = KnownEra::Legacy;
                self.owes_initialized = true;
            }
        }
        let Some(call) = sent.call.and_then(|request| self.calls.get_mut(&request)) else { return };
        if sent.is_cancelled {
            return;
        }
        call.answer = Some(answer);
        call.is_delayed = true;
        match answer {
            // The client may ask again, with another revision.
            ReceivedAnswer::AsksForInput | ReceivedAnswer::Error(-32022) => call.may_be_sent += 1,
            ReceivedAnswer::Complete | ReceivedAnswer::Error(-32601) => {
                self.due.extend(sent.call);
            }
            _ => {}
        }
    }

    // --- Outputs and events of the machine ---

    /// Handles a line that the machine sends.
    pub(in crate::fuzzing) fn handle_output(&mut self, line: &[u8]) {
        let (messages, in_batch) = Message::read_line(line).expect("model: output is not messages");
        if !self.is_covered {
            return;
        }
        assert!(!in_batch, "model: a client sends no batches");
        for message in messages {
            match message {
                Message::Request { id, method, params } => self.handle_request(&id, method, &params),
                Message::Notification { method, params } => self.handle_notification(&method, &params),
                Message::Result { id, .. } => self.handle_reply(&id, None),
                Message::Error { id, error } => self.handle_reply(&id, error["code"].as_i64()),
            }
        }
    }

    /// Handles the client's reply to a request of the server, with the code if it is an error.
    fn handle_reply(&mut self, id: &Value, code: Option<i64>) {
        assert_ne!(self.era, KnownEra::Modern, "model: a request of a modern server is answered");
        self.replies.retain(|reply| reply != id);
        let Some(at) = self.received.iter().position(|received| received.id == *id) else {
            return assert!(self.has_unreadable_input, "model: {id} is answered, and was not asked");
        };
        let received = self.received.remove(at);
        match &*received.method {
            "ping" => assert_eq!(code, None, "model: a ping is answered with an error"),
            method if PASSED_ON.contains(&method) => {}
            method => assert_eq!(code, Some(-32601), "model: {method} is answered"),
        }
    }

    fn handle_request(&mut self, id: &Value, method: String, params: &Value) {
        let id = id.as_i64().expect("model: a request's id is a number");
        assert!(self.used_ids.insert(id), "model: the id {id} is used twice");
        let names_revision = params["_meta"].get(VERSION);
        match self.era {
            KnownEra::Unknown => {
                assert!(BEFORE_READY.contains(&&*method), "model: {method} before the server is known")
            }
            KnownEra::Modern => {
                assert!(!LEGACY_ONLY.contains(&&*method), "model: {method} to a modern server");
                assert_eq!(names_revision, Some(&MODERN.into()), "model: {method} without its revision");
            }
            KnownEra::Legacy => {
                assert!(!MODERN_ONLY.contains(&&*method), "model: {method} to a legacy server");
                assert_eq!(names_revision, None, "model: {method} names a revision after a handshake");
                assert!(!self.owes_initialized, "model: {method} before the handshake is over");
            }
        }
        match &*method {
            "server/discover" => {
                assert!(self.may_be_modern, "model: {method} to a server that is known as legacy")
            }
            "initialize" => {
                assert!(self.may_be_legacy, "model: {method} to a server that is known as modern");
                assert!(params["protocolVersion"].is_string() && params["capabilities"].is_object());
            }
            _ => {}
        }
        let has_unreadable_input = self.has_unreadable_input;
        let token = params["_meta"]["progressToken"].as_i64();
        let call = self.calls.iter_mut().find(|(request, _)| Some(request.number()) == token);
        // The cancellation of a task would have to name the task, which the client does not know yet.
        let asks_for_task = params.get("task").is_some();
        let call = call.filter(|_| method == "tools/call").map(|(request, call)| {
            assert!(
                call.may_be_sent > 0 || has_unreadable_input,
                "model: {request:?} is sent once more than it may be: {call:?}"
            );
            call.may_be_sent = call.may_be_sent.saturating_sub(1);
            call.wire_id = Some(id);
            call.answer = None;
            *request
        });
        assert!(method != "tools/call" || call.is_some(), "model: a call that the application has not made");
        self.sent.insert(id, SentRequest { method, call, is_cancelled: false, asks_for_task });
    }

    fn handle_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                assert!(
                    self.owes_initialized,
                    "model: a handshake is confirmed that the server has not accepted"
                );
                self.owes_initialized = false;
            }
            "notifications/cancelled" => {
                let id =
                    params["requestId"].as_i64().expect("model: the id of a client's request is a number");
                let sent = self.sent.get_mut(&id);
                let sent = sent.unwrap_or_else(|| panic!("model: {id} is cancelled, and is not on its way"));
                assert_ne!(sent.method, "initialize", "model: a handshake is never cancelled");
                assert!(!sent.is_cancelled, "model: {id} is cancelled twice");
                sent.is_cancelled = true;
                self.cancels.remove(&id);
            }
            _ => {}
        }
    }

    pub(in crate::fuzzing) fn handle_event(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Closed(_) => self.is_covered = false,
            // Input that a result asks for comes so too.
            Event::Request { id, method, .. } => {
                let is_it = |received: &&mut ReceivedRequest| {
                    received.is_new && received.handle.is_none() && received.method == method.name
                };
                if let Some(received) = self.received.iter_mut().find(is_it) {
                    received.handle = Some(*id);
                }
            }
            Event::RequestCancelled { id, .. } => {
                self.received.retain(|received| received.handle != Some(*id));
            }
            Event::Progress { request, .. } if self.is_covered => {
                let call = self.calls.get(request);
                assert!(
                    self.has_unreadable_input || call.is_none_or(|call| call.has_progress),
                    "model: progress that the server has not sent"
                );
            }
            Event::Outcome { request, outcome } if self.is_covered => {
                let Some(call) = self.calls.remove(request) else { return };
                self.due.remove(request);
                self.check_outcome(now, *request, &call, outcome);
                self.cancelled.remove(request);
            }
            _ => {}
        }
    }

    fn check_outcome(&self, now: Instant, request: RequestId, call: &OpenCall, outcome: &Outcome) {
        let answer = call.answer;
        let fits = match outcome {
            _ if self.has_unreadable_input => true,
            Outcome::Result(_) => matches!(answer, Some(ReceivedAnswer::Complete | ReceivedAnswer::Task)),
            Outcome::Error(error) => match answer {
                Some(ReceivedAnswer::Error(code)) => code == error.code,
                // The task has failed, or the page cannot be visited.
                Some(ReceivedAnswer::Task) => true,
                Some(ReceivedAnswer::AsksForInput) => error.code == -32042,
                _ => false,
            },
            Outcome::Invalid(_) => matches!(
                answer,
                Some(ReceivedAnswer::OfUnknownType | ReceivedAnswer::Task | ReceivedAnswer::AsksForInput)
            ),
            Outcome::Cancelled => self.cancelled.contains(&request),
            Outcome::TimedOut { .. } => {
                let elapsed = now.saturating_since(call.asked_at);
                self.has_irregular_clock || call.timeout.is_none_or(|timeout| elapsed >= timeout)
            }
            Outcome::Refused(_) => call.wire_id.is_none() || answer.is_some(),
            Outcome::Input(_) => answer == Some(ReceivedAnswer::AsksForInput),
            Outcome::Task(_) | Outcome::TaskCancelled { .. } => answer == Some(ReceivedAnswer::Task),
            // The queues of events and of output are full.
            Outcome::Lost(_) => self.is_tight,
            _ => false,
        };
        assert!(fits, "model: {request:?} ends with {outcome:?}: {call:?}");
    }

    // --- Checks ---

    /// Checks that nothing is missing, after all output and events of an operation. Returns whether the model covers it.
    pub(in crate::fuzzing) fn settle(&mut self) -> bool {
        if !self.is_covered {
            return false;
        }
        self.received.iter_mut().for_each(|received| received.is_new = false);
        if self.era == KnownEra::Legacy && !self.is_tight && !self.has_unreadable_input {
            let owed = self.received.iter().find(|received| !PASSED_ON.contains(&&*received.method));
            assert!(owed.is_none(), "model: a request is not answered: {owed:?}");
        }
        assert!(self.cancelled.is_empty(), "model: cancelled without an outcome: {:?}", self.cancelled);
        assert!(self.cancels.is_empty(), "model: not cancelled on the wire: {:?}", self.cancels);
        assert!(self.replies.is_empty(), "model: not answered on the wire: {:?}", self.replies);
        assert!(self.due.is_empty(), "model: answered or over without an outcome: {:?}", self.due);
        assert!(!self.owes_initialized, "model: the handshake is not confirmed");
        let unsent = |call: &&OpenCall| call.wire_id.is_none();
        if self.era != KnownEra::Unknown && !self.is_tight {
            let waits = self.calls.values().find(unsent);
            assert!(waits.is_none(), "model: a call is not sent: {waits:?}");
        }
        true
    }
}
