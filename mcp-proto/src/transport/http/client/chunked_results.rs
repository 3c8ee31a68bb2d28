//! Results in parts: event streams of `result` fragments that end with `complete` or `error`.
//!
//! No revision of the protocol defines them, but some servers send them.
//!
//! | event | its data | meaning |
//! |---|---|---|
//! | `result` | members of a result, or a message with such a result | a part: its `content` is appended, other members replace earlier ones |
//! | `complete` | the same | the last part; if it has its own `content`, that is the complete content |
//! | `error` | an error, or a message with one | the request has failed |

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::Instant;
use crate::codec::SseEvent;
use crate::ordered_map::OrderedMap;
use crate::peer::client::{Event, RequestOwner};
use crate::peer::{InvalidAnswerError, Leniency, RequestId, ResultChunks};
use crate::prelude::*;
use crate::rpc::{
    EnvelopeKind, ErrorObject, Malformed, Raw, Recovered, decode_member, read_members, repair_outcome, write,
};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::response::{ExchangeOutcome, http_error};

const CONTENT: &str = "content";

type Answer = Result<Raw, ErrorObject>;
type Members<'a> = OrderedMap<Box<str>, &'a RawValue>;

impl ResultChunks {
    /// Adds the part in an event's data; returns whether it could be read.
    fn add(&mut self, data: &[u8]) -> bool {
        let members = parse_members(data);
        let is_readable = members.is_some();
        self.add_members(members.unwrap_or_default());
        is_readable
    }

    fn add_members(&mut self, members: Members<'_>) {
        for (name, value) in members {
            self.bytes = self.bytes.saturating_add(name.len()).saturating_add(value.get().len());
            let elements = value.get().trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match elements.filter(|_| *name == *CONTENT) {
                Some(elements) if elements.trim().is_empty() => {}
                Some(elements) => {
                    if !self.content.is_empty() {
                        self.content.push(b',');
                    }
                    self.content.extend_from_slice(elements.as_bytes());
                }
                None => {
                    self.members.insert(name, Raw::from_scan(value.get().into()));
                }
            }
        }
    }

    /// Adds the last part; returns the complete result.
    ///
    /// # Errors
    /// A description of the error in the last part, or in the combined result.
    fn finish(mut self, data: &[u8]) -> Result<Raw, &'static str> {
        let members = parse_members(data).ok_or("the result could not be read")?;
        let has_content = members.get(CONTENT).is_some_and(|content| {
            serde_json::from_str::<Vec<&RawValue>>(content.get()).is_ok_and(|content| !content.is_empty())
        });
        if has_content {
            self.content.clear();
        }
        self.add_members(members);
        self.join().ok_or("the parts of the result do not fit together")
    }

    fn join(mut self) -> Option<Raw> {
        self.members.remove(CONTENT);
        let mut out = b"{\"content\":[".to_vec();
        out.extend_from_slice(&self.content);
        out.push(b']');
        for (name, value) in &self.members {
            out.push(b',');
            write::json(&mut out, name).ok()?;
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
        let text = String::from_utf8(out).ok()?;
        Raw::new(text).ok()
    }
}

/// Parses the members of a result, from the data itself or from the message in it.
fn parse_members(data: &[u8]) -> Option<Members<'_>> {
    let members: Members<'_> = serde_json::from_slice(data).ok()?;
    match members.get("result") {
        Some(result) if !members.contains_key(CONTENT) => serde_json::from_str(result.get()).ok(),
        _ => Some(members),
    }
}

/// Parses an error, from the data itself or from the message in it.
fn parse_error(data: &[u8]) -> Option<ErrorObject> {
    let text = core::str::from_utf8(data).ok()?;
    let [error] = read_members(text, ["error"]).ok()?;
    let error = error.unwrap_or(text);
    let [code, message, data] = read_members(error, ["code", "message", "data"]).ok()?;
    Some(ErrorObject {
        code: decode_member(code)?,
        message: decode_member(message)?,
        data: data.map(|data| Raw::from_scan(data.into())),
    })
}

impl HttpClient {
    /// Handles an event with a part of a result, on a request's stream.
    pub(super) fn handle_chunk_event(
        &mut self,
        now: Instant,
        id: ExchangeId,
        number: RequestId,
        event: &SseEvent,
    ) {
        let http = || http_error(200, "");
        let ended = match self.read_chunk(number, event) {
            Ok(None) => return,
            Ok(Some(Ok(result))) => ExchangeOutcome::Result { status: 200, result },
            Ok(Some(Err(error))) => ExchangeOutcome::Error { http: http(), error, has_request_id: true },
            Err(invalid) => ExchangeOutcome::Invalid(invalid, http()),
        };
        self.resolve_on_stream(now, id, ended);
    }

    //= F56 "`result` events are parts that the client joins"
    /// Reads a part of a result; returns the answer that it completes.
    fn read_chunk(
        &mut self,
        number: RequestId,
        event: &SseEvent,
    ) -> Result<Option<Answer>, InvalidAnswerError> {
        let name = &*event.name;
        if !matches!(name, "result" | "complete" | "error") || self.peer.carriage(number).is_none() {
            return Ok(None);
        }
        let data = self.repair_chunk(name, &event.data)?;
        let malformed = |what: &str| InvalidAnswerError::Malformed(what.into());
        let limit = self.limits().message_bytes;
        let Some(call) = self.peer.carriage_mut(number) else { return Ok(None) };
        match name {
            "error" => {
                let error = parse_error(&data).ok_or_else(|| malformed("the error could not be read"))?;
                return Ok(Some(Err(error)));
            }
            "complete" => {
                let chunks = call.chunks.take().unwrap_or_default();
                return chunks.finish(&data).map(|result| Some(Ok(result))).map_err(malformed);
            }
            _ => {}
        }
        let chunks = call.chunks.get_or_insert_default();
        if !chunks.add(&data) {
            return Err(malformed("a fragment could not be read"));
        }
        if chunks.bytes > limit {
            return Err(InvalidAnswerError::TooLong { bytes: chunks.bytes });
        }
        // Requests of the client's own are unknown to the application.
        let owner = self.peer.sent_request(number).map(|request| request.owner);
        if owner == Some(RequestOwner::Application)
            && let Ok(text) = core::str::from_utf8(&data)
            && let Ok(fragment) = Raw::new(text)
        {
            let (request, bytes) = (number, fragment.as_bytes().len());
            self.peer.push_event(Event::PartialResult { request, fragment }, bytes);
        }
        Ok(None)
    }

    /// Replaces text that is not Unicode, as in other responses.
    ///
    /// # Errors
    /// If that is not tolerated.
    fn repair_chunk(&mut self, event: &str, data: &Bytes) -> Result<Bytes, InvalidAnswerError> {
        let outcome = if event == "error" { event } else { "result" };
        let Some((kind, offset, repaired)) = repair_outcome(data, outcome) else { return Ok(data.clone()) };
        let recovered = Recovered { kind: Some(EnvelopeKind::Response), ..Recovered::default() };
        let deviation = Malformed { kind, offset, recovered };
        let what = deviation.to_string();
        if !self.peer.tolerate(Leniency::Response(Box::new(deviation))) {
            return Err(InvalidAnswerError::Malformed(what));
        }
        Ok(Bytes::from(repaired))
    }
}
