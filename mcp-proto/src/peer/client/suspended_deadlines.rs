//! Suspension of deadlines while the transport keeps a request from the server.
//!
//! A transport may hold requests back until the client is authorized. That time does not count against a request or a
//! ping, except against a request's hard timeout.

use crate::Instant;
use crate::peer::OutboundEntry;

use super::Client;

impl Client {
    /// The deadline of a request, if it has one.
    pub(crate) fn deadline_of(&self, number: i64) -> Option<Instant> {
        self.outbound.get(number).and_then(OutboundEntry::deadline)
    }

    /// Counts the timeout of a request, or of a ping, from `since`: the time before does not count.
    pub(crate) fn suspend_deadline_until(&mut self, number: i64, since: Instant) {
        self.outbound.extend_deadline(number, since);
        self.pings.suspend_deadline(|ping| (ping == number).then_some(since));
    }

    /// Counts expired timeouts of requests, and of a ping, from the time that `since` returns for them, if any.
    pub(crate) fn suspend_deadlines(&mut self, now: Instant, since: impl Fn(i64) -> Option<Instant>) {
        self.outbound.suspend_deadlines(now, |number, _| since(number));
        self.pings.suspend_deadline(since);
    }
}
