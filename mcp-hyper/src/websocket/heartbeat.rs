//! When to ping the other side, and when it counts as gone.

use std::time::Duration;

use mcp_proto::Instant;

/// The shortest interval of pings.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// Pings to a silent side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingPolicy {
    interval: Duration,
    timeout: Duration,
}

impl PingPolicy {
    /// A ping after `interval` of silence, which the other side has `timeout` to answer.
    pub(crate) fn new(interval: Duration, timeout: Duration) -> Self {
        Self { interval: interval.max(LEAST_INTERVAL), timeout: timeout.max(LEAST_INTERVAL) }
    }
}

/// Watches for signs of life.
pub(super) struct Heartbeat {
    /// `None` sends no pings.
    policy: Option<PingPolicy>,
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
    pub(super) fn new(policy: Option<PingPolicy>, now: Instant) -> Self {
        Self { policy, heard: now, bytes: 0, pinged: false }
    }

    /// `bytes` is the number of bytes read so far. While nothing `reads`, silence means nothing.
    pub(super) fn advance(&mut self, now: Instant, bytes: u64, reads: bool) -> HeartbeatAction {
        if self.bytes != bytes || !reads {
            *self = Self { policy: self.policy, heard: now, bytes, pinged: false };
        }
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return HeartbeatAction::None;
        }
        if std::mem::replace(&mut self.pinged, true) { HeartbeatAction::Fail } else { HeartbeatAction::Ping }
    }

    /// When [`advance`](Self::advance) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let PingPolicy { interval, timeout } = self.policy?;
        let pinged_at = self.heard + interval;
        Some(if self.pinged { pinged_at + timeout } else { pinged_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    fn heartbeat(now: Instant) -> Heartbeat {
        Heartbeat::new(Some(PingPolicy::new(INTERVAL, INTERVAL / 2)), now)
    }

    #[test]
    fn silent_peer_is_pinged_and_then_given_up() {
        let start = Instant::ORIGIN;
        let mut heartbeat = heartbeat(start);
        assert_eq!(heartbeat.advance(start + INTERVAL / 2, 0, true), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL, 0, true), HeartbeatAction::Ping);
        assert_eq!(heartbeat.advance(start + INTERVAL * 5 / 4, 0, true), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 3 / 2, 0, true), HeartbeatAction::Fail);
    }

    #[test]
    fn any_byte_of_the_peer_is_a_sign_of_life() {
        let start = Instant::ORIGIN;
        let mut heartbeat = heartbeat(start);
        assert_eq!(heartbeat.advance(start + INTERVAL, 0, true), HeartbeatAction::Ping);
        assert_eq!(heartbeat.advance(start + INTERVAL * 5 / 4, 6, true), HeartbeatAction::None);
        assert_eq!(heartbeat.deadline(), Some(start + INTERVAL * 9 / 4));
    }

    #[test]
    fn peer_is_not_given_up_while_this_side_does_not_read() {
        let start = Instant::ORIGIN;
        let mut heartbeat = heartbeat(start);
        assert_eq!(heartbeat.advance(start + INTERVAL * 9, 0, false), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 10, 0, true), HeartbeatAction::Ping);
    }

    #[test]
    fn peer_is_not_pinged_without_an_interval() {
        let start = Instant::ORIGIN;
        let mut heartbeat = Heartbeat::new(None, start);
        assert_eq!(heartbeat.deadline(), None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 1000, 0, true), HeartbeatAction::None);
    }

    #[test]
    fn intervals_are_at_least_a_second() {
        let start = Instant::ORIGIN;
        let heartbeat = Heartbeat::new(Some(PingPolicy::new(Duration::ZERO, Duration::ZERO)), start);
        assert_eq!(heartbeat.deadline(), Some(start + Duration::from_secs(1)));
    }
}
