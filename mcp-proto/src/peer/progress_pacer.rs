//! Pacing of progress reports, the newest kept.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use crate::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// How many reports on a request pass in a window of time, which begins with the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressRate {
    window: Duration,
    reports: u32,
}

impl ProgressRate {
    /// As many reports a second, evenly spaced.
    pub(crate) fn spaced(per_second: u32) -> Self {
        Self { window: SECOND.checked_div(per_second).unwrap_or(Duration::MAX), reports: 1 }
    }

    /// As many reports in each second, however they are spaced.
    pub(crate) fn per_second(reports: u32) -> Self {
        Self { window: SECOND, reports }
    }

    fn is_unlimited(self) -> bool {
        self.window.is_zero() || self.reports == u32::MAX
    }
}

/// Paces the progress reports of one connection in one direction.
///
/// The first reports on a request in a window pass at once. A further one waits for the end of the window, and replaces
/// one that waits already: a request has one waiting report at most.
#[derive(Debug)]
pub(crate) struct ProgressPacer<K, R> {
    rate: ProgressRate,
    requests: BTreeMap<K, PacedRequest<R>>,
    /// The requests with a waiting report, by the time at which it passes.
    due: BTreeSet<(Instant, K)>,
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
        Self { rate, requests: BTreeMap::new(), due: BTreeSet::new(), bytes: 0 }
    }

    /// Returns the report if it passes now; otherwise it waits.
    pub(crate) fn offer(&mut self, now: Instant, key: K, report: R, bytes: usize) -> Option<R> {
        let ProgressRate { window, reports } = self.rate;
        if self.rate.is_unlimited() {
            return Some(report);
        }
        let paced = self.requests.entry(key).or_insert_with(|| PacedRequest {
            window_end: now + window,
            passed: 0,
            waiting: None,
            replaced: 0,
        });
        if let Some((_, replaced)) = paced.waiting.take() {
            self.bytes = self.bytes.saturating_sub(replaced);
            paced.replaced = paced.replaced.saturating_add(1);
            self.due.remove(&(paced.window_end, key));
        }
        if paced.window_end <= now {
            paced.window_end = now + window;
            paced.passed = 0;
        }
        if paced.passed < reports.max(1) {
            paced.passed = paced.passed.saturating_add(1);
            return Some(report);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.due.insert((paced.window_end, key));
        paced.waiting = Some((report, bytes));
        None
    }

    /// Takes a waiting report whose time has come, with its size in bytes.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(K, R, usize)> {
        let &(at, key) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, key));
        let paced = self.requests.get_mut(&key)?;
        paced.window_end = now + self.rate.window;
        paced.passed = 1;
        let (report, bytes) = paced.waiting.take()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some((key, report, bytes))
    }

    /// Removes a request that is over; `None` if it had no reports.
    pub(crate) fn remove(&mut self, key: K) -> Option<RemainingProgress<R>> {
        let PacedRequest { window_end, waiting, replaced, .. } = self.requests.remove(&key)?;
        if let Some((_, bytes)) = &waiting {
            self.bytes = self.bytes.saturating_sub(*bytes);
            self.due.remove(&(window_end, key));
        }
        Some(RemainingProgress { last: waiting, replaced })
    }

    /// Takes any waiting report.
    pub(crate) fn pop(&mut self) -> Option<(K, R)> {
        let (_, key) = self.due.pop_first()?;
        let (report, bytes) = self.requests.get_mut(&key)?.waiting.take()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some((key, report))
    }

    /// Removes all requests.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.rate);
    }

    /// When the next waiting report passes.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The size in bytes of all waiting reports.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
