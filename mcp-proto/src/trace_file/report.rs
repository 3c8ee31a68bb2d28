//! The requests of a trace with their outcomes, and the requirements that it shows to be broken.

use core::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Sender, Trace, TraceEvent, TraceRecord, TracedFrame};
use crate::Limits;
use crate::meta_keys;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::{
    self, EnvelopeKind, ErrorObject, Frame, Id, Malformed, Message, Notification, Raw, Request, Response,
};
use crate::schema::{Era, Revision};

/// The requests of a trace with their answers, and the breaches of the protocol that it shows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TraceReport {
    /// The connections, in the order in which they began.
    pub connections: Vec<TracedConnection>,
    /// The requests of both sides, in the order in which they were sent.
    pub requests: Vec<TracedRequest>,
    /// The notifications of both sides, in the order in which they were sent.
    pub notifications: Vec<TracedNotification>,
    /// The breaches, in their order. Requirements that no trace can show are not among them.
    pub findings: Vec<Finding>,
}

/// A connection of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedConnection {
    /// Its number in the trace.
    pub number: u64,
    /// The name of the server; empty if the trace does not say when it began.
    pub server: String,
    /// The transport: `stdio`, `http` or `websocket`.
    pub transport: String,
    /// The revision of the protocol, once the trace shows it.
    pub revision: Option<Revision>,
    /// Whether the trace has its end: without one, the program that wrote the trace was killed, or still runs.
    pub is_closed: bool,
}

/// A request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedRequest {
    /// The number of its connection.
    pub connection: u64,
    /// Who sent it.
    pub sender: Sender,
    /// Its id.
    pub id: Id,
    /// Its method.
    pub method: String,
    /// The tool, prompt or resource that it names.
    pub name: Option<String>,
    /// The time at which it was sent, since the beginning of the trace.
    pub start: Duration,
    /// The time at which it was answered or cancelled.
    pub end: Option<Duration>,
    /// The number of its progress notifications.
    pub progress: usize,
    /// How it ended.
    pub outcome: RequestOutcome,
    /// The place of its record in the trace.
    pub record: usize,
    /// The place of the record of its end.
    pub end_record: Option<usize>,
    /// Its parameters, if the trace has all of them.
    pub params: Option<Raw>,
    /// Its answer, if the trace has all of it.
    pub answer: Option<Result<Raw, ErrorObject>>,
    /// Of a server's request, the place of the client's request on whose behalf it was sent, as far as the trace shows it.
    pub on_behalf_of: Option<usize>,
}

/// A notification of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedNotification {
    /// The number of its connection.
    pub connection: u64,
    /// Who sent it.
    pub sender: Sender,
    /// The time at which it was sent, since the beginning of the trace.
    pub at: Duration,
    /// The place of its record in the trace.
    pub record: usize,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Option<Raw>,
    /// The place of the other side's request to which it belongs, as far as the trace shows it.
    pub on_behalf_of: Option<usize>,
}

impl TracedRequest {
    /// The time until its end.
    pub fn duration(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_sub(self.start))
    }
}

/// How a request of a trace ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// By a result.
    Answered,
    /// By a result of a tool that says that it failed.
    ToolFailed,
    /// By a result that asks for input: the client sends it again.
    InputRequired,
    /// By an error.
    Refused {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// Its sender cancelled it, and no answer came.
    Cancelled,
    /// There is no answer in the trace.
    Unanswered,
}

display_text! { RequestOutcome:
    Answered => "answered";
    ToolFailed => "the tool failed";
    InputRequired => "input required";
    Refused { code, message } => "error {code}: {message}";
    Cancelled => "cancelled";
    Unanswered => "no answer";
}

/// A breach of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The time since the beginning of the trace.
    pub at: Duration,
    /// The number of the connection.
    pub connection: u64,
    /// Who broke the requirement.
    pub sender: Sender,
    /// The requirement.
    pub breach: Breach,
    /// The message or its error, in words.
    pub detail: String,
    /// The place of the message's record in the trace.
    pub record: usize,
}

/// A requirement that a trace shows to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Breach {
    /// A text that is no message.
    NotAMessage,
    /// The id of a request that is in flight, or in the legacy era of an earlier one.
    IdReused,
    /// An answer to no request.
    AnswerToNothing,
    /// A request of a server of 2026-07-28, or an answer of its client.
    WrongDirection,
    /// A request before the handshake is over.
    BeforeHandshake,
    /// Progress of a request that is not in flight.
    ProgressOfNothing,
    /// Progress that does not rise.
    ProgressNotRising,
}

