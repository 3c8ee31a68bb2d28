//! The requests of clients in a trace with the answers of the server, for a mock and for a replay.

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RequestOutcome, Sender, Trace, TraceReport, TracedRequest};
use crate::meta_keys;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{DiscoverResult, Implementation, InitializeResult, Revision, ServerCapabilities};

/// The recorded requests of the clients of one server, with its answers.
///
/// Input rounds of 2026-07-28, in which a client repeats its request with the input that the server required, are one call:
/// the requests for input are among its steps. So is a call that became a task: its answer is the result of the task.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) revision: Option<Revision>,
    /// The result of `initialize` or of `server/discover`.
    pub(crate) handshake: Option<Raw>,
    /// The capabilities of the first client.
    pub(crate) client: Option<Raw>,
    /// The calls, in the order in which they began.
    pub(crate) calls: Vec<RecordedCall>,
    /// The requests of the server that belong to no call.
    pub(crate) others: Vec<InputRequest>,
}

/// A request of a client, and the messages of the server up to its answer.
#[derive(Clone, Debug)]
pub(crate) struct RecordedCall {
    pub(crate) method: String,
    /// Its parameters, without `_meta` and input.
    pub(crate) params: Map<String, Value>,
    pub(crate) steps: Vec<RecordedStep>,
    pub(crate) outcome: RequestOutcome,
    /// Its answer, if the trace has all of it.
    pub(crate) answer: Option<Result<Raw, ErrorObject>>,
    start: Duration,
}

/// A message of the server before the answer.
#[derive(Clone, Debug)]
pub(crate) enum RecordedStep {
    Notification { method: String, params: Option<Raw> },
    Request(InputRequest),
}

/// A request of the server to the client, or for input.
#[derive(Clone, Debug)]
pub(crate) struct InputRequest {
    /// The key of its answer.
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) params: Option<Raw>,
    pub(crate) answer: Option<Result<Raw, ErrorObject>>,
}

impl Recording {
    /// Takes the connections of the server of this name from a trace; without a name, those of its only server.
    ///
    /// # Errors
    /// If the trace has no such server, or several and no name says which.
    pub fn new(trace: &Trace, server: Option<&str>) -> Result<Self, RecordingError> {
        let report = trace.report();
        let mut servers: Vec<String> = report.connections.iter().map(|it| it.server.clone()).collect();
        servers.sort();
        servers.dedup();
        let name = match (server, &*servers) {
            (Some(name), _) if servers.iter().any(|it| it == name) => name.to_owned(),
            (None, [only]) => only.clone(),
            (name, _) => return Err(RecordingError { name: name.map(ToOwned::to_owned), servers }),
        };
        let connections = report.connections.iter().filter(|it| it.server == name);
        let numbers: OrderedSet<u64> = connections.clone().map(|it| it.number).collect();
        let revision = connections.clone().find_map(|it| it.revision);
        let mut recording =
            Self { revision, handshake: None, client: None, calls: Vec::new(), others: Vec::new() };
        Reader {
            recording: &mut recording,
            places: OrderedMap::new(),
            rounds: OrderedMap::new(),
            steps: Vec::new(),
        }
        .read(&report, &numbers);
        recording.answer_tasks();
        Ok(recording)
    }

    /// The server's description of itself: its name, its capabilities and its instructions.
    pub(crate) fn handshake(&self) -> Option<(Option<Implementation>, ServerCapabilities, Option<String>)> {
        let result = self.handshake.as_ref()?;
        if let Ok(it) = result.decode::<InitializeResult>() {
            return Some((Some(it.server_info), it.capabilities, it.instructions));
        }
        let it: DiscoverResult = result.decode().ok()?;
        Some((it.identity(), it.capabilities, it.instructions))
    }

    /// Gives calls that became tasks the results of these.
    fn answer_tasks(&mut self) {
        let mut results = OrderedMap::new();
        for call in &self.calls {
            let id = call.params.get("taskId").and_then(Value::as_str);
            if let (Some(id), Some(answer)) = (id, task_result(call)) {
                results.insert(id.to_owned(), answer);
            }
        }
        for call in &mut self.calls {
            let task = call.answer.as_ref().and_then(|answer| task_of(answer.as_ref().ok()?));
            if let Some(answer) = task.and_then(|task| results.remove(&task)) {
                call.answer = Some(answer);
            }
        }
    }
}

/// The result of a task that a client fetched by this call.
fn task_result(call: &RecordedCall) -> Option<Result<Raw, ErrorObject>> {
    #[derive(Deserialize)]
    struct Task<'a> {
        #[serde(borrow)]
        result: Option<&'a serde_json::value::RawValue>,
        error: Option<Error>,
    }
    #[derive(Deserialize)]
    struct Error {
        code: i64,
        message: String,
        data: Option<Raw>,
    }
    let answer = call.answer.as_ref()?;
    match (&*call.method, answer) {
        ("tasks/result", answer) => Some(answer.clone()),
        ("tasks/get", Ok(task)) => {
            let Task { result, error } = task.decode().ok()?;
            let result = result.and_then(|result| Raw::new(result.get()).ok()).map(Ok);
            result.or(error.map(|Error { code, message, data }| Err(ErrorObject { code, message, data })))
        }
        _ => None,
    }
}

