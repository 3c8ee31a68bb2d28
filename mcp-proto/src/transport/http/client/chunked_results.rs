//! Event streams that consist of `result` fragments and end with `complete` or `error`: no revision of the protocol has
//! them, some servers do.
//!
//! | event | its data | what it means |
//! |---|---|---|
//! | `result` | members of a result, or a message with such a result | a part: `content` goes on, other members replace those before |
//! | `complete` | the same | the last part; if it has content of its own, the whole of it |
//! | `error` | an error, or a message with one | the request has failed |

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Instant;
use crate::codec::SseEvent;
use crate::peer::client::Event;
use crate::peer::{InvalidAnswerError, RequestId};
use crate::rpc::{ErrorObject, Raw, write};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::response::ExchangeOutcome;
use super::status::http_error;

const CONTENT: &str = "content";

/// What has come of a result so far.
#[derive(Debug, Default)]
pub(super) struct ResultChunks {
    /// The elements of its content, with commas between them.
    content: Vec<u8>,
    members: BTreeMap<Box<str>, Raw>,
    bytes: usize,
}

type Members<'a> = BTreeMap<Box<str>, &'a RawValue>;

impl ResultChunks {
    fn add(&mut self, members: Members<'_>) {
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

    /// The whole result.
    fn finish(mut self) -> Option<Raw> {
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
        let text = alloc::string::String::from_utf8(out).ok()?;
        Raw::new(text).ok()
    }
}

/// The members of a result: those of the data, or of the message that the data is.
fn parse_members(data: &[u8]) -> Option<Members<'_>> {
    let members: Members<'_> = serde_json::from_slice(data).ok()?;
    match members.get("result") {
        Some(result) if !members.contains_key(CONTENT) => serde_json::from_str(result.get()).ok(),
        _ => Some(members),
    }
}

/// The error that the data is, or that the message has which the data is.
fn parse_error(data: &[u8]) -> Option<ErrorObject> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        code: i64,
        message: alloc::string::String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let members: Members<'_> = serde_json::from_slice(data).ok()?;
    let fields: Fields<'_> = match members.get("error") {
        Some(error) => serde_json::from_str(error.get()).ok()?,
        None => serde_json::from_slice(data).ok()?,
    };
    let data = fields.data.map(|data| Raw::from_scan(Bytes::copy_from_slice(data.get().as_bytes())));
    Some(ErrorObject { code: fields.code, message: fields.message, data })
}

impl HttpClient {
    /// An event of the dialect on the stream of a request.
    pub(super) fn handle_chunk_event(&mut self, now: Instant, id: ExchangeId, number: i64, event: &SseEvent) {
        let ended = match &*event.name {
            "result" => self.add_chunk(number, &event.data),
            "complete" => self.finish_chunked_result(number, &event.data),
            "error" => Some(match parse_error(&event.data) {
                Some(error) => ExchangeOutcome::Answer {
                    http: http_error(200, ""),
                    answer: Err(error),
                    has_request_id: true,
                },
                None => invalid_outcome("the error could not be read"),
            }),
            _ => return,
        };
        let Some(ended) = ended else { return };
        let generation = self.exchanges.get(&id).map_or(0, |exchange| exchange.generation);
        // Either is the last word of the stream.
        self.drain_after_answer(now, id);
        self.resolve_exchange(now, ExchangeKind::Call(number), generation, None, ended);
    }

    fn add_chunk(&mut self, number: i64, data: &Bytes) -> Option<ExchangeOutcome> {
        let limit = self.limits().message_bytes;
        let call = self.calls.get_mut(&number)?;
        let Some(members) = parse_members(data) else {
            return Some(invalid_outcome("a fragment could not be read"));
        };
        let fragments = call.chunks.get_or_insert_default();
        fragments.add(members);
        if fragments.bytes > limit {
            let too_long = InvalidAnswerError::TooLong { bytes: fragments.bytes };
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
        let call = self.calls.get_mut(&number)?;
        let mut fragments = call.chunks.take().unwrap_or_default();
        let Some(members) = parse_members(data) else {
            return Some(invalid_outcome("the result could not be read"));
        };
        let whole = members.get(CONTENT).is_some_and(|content| {
            serde_json::from_str::<Vec<&RawValue>>(content.get()).is_ok_and(|content| !content.is_empty())
        });
        if whole {
            fragments.content.clear();
        }
        fragments.add(members);
        Some(match fragments.finish() {
            Some(result) => ExchangeOutcome::Answer {
                http: http_error(200, ""),
                answer: Ok(result),
                has_request_id: true,
            },
            None => invalid_outcome("the parts of the result do not fit together"),
        })
    }
}

fn invalid_outcome(what: &str) -> ExchangeOutcome {
    ExchangeOutcome::Invalid(InvalidAnswerError::Malformed(what.into()), http_error(200, ""))
}