impl Breach {
    /// The number of the requirement on this side, in the list of this project, `tests/requirements.txt`.
    pub fn row(self, sender: Sender) -> &'static str {
        match (self, sender) {
            (Self::NotAMessage, Sender::Client) => "C3.1",
            (Self::NotAMessage, Sender::Server) => "S2.1",
            (Self::WrongDirection, Sender::Client) => "C1.5",
            (Self::WrongDirection, Sender::Server) => "S2.2",
            (Self::IdReused, _) => "C1.2",
            (Self::AnswerToNothing, _) => "S1.1",
            (Self::BeforeHandshake, _) => "C2.12",
            (Self::ProgressOfNothing | Self::ProgressNotRising, _) => "S6.2",
        }
    }

    /// The page of the specification that has the requirement.
    pub fn page(self) -> &'static str {
        match self {
            Self::NotAMessage => {
                "https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio"
            }
            Self::IdReused | Self::AnswerToNothing => {
                "https://modelcontextprotocol.io/specification/2026-07-28/basic#messages"
            }
            Self::WrongDirection => "https://modelcontextprotocol.io/specification/2026-07-28/basic",
            Self::BeforeHandshake => {
                "https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle"
            }
            Self::ProgressOfNothing | Self::ProgressNotRising => {
                "https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/progress"
            }
        }
    }
}

display_text! { Breach:
    NotAMessage => "a text that is no message";
    IdReused => "the id of another request";
    AnswerToNothing => "an answer to no request";
    WrongDirection => "a message that this side does not send in 2026-07-28";
    BeforeHandshake => "a request before the handshake is over";
    ProgressOfNothing => "progress of a request that is not in flight";
    ProgressNotRising => "progress that does not rise";
}

/// The least time of a slow request.
const SLOW: Duration = Duration::from_millis(200);

impl TraceReport {
    /// The slow requests, the slowest first: they took at least 200 ms, and at least ten times the median.
    pub fn slow_requests(&self) -> Vec<&TracedRequest> {
        let mut requests: Vec<_> =
            self.requests.iter().filter_map(|it| it.duration().map(|time| (time, it))).collect();
        requests.sort_by_key(|(time, _)| core::cmp::Reverse(*time));
        let median = requests.get(requests.len() / 2).map_or(SLOW, |(time, _)| *time);
        let least = SLOW.max(median.saturating_mul(10));
        requests.into_iter().take_while(|(time, _)| *time >= least).map(|(_, request)| request).collect()
    }

    pub(super) fn new(trace: &Trace) -> Self {
        let mut report = Self::default();
        let mut conversations: Vec<Conversation> = Vec::new();
        let mut places = OrderedMap::new();
        for (number, record) in trace.records.iter().enumerate() {
            let place = *places.entry(record.connection).or_insert_with(|| {
                conversations.push(Conversation::new(record.connection));
                conversations.len().saturating_sub(1)
            });
            if let Some(conversation) = conversations.get_mut(place) {
                conversation.read(record, number, &mut report);
            }
        }
        report.connections = conversations.into_iter().map(|it| it.connection).collect();
        report
    }
}

/// The state of a connection while its records are read.
struct Conversation {
    connection: TracedConnection,
    /// Whether the trace has all of it so far: its beginning, and no message that is lost or cut.
    is_whole: bool,
    /// The requests that wait for their answer, and their places in the report.
    waiting: OrderedMap<(Sender, Id), usize>,
    used: OrderedSet<(Sender, Id)>,
    /// The places of the client's requests among them.
    in_flight: OrderedSet<usize>,
    /// The exchanges that carry messages and have not ended, with the place of the request in them.
    exchanges: OrderedMap<u64, Option<usize>>,
    /// The tokens by which the other side reports progress, as JSON.
    tokens: OrderedMap<(Sender, String), ProgressState>,
}

struct ProgressState {
    request: usize,
    last: Option<f64>,
}

/// A message, and where and by whom it was sent.
struct Occasion<'a> {
    record: &'a TraceRecord,
    number: usize,
    sender: Sender,
    exchange: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    name: Value,
    uri: Value,
    #[serde(rename = "_meta")]
    meta: Value,
    #[serde(rename = "requestId")]
    request_id: Value,
    #[serde(rename = "progressToken")]
    token: Value,
    progress: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResultMembers {
    is_error: Value,
    result_type: Value,
    protocol_version: Value,
}

/// The members of a payload, of any types; none if it is no object.
fn members<T: Default + for<'a> Deserialize<'a>>(payload: Option<&Raw>) -> T {
    payload.and_then(|payload| payload.decode().ok()).unwrap_or_default()
}