/// The id of the task that a call became: the result says so (2026-07-28), or has a member `task` (2025-11-25).
fn task_of(result: &Raw) -> Option<String> {
    let result: Map<String, Value> = result.decode().ok()?;
    let is_task = result.get("resultType").is_some_and(|kind| kind == "task");
    let task = result.get("task").and_then(Value::as_object).or(is_task.then_some(&result))?;
    task.get("taskId")?.as_str().map(ToOwned::to_owned)
}

/// Reads the calls of a report.
struct Reader<'a> {
    recording: &'a mut Recording,
    /// The positions of the calls, by the places of their requests in the report.
    places: OrderedMap<usize, usize>,
    /// The positions of the calls that wait for input, by the key of their requests.
    rounds: OrderedMap<CallKey, usize>,
    /// The messages of the server before each answer.
    steps: Vec<(usize, Duration, RecordedStep)>,
}

impl Reader<'_> {
    fn read(mut self, report: &TraceReport, numbers: &OrderedSet<u64>) {
        for (place, request) in report.requests.iter().enumerate() {
            if request.sender == Sender::Client && numbers.contains(&request.connection) {
                self.read_request(place, request);
            }
        }
        for request in report.requests.iter().filter(|it| it.sender == Sender::Server && it.method != "ping")
        {
            let asked = InputRequest::of(request);
            match request.on_behalf_of.and_then(|place| self.places.get(&place)) {
                Some(call) => self.steps.push((*call, request.start, RecordedStep::Request(asked))),
                None if numbers.contains(&request.connection) => self.recording.others.push(asked),
                None => {}
            }
        }
        for it in report.notifications.iter().filter(|it| it.sender == Sender::Server) {
            let call = match it.on_behalf_of {
                Some(place) => self.places.get(&place).copied(),
                None if numbers.contains(&it.connection) => self.next_call(it.at),
                None => None,
            };
            if let Some(call) = call {
                let (method, params) = (it.method.clone(), it.params.clone());
                self.steps.push((call, it.at, RecordedStep::Notification { method, params }));
            }
        }
        // Of those at one time the order stays.
        self.steps.sort_by_key(|(_, at, _)| *at);
        for (call, _, step) in self.steps {
            if let Some(call) = self.recording.calls.get_mut(call) {
                call.steps.push(step);
            }
        }
    }

    fn next_call(&self, at: Duration) -> Option<usize> {
        let calls = &self.recording.calls;
        Some(calls.partition_point(|call| call.start < at).min(calls.len().checked_sub(1)?))
    }

    fn read_request(&mut self, place: usize, request: &TracedRequest) {
        let params = request.params.as_ref();
        let all: Map<String, Value> = params.and_then(|params| params.decode().ok()).unwrap_or_default();
        if self.recording.client.is_none() {
            let modern = all.get("_meta").and_then(|meta| meta.get(meta_keys::CLIENT_CAPABILITIES));
            let declared = if request.method == "initialize" { all.get("capabilities") } else { modern };
            self.recording.client = declared.and_then(|declared| Raw::encode(declared).ok());
        }
        if let "initialize" | "server/discover" = &*request.method {
            let result = request.answer.as_ref().and_then(|answer| answer.as_ref().ok());
            self.recording.handshake = self.recording.handshake.take().or_else(|| result.cloned());
            return;
        }
        let responses = all.get("inputResponses").and_then(Value::as_object).cloned().unwrap_or_default();
        let is_retry = all.contains_key("requestState") || !responses.is_empty();
        let params = comparable_params(all);
        let key = CallKey::new(&request.method, &params);
        let earlier = if is_retry { self.rounds.remove(&key) } else { None };
        let calls = &mut self.recording.calls;
        let position = match earlier.and_then(|position| calls.get_mut(position).map(|call| (position, call)))
        {
            Some((position, call)) => {
                let round = call.round(&responses).into_iter();
                self.steps.extend(round.map(|asked| (position, request.start, RecordedStep::Request(asked))));
                (call.outcome, call.answer) = (request.outcome.clone(), request.answer.clone());
                position
            }
            None => {
                calls.push(RecordedCall {
                    method: request.method.clone(),
                    params,
                    steps: Vec::new(),
                    outcome: request.outcome.clone(),
                    answer: request.answer.clone(),
                    start: request.start,
                });
                calls.len().saturating_sub(1)
            }
        };
        self.places.insert(place, position);
        if request.outcome == RequestOutcome::InputRequired {
            self.rounds.insert(key, position);
        }
    }
}

