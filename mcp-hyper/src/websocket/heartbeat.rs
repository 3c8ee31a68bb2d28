//! When to ping the other side, and when it counts as gone.

use std::time::Duration;

use mcp_proto::Instant;

/// Silence after which the other side is pinged, and after the ping counts as gone. Proxies wait at least a minute.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

/// Watches for signs of life.
pub(super) struct Heartbeat {
    heard: Instant,
    /// Bytes read by then.
    bytes: u64,
    pinged: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeartbeatAction {
    None,
    Ping,
    /// The other side is gone.
    Fail,
}

impl Heartbeat {
    pub(super) fn new(now: Instant) -> Self {
        Self { heard: now, bytes: 0, pinged: false }
    }

    /// `bytes` is the number of bytes read so far. While nothing `reads`, silence means nothing.
    pub(super) fn advance(&mut self, now: Instant, bytes: u64, reads: bool) -> HeartbeatAction {
        if self.bytes != bytes || !reads {
            *self = Self { heard: now, bytes, pinged: false };
        }
        if now < self.deadline() {
            return HeartbeatAction::None;
        }
        if std::mem::replace(&mut self.pinged, true) { HeartbeatAction::Fail } else { HeartbeatAction::Ping }
    }

    /// When [`advance`](Self::advance) is due.
    pub(super) fn deadline(&self) -> Instant {
        let pings = if self.pinged { 2 } else { 1 };
        self.heard + INTERVAL.saturating_mul(pings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_peer_is_pinged_and_then_given_up() {
        let start = Instant::ORIGIN;
        let mut heartbeat = Heartbeat::new(start);
        assert_eq!(heartbeat.advance(start + INTERVAL / 2, 0, true), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL, 0, true), HeartbeatAction::Ping);
        assert_eq!(heartbeat.advance(start + INTERVAL * 3 / 2, 0, true), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 2, 0, true), HeartbeatAction::Fail);
    }

    #[test]
    fn any_byte_of_the_peer_is_a_sign_of_life() {
        let start = Instant::ORIGIN;
        let mut heartbeat = Heartbeat::new(start);
        assert_eq!(heartbeat.advance(start + INTERVAL, 0, true), HeartbeatAction::Ping);
        assert_eq!(heartbeat.advance(start + INTERVAL * 3 / 2, 6, true), HeartbeatAction::None);
        assert_eq!(heartbeat.deadline(), start + INTERVAL * 5 / 2);
    }

    #[test]
    fn peer_is_not_given_up_while_this_side_does_not_read() {
        let start = Instant::ORIGIN;
        let mut heartbeat = Heartbeat::new(start);
        assert_eq!(heartbeat.advance(start + INTERVAL * 9, 0, false), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 10, 0, true), HeartbeatAction::Ping);
    }
}
