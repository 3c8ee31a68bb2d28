//! Handles requests whose results arrive in parts on an event stream: see [`result_chunks`](super::result_chunks).

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use bytes::Bytes;

use crate::Instant;
use crate::codec::SseEvent;
use crate::peer::client::{Diagnostic, Event};
use crate::peer::{InvalidAnswerError, Leniency, RequestId, Strictness};
use crate::rpc::{EnvelopeKind, Malformed, Raw, Recovered, repair_outcome};
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::head::http_error;
use super::response::ExchangeOutcome;
use super::result_chunks::parse_error;

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
