//! Progress reports of a server on the requests of this side.

use crate::Instant;
use crate::peer::RequestId;
use crate::peer::event_queue::RemainingProgress;
use crate::prelude::*;
use crate::rpc::{Raw, Text};
use crate::schema::ProgressParams;

use super::incoming_requests::{bytes_of, decode};
use super::request_record::ClientRequest;
use super::{Client, Diagnostic, Event};

impl Client {
    /// Handles a report: it extends the request's timeout, and reaches the application at once or, if it follows the
    /// previous one too fast, later and only if no newer one arrives by then.
    pub(super) fn handle_progress(&mut self, now: Instant, method: Text, params: Option<Raw>) {
        let bytes = bytes_of(params.as_ref());
        let params: Result<ProgressParams, String> = decode(params.as_ref());
        let params = match params {
            Ok(params) => params,
            Err(error) => return self.report(Diagnostic::InvalidNotification { method, error }),
        };
        // Progress of a request that is unknown or over is no error: it may have crossed the answer.
        //= C7.9 "Track active tokens; ignore progress of unknown/finished tokens"
        let Some(number) = self.config.strictness.number_of(&params.progress_token) else { return };
        let request = RequestId::new(number);
        if !self.requests.get(request).is_some_and(ClientRequest::reports_progress) {
            return;
        }
        self.note_number_as_string(&params.progress_token);
        self.requests.restart_timeout(request, now);
        // Waiting reports count like queued ones.
        if !self.events.has_room(self.progress.bytes().saturating_add(bytes)) {
            return self.events.note_dropped();
        }
        //= C7.9 "rate limit"
        if let Some(params) = self.progress.offer(now, request, params, bytes) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the waiting reports whose time has come.
    pub(super) fn deliver_due_progress(&mut self, now: Instant) {
        while let Some((request, params, bytes)) = self.progress.pop_due(now) {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
    }

    /// Passes on the last report on a request that is over, before its outcome.
    pub(super) fn deliver_last_progress(&mut self, request: RequestId) {
        let Some(RemainingProgress { last, replaced }) = self.progress.remove(request) else { return };
        if let Some((params, bytes)) = last {
            self.events.push_or_drop(Event::Progress { request, params }, bytes);
        }
        if replaced > 0 {
            self.report(Diagnostic::ProgressSkipped { request, count: replaced });
        }
    }
}
