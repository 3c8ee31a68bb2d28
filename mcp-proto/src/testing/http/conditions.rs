//! Network conditions for HTTP exchanges: latency, chunks, faults.

use core::num::NonZeroUsize;
use core::ops::RangeInclusive;
use core::time::Duration;

use crate::backoff::SplitMix64;
use crate::prelude::*;

/// The path prefix that a redirect of the network adds, and removes again.
pub(super) const DETOUR: &str = "/detour";

config! {
    /// The plan of one exchange: its timing and its fault.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mcp_proto::testing::http::{ExchangePlan, Fault};
    ///
    /// let plan = ExchangePlan { fault: Some(Fault::Refused), ..ExchangePlan::default() };
    /// assert_eq!(plan.request, Duration::from_millis(1));
    /// ```
    #[derive(Clone, Debug)]
    pub struct ExchangePlan {
        /// The time that the request is in transit. Default 1 ms.
        pub request: Duration = Duration::from_millis(1),
        /// The time that each part of the answer is in transit; parts never overtake each other. Default 1 ms.
        pub answer: Duration = Duration::from_millis(1),
        /// The maximum number of bytes of a body that arrive at once; `None` delivers what was sent together in one
        /// piece.
        pub chunk: Option<NonZeroUsize> = None,
        /// The fault of the exchange.
        pub fault: Option<Fault> = None,
        /// The server receives the request a second time after this delay, and the second answer is discarded. Proxies
        /// that retry cause this.
        pub duplicate_after: Option<Duration> = None,
        /// Whether the answer is held back until its body is complete.
        pub buffered: bool = false,
        /// The time without a byte after which the answer is broken off.
        pub idle_timeout: Option<Duration> = None,
        /// How a truncated body looks to the client.
        pub truncation: TruncationReport = TruncationReport::Noticed,
    }
}

/// A fault of an exchange.
#[derive(Clone, Debug)]
pub enum Fault {
    /// No connection can be made: the client knows that the server never received the request.
    Refused,
    /// The request is lost; the client cannot distinguish this from the loss of its answer.
    Lost,
    /// The request arrives, and the connection breaks before the head of the answer.
    Headless {
        /// The delay after the arrival of the request.
        after: Duration,
    },
    /// The connection breaks within the body of the answer, or after it if the body is shorter.
    Cut {
        /// The number of bytes of the body that arrive.
        bytes: usize,
    },
    /// An intermediary answers instead.
    Replaced {
        /// The status.
        status: u16,
        /// Whether the server has received the request.
        reached_server: bool,
    },
    /// An intermediary redirects the client.
    Redirected {
        /// The status.
        status: u16,
        /// The target of the redirect.
        to: String,
    },
}

/// How a truncated body looks to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncationReport {
    /// As truncated.
    Noticed,
    /// As complete: an intermediary has ended it in an orderly way.
    Hidden,
}

/// Network conditions: the ranges of latencies, and the rates of faults in thousandths of the exchanges.
#[derive(Clone, Debug)]
pub struct NetworkConditions {
    /// The time that a request, or a part of an answer, is in transit.
    pub latency: RangeInclusive<Duration>,
    /// The maximum number of bytes of a body that arrive at once, in every exchange without a random one.
    pub chunk: Option<NonZeroUsize>,
    /// The rate of [`Fault::Refused`].
    pub refused: u16,
    /// The rate of [`Fault::Lost`].
    pub lost: u16,
    /// The rate of [`Fault::Headless`].
    pub headless: u16,
    /// The rate of [`Fault::Cut`].
    pub cut: u16,
    /// The rate of [`Fault::Replaced`], with status 502, 503 or 504.
    pub replaced: u16,
    /// The rate of [`Fault::Redirected`].
    pub redirected: u16,
    /// The rate of [`ExchangePlan::duplicate_after`].
    pub duplicated: u16,
    /// The rate of [`ExchangePlan::buffered`].
    pub buffered: u16,
    /// The rate of [`ExchangePlan::idle_timeout`].
    pub idle: u16,
    /// The rate of [`ExchangePlan::chunk`], of 1 to 40 bytes.
    pub chunked: u16,
    /// The rate of [`TruncationReport::Hidden`].
    pub hidden: u16,
}

impl NetworkConditions {
    /// Conditions under which everything arrives, after a millisecond.
    pub const RELIABLE: Self = Self {
        latency: Duration::from_millis(1)..=Duration::from_millis(1),
        chunk: None,
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

    /// Draws the plan of an exchange with `url`.
    pub(super) fn plan(&self, dice: &mut SimulationRng, url: &str) -> ExchangePlan {
        let mut plan = ExchangePlan {
            request: dice.duration_in(&self.latency),
            answer: dice.duration_in(&self.latency),
            chunk: dice.chance(self.chunked).then(|| dice.size_up_to(40)).or(self.chunk),
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
        plan.fault = if dice.chance(self.refused) {
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
            let to = if dice.chance(100) { "http://elsewhere.test/mcp".into() } else { detour(url) };
            Some(Fault::Redirected { status, to })
        } else {
            None
        };
        plan
    }
}

/// Seeded random numbers for simulations: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct SimulationRng(SplitMix64);

impl SimulationRng {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds should yield unrelated numbers.
        Self(SplitMix64::new(SplitMix64::new(seed).next_u64()))
    }

    /// A random number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// Returns `true` with a probability of `thousandths` in a thousand.
    pub fn chance(&mut self, thousandths: u16) -> bool {
        self.below(1000) < u64::from(thousandths)
    }

    /// A random element of a slice.
    pub fn choose<'a, T>(&mut self, several: &'a [T]) -> Option<&'a T> {
        let which = self.below(u64::try_from(several.len()).unwrap_or(u64::MAX));
        several.get(usize::try_from(which).unwrap_or(usize::MAX))
    }

    /// A random duration within a range.
    pub fn duration_in(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let width = range.end().saturating_sub(*range.start());
        let width = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX);
        range.start().saturating_add(Duration::from_nanos(self.below(width.saturating_add(1))))
    }

    /// A random size from 1 to `most`.
    fn size_up_to(&mut self, most: u64) -> NonZeroUsize {
        let size = usize::try_from(self.below(most)).unwrap_or(0);
        NonZeroUsize::MIN.saturating_add(size)
    }
}

/// An alternative URL of the same server, which the network maps back.
fn detour(url: &str) -> String {
    let host = url.find("://").map_or(0, |at| at.saturating_add(3));
    let path =
        url.get(host..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| host.saturating_add(at));
    let (origin, path) = url.split_at(path);
    format!("{origin}{DETOUR}{path}")
}
