//! What is kept of a server's answers: a map with bounds, without a clock of its own.
//!
//! | what happens | what follows |
//! |---|---|
//! | a request is made | a fresh answer is found, or a [`Fill`] that goes with the request |
//! | its answer comes, with a time to live | it is kept in the place of the former |
//! | the same, and it is out of date since the request was made | it is not kept, and the former goes |
//! | its time is over | it is not found any more, but for the case that the server can not be asked |
//! | the server says that it is out of date | it goes |
//! | there are too many, or too many bytes | those that were not used for longest go |

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::key::{CacheKey, CacheRequest, affects, common_prefix, truncate_subject};
use super::{CacheConfig, CacheContext};
use crate::Instant;
use crate::rpc::Raw;
use crate::schema::CacheScope;

/// What is charged for an answer beside the bytes it holds: its places in two trees.
const OVERHEAD: usize = 256;

/// How many resources that have changed are remembered by name while requests are in flight. News of more count as news
/// of all.
const MAX_RECENT_CHANGES: usize = 16;

/// How a request that goes to the server is known when its answer comes.
#[derive(Debug)]
pub(in crate::peer::client) struct CacheFill {
    request: CacheRequest,
    /// When it is made, by the count of steps.
    requested_at: u64,
    /// Whether an answer whose time is over will do if no other comes.
    fallback: Fallback,
}

impl CacheFill {
    pub(super) fn request(&self) -> &CacheRequest {
        &self.request
    }
}

/// Whether an answer whose time is over will do if no other comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    Stale,
    None,
}

/// How long and by whom an answer may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    pub(super) ttl: Duration,
    pub(super) scope: CacheScope,
}

/// An answer.
#[derive(Debug)]
struct CachedEntry {
    result: Raw,
    /// When its time is over.
    until: Instant,
    /// When it was asked for, by the count of steps.
    requested_at: u64,
    /// When it was used last, by the count of steps.
    used_at: u64,
}

/// The answers that are kept.
#[derive(Debug)]
pub(super) struct CacheStore {
    config: CacheConfig,
    entries: BTreeMap<CacheKey, CachedEntry>,
    /// Their keys, by when they were used last.
    recency: BTreeMap<u64, CacheKey>,
    bytes: usize,
    /// Counts what happens, so that it is known what was before what.
    clock: u64,
    /// The requests made before this step are on their way for nothing: they are another's, or all is to be forgotten.
    epoch: u64,
    /// When all the answers of a method were out of date for the last time.
    invalidated: BTreeMap<&'static str, u64>,
    /// The resources that have changed last, oldest first.
    recent_changes: VecDeque<(u64, &'static str, Box<str>)>,
}

impl CacheStore {
    pub(super) fn new(config: CacheConfig) -> Self {
        Self {
            config,
            entries: BTreeMap::new(),
            recency: BTreeMap::new(),
            bytes: 0,
            clock: 0,
            epoch: 0,
            invalidated: BTreeMap::new(),
            recent_changes: VecDeque::new(),
        }
    }