impl Conversation {
    fn new(number: u64) -> Self {
        let (server, transport) = Default::default();
        Self {
            connection: TracedConnection { number, server, transport, revision: None, is_closed: false },
            is_whole: false,
            waiting: OrderedMap::new(),
            used: OrderedSet::new(),
            in_flight: OrderedSet::new(),
            exchanges: OrderedMap::new(),
            tokens: OrderedMap::new(),
        }
    }

    fn read(&mut self, record: &TraceRecord, number: usize, report: &mut TraceReport) {
        match &record.event {
            TraceEvent::Opened { server, transport } => {
                let connection = &mut self.connection;
                (connection.server, connection.transport) = (server.clone(), transport.clone());
                self.is_whole = true;
            }
            TraceEvent::Message { from, exchange, frame } => {
                let text = match exchange {
                    None => Some(frame.as_bytes()),
                    Some(exchange) if self.exchanges.contains_key(exchange) => {
                        message_of_response(frame.as_bytes())
                    }
                    Some(_) => None,
                };
                if let Some(text) = text {
                    let occasion = Occasion { record, number, sender: *from, exchange: *exchange };
                    self.read_frame(text, frame, &occasion, report);
                }
            }
            TraceEvent::Request { exchange, method, headers, frame, .. } => {
                if self.connection.revision.is_none() {
                    self.note_session(headers);
                }
                // Requests of a login are none of the protocol's.
                let is_message = frame.is_cut() || read(frame.as_bytes()).is_ok();
                if is_message || method == "GET" {
                    self.exchanges.insert(*exchange, None);
                }
                if is_message {
                    let (sender, exchange) = (Sender::Client, Some(*exchange));
                    let occasion = Occasion { record, number, sender, exchange };
                    self.read_frame(frame.as_bytes(), frame, &occasion, report);
                }
            }
            TraceEvent::Ended { exchange, .. } => _ = self.exchanges.remove(exchange),
            TraceEvent::Closed { .. } => self.connection.is_closed = true,
            TraceEvent::Lost { .. } => self.is_whole = false,
            _ => {}
        }
    }

    fn read_frame(
        &mut self,
        text: &[u8],
        frame: &TracedFrame,
        occasion: &Occasion<'_>,
        report: &mut TraceReport,
    ) {
        if frame.is_cut() && is_withheld(text) {
            let detail = format!("{} bytes that are not JSON", frame.length());
            occasion.find(report, Breach::NotAMessage, detail);
        }
        if frame.is_cut() {
            self.read_cut(&Malformed::too_long(text, &[], frame.length()), occasion, report);
            return;
        }
        match read(text) {
            Ok(Frame::Single(message)) => self.read_message(message, occasion, report),
            Ok(Frame::Batch(batch)) => {
                for message in batch {
                    match message {
                        Ok(message) => self.read_message(message, occasion, report),
                        Err(error) => occasion.find(report, Breach::NotAMessage, error.to_string()),
                    }
                }
            }
            Err(error) => occasion.find(report, Breach::NotAMessage, error.to_string()),
        }
    }

    /// Reads the beginning of a message.
    fn read_cut(&mut self, cut: &Malformed, occasion: &Occasion<'_>, report: &mut TraceReport) {
        // What is not here, such as a token for progress, must not be missed later.
        self.is_whole = false;
        let (Some(id), Some(kind)) = (&cut.recovered.id, cut.recovered.kind) else { return };
        match kind {
            EnvelopeKind::Request => {
                let method = cut.recovered.method.as_deref().unwrap_or_default();
                self.begin(id.clone(), method, None, occasion, report);
            }
            EnvelopeKind::Response => self.end(id, RequestOutcome::Answered, None, occasion, report),
            EnvelopeKind::Notification => {}
        }
    }

    fn read_message(&mut self, message: Message, occasion: &Occasion<'_>, report: &mut TraceReport) {
        match message {
            Message::Request(Request { id, method, params }) => {
                self.begin(id, &method, params, occasion, report);
            }
            Message::Notification(notification) => self.read_notification(&notification, occasion, report),
            Message::Response(Response { id, outcome, .. }) => {
                let Some(id) = id else { return };
                let end = match &outcome {
                    Err(ErrorObject { code, message, .. }) => {
                        RequestOutcome::Refused { code: *code, message: message.clone() }
                    }
                    Ok(result) => self.outcome_of(&members(Some(result))),
                };
                self.end(&id, end, Some(outcome), occasion, report);
            }
        }
    }

