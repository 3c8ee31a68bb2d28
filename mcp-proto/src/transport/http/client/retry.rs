//! What follows the outcome of a request's exchange: it is resolved, sent again or resumed.
//!
//! | the outcome of its exchange | next step |
//! |---|---|
//! | the answer | it is resolved |
//! | -32020 to a tool call (2026-07-28) | the client lists the tools again, then resends it |
//! | -32022 with the very version of the request (2026-07-28) | it is resent |
//! | the session is lost (legacy) | the client opens a new session, then resends it |
//! | 429 with `Retry-After`, or 503 if it is repeatable, before its deadline | it is resent after that delay, a limited number of times |
//! | another status without an answer, or 503 with `Retry-After` | it is resolved with that status |
//! | it was not sent | it is resent after a delay, a limited number of times |
//! | the stream broke off after an event with an id (legacy) | the client requests the rest of the stream |
//! | the connection broke otherwise | it is resent once if that is safe, otherwise it is lost |

use crate::Instant;
use crate::consent::Trust;
use crate::peer::client::Diagnostic;
use crate::peer::{
    Carriage, CarriageState, FailedRequest, LostReason, Outcome, ReissuePolicy, RequestId, TransportError,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::{CallTool, Method, SubscriptionsListen};
use crate::transport::http::SentState;

use super::HttpClient;
use super::listen::MIN_PAUSE;
use super::outbox::is_modern;
use super::response::{ExchangeOutcome, ResumePoint, is_success};
use super::session::SendGate;

impl HttpClient {
    // --- Outcomes of exchanges ---

    /// Handles the outcome of a request's exchange.
    pub(super) fn resolve_call(
        &mut self,
        now: Instant,
        number: RequestId,
        is_current: bool,
        mut ended: ExchangeOutcome,
    ) {
        if let Some(http) = ended.http_error_mut()
            && self.honor_retry_after(now, number, http)
        {
            return;
        }
        match ended {
            // The JSON-RPC error lacks the challenge, which says how to log in.
            ExchangeOutcome::Error { http, .. } if http.needs_authorization => {
                self.resolve_refused(now, number, is_current, *http);
            }
            // Refused before the request was read, or for now: the error of the exchange says when to try again.
            ExchangeOutcome::Error { mut http, error, has_request_id: own }
                if (http.status == 429 && !own) || (http.status == 503 && http.retry_after.is_some()) =>
            {
                http.detail = TransportError::excerpt(&error.message);
                self.resolve_refused(now, number, is_current, *http);
            }
            ExchangeOutcome::Error { http, error, has_request_id: own }
                if self.handle_protocol_error(now, number, is_current, http.status, &error, own) => {}
            ExchangeOutcome::Error { http, error, .. } => {
                if is_success(http.status) {
                    self.note_answered();
                }
                self.end_call(now, number, Ok(Err(error)));
            }
            ExchangeOutcome::Result { result, .. } => {
                self.note_answered();
                self.end_call(now, number, Ok(Ok(result)));
            }
            // The stream of a later session cannot bring the answer.
            ExchangeOutcome::NoAnswer(http)
                if http.status == 202 && is_current && self.await_on_listener(number) => {}
            ExchangeOutcome::NoAnswer(http) | ExchangeOutcome::Broken { refused: Some(http), .. } => {
                self.resolve_refused(now, number, is_current, *http);
            }
            ExchangeOutcome::Invalid(invalid, _) => self.fail_call(now, number, Outcome::Invalid(invalid)),
            //= F46 "an error that names the request"
            ExchangeOutcome::Unanswered(_, trail) => {
                let detail = match self.name_request(number) {
                    Some(request) => format!("the stream ended before the answer to {request}"),
                    None => "the stream ended before the answer".into(),
                };
                self.handle_broken_stream(now, number, is_current, &detail, trail);
            }
            ExchangeOutcome::Broken { sent: SentState::NotSent, detail, .. }
            | ExchangeOutcome::Unreachable { detail } => {
                self.retry_unsent(now, number, &detail);
            }
            ExchangeOutcome::Broken { detail, trail, .. } => {
                self.handle_broken_stream(now, number, is_current, &detail, trail);
            }
        }
    }

    /// Handles an error about the request's headers, its version or its session. Returns whether the error is handled.
    fn handle_protocol_error(
        &mut self,
        now: Instant,
        number: RequestId,
        is_current: bool,
        status: u16,
        error: &ErrorObject,
        own: bool,
    ) -> bool {
        let Some(call) = self.peer.carriage_mut(number) else { return false };
        if !is_modern(call.revision) {
            let unknown_method = own && error.code == code::METHOD_NOT_FOUND;
            let lost = match status {
                404 => !unknown_method,
                // Widely used servers answer 400 in place of 404. A request is resent only once for that.
                400 => {
                    !own && call.renewals == 0
                        && (self.session.has_answered || mentions_session(&error.message))
                }
                _ => false,
            };
            return lost && self.resend_in_new_session(now, number, is_current);
        }
        match error.code {
            code::HEADER_MISMATCH
                if *call.method == *CallTool::NAME && !call.headers_retried && call.encoded.is_some() =>
            {
                call.headers_retried = true;
                self.await_tools(now, number, error.clone());
                true
            }
            code::UNSUPPORTED_PROTOCOL_VERSION if !call.version_retried && call.encoded.is_some() => {
                let offered = crate::peer::client::handshake::offered_versions(error.data.as_ref());
                let same = offered
                    .is_some_and(|versions| versions.iter().any(|version| version == call.revision.as_str()));
                if same {
                    call.version_retried = true;
                    self.requeue_with_new_id(now, number);
                }
                same
            }
            code::HEADER_MISMATCH
            | code::UNSUPPORTED_PROTOCOL_VERSION
            | code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                self.detection.is_era_proven = true;
                false
            }
            _ => {
                let unknown_method = status == 404 && error.code == code::METHOD_NOT_FOUND;
                if !unknown_method && matches!(status, 400 | 404 | 405) {
                    self.redetect_era(now);
                }
                false
            }
        }
    }

    fn resolve_refused(
        &mut self,
        now: Instant,
        number: RequestId,
        is_current: bool,
        mut http: TransportError,
    ) {
        let Some(call) = self.peer.carriage(number) else { return };
        if is_modern(call.revision) {
            if matches!(http.status, 400 | 404 | 405) {
                self.redetect_era(now);
            }
        } else {
            let lost = match http.status {
                404 => true,
                400 => call.renewals == 0 && mentions_session(&http.detail),
                _ => false,
            };
            if lost && self.resend_in_new_session(now, number, is_current) {
                return;
            }
        }
        http.request = self.name_request(number).map(Box::new);
        self.fail_call(now, number, Outcome::Transport(http));
    }

    /// The method and the id of a request, for its error.
    fn name_request(&self, number: RequestId) -> Option<FailedRequest> {
        Some(FailedRequest::new(&self.peer.carriage(number)?.method, self.peer.wire_id(number)?))
    }

    /// Resends a request in a new session: the server lost the session and so did not accept the request.
    fn resend_in_new_session(&mut self, now: Instant, number: RequestId, is_current: bool) -> bool {
        /// The maximum of lost sessions per request; a server that loses more is not going to answer it.
        const MAX_RENEWALS: u32 = 3;
        let Some(call) = self.peer.carriage(number) else { return false };
        if call.encoded.is_none() || call.renewals >= MAX_RENEWALS {
            return false;
        }
        if is_current && !self.renew_session(now) {
            return false;
        }
        if let Some(call) = self.peer.carriage_mut(number) {
            call.renewals = call.renewals.saturating_add(1);
        }
        self.requeue(now, number);
        true
    }

    /// Retries a request that was not sent, after a delay.
    fn retry_unsent(&mut self, now: Instant, number: RequestId, detail: &str) {
        let backoff = self.config.backoff;
        let Some(call) = self.peer.carriage(number) else { return };
        if call.failures >= backoff.attempts || call.encoded.is_none() {
            // A session that was lost, for example, has refused the request under the same id.
            let outcome = match call.was_received {
                false => self.peer.unsent_outcome(number, detail),
                true => Outcome::Lost(LostReason::Disconnected(detail.into())),
            };
            return self.fail_call(now, number, outcome);
        }
        let until = now + backoff.pause(call.failures, &mut self.rng);
        self.peer.update_carriage(number, |call| {
            call.failures = call.failures.saturating_add(1);
            call.state = CarriageState::BackingOff { until };
        });
    }

    /// Resends a request after the delay in `Retry-After`. Returns whether it will be resent.
    ///
    /// <https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3>
    /// <https://www.rfc-editor.org/rfc/rfc6585#section-4>
    fn honor_retry_after(&mut self, now: Instant, number: RequestId, http: &TransportError) -> bool {
        let (429 | 503, Some(pause)) = (http.status, http.retry_after) else { return false };
        let in_time = self.peer.deadline_of(number).is_none_or(|deadline| now + pause < deadline);
        // 429 is the answer to a request that was not accepted; behind 503, part of the work may have been done.
        let may_repeat = match http.status {
            429 => {
                self.peer.sent_request(number).is_some_and(|request| request.reissue != ReissuePolicy::Never)
            }
            _ => self.is_repeatable(number, false),
        };
        if !in_time || !may_repeat {
            return false;
        }
        let attempts = self.config.backoff.attempts;
        let Some(call) = self.peer.carriage(number).filter(|call| call.failures < attempts) else {
            return false;
        };
        let method = call.method.as_ref().into();
        self.peer.report(Diagnostic::RequestDelayed { method, pause, error: http.clone() });
        self.assign_new_id(number);
        self.peer.update_carriage(number, |call| {
            call.failures = call.failures.saturating_add(1);
            call.has_slot = false;
            call.state = CarriageState::BackingOff { until: now + pause.max(MIN_PAUSE) };
        });
        true
    }

    /// Handles the loss of the connection that carried an answer.
    pub(super) fn handle_broken_call(
        &mut self,
        now: Instant,
        number: RequestId,
        detail: &str,
        trail: ResumePoint,
    ) {
        let resumable = self.is_resumable();
        let Some(call) = self.peer.carriage(number) else { return };
        if !is_modern(call.revision) && resumable && trail.last_event.is_some() {
            return self.resume_later(now, number, trail);
        }
        if self.may_reissue(number, trail.has_events) {
            if let Some(call) = self.peer.carriage_mut(number) {
                call.reissued = true;
            }
            //= K20 "2026-07-28 sends the request again under a new id"
            //= C4.15 "re-issued, where it is safe or opted in, as a NEW request with a new id"
            return self.requeue_with_new_id(now, number);
        }
        //= C4.15 "otherwise the caller gets `Lost`"
        self.fail_call(now, number, Outcome::Lost(LostReason::Disconnected(detail.into())));
    }

    /// Handles the end of a stream that should have carried an answer.
    fn handle_broken_stream(
        &mut self,
        now: Instant,
        number: RequestId,
        is_current: bool,
        detail: &str,
        mut trail: ResumePoint,
    ) {
        // Event ids are valid only within the session that sent them.
        trail.last_event = trail.last_event.filter(|_| is_current);
        self.handle_broken_call(now, number, detail, trail);
    }

    /// Returns whether a request may be resent although the server may have acted on it.
    ///
    /// `heard` is whether any event of its answer has arrived.
    pub(super) fn may_reissue(&self, number: RequestId, heard: bool) -> bool {
        self.peer.carriage(number).is_some_and(|call| !call.reissued) && self.is_repeatable(number, heard)
    }

    //= K25 "its tool is declared idempotent or read-only, or the caller says so"
    /// Returns whether sending a request twice has the same effect as sending it once.
    fn is_repeatable(&self, number: RequestId, heard: bool) -> bool {
        let Some(request) = self.peer.sent_request(number) else { return false };
        let Some(call) = &request.carriage else { return false };
        let Some(encoded) = &call.encoded else { return false };
        match request.reissue {
            ReissuePolicy::Always => true,
            ReissuePolicy::Never => false,
            ReissuePolicy::WhereSafe => {
                // Between two streams of a subscription, notifications may be lost; its owner must learn of that.
                let misses = heard && *call.method == *SubscriptionsListen::NAME;
                //= C9.3 "Tool annotations untrusted unless the server is trusted"
                let believed = self.config.annotations == Trust::Trusted;
                request.info.is_some_and(|info| info.idempotent && !misses)
                    || (believed && *call.method == *CallTool::NAME && self.tools.is_repeatable(encoded))
            }
        }
    }

    /// Sends a request or resumes its answer after a delay.
    pub(super) fn resume_or_send(&mut self, now: Instant, number: RequestId) {
        let is_due = |call: &&Carriage| call.due().is_some_and(|due| due <= now);
        match self.peer.carriage(number).filter(is_due) {
            None => {}
            Some(call) if call.streams.has_position() => self.request_resumption(number),
            Some(call) if call.has_slot && self.session.gate == SendGate::Open => self.send_call(now, number),
            // The session was lost meanwhile, or other requests have taken its slot.
            Some(_) => self.requeue(now, number),
        }
    }
}

/// Returns whether the text of a refusal is about the session.
fn mentions_session(text: &str) -> bool {
    text.to_ascii_lowercase().contains("session")
}