    /// Whether anything is ever kept.
    pub(super) fn is_enabled(&self) -> bool {
        self.config.bytes > 0 && self.config.entries > 0
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whom the requests from now on are made for.
    pub(super) fn set_context(&mut self, context: CacheContext) {
        if self.config.context != context {
            self.config.context = context;
            self.epoch = self.tick();
        }
    }

    /// Ends every context: private answers are forgotten, and answers to the requests made so far are not kept.
    pub(super) fn end_contexts(&mut self) {
        self.epoch = self.tick();
        let private: Vec<CacheKey> =
            self.entries.keys().filter(|key| key.context.is_some()).cloned().collect();
        for key in &private {
            self.remove(key);
        }
    }

    /// Forgets everything, what is on its way included.
    pub(super) fn clear(&mut self) {
        self.epoch = self.tick();
        self.entries.clear();
        self.recency.clear();
        self.bytes = 0;
    }

    // --- Asking ---

    /// The answer to a request, while it is fresh.
    pub(super) fn find(&mut self, now: Instant, request: &CacheRequest) -> Option<Raw> {
        for owner in [Some(self.config.context.clone()), None] {
            let key = CacheKey { request: request.clone(), context: owner };
            let Some(kept) = self.entries.get(&key) else { continue };
            if now < kept.until {
                let result = kept.result.clone();
                self.touch(&key);
                return Some(result);
            }
            if self.config.stale_if_error.is_zero() {
                self.remove(&key);
            }
        }
        None
    }

    /// A request goes to the server. `fallback` says whether its maker would take an old answer.
    pub(super) fn begin_fill(
        &mut self,
        now: Instant,
        request: CacheRequest,
        fallback: Fallback,
    ) -> CacheFill {
        let usable = |kept: &CachedEntry| now < kept.until + self.config.stale_if_error;
        let old = self.find_entry(&request).is_some_and(|(_, kept)| usable(kept));
        let fallback = if old { fallback } else { Fallback::None };
        CacheFill { request, requested_at: self.tick(), fallback }
    }

    /// What is still there of the answer that a request was to replace, for want of another.
    pub(super) fn stale_answer(&mut self, fill: &CacheFill) -> Option<Raw> {
        if fill.fallback == Fallback::None || self.is_invalidated(fill) {
            return None;
        }
        let (key, result) = self.find_entry(&fill.request).map(|(key, kept)| (key, kept.result.clone()))?;
        self.touch(&key);
        Some(result)
    }

    // --- Keeping ---

    /// The answer to a request has come; `lease` is what it says of how long it may be kept.
    pub(super) fn insert(&mut self, now: Instant, fill: CacheFill, result: &Raw, lease: Option<Freshness>) {
        let CacheFill { request, requested_at: since, .. } = &fill;
        // What was asked for later, and has come before, is newer.
        let later = |kept: &CachedEntry| kept.requested_at > *since;
        if *since < self.epoch || self.find_entry(request).is_some_and(|(_, kept)| later(kept)) {
            return;
        }
        self.forget(request);
        let Some(lease) = lease.filter(|lease| !lease.ttl.is_zero()) else { return };
        if self.is_invalidated(&fill) {
            return;
        }
        let owner = match lease.scope {
            CacheScope::Public => None,
            CacheScope::Private if !self.config.private => return,
            CacheScope::Private => Some(self.config.context.clone()),
        };
        let key = CacheKey { request: request.clone(), context: owner };
        let bytes = charge(&key, result.as_bytes().len());
        if bytes > self.config.bytes / 4 {
            return;
        }
        while self.entries.len() >= self.config.entries
            || self.bytes.saturating_add(bytes) > self.config.bytes
        {
            let Some((_, oldest)) = self.recency.pop_first() else { return };
            self.remove(&oldest);
        }
        let used = self.tick();
        self.bytes = self.bytes.saturating_add(bytes);
        self.recency.insert(used, key.clone());
        // Not a slice of the input, which it would keep as a whole.
        let result = result.detached();
        self.entries
            .insert(key, CachedEntry { result, until: now + lease.ttl, requested_at: *since, used_at: used });
    }

    // --- What is out of date ---

    /// All answers of a method are out of date, those on their way included.
    pub(super) fn invalidate_method(&mut self, method: &'static str) {
        if !self.is_enabled() {
            return;
        }
        let now = self.tick();
        self.invalidated.insert(method, now);
        self.recent_changes.retain(|(_, of, _)| *of != method);
        let first = CacheKey { request: CacheRequest::min_for_method(method), context: None };
        while let Some((key, _)) =
            self.entries.range(&first..).next().filter(|(key, _)| key.request.method == method)
        {
            let key = key.clone();
            self.remove(&key);
        }
    }

    /// The answers of a method about one thing are out of date, and those about what it is a part of.
    pub(super) fn invalidate_subject(&mut self, method: &'static str, subject: &str) {
        if !self.is_enabled() {
            return;
        }
        self.record_change(method, subject);
        let mut end = CacheRequest::max_for_subject(method, truncate_subject(subject));
        loop {
            let end_key = CacheKey { request: end.clone(), context: None };
            let Some((key, _)) = self.entries.range(..end_key).next_back() else { return };
            if key.request.method != method {
                return;
            }
            // What lies between has less in common with the subject than this, so none of it is the beginning of it.
            let shared = common_prefix(subject, &key.request.subject);
            end = if shared.len() < key.request.subject.len() {
                CacheRequest::max_for_subject(method, shared)
            } else {
                CacheRequest::min_for_subject(method, shared)
            };
            if shared.len() == key.request.subject.len() && affects(subject, shared) {
                self.remove_about(method, shared);
            }
        }
    }

    fn record_change(&mut self, method: &'static str, subject: &str) {
        let now = self.tick();
        if truncate_subject(subject).len() < subject.len() {
            self.invalidated.insert(method, now);
            return;
        }
        self.recent_changes.push_back((now, method, subject.into()));
        if self.recent_changes.len() > MAX_RECENT_CHANGES
            && let Some((then, method, _)) = self.recent_changes.pop_front()
        {
            let last = self.invalidated.entry(method).or_default();
            *last = then.max(*last);
        }
    }

    /// Whether the answer to a request that is on its way is out of date already.
    fn is_invalidated(&self, fill: &CacheFill) -> bool {
        let CacheRequest { method, subject, .. } = &fill.request;
        let all = self.invalidated.get(method).is_some_and(|&at| at > fill.requested_at);
        let news = self
            .recent_changes
            .iter()
            .rev()
            .take_while(|(at, ..)| *at > fill.requested_at)
            .any(|(_, of, news)| of == method && affects(news, subject));
        fill.requested_at < self.epoch || all || news
    }

    // --- Within ---

    fn tick(&mut self) -> u64 {
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    /// What is kept of a request for the present context.
    fn find_entry(&self, request: &CacheRequest) -> Option<(CacheKey, &CachedEntry)> {
        [Some(self.config.context.clone()), None].into_iter().find_map(|owner| {
            let key = CacheKey { request: request.clone(), context: owner };
            let kept = self.entries.get(&key)?;
            Some((key, kept))
        })
    }

    fn touch(&mut self, key: &CacheKey) {
        let now = self.tick();
        if let Some(kept) = self.entries.get_mut(key)
            && let Some(key) = self.recency.remove(&kept.used_at)
        {
            kept.used_at = now;
            self.recency.insert(now, key);
        }
    }

    fn forget(&mut self, request: &CacheRequest) {
        for owner in [Some(self.config.context.clone()), None] {
            self.remove(&CacheKey { request: request.clone(), context: owner });
        }
    }

    fn remove_about(&mut self, method: &'static str, subject: &str) {
        let first = CacheKey { request: CacheRequest::min_for_subject(method, subject), context: None };
        let is_it = |key: &CacheKey| key.request.method == method && *key.request.subject == *subject;
        while let Some((key, _)) = self.entries.range(&first..).next().filter(|(key, _)| is_it(key)) {
            let key = key.clone();
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(kept) = self.entries.remove(key) {
            self.recency.remove(&kept.used_at);
            self.bytes = self.bytes.saturating_sub(charge(key, kept.result.as_bytes().len()));
        }
    }
}

/// What an answer counts for, in bytes.
fn charge(key: &CacheKey, result: usize) -> usize {
    // The key stands in both trees, but its text is shared.
    key.bytes().saturating_add(result).saturating_add(OVERHEAD)
}

#[cfg(test)]
mod tests;
