//! A bounded queue of events for the application.

use core::time::Duration;

use crate::Instant;
use crate::inline_map::{InlineMap, InlineQueue};
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Malformed, Raw, Text};

/// The size charged for an event beside its own bytes.
const OVERHEAD: usize = 64;

/// The pressure on the event queue: the kinds of events that it no longer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Every event is taken.
    None,
    /// Notifications are dropped.
    Notifications,
    /// Requests of the other side are refused as well.
    Requests,
    /// Results are dropped as well; the application still learns that the request has ended.
    Results,
}

/// The number of events that may be queued as slices of the input. Each slice may keep all the input alive that was
/// read with it, so further events are copied out.
const MAX_SLICES: usize = 16;

/// Events that can detach themselves from the input.
pub(crate) trait MakeOwned {
    /// Copies slices of the input into memory of its own.
    fn make_owned(&mut self);
}

impl MakeOwned for ErrorObject {
    fn make_owned(&mut self) {
        self.data = self.data.as_ref().map(Raw::detached);
    }
}

impl MakeOwned for Malformed {
    fn make_owned(&mut self) {
        self.recovered.method = self.recovered.method.as_deref().map(Text::from);
    }
}

/// A queue of events in wire order that knows its size.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    events: InlineQueue<(E, usize)>,
    bytes: usize,
    max_bytes: usize,
    max_events: u32,
    dropped: u32,
}

impl<E: MakeOwned> EventQueue<E> {
    pub(crate) fn new(most_events: usize, most_bytes: usize) -> Self {
        Self {
            events: InlineQueue::default(),
            bytes: 0,
            max_events: most_events.try_into().unwrap_or(u32::MAX),
            max_bytes: most_bytes,
            dropped: 0,
        }
    }

    /// The pressure with `bytes` more in the queue.
    pub(crate) fn pressure(&self, bytes: usize) -> Pressure {
        let fits = |tenths: usize| {
            // Rounded up, so that even the smallest limits leave some room.
            let part = |most: usize| {
                let rest = (most % 10).saturating_mul(tenths).div_ceil(10);
                (most / 10).saturating_mul(tenths).saturating_add(rest)
            };
            self.events.len() < part(self.max_events as usize)
                && self.bytes.saturating_add(bytes) <= part(self.max_bytes)
        };
        match () {
            () if fits(5) => Pressure::None,
            () if fits(7) => Pressure::Notifications,
            () if fits(10) => Pressure::Requests,
            () => Pressure::Results,
        }
    }

    /// Queues an event that must not be lost; their number is bounded by requests, commands and links.
    pub(crate) fn push(&mut self, mut event: E, bytes: usize) {
        if self.events.len() >= MAX_SLICES {
            event.make_owned();
        }
        let bytes = bytes.saturating_add(OVERHEAD);
        self.bytes = self.bytes.saturating_add(bytes);
        self.events.push_back((event, bytes));
    }

    /// Queues an event if there is room for it; otherwise counts it as dropped.
    pub(crate) fn push_or_drop(&mut self, event: E, bytes: usize) {
        if self.has_room(bytes) {
            self.push(event, bytes);
        } else {
            self.note_dropped();
        }
    }

    /// Whether a notification of `bytes` bytes has room.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.pressure(bytes) == Pressure::None
    }

    /// Counts a notification that was dropped before it was queued.
    pub(crate) fn note_dropped(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }

    pub(crate) fn pop(&mut self) -> Option<E> {
        let (_, bytes) = self.events.iter().next()?;
        self.bytes = self.bytes.saturating_sub(*bytes);
        self.events.pop_front().map(|(event, _)| event)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether the queue is empty, and no dropped event is unreported.
    #[cfg(any(feature = "client", feature = "server"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.dropped == 0
    }

    /// The number of events dropped since the last call, if any.
    pub(crate) fn take_dropped(&mut self) -> Option<u64> {
        Some(core::mem::take(&mut self.dropped).into()).filter(|&dropped| dropped > 0)
    }
}

// Pacing of progress reports, the newest kept.

const SECOND: Duration = Duration::from_secs(1);

/// How many reports on a request pass in a window of time, which begins with the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgressRate {
    Spaced(u32),
    PerSecond(u32),
}

impl ProgressRate {
    /// As many reports a second, evenly spaced.
    pub(crate) fn spaced(per_second: u32) -> Self {
        Self::Spaced(per_second)
    }

    /// As many reports in each second, however they are spaced.
    pub(crate) fn per_second(reports: u32) -> Self {
        Self::PerSecond(reports)
    }

    /// The length of the window, and the number of reports in it; `None` if all reports pass.
    fn window(self) -> Option<(Duration, u32)> {
        let (window, reports) = match self {
            Self::Spaced(per_second) => (SECOND.checked_div(per_second).unwrap_or(Duration::MAX), 1),
            Self::PerSecond(reports) => (SECOND, reports),
        };
        (!window.is_zero() && reports < u32::MAX).then_some((window, reports))
    }
}

