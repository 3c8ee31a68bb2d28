//! Replacement of unusable links during detection.

use super::*;

impl EraDetection {
    /// Handles an unusable link: opens a fresh one if that has not been tried, or fails.
    pub(super) fn replace_link(
        &mut self,
        now: Instant,
        during: &'static str,
        ending: LinkEnd,
    ) -> DetectAction {
        self.timer = None;
        if self.known_era.is_some() && !self.known_era_wrong {
            return self.start_over(now, during, ending);
        }
        let probed = self.probes > 0;
        if self.can_reopen && probed && self.opening != LinkReason::Handshake {
            self.opening = LinkReason::Handshake;
            self.failed_attempts.push(ending.into_error(during));
            return self.reopen();
        }
        self.give_up(during, ending)
    }

    pub(super) fn reopen(&mut self) -> DetectAction {
        self.requests = SentRequests::default();
        self.timer = None;
        self.step = DetectStep::Idle;
        DetectAction::Reopen
    }

    fn give_up(&mut self, during: &'static str, ending: LinkEnd) -> DetectAction {
        self.fail(match ending {
            LinkEnd::Ended(detail) if during == PROBE && !self.can_reopen => {
                ConnectError::ProbeBrokeServer { detail }
            }
            ending => ending.into_error(during),
        })
    }

    /// Handles a wrong `KnownEra` in the configuration: detects from the start, once.
    fn start_over(&mut self, now: Instant, during: &'static str, ending: LinkEnd) -> DetectAction {
        let link_is_open = !matches!(ending, LinkEnd::Ended(_));
        self.known_era_wrong = true;
        self.known_era = None;
        self.probes = 0;
        self.version_chosen = false;
        if self.era_policy == EraPolicy::Auto && link_is_open {
            return self.probe(now, Revision::LATEST, false);
        }
        if self.era_policy == EraPolicy::Auto && self.can_reopen {
            self.failed_attempts.push(ending.into_error(during));
            return self.reopen();
        }
        self.give_up(during, ending)
    }
}

/// Why a link is unusable.
pub(super) enum LinkEnd {
    Ended(String),
    Refused(ErrorObject),
    Unexpected(String),
    TimedOut(Duration),
}

impl LinkEnd {
    fn into_error(self, during: &'static str) -> ConnectError {
        match self {
            Self::Ended(detail) => ConnectError::Ended { during, detail },
            Self::Refused(error) => ConnectError::Refused { during, error },
            Self::Unexpected(what) => ConnectError::Unexpected { during, reason: what },
            Self::TimedOut(after) => ConnectError::TimedOut { during, after },
        }
    }
}
