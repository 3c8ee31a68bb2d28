//! Checks of the server's outputs.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;

use super::super::Message;
use super::answer::Content;
use super::{
    BODY_TIMEOUT, Expected, HttpServerModel, Request, RequestState, Session, Stream, StreamKind, negotiate,
};
use crate::Instant;
use crate::testing::http::HttpOutput;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The timeout of the server's requests.
const OWN_TIMEOUT: Duration = Duration::from_secs(60);

impl HttpServerModel {
    pub(in crate::fuzzing) fn handle_output(&mut self, now: Instant, number: usize, output: &HttpOutput) {
        self.now = now;
        if !self.is_covered {
            return;
        }
        match output {
            HttpOutput::Head { status, headers } => self.handle_head(number, *status, headers),
            HttpOutput::Body(bytes) => {
                self.exchanges[number].text.extend_from_slice(bytes);
                while self.exchanges[number].has_events
                    && let Some(event) = take_event(&mut self.exchanges[number].text)
                {
                    self.handle_event(number, &event);
                }
            }
            HttpOutput::End => self.handle_end(number),
        }
    }

    fn handle_head(&mut self, number: usize, status: u16, headers: &[(String, String)]) {
        let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        let exchange = &mut self.exchanges[number];
        exchange.status = Some(status);
        let is_late = self.now >= exchange.begun_at + BODY_TIMEOUT;
        let is_other = exchange.other_statuses.contains(&status);
        let is_expected = match &exchange.expected {
            Expected::Nothing => status == 408 && is_late,
            Expected::Refusal(refusals) => refusals.iter().any(|(refusal, _)| *refusal == status),
            Expected::Empty(empty) => status == *empty,
            // A request that was cancelled has no answer.
            Expected::Stream(stream) => {
                let stream = &self.streams[*stream];
                let is_over = |request: &usize| {
                    matches!(self.requests[*request].state, RequestState::Over | RequestState::Unread)
                };
                status == 200 || (status == 202 && stream.requests.iter().all(is_over))
            }
        };
        assert!(is_expected || is_other, "model: status {status} of {exchange:?}");
        let content = header("content-type").unwrap_or_default();
        exchange.has_events = content == "text/event-stream";
        if let Some(stream) = self.carried(number)
            && status == 200
        {
            let accepts = self.exchanges[number].request.accepts(content);
            assert!(accepts, "model: {content} is not accepted by {:?}", self.exchanges[number]);
            self.begin_stream(number, stream, header("mcp-session-id"));
        }
        if !is_expected || matches!(self.exchanges[number].expected, Expected::Nothing) {
            self.handle_other_status(number, status);
        }
    }

    /// Handles a refusal in place of the expected response.
    fn handle_other_status(&mut self, number: usize, status: u16) {
        if let Some(stream) = self.carried(number) {
            self.streams[stream].carrier = None;
            if self.streams[stream].kind == StreamKind::Answers && status != 400 {
                self.close_stream(stream);
            }
        }
        if status == 404
            && let Some(session) = self.find_session(number)
        {
            self.end_session(session);
        }
        self.refuse(number, status);
    }

    /// Handles the begin of a response with a stream. One that answers `initialize` names a new session.
    fn begin_stream(&mut self, number: usize, stream: usize, id: Option<&str>) {
        match self.streams[stream].kind {
            StreamKind::Unknown => {
                // It may replace any other stream of its session.
                let session = self.streams[stream].session;
                for other in (0..self.streams.len()).filter(|other| *other != stream) {
                    if self.streams[other].session == session {
                        self.streams[other].kind = StreamKind::Unknown;
                    }
                }
            }
            StreamKind::Answers if self.streams[stream].session.is_none() => {
                let request = &self.requests[self.streams[stream].requests[0]];
                let opens = matches!(&request.contents[..], [Content::Member("protocolVersion", _)]);
                assert_eq!(id.is_some(), opens, "model: a session id on {:?}", self.exchanges[number]);
                let Some(id) = id else { return };
                let [Content::Member(_, revision)] = &request.contents[..] else { return };
                let revision = negotiate(revision.as_str());
                let general = self.open_stream(number, None, StreamKind::General);
                self.open_session(id, general, Some(revision));
                self.streams[general].carrier = None;
                let session = self.streams[general].session;
                self.streams[stream].session = session;
                for request in self.streams[stream].requests.clone() {
                    self.requests[request].session = session;
                }
            }
            _ => assert_eq!(id, None, "model: a session id on {:?}", self.exchanges[number]),
        }
    }

