//! What becomes of one exchange on its way.

use alloc::string::String;
use core::num::NonZeroUsize;
use core::ops::RangeInclusive;
use core::time::Duration;

use crate::backoff::SplitMix64;

/// What becomes of one exchange on its way.
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::testing::http::{ExchangePlan, Fault};
///
/// let fate = ExchangePlan { fault: Some(Fault::Refused), ..ExchangePlan::default() };
/// assert_eq!(fate.request, Duration::from_millis(1));
/// ```
#[derive(Clone, Debug)]
pub struct ExchangePlan {
    /// How long the request is under way. Default 1 ms.
    pub request: Duration,
    /// How long each part of the answer is under way; parts never overtake each other. Default 1 ms.
    pub answer: Duration,
    /// How many bytes of a body arrive at once at most; `None` delivers what was sent together together.
    pub chunk: Option<NonZeroUsize>,
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// The server gets the request once more, so much later; nobody reads the second answer. Proxies that try again do
    /// this.
    pub duplicate_after: Option<Duration>,
    /// Whether the answer is held back until its body is whole.
    pub buffered: bool,
    /// After how long without a byte the answer is broken off.
    pub idle_timeout: Option<Duration>,
    /// How the client is told of a body that was broken off.
    pub truncation: TruncationReport,
}

impl Default for ExchangePlan {
    fn default() -> Self {
        Self {
            request: Duration::from_millis(1),
            answer: Duration::from_millis(1),
            chunk: None,
            fault: None,
            duplicate_after: None,
            buffered: false,
            idle_timeout: None,
            truncation: TruncationReport::Noticed,
        }
    }
}

/// What goes wrong with an exchange.
#[derive(Clone, Debug)]
pub enum Fault {
    /// There is no connection to be had: the server never sees the request, and that is certain.
    Refused,
    /// The request gets lost, and nobody can tell that from its answer getting lost.
    Lost,
    /// The request arrives, and before the head of its answer has come the connection breaks.
    Headless {
        /// How long after the request has arrived.
        after: Duration,
    },
    /// The connection breaks in the body of the answer; behind it, if that is shorter.
    Cut {
        /// How much of the body arrives.
        bytes: usize,
    },
    /// Somebody on the way answers instead.
    Replaced {
        /// The status.
        status: u16,
        /// Whether the server has seen the request.
        reached_server: bool,
    },
    /// Somebody on the way sends the client elsewhere.
    Redirected {
        /// The status.
        status: u16,
        /// Where to.
        to: String,
    },
}

/// How the client is told of a body that was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncationReport {
    /// As broken off.
    Noticed,
    /// As whole: somebody on the way has ended it in an orderly manner.
    Hidden,
}

/// How often things go wrong, in thousandths of the exchanges, and how far apart things happen.
#[derive(Clone, Debug)]
pub struct NetworkConditions {
    /// How long a request, or a part of an answer, is under way.
    pub latency: RangeInclusive<Duration>,
    /// [`Fault::Refused`]
    pub refused: u16,
    /// [`Fault::Lost`]
    pub lost: u16,
    /// [`Fault::Headless`]
    pub headless: u16,
    /// [`Fault::Cut`]
    pub cut: u16,
    /// [`Fault::Replaced`] by 502, 503 or 504.
    pub replaced: u16,
    /// [`Fault::Redirected`]
    pub redirected: u16,
    /// [`ExchangePlan::duplicate_after`]
    pub duplicated: u16,
    /// [`ExchangePlan::buffered`]
    pub buffered: u16,
    /// [`ExchangePlan::idle_timeout`]
    pub idle: u16,
    /// [`ExchangePlan::chunk`], of 1 to 40 bytes.
    pub chunked: u16,
    /// [`TruncationReport::Hidden`]
    pub hidden: u16,
}

impl NetworkConditions {
    /// Everything arrives, after a millisecond.
    pub const RELIABLE: Self = Self {
        latency: Duration::from_millis(1)..=Duration::from_millis(1),
        refused: 0,
        lost: 0,
        headless: 0,
        cut: 0,
        replaced: 0,
        redirected: 0,
        duplicated: 0,
        buffered: 0,
        idle: 0,
        chunked: 0,
        hidden: 0,
    };

    /// What becomes of an exchange with `url`.
    pub(super) fn plan(&self, dice: &mut SimulationRng, url: &str) -> ExchangePlan {
        let mut fate = ExchangePlan {
            request: dice.duration_in(&self.latency),
            answer: dice.duration_in(&self.latency),
            chunk: dice.chance(self.chunked).then(|| dice.size_up_to(40)),
            duplicate_after: dice.chance(self.duplicated).then(|| dice.duration_in(&self.latency)),
            buffered: dice.chance(self.buffered),
            idle_timeout: dice
                .chance(self.idle)
                .then(|| Duration::from_secs(dice.below(30).saturating_add(1))),
            truncation: if dice.chance(self.hidden) {
                TruncationReport::Hidden
            } else {
                TruncationReport::Noticed
            },
            fault: None,
        };
        fate.fault = if dice.chance(self.refused) {
            Some(Fault::Refused)
        } else if dice.chance(self.lost) {
            Some(Fault::Lost)
        } else if dice.chance(self.headless) {
            Some(Fault::Headless { after: dice.duration_in(&self.latency) })
        } else if dice.chance(self.cut) {
            Some(Fault::Cut { bytes: usize::try_from(dice.below(600)).unwrap_or(0) })
        } else if dice.chance(self.replaced) {
            let status = *dice.choose(&[502, 503, 504]).unwrap_or(&502);
            Some(Fault::Replaced { status, reached_server: dice.chance(500) })
        } else if dice.chance(self.redirected) {
            let status = *dice.choose(&[307, 308]).unwrap_or(&307);
            let to = if dice.chance(100) { "http://elsewhere.test/mcp".into() } else { super::detour(url) };
            Some(Fault::Redirected { status, to })
        } else {
            None
        };
        fate
    }
}

/// Chance that repeats itself: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct SimulationRng(SplitMix64);

impl SimulationRng {
    /// The dice of a seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds should have nothing in common.
        Self(SplitMix64::new(SplitMix64::new(seed).next_u64()))
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// Whether something happens that does so in so many of a thousand cases.
    pub fn chance(&mut self, thousandths: u16) -> bool {
        self.below(1000) < u64::from(thousandths)
    }

    /// One of several.
    pub fn choose<'a, T>(&mut self, several: &'a [T]) -> Option<&'a T> {
        let which = self.below(u64::try_from(several.len()).unwrap_or(u64::MAX));
        several.get(usize::try_from(which).unwrap_or(usize::MAX))
    }

    /// A duration within a range.
    pub fn duration_in(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let width = range.end().saturating_sub(*range.start());
        let width = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX);
        range.start().saturating_add(Duration::from_nanos(self.below(width.saturating_add(1))))
    }

    /// A size from 1 to `most`.
    fn size_up_to(&mut self, most: u64) -> NonZeroUsize {
        let size = usize::try_from(self.below(most)).unwrap_or(0);
        NonZeroUsize::MIN.saturating_add(size)
    }
}
