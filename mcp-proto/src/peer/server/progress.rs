//! Progress reports of a server, and those of its client.

use crate::Instant;
use crate::peer::progress_pacer::RemainingProgress;
use crate::peer::{InboundId, Outbox, RequestId};
use crate::rpc::Text;
use crate::schema::{Notification as _, Number, Progress, ProgressParams};

use super::{Diagnostic, Event, Server};

impl Server {
    /// Reports progress on a request, now or when its turn comes.
    pub(crate) fn progress(
        &mut self,
        now: Instant,
        request: InboundId,
        params: &ProgressParams,
        out: &mut dyn Outbox,
    ) -> bool {
        //= S6.2 "stop after completion"
        let Some((_, served)) = self.inbound.get_mut(request) else { return false };
        //= S6.2 "only active token"
        let Some(token) = served.progress_token.clone() else { return false };
        //= S6.2 "value strictly rising"
        if served.progress.as_ref().is_some_and(|last| !exceeds(&params.progress, last)) {
            return false;
        }
        let before = served.progress.replace(params.progress.clone());
        let params = ProgressParams { progress_token: token, ..params.clone() };
        //= S6.2 "rate limit"
        let Some(due) = self.sent_progress.offer(now, request, params, 0) else { return true };
        let sent = self.send_progress(request, &due, out);
        if !sent && let Some((_, served)) = self.inbound.get_mut(request) {
            served.progress = before;
        }
        sent
    }

    /// Sends the waiting reports whose time has come.
    pub(super) fn send_due_progress(&mut self, now: Instant, out: &mut dyn Outbox) {
        while let Some((request, params, _)) = self.sent_progress.pop_due(now) {
            self.send_progress(request, &params, out);
        }
    }

    /// Sends the last report of a request that is about to be answered.
    pub(super) fn send_last_progress(&mut self, request: InboundId, out: &mut dyn Outbox) {
        if let Some(RemainingProgress { last: Some((params, _)), .. }) = self.sent_progress.remove(request) {
            self.send_progress(request, &params, out);
        }
    }

    /// Sends the last reports of all requests.
    pub(super) fn send_all_progress(&mut self, out: &mut dyn Outbox) {
        while let Some((request, params)) = self.sent_progress.pop() {
            self.send_progress(request, &params, out);
        }
    }

    fn send_progress(&mut self, request: InboundId, params: &ProgressParams, out: &mut dyn Outbox) -> bool {
        let Some((id, served)) = self.inbound.get(request) else { return false };
        let (id, revision) = (id.clone(), served.revision);
        self.notify(Progress::NAME, Some(&id), params, revision, out)
    }

    /// Handles the client's report on a request of this side.
    pub(super) fn handle_progress(&mut self, now: Instant, method: &Text, params: ProgressParams) {
        let token = params.progress_token.clone();
        let Some(number) = self.config.strictness.number_of(&token) else { return };
        let request = RequestId::new(number);
        if !self.connection.outbound.get(request).is_some_and(|request| request.progress) {
            return;
        }
        self.note_number_as_string(token);
        self.connection.outbound.restart_timeout(request, now);
        let message = params.message.as_ref().map_or(0, |message| message.len());
        let bytes = message.saturating_add(method.len());
        if !self.events.has_room(self.received_progress.bytes().saturating_add(bytes)) {
            return self.events.note_dropped();
        }
        if let Some(params) = self.received_progress.offer(now, request, params, bytes) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the client's waiting reports whose time has come.
    pub(super) fn deliver_due_progress(&mut self, now: Instant) {
        while let Some((request, params, bytes)) = self.received_progress.pop_due(now) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the client's last report on a request that is over, before its outcome.
    pub(super) fn deliver_last_progress(&mut self, request: RequestId) {
        let Some(RemainingProgress { last, replaced }) = self.received_progress.remove(request) else {
            return;
        };
        if let Some((params, bytes)) = last {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
        if replaced > 0 {
            self.diagnose(Diagnostic::ProgressSkipped { request, count: replaced });
        }
    }
}

/// Whether one number is greater than another. Integers are compared as integers: as floating-point numbers, neighbours
/// beyond 2^53 are equal.
pub(crate) fn exceeds(one: &Number, other: &Number) -> bool {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one > other,
        _ => one.as_f64() > other.as_f64(),
    }
}
