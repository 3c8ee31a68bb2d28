//! Requests: sending, resolving and cancelling them. Their records and carriages are in the peer's table.

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::RequestOwner;
use crate::peer::{Carriage, CarriageEnd, CarriageState, LostReason, Outcome, RequestError, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{Cancelled, ListTools, Method, Notification, Revision};
use crate::transport::cancellation::write_cancelled;
use crate::transport::http::ExchangeId;

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::outbox::{OneWayMessage, RequestHeaders, is_modern, modern_request_headers, sessionless_headers};

impl HttpClient {
    // --- Sending ---

    /// Sends a queued request, which takes a slot unless it is long-lived.
    pub(super) fn send_call(&mut self, now: Instant, number: RequestId) {
        match self.open_exchange(ExchangeKind::Call(number)) {
            Ok(exchange) => {
                self.suspend_sent_deadline(number);
                self.peer.update_carriage(number, |call| {
                    call.state = CarriageState::InExchange(exchange);
                    call.has_slot = !call.is_long_lived;
                });
            }
            Err(refusal) => self.refuse_call(now, number, refusal),
        }
    }

    /// Ends a request of which no exchange can be made: with the reason, or because its message is not stored any more.
    pub(super) fn refuse_call(&mut self, now: Instant, number: RequestId, refusal: Option<RequestError>) {
        let lost = || Outcome::Lost(LostReason::Disconnected("the request cannot be sent again".into()));
        self.fail_call(now, number, refusal.map_or_else(lost, Outcome::Refused));
    }

    /// Returns the headers and the body of a request; `None` as the error if its message is not stored any more.
    pub(super) fn build_call(
        &self,
        number: RequestId,
    ) -> Result<(RequestHeaders, Bytes), Option<RequestError>> {
        let call = self.peer.carriage(number).ok_or(None)?;
        let encoded = call.encoded.as_ref().ok_or(None)?;
        let headers = if is_modern(call.revision) {
            let params = self.tools.param_headers(&call.method, encoded);
            modern_request_headers(call.method.clone(), call.revision, encoded, params)?
        } else {
            self.with_session_headers(sessionless_headers())
        };
        let longest = headers.iter().map(|(name, value)| name.len().saturating_add(value.len())).max();
        let (longest, limit) = (longest.unwrap_or(0), self.limits().header_bytes);
        if longest > limit {
            return Err(Some(RequestError::Encode(format!(
                "a header of {longest} bytes is over the limit of {limit}, `Limits::header_bytes`"
            ))));
        }
        Ok((headers, encoded.body.clone()))
    }

    /// Puts a request back into the queue, at its old position.
    pub(super) fn requeue(&mut self, now: Instant, number: RequestId) {
        if self.peer.carriage(number).is_some_and(|call| call.encoded.is_none()) {
            return self.fail_call(now, number, Outcome::Lost(LostReason::Disconnected(String::new())));
        }
        self.peer.update_carriage(number, Carriage::requeue);
    }

    /// Puts a request back into the queue under a new id.
    pub(super) fn requeue_with_new_id(&mut self, now: Instant, number: RequestId) {
        self.assign_new_id(number);
        self.requeue(now, number);
    }

    pub(super) fn assign_new_id(&mut self, number: RequestId) {
        let wire = self.peer.renumber(number);
        if let Some(call) = self.peer.carriage_mut(number) {
            call.encoded = call.encoded.as_ref().and_then(|encoded| encoded.with_id(wire, &call.method));
        }
    }

    /// Records a successful status: the request's body is dropped unless the request may be resent.
    pub(super) fn note_success(&mut self, number: RequestId) {
        let safe = self.may_reissue(number, false);
        if let Some(call) = self.peer.carriage_mut(number)
            && !safe
        {
            call.encoded = None;
        }
    }

    // --- Resolving ---

    /// Resolves a request: with its answer, or with an outcome without one. The caller ends its exchange.
    pub(super) fn end_call(
        &mut self,
        now: Instant,
        number: RequestId,
        mut end: Result<Result<Raw, ErrorObject>, Outcome>,
    ) {
        let Some(call) = self.peer.carriage(number) else { return };
        let revision = call.revision;
        if *call.method == *ListTools::NAME
            && let Ok(Ok(page)) = &mut end
        {
            *page = self.read_tools(revision, page.clone());
        }
        let page = self.lists_tools(number).then(|| end.clone().ok().and_then(Result::ok));
        self.peer.end_sent(now, number, end, &mut self.outbox);
        if let Some(page) = page {
            self.handle_tools_page(now, page);
        }
    }

    /// Resolves a request without an answer. The caller ends its exchange.
    pub(super) fn fail_call(&mut self, now: Instant, number: RequestId, outcome: Outcome) {
        self.end_call(now, number, Err(outcome));
    }

    /// Returns whether a request is one of the transport's own, for a page of tools.
    pub(super) fn lists_tools(&self, number: RequestId) -> bool {
        self.peer.sent_request(number).is_some_and(|request| request.owner == RequestOwner::ToolListing)
    }

    /// Resolves a request that was answered on another request's stream.
    pub(super) fn answer_from_other_stream(
        &mut self,
        now: Instant,
        number: RequestId,
        answer: Result<Raw, ErrorObject>,
    ) {
        let exchange = self.exchange_of(number);
        self.note_answered();
        self.end_call(now, number, Ok(answer));
        if let Some(exchange) = exchange {
            self.drain_after_answer(now, exchange);
        }
    }

    /// Returns the exchange of a request, if it is in one.
    pub(super) fn exchange_of(&self, number: RequestId) -> Option<ExchangeId> {
        self.peer.carriage(number)?.exchange()
    }

    /// Ends the exchanges of the requests that the peer has ended.
    pub(super) fn release_calls(&mut self, now: Instant) {
        while let Some((call, end)) = self.outbox.released.pop_front() {
            self.release_call(now, &call, end);
        }
        self.check_listing(now);
    }

    /// Ends the exchange of a request.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    fn release_call(&mut self, now: Instant, call: &Carriage, end: CarriageEnd) {
        let exchange = call.exchange();
        match end {
            CarriageEnd::Answered => {
                self.note_answered();
                if let Some(exchange) = exchange {
                    self.drain_after_answer(now, exchange);
                }
            }
            CarriageEnd::Forgotten => _ = exchange.map(|exchange| self.abort_exchange(exchange)),
            CarriageEnd::Cancelled { wire, reason } => {
                let sent = match exchange {
                    // If the rest of its answer was about to be requested, the server is working on it.
                    //= K4 "over HTTP in 2026-07-28 the end of the exchange"
                    //= C4.16 "Cancel = close the response stream"
                    Some(exchange) => self.abort_exchange(exchange) || call.streams.has_position(),
                    None => call.is_with_server(),
                };
                if sent && !is_modern(call.revision) {
                    self.post_cancelled(wire, reason.as_deref(), call.revision);
                }
            }
        }
    }

    /// Sends `notifications/cancelled` to a legacy server:
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>
    fn post_cancelled(&mut self, wire: i64, reason: Option<&str>, revision: Revision) {
        let mut body = alloc::vec::Vec::new();
        if write_cancelled(&mut body, wire, reason).is_ok() {
            let notification = Some((Cancelled::NAME.into(), revision));
            self.outbox.push_post(OneWayMessage { notification, body: Bytes::from(body), failures: 0 });
        }
    }
}