    fn open_session(&mut self, id: &str, general: usize, revision: Option<&'static str>) {
        assert!(self.sessions.iter().all(|session| session.id != id), "model: session {id} is opened twice");
        if self.kind.is_tight {
            // It may take the place of another one.
            self.sessions.iter_mut().for_each(|session| session.may_be_over = true);
        }
        self.streams[general].session = Some(self.sessions.len());
        self.sessions.push(Session {
            id: id.into(),
            general,
            revision,
            is_over: false,
            may_be_over: false,
            was_busy: false,
            idle_since: (self.now, self.now),
            events: Vec::new(),
            is_subscribed: false,
            own_numbers: BTreeSet::new(),
            own: BTreeMap::new(),
        });
    }

    fn handle_event(&mut self, number: usize, event: &SseEvent) {
        let Expected::Stream(stream) = self.exchanges[number].expected else {
            panic!("model: {event:?} on {:?}", self.exchanges[number]);
        };
        if event.name == "endpoint" {
            let known = self.streams[stream].session;
            assert!(self.streams[stream].kind == StreamKind::All && known.is_none(), "model: {event:?}");
            let id = event.data.strip_prefix("/messages?session=").expect("model: the endpoint of a session");
            return self.open_session(id, stream, None);
        }
        let session = self.streams[stream].session;
        if let (Some(id), Some(session)) = (&event.id, session) {
            let events = &mut self.sessions[session].events;
            let known = events.iter().position(|(known, ..)| known == id);
            let is_unknown = self.streams[stream].kind == StreamKind::Unknown;
            match known.map(|at| (at, &events[at])) {
                None => events.push((id.clone(), stream, event.data.clone())),
                Some((at, (_, of, data))) => {
                    let is_new = self.exchanges[number].resumes_after.is_some_and(|after| at > after);
                    let is_same = *of == stream && *data == event.data;
                    assert!(is_unknown || (is_new && is_same), "model: {event:?} is sent again");
                    return;
                }
            }
        }
        assert!(
            event.id.is_none() || session.is_some(),
            "model: {event:?} of a stream that cannot be resumed"
        );
        if !event.data.is_empty() {
            let read = Message::read_line(event.data.as_bytes()).expect("model: an event is a message");
            self.handle_messages(number, stream, read.0);
        }
    }

    fn handle_end(&mut self, number: usize) {
        let carried = self.carried(number);
        let exchange = &mut self.exchanges[number];
        exchange.is_over = true;
        let text = core::mem::take(&mut exchange.text);
        let status = exchange.status.unwrap_or_default();
        match &exchange.expected {
            Expected::Nothing => {}
            Expected::Empty(_) => assert!(text.is_empty(), "model: a body of {exchange:?}"),
            Expected::Refusal(refusals) => {
                let error: Value = serde_json::from_slice(&text).unwrap_or_default();
                let is_predicted = refusals.iter().any(|(of, code)| {
                    *of == status && code.is_none_or(|code| error["error"]["code"] == code)
                });
                let is_same = error["id"].is_null() || error["id"] == exchange.id;
                assert!(is_predicted && is_same, "model: {error} is not the refusal of {exchange:?}");
            }
            Expected::Stream(stream) if !exchange.has_events && status == 200 => {
                let stream = *stream;
                let (messages, is_batch) = Message::read_line(&text).expect("model: a body is messages");
                assert_eq!(is_batch, self.streams[stream].is_batch, "model: {messages:?}");
                self.handle_messages(number, stream, messages);
            }
            Expected::Stream(_) => assert!(text.is_empty(), "model: rest of {exchange:?}"),
        }
        let Some(stream) = carried else { return };
        self.streams[stream].carrier = None;
        for request in self.streams[stream].requests.clone() {
            let request = &mut self.requests[request];
            match request.state {
                RequestState::Uncertain => request.state = RequestState::Unread,
                RequestState::Open if self.streams[stream].is_closed => request.state = RequestState::Over,
                RequestState::Open => {
                    let is_allowed = request.releases || self.streams[stream].kind != StreamKind::Answers;
                    assert!(is_allowed, "model: no answer to {request:?}");
                }
                RequestState::Unread | RequestState::Over => {}
            }
        }
        let may_end = self.streams[stream].kind != StreamKind::General || self.streams[stream].is_closed;
        assert!(may_end, "model: the end of a general stream");
    }

    // --- Messages of the server ---

    fn handle_messages(&mut self, number: usize, stream: usize, messages: Vec<Message>) {
        for message in messages {
            match message {
                Message::Request { id, method, .. } => self.handle_own_request(stream, &id, &method),
                Message::Notification { method, params } => {
                    self.handle_notification(stream, &method, &params);
                }
                Message::Result { id, result } => self.handle_answer(number, stream, &id, Ok(&result)),
                Message::Error { id, error } => {
                    let code = error["code"].as_i64().unwrap_or_default();
                    self.handle_answer(number, stream, &id, Err(code));
                }
            }
        }
    }

