//! Suspension of deadlines while the transport keeps a request from the server.
//!
//! A transport may hold requests back until the client is authorized. That time does not count against a request or a
//! ping, except against a request's hard timeout.

use alloc::vec::Vec;

use crate::Instant;
use crate::peer::{RequestId, RequestRecord as _};

use super::Client;

impl Client {
    /// The deadline of a request, if it has one.
    pub(crate) fn deadline_of(&self, number: i64) -> Option<Instant> {
        self.requests.deadline(RequestId::new(number))
    }

    /// Counts the timeout of a request, or of a ping, from `since`: the time before does not count.
    pub(crate) fn suspend_deadline_until(&mut self, number: i64, since: Instant) {
        self.requests.restart_timeout(RequestId::new(number), since);
        self.pings.suspend_deadline(|ping| (ping == number).then_some(since));
    }

    /// Counts expired timeouts of requests, and of a ping, from the time that `since` returns for them, if any.
    pub(crate) fn suspend_deadlines(&mut self, now: Instant, since: impl Fn(i64) -> Option<Instant>) {
        let due: Vec<RequestId> = self.requests.due(now).collect();
        for id in due {
            if let Some(since) = since(id.number()) {
                self.requests.update(id, |request| {
                    if request.has_expired(now) {
                        request.times.restart(since);
                    }
                });
            }
        }
        self.pings.suspend_deadline(since);
    }
}
