//! Listening to a modern server: one `subscriptions/listen` for all that is of interest, whatever becomes of it.
//!
//! | what happens | what follows |
//! |---|---|
//! | something else is of interest | another listen for that, once none is unanswered |
//! | it is acknowledged | it takes the place of the one before, which is ended |
//! | it is lost | another one after a pause; what it was to tell may have changed |
//! | the server ends it | nothing more is heard, unless another one was on its way |
//! | it is refused | nothing more is heard of what the one before does not tell |
//! | nothing is of interest any more | all are ended |
//!
//! Over HTTP each has a stream of its own. What was sent on the stream of the one before may then come after the
//! acknowledgement of its successor, so it is kept for a while; on one channel nothing overtakes.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::Instant;
use crate::peer::Outcome;

use super::pace::{Fate, Mind, Pace};
use super::{AfterEnd, Channel, Interest, WatchConfig};

/// How long a listen must last to count as one that works, whether anything comes on it or not.
const STEADY: Duration = Duration::from_secs(10);

/// How long what was replaced may still say what it had to say (HTTP): as long as a segment that was lost on the way
/// takes to be sent again.
#[cfg(feature = "http")]
const LINGER: Duration = Duration::from_secs(2);

/// One that was sent and is not acknowledged.
#[derive(Debug)]
struct Opening {
    number: i64,
    asked: Interest,
    /// When it should have been acknowledged.
    until: Instant,
}

/// One that was acknowledged.
#[derive(Debug)]
struct Open {
    number: i64,
    asked: Interest,
    granted: Interest,
    since: Instant,
    heard: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing, for now.
    Rest,
    /// To listen for all that is of interest.
    Listen,
    /// To end this one.
    End(i64),
}

/// What has become of listening.
#[derive(Debug)]
pub(super) enum News {
    /// Nothing that anybody needs to know.
    None,
    /// The server is heard.
    Heard,
    /// It is not, for now.
    Interrupted,
    /// It is, but something may have been missed.
    Missed,
    /// It has ended listening, and this side leaves it at that.
    Ended,
    /// It does not tell what it was asked last.
    Refused(Outcome),
}

#[derive(Debug)]
pub(super) struct Listening {
    channel: Channel,
    after_end: AfterEnd,
    opening: Option<Opening>,
    open: Option<Open>,
    /// Those that were replaced, with the time at which they are ended.
    replaced: BTreeMap<i64, Instant>,
    pace: Pace,
}

impl Listening {
    pub(super) fn new(config: &WatchConfig, channel: Channel) -> Self {
        Self {
            channel,
            after_end: config.after_end,
            opening: None,
            open: None,
            replaced: BTreeMap::new(),
            pace: Pace::new(config),
        }
    }

    /// What is to be done now, where `wanted` is of interest. To be asked until it is to rest.
    pub(super) fn next(&mut self, now: Instant, wanted: &Interest) -> Act {
        if let Some((&number, _)) = self.replaced.iter().find(|&(_, &until)| until <= now) {
            self.replaced.remove(&number);
            return Act::End(number);
        }
        if wanted.is_empty() {
            return self.end_all();
        }
        if let Some(late) = self.opening.take_if(|opening| opening.until <= now) {
            self.pace.fail(now, Duration::ZERO);
            return Act::End(late.number);
        }
        if self.opening.is_some() || self.open.as_ref().is_some_and(|open| open.asked == *wanted) {
            self.pace.go();
            return Act::Rest;
        }
        if self.pace.holds(now) { Act::Rest } else { Act::Listen }
    }

    /// Ends them, one at a time.
    pub(super) fn end_all(&mut self) -> Act {
        self.pace.go();
        let number = (self.opening.take().map(|opening| opening.number))
            .or_else(|| self.open.take().map(|open| open.number))
            .or_else(|| self.replaced.pop_first().map(|(number, _)| number));
        number.map_or(Act::Rest, Act::End)
    }

