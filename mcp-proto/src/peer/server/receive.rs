//! Inputs of a server: messages, the end of the link, timeouts.

use alloc::boxed::Box;
use alloc::string::ToString;

use crate::Instant;
use crate::peer::batch::BatchId;
use crate::peer::{InvalidAnswerError, Leniency, LostReason, Outbox, Outcome, Strictness};
use crate::rpc::{
    Batch, ErrorObject, Frame, Id, Malformed, MalformedKind, Message, Raw, Request, Response, Text, code,
};
use crate::schema::{
    Cancelled, CancelledParams, Initialized, MethodInfo, Notification, Progress, ProgressParams,
};

use super::dispatch::decode;
use super::{Cancellation, CloseReason, Diagnostic, Event, Phase, Server};

impl Server {
    /// Handles a message, or a batch of them.
    pub(crate) fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        match frame {
            Frame::Single(message) => self.handle_message(now, message, None, out),
            Frame::Batch(batch) => self.handle_batch(now, batch, out),
        }
        self.retry_notifications(now, out);
        // At the end only: the answers to a batch are sent with its last message.
        self.advance_close();
    }

    /// Handles the only request of an exchange; `meta` is the `_meta` of its parameters, which are valid JSON.
    #[cfg(feature = "http")]
    pub(crate) fn handle_exchange(
        &mut self,
        now: Instant,
        request: Request,
        meta: Option<&Raw>,
        out: &mut dyn Outbox,
    ) {
        self.handle_request(request, meta, None, out);
        self.retry_notifications(now, out);
        self.advance_close();
    }

    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
    fn handle_batch(&mut self, now: Instant, batch: Batch, out: &mut dyn Outbox) {
        let session = self.session.as_ref();
        let allowed = session.is_some_and(|session| session.revision.differences().batches);
        //= R1 "-32600 for an empty array"
        if !allowed || batch.is_empty() {
            let what = if allowed { "an empty batch" } else { "batches are not part of this revision" };
            return self.reply_error(None, None, &ErrorObject::new(code::INVALID_REQUEST, what), out);
        }
        let id = self.batches.open();
        //= R1 "Receive batches: requests and notifications mixed"
        for message in batch {
            match message {
                Ok(message) => self.handle_message(now, message, Some(id), out),
                Err(malformed) if self.resolve_unreadable(&malformed) => {}
                Err(malformed) => {
                    self.batches.expect(id);
                    self.refuse_malformed(malformed, Some(id), out);
                }
            }
            // Its answers may have exceeded the limit for a client that reads none.
            if self.is_closed() {
                return;
            }
        }
        self.close_batch(id, out);
    }

    /// Handles input that is not a message: answers it with an error, under its id if that could be read.
    pub(crate) fn handle_malformed(&mut self, malformed: Malformed, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        if !self.resolve_unreadable(&malformed) {
            self.refuse_malformed(malformed, None, out);
        }
    }

    /// Resolves the request of this side that an unreadable message was to answer; returns whether there is one.
    fn resolve_unreadable(&mut self, malformed: &Malformed) -> bool {
        let recovered = &malformed.recovered;
        let number = recovered.id.as_ref().and_then(|id| self.config.strictness.number_of(id));
        let (Some(number), true) = (number, malformed.may_be_answer()) else { return false };
        if self.outbound.used_mut().and_then(|outbound| outbound.remove(number)).is_none() {
            return false;
        }
        let invalid = match malformed.kind {
            MalformedKind::TooLong { bytes } => InvalidAnswerError::TooLong { bytes },
            _ => InvalidAnswerError::Malformed(malformed.to_string()),
        };
        self.resolve(number, Outcome::Invalid(invalid));
        true
    }

    fn refuse_malformed(&mut self, malformed: Malformed, batch: Option<BatchId>, out: &mut dyn Outbox) {
        // An answer is never answered, and neither is a notification.
        //= S1.12 "Notifications, known or not, get no answer"
        if malformed.is_silent() {
            if let Some(batch) = batch {
                self.close_batch(batch, out);
            }
        } else {
            let error = ErrorObject::new(malformed.code(), malformed.to_string());
            self.reply_error(malformed.recovered.id.as_ref(), batch, &error, out);
        }
        if !self.is_closed() {
            self.diagnose(Diagnostic::Malformed(Box::new(malformed)));
        }
    }

    /// Handles the end of the link's input: as [`close`](super::ServerCommands::close), but requests of this side are
    /// lost at once, with `detail`, and held requests are served first. The transport may still take answers from the
    /// queue, for a client that only closed its sending half.
    pub(crate) fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        self.resolve_outbound(&LostReason::Disconnected(detail.to_string()));
        self.begin_close(now, true, out);
    }

    /// Handles the timeouts that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some(expired) = self.outbound.used_mut().and_then(|outbound| outbound.pop_expired(now)) {
            out.cancel(expired.number, Some("timed out"));
            self.resolve(expired.number, expired.outcome());
        }
        self.send_due_progress(now, out);
        self.deliver_due_progress(now);
        self.retry_notifications(now, out);
        self.release(now, out);
        let over = matches!(self.phase, Phase::Finishing { until, .. } if until <= now);
        if over && !self.is_waiting_for_client() {
            self.refuse_remaining(out);
            self.advance_close();
        }
    }

    fn handle_message(
        &mut self,
        now: Instant,
        message: Message,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
    ) {
        match message {
            Message::Request(request) => {
                if let Some(batch) = batch {
                    self.batches.expect(batch);
                }
                self.receive_request(request, batch, out);
            }
            //= S1.12 "Notifications, known or not, get no answer"
            Message::Notification(mut notification) => {
                if let Some(deviation) = notification.deviation.take() {
                    if self.config.strictness == Strictness::Strict {
                        if let Some(batch) = batch {
                            self.batches.expect(batch);
                        }
                        return self.refuse_malformed(*deviation, batch, out);
                    }
                    self.diagnose(Diagnostic::Tolerated(Leniency::Notification(deviation)));
                }
                let overtakes = [Cancelled::NAME, Progress::NAME].contains(&&*notification.method);
                let due = if overtakes { Some(notification) } else { self.queue_notification(notification) };
                if let Some(notification) = due {
                    self.handle_notification(now, notification.method, notification.params, out);
                }
            }
            Message::Response(response) => self.handle_response(now, response),
        }
    }

    // --- Notifications and answers ---

    pub(super) fn handle_notification(
        &mut self,
        now: Instant,
        method: Text,
        params: Option<Raw>,
        out: &mut dyn Outbox,
    ) {
        match &*method {
            Initialized::NAME => {
                if let Some(session) = self.session.as_mut().filter(|session| !session.initialized) {
                    session.initialized = true;
                    self.events.push(Event::Initialized, 0);
                }
            }
            Cancelled::NAME => match decode::<CancelledParams>(&method, params.as_ref()) {
                Ok(params) => self.handle_cancelled(params, out),
                Err(error) => self.diagnose(Diagnostic::InvalidNotification { method, error: error.message }),
            },
            Progress::NAME => match decode::<ProgressParams>(&method, params.as_ref()) {
                Ok(params) => self.handle_progress(now, &method, params),
                Err(error) => self.diagnose(Diagnostic::InvalidNotification { method, error: error.message }),
            },
            _ => {
                let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
                self.events.push_or_drop(Event::Notification { method, params }, bytes);
            }
        }
    }

    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    fn handle_cancelled(&mut self, params: CancelledParams, out: &mut dyn Outbox) {
        // Unknown and answered requests are no error: the notification crossed the answer.
        let Some(id) = params.request_id else { return };
        let Some(request) = self.inbound.find(&id) else {
            self.cancel_queued(&id, out);
            return;
        };
        //= S2.3 "nothing more is sent for it"
        let Some((_, served)) = self.take(request) else { return };
        self.abandon(request, &served, Cancellation::by_client(params.reason.as_deref()));
        if let Some(batch) = served.batch {
            self.close_batch(batch, out);
        }
    }

    fn handle_response(&mut self, now: Instant, mut response: Response) {
        if let Some(deviation) = response.deviation.take() {
            if self.config.strictness == Strictness::Strict {
                if !self.resolve_unreadable(&deviation) {
                    self.diagnose(Diagnostic::Malformed(deviation));
                }
                return;
            }
            self.diagnose(Diagnostic::Tolerated(Leniency::Response(deviation)));
        }
        let number = response.id.as_ref().and_then(|id| self.config.strictness.number_of(id));
        match (response.id, number, response.outcome) {
            (Some(id), Some(number), outcome) if self.outbound.is_ours(number) => {
                self.note_number_as_string(id);
                // The answer to a cancelled request is dropped.
                let Some(entry) = self.outbound.remove(number) else { return };
                let outcome = match outcome {
                    Ok(result) => Outcome::Result(self.repair_empty_result(entry.info, result)),
                    Err(error) => Outcome::Error(error),
                };
                self.resolve(number, outcome);
            }
            (None, _, Err(error)) => {
                self.outbound.note_error_without_id(now, &error);
                self.diagnose(Diagnostic::Error(error));
            }
            (id, ..) => self.diagnose(Diagnostic::UnknownAnswer(id)),
        }
    }

    /// Reports a tolerated deviation if the client has written the number of a request of this side as a string.
    pub(super) fn note_number_as_string(&mut self, id: Id) {
        if matches!(id, Id::String(_)) {
            self.diagnose(Diagnostic::Tolerated(Leniency::NumberAsString { id }));
        }
    }

    /// Replaces the `null` or empty array with which a client answers `ping` by the empty object.
    fn repair_empty_result(&mut self, info: Option<&'static MethodInfo>, result: Raw) -> Raw {
        let Some((empty, leniency)) = self.config.strictness.empty_result(info, &result) else {
            return result;
        };
        self.diagnose(Diagnostic::Tolerated(leniency));
        empty
    }

    /// Closes the connection because of a failure on this side.
    pub(crate) fn fail(&mut self, why: alloc::string::String) {
        self.abort(CloseReason::Lost(LostReason::Failed(why)));
    }
}
