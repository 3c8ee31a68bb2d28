//! Links that are of no use any more, and those that follow them.

use super::*;

impl Detect {
    /// The link is of no use any more: get a fresh one if that has not been tried, or fail.
    pub(super) fn fresh(&mut self, now: Instant, during: &'static str, ending: Ending) -> Act {
        self.timer = None;
        if self.verdict.is_some() && !self.verdict_dropped {
            return self.start_over(now, during, ending);
        }
        let probed = self.probes > 0;
        if self.can_reopen && probed && self.opening != Opening::Handshake {
            self.opening = Opening::Handshake;
            self.tried.push(ending.into_error(during));
            return self.reopen();
        }
        self.give_up(during, ending)
    }

    pub(super) fn reopen(&mut self) -> Act {
        self.timer = None;
        self.step = Step::Idle;
        Act::Reopen
    }

    fn give_up(&mut self, during: &'static str, ending: Ending) -> Act {
        self.fail(match ending {
            Ending::Ended(detail) if during == PROBE && !self.can_reopen => {
                ConnectError::ProbeBroke { detail }
            }
            ending => ending.into_error(during),
        })
    }

    /// A supplied verdict led nowhere: forget it and detect from the start, once.
    fn start_over(&mut self, now: Instant, during: &'static str, ending: Ending) -> Act {
        let link_is_open = !matches!(ending, Ending::Ended(_));
        self.verdict_dropped = true;
        self.verdict = None;
        self.probes = 0;
        self.chosen = false;
        if self.mode == Mode::Auto && link_is_open {
            return self.probe(now, Revision::LATEST, false);
        }
        if self.mode == Mode::Auto && self.can_reopen {
            self.tried.push(ending.into_error(during));
            return self.reopen();
        }
        self.give_up(during, ending)
    }
}

/// Why a link is of no use any more.
pub(super) enum Ending {
    Ended(String),
    Refused(ErrorObject),
    Unexpected(String),
    TimedOut(Duration),
}

impl Ending {
    fn into_error(self, during: &'static str) -> ConnectError {
        match self {
            Self::Ended(detail) => ConnectError::Ended { during, detail },
            Self::Refused(error) => ConnectError::Refused { during, error },
            Self::Unexpected(what) => ConnectError::Unexpected { during, what },
            Self::TimedOut(after) => ConnectError::TimedOut { during, after },
        }
    }
}