impl RecordedCall {
    /// Whether there was no answer.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.outcome, RequestOutcome::Cancelled | RequestOutcome::Unanswered)
    }

    /// Whether the trace lacks an answer of the client to what the server asked for before its own answer, or in it.
    pub(crate) fn lacks_input(&self) -> bool {
        let is_unanswered =
            |step: &RecordedStep| matches!(step, RecordedStep::Request(it) if it.answer.is_none());
        let asks = |result: &Raw| {
            let result = result.decode::<Map<String, Value>>().unwrap_or_default();
            result.get("resultType").is_some_and(|kind| kind == "input_required")
        };
        self.steps.iter().any(is_unanswered) || matches!(&self.answer, Some(Ok(result)) if asks(result))
    }

    /// Whether its answer is a task, whose result the trace lacks.
    pub(crate) fn is_unfinished_task(&self) -> bool {
        self.answer
            .as_ref()
            .is_some_and(|answer| answer.as_ref().is_ok_and(|result| task_of(result).is_some()))
    }

    /// Whether its answer is the last one.
    pub(crate) fn is_finished(&self) -> bool {
        self.answer.is_some() && !self.lacks_input() && !self.is_unfinished_task()
    }

    /// The requests of its answer, which requires input, with the client's answers.
    fn round(&self, responses: &Map<String, Value>) -> Vec<InputRequest> {
        #[derive(Deserialize)]
        struct Round {
            #[serde(rename = "inputRequests", default)]
            requests: OrderedMap<String, RequestedInput>,
        }
        #[derive(Deserialize)]
        struct RequestedInput {
            method: String,
            params: Option<Raw>,
        }
        let round: Option<Round> =
            self.answer.as_ref().and_then(|answer| answer.as_ref().ok()?.decode().ok());
        let requests = round.map(|round| round.requests).unwrap_or_default();
        let answered = |key: &str| Some(Ok(Raw::encode(responses.get(key)?).ok()?));
        let asked = requests.into_iter().map(|(key, RequestedInput { method, params })| InputRequest {
            answer: answered(&key),
            key,
            method,
            params,
        });
        asked.collect()
    }
}

impl InputRequest {
    fn of(request: &TracedRequest) -> Self {
        Self {
            key: format!("request {}", request.id),
            method: request.method.clone(),
            params: request.params.clone(),
            answer: request.answer.clone(),
        }
    }
}

/// The parameters without what belongs to the connection, and with one form for arguments that are empty.
pub(crate) fn comparable_params(mut params: Map<String, Value>) -> Map<String, Value> {
    for member in ["_meta", "inputResponses", "requestState", "task"] {
        params.remove(member);
    }
    if params.get("arguments").and_then(Value::as_object).is_some_and(Map::is_empty) {
        params.remove("arguments");
    }
    params
}

/// The meaning of a request: its method and its parameters in one form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallKey(String);

impl CallKey {
    /// The key of a method and of parameters that [`comparable_params`] has returned.
    pub(crate) fn new(method: &str, params: &Map<String, Value>) -> Self {
        let mut key = format!("{method} ");
        write_object(&mut key, params);
        Self(key)
    }
}

/// Values by the meaning of requests: those of equal requests in their recorded order, and then the last one again.
#[derive(Debug)]
pub(crate) struct Answers<T>(OrderedMap<CallKey, VecDeque<T>>);

impl<T: Clone> Answers<T> {
    pub(crate) fn new(answers: impl IntoIterator<Item = (CallKey, T)>) -> Self {
        let mut by_key: OrderedMap<CallKey, VecDeque<T>> = OrderedMap::new();
        for (key, answer) in answers {
            by_key.entry(key).or_default().push_back(answer);
        }
        Self(by_key)
    }

    pub(crate) fn take(&mut self, key: &CallKey) -> Option<T> {
        let answers = self.0.get_mut(key)?;
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    }
}

/// Writes the members of an object in the order of their names.
fn write_object(out: &mut String, object: &Map<String, Value>) {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    out.push('{');
    for (name, value) in members {
        out.push_str(&Value::from(name.as_str()).to_string());
        out.push(':');
        write_value(out, value);
        out.push(',');
    }
    out.push('}');
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Object(object) => write_object(out, object),
        Value::Array(values) => {
            out.push('[');
            for value in values {
                write_value(out, value);
                out.push(',');
            }
            out.push(']');
        }
        // 1.0 means 1.
        Value::Number(number) => out.push_str(number.to_string().trim_end_matches(".0")),
        other => out.push_str(&other.to_string()),
    }
}

/// The reason why a trace has no recording of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingError {
    /// The name of the server, if one was given.
    pub name: Option<String>,
    /// The names of the servers in the trace.
    pub servers: Vec<String>,
}

impl core::fmt::Display for RecordingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (&self.name, self.servers.is_empty()) {
            (_, true) => f.write_str("the trace has no connection to a server"),
            (Some(name), false) => {
                write!(f, "the trace has no server {name:?}, but {}", self.servers.join(", "))
            }
            (None, false) => {
                write!(f, "the trace has several servers, name one: {}", self.servers.join(", "))
            }
        }
    }
}

impl core::error::Error for RecordingError {}
