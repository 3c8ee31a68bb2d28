//! Pauses before work that servers cause.

use std::time::Duration;

use mcp_proto::Instant;

/// The pauses before pieces of work that a server can demand at will, such as reading its lists again.
///
/// Each is twice as long as the one before, up to the longest. After a quiet time of that length they begin anew. Work
/// that is demanded during a pause is done at its end.
#[derive(Debug)]
pub(super) struct GrowingPause {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// The end of the last pause.
    last_end: Option<Instant>,
}

impl GrowingPause {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, last_end: None }
    }

    /// Begins a pause now; returns its end.
    pub(super) fn begin(&mut self, now: Instant) -> Instant {
        if self.last_end.is_none_or(|end| now.saturating_since(end) >= self.longest) {
            self.next = self.first;
        }
        let end = now + self.next;
        self.next = self.next.saturating_mul(2).min(self.longest);
        self.last_end = Some(end);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_there_was_none_for_a_while() {
        let second = Duration::from_secs(1);
        let mut pause = GrowingPause::new(second, 6 * second);
        let mut now = Instant::ORIGIN;
        for seconds in [1, 2, 4, 6, 6] {
            let end = pause.begin(now);
            assert_eq!(end, now + seconds * second);
            now = end + second;
        }
        now = now + 5 * second;
        assert_eq!(pause.begin(now), now + second);
    }
}