    fn outcome_of(&mut self, result: &ResultMembers) -> RequestOutcome {
        self.note_revision(&result.protocol_version);
        match (result.is_error.as_bool(), result.result_type.as_str()) {
            (_, Some("input_required")) => RequestOutcome::InputRequired,
            (Some(true), _) => RequestOutcome::ToolFailed,
            _ => RequestOutcome::Answered,
        }
    }

    fn note_revision(&mut self, revision: &Value) {
        if let Some(revision) = revision.as_str().and_then(Revision::parse) {
            self.connection.revision = Some(revision);
        }
    }

    /// Notes the session that a request names, whose handshake is not in the trace: it was of another instance, or before it.
    fn note_session(&mut self, headers: &[(String, String)]) {
        let value = |name: &str| headers.iter().find(|(it, _)| it == name).map(|(_, value)| value);
        if value("mcp-session-id").is_none() {
            return;
        }
        self.is_whole = false;
        if let Some(revision) = value("mcp-protocol-version") {
            self.note_revision(&Value::from(revision.as_str()));
        }
    }

    fn era(&self) -> Option<Era> {
        self.connection.revision.map(Revision::era)
    }

    fn begin(
        &mut self,
        id: Id,
        method: &str,
        raw: Option<Raw>,
        occasion: &Occasion<'_>,
        report: &mut TraceReport,
    ) {
        let params: Params = members(raw.as_ref());
        if let Some(revision) = params.meta.get(meta_keys::PROTOCOL_VERSION) {
            self.note_revision(revision);
        }
        self.check_request(&id, method, occasion, report);
        let place = report.requests.len();
        if let Some(token) = params.meta.get(meta_keys::PROGRESS_TOKEN) {
            let state = ProgressState { request: place, last: None };
            self.tokens.insert((occasion.sender, token.to_string()), state);
        }
        report.requests.push(TracedRequest {
            connection: occasion.record.connection,
            sender: occasion.sender,
            id: id.clone(),
            method: method.to_owned(),
            name: params.name.as_str().or(params.uri.as_str()).map(ToOwned::to_owned),
            start: occasion.record.at(),
            end: None,
            progress: 0,
            outcome: RequestOutcome::Unanswered,
            record: occasion.number,
            end_record: None,
            params: raw,
            answer: None,
            on_behalf_of: self.on_behalf_of(occasion),
        });
        self.waiting.insert((occasion.sender, id), place);
        if occasion.sender == Sender::Client {
            self.in_flight.insert(place);
            if let Some(request) = occasion.exchange.and_then(|exchange| self.exchanges.get_mut(&exchange)) {
                *request = Some(place);
            }
        }
    }

    /// The place of the client's request on whose behalf the server sends a message: that of the exchange, or the latest.
    fn on_behalf_of(&self, occasion: &Occasion<'_>) -> Option<usize> {
        match (occasion.sender, occasion.exchange) {
            (Sender::Client, _) => None,
            (Sender::Server, Some(exchange)) => self.exchanges.get(&exchange).copied().flatten(),
            (Sender::Server, None) => self.in_flight.last().copied(),
        }
    }

    fn check_request(&mut self, id: &Id, method: &str, occasion: &Occasion<'_>, report: &mut TraceReport) {
        let era = self.era();
        let key = (occasion.sender, id.clone());
        if method == "initialize" {
            // It begins a session, whose ids are its own.
            self.used.clear();
        }
        let is_new = self.used.insert(key.clone());
        // A modern request over HTTP is answered in its own exchange, and may be another client's.
        let is_of_stream = occasion.exchange.is_none() || era != Some(Era::Modern);
        let is_waiting = self.is_whole && is_of_stream && self.waiting.contains_key(&key);
        if is_waiting || !is_new && era == Some(Era::Legacy) {
            occasion.find(report, Breach::IdReused, format!("{method} has id {id}"));
        }
        if occasion.sender == Sender::Server && era == Some(Era::Modern) {
            occasion.find(report, Breach::WrongDirection, format!("the request {method}"));
        }
        // A client of no known era has not begun the handshake, or waits for its answer.
        let begins = ["initialize", "ping", "server/discover"].contains(&method);
        if occasion.sender == Sender::Client && era.is_none() && self.is_whole && !begins {
            occasion.find(report, Breach::BeforeHandshake, method.to_owned());
        }
    }