/// Paces the progress reports of one connection in one direction.
///
/// The first reports on a request in a window pass at once. A further one waits for the end of the window, and replaces
/// one that waits already: a request has one waiting report at most.
#[derive(Debug)]
pub(crate) struct ProgressPacer<K, R> {
    rate: ProgressRate,
    /// `None` before the first report: most connections and exchanges have none.
    paced: Option<Box<PacedRequests<K, R>>>,
}

#[derive(Debug)]
struct PacedRequests<K, R> {
    requests: InlineMap<K, PacedRequest<R>>,
    /// The requests with a waiting report, by the time at which it passes.
    due: OrderedSet<(Instant, K)>,
    /// The size in bytes of all waiting reports.
    bytes: usize,
}

#[derive(Debug)]
struct PacedRequest<R> {
    window_end: Instant,
    /// The number of reports that passed in the window.
    passed: u32,
    /// The newest report, and its size in bytes.
    waiting: Option<(R, usize)>,
    /// The number of reports that newer ones replaced.
    replaced: u64,
}

/// The remaining reports of a request that is over.
#[derive(Debug)]
pub(crate) struct RemainingProgress<R> {
    /// The report that was waiting, and its size in bytes.
    pub(crate) last: Option<(R, usize)>,
    /// The number of reports that newer ones replaced.
    pub(crate) replaced: u64,
}

impl<K: Ord + Copy, R> ProgressPacer<K, R> {
    pub(crate) fn new(rate: ProgressRate) -> Self {
        Self { rate, paced: None }
    }

    /// Returns the report if it passes now; otherwise it waits.
    pub(crate) fn offer(&mut self, now: Instant, key: K, report: R, bytes: usize) -> Option<R> {
        let Some((window, reports)) = self.rate.window() else { return Some(report) };
        let PacedRequests { requests, due, bytes: total } = &mut **self.paced.get_or_insert_default();
        let paced = requests.get_or_insert_with(key, || PacedRequest {
            window_end: now + window,
            passed: 0,
            waiting: None,
            replaced: 0,
        });
        if let Some((_, replaced)) = paced.waiting.take() {
            *total = total.saturating_sub(replaced);
            paced.replaced = paced.replaced.saturating_add(1);
            due.remove(&(paced.window_end, key));
        }
        if paced.window_end <= now {
            paced.window_end = now + window;
            paced.passed = 0;
        }
        if paced.passed < reports.max(1) {
            paced.passed = paced.passed.saturating_add(1);
            return Some(report);
        }
        *total = total.saturating_add(bytes);
        due.insert((paced.window_end, key));
        paced.waiting = Some((report, bytes));
        None
    }

    /// Takes a waiting report whose time has come, with its size in bytes.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(K, R, usize)> {
        let (window, _) = self.rate.window()?;
        let PacedRequests { requests, due, bytes: total } = self.paced.as_deref_mut()?;
        let &(at, key) = due.first().filter(|(at, _)| *at <= now)?;
        due.remove(&(at, key));
        let paced = requests.get_mut(&key)?;
        paced.window_end = now + window;
        paced.passed = 1;
        let (report, bytes) = paced.waiting.take()?;
        *total = total.saturating_sub(bytes);
        Some((key, report, bytes))
    }

    /// Removes a request that is over; `None` if it had no reports.
    pub(crate) fn remove(&mut self, key: K) -> Option<RemainingProgress<R>> {
        let PacedRequests { requests, due, bytes: total } = self.paced.as_deref_mut()?;
        let PacedRequest { window_end, waiting, replaced, .. } = requests.remove(&key)?;
        if let Some((_, bytes)) = &waiting {
            *total = total.saturating_sub(*bytes);
            due.remove(&(window_end, key));
        }
        Some(RemainingProgress { last: waiting, replaced })
    }

    /// Takes any waiting report.
    pub(crate) fn pop(&mut self) -> Option<(K, R)> {
        let PacedRequests { requests, due, bytes: total } = self.paced.as_deref_mut()?;
        let (_, key) = due.pop_first()?;
        let (report, bytes) = requests.get_mut(&key)?.waiting.take()?;
        *total = total.saturating_sub(bytes);
        Some((key, report))
    }

    /// Whether no request has had reports.
    #[cfg(all(feature = "std", feature = "server", feature = "http"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.paced.as_ref().is_none_or(|paced| paced.requests.is_empty())
    }

    /// Removes all requests.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.rate);
    }

    /// When the next waiting report passes.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.paced.as_ref()?.due.first().map(|(at, _)| *at)
    }

    /// The size in bytes of all waiting reports.
    pub(crate) fn bytes(&self) -> usize {
        self.paced.as_ref().map_or(0, |paced| paced.bytes)
    }
}

impl<K, R> Default for PacedRequests<K, R> {
    fn default() -> Self {
        Self { requests: InlineMap::new(), due: OrderedSet::new(), bytes: 0 }
    }
}