    fn handle_answer(&mut self, number: usize, stream: usize, id: &Value, answer: Result<&Value, i64>) {
        if self.streams[stream].kind == StreamKind::Unknown {
            let session = self.streams[stream].session;
            let is_asked =
                self.requests.iter().any(|request| request.session == session && request.id == *id);
            return assert!(is_asked, "model: an answer to {id} of another session");
        }
        let (now, is_tight) = (self.now, self.kind.is_tight);
        let is_answered = |request: &Request| {
            request.id == *id
                && request.state != RequestState::Over
                && ((is_tight && answer == Err(-32603))
                    || (request.from.is_some_and(|from| from <= now)
                        && request.contents.iter().any(|content| content.fits(answer))))
        };
        let requests = &self.streams[stream].requests;
        let Some(request) = requests.iter().copied().find(|at| is_answered(&self.requests[*at])) else {
            let requests: Vec<_> = requests.iter().map(|at| &self.requests[*at]).collect();
            let exchange = &self.exchanges[number];
            panic!("model: {answer:?} to {id} at {now:?}, of {requests:#?} on {exchange:#?}");
        };
        self.requests[request].state = RequestState::Over;
        if let Some(state) = answer.ok().and_then(|result| result["requestState"].as_str()) {
            self.states.insert(state.into(), self.requests[request].argument);
        }
    }

    fn handle_own_request(&mut self, stream: usize, id: &Value, method: &str) {
        let Some(session) = self.streams[stream].session else { panic!("model: {method} without a session") };
        let number = id.as_i64().expect("model: a request's id is a number");
        // It may be read only after its handler has ended.
        let is_asking =
            |request: &&usize| self.requests[**request].asks.is_some_and(|(asked, _)| asked == method);
        let of_session: Vec<usize> = (0..self.requests.len())
            .filter(|request| self.requests[*request].session == Some(session))
            .collect();
        assert!(of_session.iter().any(|request| is_asking(&request)), "model: no handler asks {method}");
        let is_own = self.streams[stream].kind == StreamKind::Answers;
        let asking = self.streams[stream].requests.iter().find(is_asking).copied().filter(|_| is_own);
        assert!(asking.is_some() || !is_own, "model: {method} is sent to another request");
        let Session { own, own_numbers, .. } = &mut self.sessions[session];
        assert!(own_numbers.insert(number), "model: an id is used twice");
        own.insert(number, asking);
        if let Some(request) = asking {
            self.requests[request].from = Some(self.now + OWN_TIMEOUT);
        }
    }

    fn handle_notification(&mut self, stream: usize, method: &str, params: &Value) {
        let Stream { session, kind, requests, .. } = &self.streams[stream];
        let about = (method.to_string(), params["uri"].as_str().unwrap_or_default().to_string());
        let is_listening =
            session.is_none() && params["_meta"][SUBSCRIPTION] == self.requests[requests[0]].id;
        let is_allowed = match method {
            "notifications/progress" => *kind != StreamKind::General && params["progressToken"] == 1,
            "notifications/cancelled" => true,
            "notifications/subscriptions/acknowledged" => is_listening,
            "notifications/tools/list_changed" | "notifications/resources/updated" => {
                let is_subscribed = session.is_some_and(|session| self.sessions[session].is_subscribed);
                let is_of_session =
                    matches!(kind, StreamKind::General | StreamKind::All | StreamKind::Unknown);
                let wants = about.1.is_empty() || (about.1 == "note:///1" && (is_subscribed || is_listening));
                self.changes.contains(&about) && wants && (is_listening || is_of_session)
            }
            _ => false,
        };
        assert!(is_allowed, "model: {method} with {params} on {:?}", self.streams[stream]);
        if method == "notifications/cancelled"
            && let (Some(session), Some(own)) = (*session, params["requestId"].as_i64())
        {
            self.sessions[session].own.remove(&own);
        }
    }
}

/// An event of a stream.
#[derive(Debug, Default)]
struct SseEvent {
    id: Option<String>,
    name: String,
    data: String,
}

/// Takes the next event from a text: lines up to an empty one.
fn take_event(text: &mut Vec<u8>) -> Option<SseEvent> {
    let end = text.windows(2).position(|pair| pair == b"\n\n")?;
    let rest = text.split_off(end + 2);
    let lines = core::mem::replace(text, rest);
    let mut event = SseEvent::default();
    for line in String::from_utf8(lines).expect("model: events are text").lines() {
        match line.split_once(':') {
            Some(("id", value)) => event.id = Some(value.trim_start().into()),
            Some(("event", value)) => event.name = value.trim_start().into(),
            Some(("data", value)) => event.data.push_str(value.trim_start()),
            _ => {}
        }
    }
    Some(event)
}