    fn end(
        &mut self,
        id: &Id,
        outcome: RequestOutcome,
        answer: Option<Result<Raw, ErrorObject>>,
        occasion: &Occasion<'_>,
        report: &mut TraceReport,
    ) {
        if occasion.sender == Sender::Client && self.era() == Some(Era::Modern) {
            occasion.find(report, Breach::WrongDirection, format!("an answer to {id}"));
        }
        let of_exchange = occasion.exchange.and_then(|exchange| *self.exchanges.get(&exchange)?);
        let is_its = |place: &usize| {
            let request = report.requests.get(*place);
            self.in_flight.contains(place) && request.is_some_and(|request| request.id == *id)
        };
        let key = (occasion.sender.other(), id.clone());
        let waiting = self.waiting.get(&key).copied();
        // The clients of a server may have the same ids.
        let place = of_exchange.filter(is_its).or(waiting);
        if place == waiting {
            self.waiting.remove(&key);
        }
        place.inspect(|place| _ = self.in_flight.remove(place));
        match place.and_then(|place| report.requests.get_mut(place)) {
            Some(request) => {
                (request.end, request.outcome) = (Some(occasion.record.at()), outcome);
                request.end_record = Some(occasion.number);
                request.answer = answer;
            }
            None if self.is_whole => {
                occasion.find(report, Breach::AnswerToNothing, format!("id {id}: {outcome}"));
            }
            None => {}
        }
    }

    fn read_notification(
        &mut self,
        notification: &Notification,
        occasion: &Occasion<'_>,
        report: &mut TraceReport,
    ) {
        let params: Params = members(notification.params.as_ref());
        let tracked = self.tokens.get(&(occasion.sender.other(), params.token.to_string()));
        report.notifications.push(TracedNotification {
            connection: occasion.record.connection,
            sender: occasion.sender,
            at: occasion.record.at(),
            record: occasion.number,
            method: notification.method.to_string(),
            params: notification.params.clone(),
            on_behalf_of: tracked.map(|state| state.request).or_else(|| self.on_behalf_of(occasion)),
        });
        match &*notification.method {
            "notifications/cancelled" => {
                let id: Option<Id> = serde_json::from_value(params.request_id).ok();
                let key = id.map(|id| (occasion.sender, id));
                // Its answer may still be on its way.
                let request = key.and_then(|key| self.waiting.get(&key));
                if let Some(request) = request.and_then(|place| report.requests.get_mut(*place)) {
                    (request.end, request.outcome) = (Some(occasion.record.at()), RequestOutcome::Cancelled);
                    request.end_record = Some(occasion.number);
                }
            }
            "notifications/progress" => self.read_progress(&params, occasion, report),
            _ => {}
        }
    }

    fn read_progress(&mut self, params: &Params, occasion: &Occasion<'_>, report: &mut TraceReport) {
        let token = &params.token;
        let state = self.tokens.get_mut(&(occasion.sender.other(), token.to_string()));
        let request = state.as_ref().and_then(|state| report.requests.get_mut(state.request));
        let (Some(state), Some(request)) = (state, request) else {
            if self.is_whole {
                occasion.find(report, Breach::ProgressOfNothing, format!("token {token}"));
            }
            return;
        };
        request.progress = request.progress.saturating_add(1);
        let is_over = request.end.is_some() && request.outcome != RequestOutcome::Cancelled;
        let progress = params.progress.as_f64();
        let is_rising = match (state.last, progress) {
            (Some(last), Some(now)) => now > last,
            _ => true,
        };
        state.last = progress.or(state.last);
        if is_over {
            occasion.find(report, Breach::ProgressOfNothing, format!("token {token}, after the answer"));
        } else if !is_rising {
            occasion.find(report, Breach::ProgressNotRising, format!("token {token}"));
        }
    }
}

impl Occasion<'_> {
    fn find(&self, report: &mut TraceReport, breach: Breach, detail: String) {
        report.findings.push(Finding {
            at: self.record.at(),
            connection: self.record.connection,
            sender: self.sender,
            breach,
            detail,
            record: self.number,
        });
    }
}

fn read(text: &[u8]) -> Result<Frame, Malformed> {
    rpc::read(&text.to_vec().into(), Limits::default().depth)
}

/// The message in a part of a response: a body that is JSON, or the data of a line of an event stream.
fn message_of_response(part: &[u8]) -> Option<&[u8]> {
    let text = part.strip_prefix(b"data:").unwrap_or(part).trim_ascii();
    (matches!(text.first(), Some(b'{' | b'[')) && !is_withheld(text)).then_some(text)
}

/// Whether a long text is not in the trace, since it was not JSON.
fn is_withheld(text: &[u8]) -> bool {
    text.starts_with(b"[id:") || text == b"[redacted]"
}

#[cfg(test)]
mod tests;
