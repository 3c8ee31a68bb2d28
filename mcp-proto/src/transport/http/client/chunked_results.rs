//! Results in parts: event streams of `result` fragments that end with `complete` or `error`.
//!
//! No revision of the protocol defines them, but some servers send them.
//!
//! | event | its data | meaning |
//! |---|---|---|
//! | `result` | members of a result, or a message with such a result | a part: its `content` is appended, other members replace earlier ones |
//! | `complete` | the same | the last part; if it has its own `content`, that is the complete content |
//! | `error` | an error, or a message with one | the request has failed |
//!
//! Handles requests whose results arrive in parts on an event stream: see [`result_chunks`](super::result_chunks).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::Instant;
use crate::codec::SseEvent;
use crate::peer::client::{Diagnostic, Event};
use crate::peer::{InvalidAnswerError, Leniency, RequestId, Strictness};
use crate::rpc::{
    EnvelopeKind, ErrorObject, Malformed, Raw, Recovered, decode_member, read_members, repair_outcome, write,
};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::response::{ExchangeOutcome, http_error};

const CONTENT: &str = "content";

/// The parts of a result received so far.
#[derive(Debug, Default)]
pub(super) struct ResultChunks {
    /// The elements of `content`, separated by commas.
    content: Vec<u8>,
    members: BTreeMap<Box<str>, Raw>,
    bytes: usize,
}

type Members<'a> = BTreeMap<Box<str>, &'a RawValue>;

impl ResultChunks {
    /// Adds the part in an event's data; returns whether it could be read.
    pub(super) fn add(&mut self, data: &[u8]) -> bool {
        let members = parse_members(data);
        let is_readable = members.is_some();
        self.add_members(members.unwrap_or_default());
        is_readable
    }

    /// Returns the number of stored bytes that the server sent.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
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
                    self.members.insert(name, Raw::from_scan(Bytes::copy_from_slice(value.get().as_bytes())));
                }
            }
        }
    }

    /// Adds the last part; returns the complete result.
    ///
    /// # Errors
    /// A description of the error in the last part, or in the combined result.
    pub(super) fn finish(mut self, data: &[u8]) -> Result<Raw, &'static str> {
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
pub(super) fn parse_error(data: &[u8]) -> Option<ErrorObject> {
    let text = core::str::from_utf8(data).ok()?;
    let [error] = read_members(text, ["error"]).ok()?;
    let error = error.unwrap_or(text);
    let [code, message, data] = read_members(error, ["code", "message", "data"]).ok()?;
    Some(ErrorObject {
        code: decode_member(code)?,
        message: decode_member(message)?,
        data: data.map(|data| Raw::from_scan(Bytes::copy_from_slice(data.as_bytes()))),
    })
}

impl HttpClient {
    /// Handles an event with a part of a result, on a request's stream.
    pub(super) fn handle_chunk_event(&mut self, now: Instant, id: ExchangeId, number: i64, event: &SseEvent) {
        let name = &*event.name;
        if !matches!(name, "result" | "complete" | "error") {
            return;
        }
        let ended = match self.repair_chunk(name, &event.data) {
            Err(what) => Some(invalid_outcome(&what)),
            Ok(data) if name == "result" => self.add_chunk(number, &data),
            Ok(data) if name == "complete" => self.finish_chunked_result(number, &data),
            Ok(data) => Some(match parse_error(&data) {
                Some(error) => ExchangeOutcome::Answer {
                    http: http_error(200, ""),
                    answer: Err(error),
                    has_request_id: true,
                },
                None => invalid_outcome("the error could not be read"),
            }),
        };
        let Some(ended) = ended else { return };
        let generation = self.exchanges.get(id).map_or(0, |exchange| exchange.generation);
        self.drain_after_answer(now, id);
        self.resolve_exchange(now, ExchangeKind::Call(number), generation, None, ended);
    }

    /// Replaces text that is not Unicode, as in other responses; returns why this is not tolerated.
    fn repair_chunk(&mut self, event: &str, data: &Bytes) -> Result<Bytes, String> {
        let outcome = if event == "error" { event } else { "result" };
        let Some((kind, offset, repaired)) = repair_outcome(data, outcome) else { return Ok(data.clone()) };
        let recovered = Recovered { kind: Some(EnvelopeKind::Response), ..Recovered::default() };
        let deviation = Malformed { kind, offset, recovered };
        if self.config.client.strictness == Strictness::Strict {
            return Err(deviation.to_string());
        }
        self.peer.report(Diagnostic::Tolerated(Leniency::Response(Box::new(deviation))));
        Ok(Bytes::from(repaired))
    }

    fn add_chunk(&mut self, number: i64, data: &Bytes) -> Option<ExchangeOutcome> {
        let limit = self.limits().message_bytes;
        let chunks = self.calls.get_mut(number)?.chunks.get_or_insert_default();
        if !chunks.add(data) {
            return Some(invalid_outcome("a fragment could not be read"));
        }
        if chunks.bytes() > limit {
            let too_long = InvalidAnswerError::TooLong { bytes: chunks.bytes() };
            return Some(ExchangeOutcome::Invalid(too_long, http_error(200, "")));
        }
        if let Ok(text) = core::str::from_utf8(data)
            && let Ok(fragment) = Raw::new(text)
        {
            let (request, bytes) = (RequestId::new(number), fragment.as_bytes().len());
            self.peer.push_event(Event::PartialResult { request, fragment }, bytes);
        }
        None
    }

    fn finish_chunked_result(&mut self, number: i64, data: &Bytes) -> Option<ExchangeOutcome> {
        let chunks = self.calls.get_mut(number)?.chunks.take().unwrap_or_default();
        Some(match chunks.finish(data) {
            Ok(result) => ExchangeOutcome::Answer {
                http: http_error(200, ""),
                answer: Ok(result),
                has_request_id: true,
            },
            Err(what) => invalid_outcome(what),
        })
    }
}

fn invalid_outcome(what: &str) -> ExchangeOutcome {
    ExchangeOutcome::Invalid(InvalidAnswerError::Malformed(what.into()), http_error(200, ""))
}