    /// It was sent, to be acknowledged in time.
    pub(super) fn sent(&mut self, number: i64, asked: Interest, until: Instant) {
        self.pace.go();
        self.opening = Some(Opening { number, asked, until });
    }

    /// It could not be sent.
    pub(super) fn not_sent(&mut self, now: Instant) {
        self.pace.fail(now, Duration::ZERO);
    }

    /// The server says what it will tell.
    pub(super) fn acknowledged(&mut self, now: Instant, number: i64, granted: Interest) -> News {
        let Some(opening) = self.opening.take_if(|opening| opening.number == number) else {
            return News::None;
        };
        if let Some(before) = self.open.take() {
            let linger = match self.channel {
                Channel::Shared => Duration::ZERO,
                #[cfg(feature = "http")]
                Channel::Separate => LINGER,
            };
            self.replaced.insert(before.number, now + linger);
        }
        let Opening { number, asked, .. } = opening;
        self.open = Some(Open { number, asked, granted, since: now, heard: false });
        News::Heard
    }

    /// Something was told on this one. A server that forgets to acknowledge has done so.
    pub(super) fn heard(&mut self, now: Instant, number: i64) -> News {
        if let Some(open) = self.open.as_mut().filter(|open| open.number == number) {
            open.heard = true;
        }
        match &self.opening {
            Some(opening) if opening.number == number => {
                let granted = opening.asked.clone();
                self.acknowledged(now, number, granted)
            }
            _ => News::None,
        }
    }

    /// This one has ended.
    pub(super) fn ended(&mut self, now: Instant, number: i64, fate: Fate) -> News {
        if self.replaced.remove(&number).is_some() {
            return if matches!(fate, Fate::Done) { News::None } else { News::Missed };
        }
        if self.opening.take_if(|opening| opening.number == number).is_some() {
            return self.not_opened(now, fate);
        }
        let Some(open) = self.open.take_if(|open| open.number == number) else { return News::None };
        if open.heard || now.saturating_since(open.since) >= STEADY {
            self.pace.reset();
        }
        // The next one is on its way.
        if self.opening.is_some() {
            return News::Interrupted;
        }
        match fate {
            Fate::Done if self.after_end == AfterEnd::Stop => News::Ended,
            Fate::Lost(least) => {
                self.pace.fail(now, least);
                News::Interrupted
            }
            // It had been granted before.
            Fate::Done | Fate::Refused(..) => {
                self.pace.fail(now, Duration::ZERO);
                News::Interrupted
            }
        }
    }

    fn not_opened(&mut self, now: Instant, fate: Fate) -> News {
        match fate {
            Fate::Done if self.after_end == AfterEnd::Stop => News::Ended,
            Fate::Refused(outcome, mind) if mind == Mind::Made || self.pace.is_spent() => {
                // What is asked for without it, if there is anything, is not asked for at once.
                self.pace.fail(now, Duration::ZERO);
                News::Refused(outcome)
            }
            Fate::Lost(least) => {
                self.pace.fail(now, least);
                News::None
            }
            Fate::Done | Fate::Refused(..) => {
                self.pace.fail(now, Duration::ZERO);
                News::None
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let opening = self.opening.as_ref().map(|opening| opening.until);
        [self.replaced.values().min().copied(), opening, self.pace.due()].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Whether this one is of these.
    pub(super) fn owns(&self, number: i64) -> bool {
        self.opening.as_ref().is_some_and(|opening| opening.number == number)
            || self.open.as_ref().is_some_and(|open| open.number == number)
            || self.replaced.contains_key(&number)
    }

    /// What the one that was sent last asks for.
    pub(super) fn opening(&self, number: i64) -> Option<&Interest> {
        self.opening.as_ref().filter(|opening| opening.number == number).map(|opening| &opening.asked)
    }

    /// What was asked for and what was granted, if the server is heard.
    pub(super) fn open(&self) -> Option<(&Interest, &Interest)> {
        self.open.as_ref().map(|open| (&open.asked, &open.granted))
    }
}
