//! Event streams that consist of `result` fragments and end with `complete` or `error`: no revision of the protocol has
//! them, some servers do.

use crate::Instant;
use crate::bind::http::ExchangeId;
use crate::codec::SseEvent;

use super::HttpClient;

impl HttpClient {
    pub(super) fn handle_dialect(&mut self, now: Instant, id: ExchangeId, number: i64, event: &SseEvent) {
        let _ = (now, id, number, event);
    }
}
