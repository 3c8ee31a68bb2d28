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

use super::key::{Key, Request, common, concerns, within_longest};
use super::{CacheConfig, CacheContext};
use crate::Instant;
use crate::rpc::Raw;
use crate::schema::CacheScope;

/// What is charged for an answer beside the bytes it holds: its places in two trees.
const OVERHEAD: usize = 256;

/// How many resources that have changed are remembered by name while requests are in flight. News of more count as news
/// of all.
const NEWS: usize = 16;

/// How a request that goes to the server is known when its answer comes.
#[derive(Debug)]
pub(in crate::peer::client) struct Fill {
    request: Request,
    /// When it is made, by the count of steps.
    since: u64,
    /// Whether an answer whose time is over will do if no other comes.
    fallback: Fallback,
}

impl Fill {
    pub(super) fn request(&self) -> &Request {
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
pub(super) struct Lease {
    pub(super) ttl: Duration,
    pub(super) scope: CacheScope,
}

/// An answer.
#[derive(Debug)]
struct Kept {
    result: Raw,
    /// When its time is over.
    until: Instant,
    /// When it was asked for, by the count of steps.
    asked: u64,
    /// When it was used last, by the count of steps.
    used: u64,
}

/// The answers that are kept.
#[derive(Debug)]
pub(super) struct Store {
    config: CacheConfig,
    kept: BTreeMap<Key, Kept>,
    /// Their keys, by when they were used last.
    by_use: BTreeMap<u64, Key>,
    bytes: usize,
    /// Counts what happens, so that it is known what was before what.
    steps: u64,
    /// The requests made before this step are on their way for nothing: they are another's, or all is to be forgotten.
    epoch: u64,
    /// When all the answers of a method were out of date for the last time.
    outdated: BTreeMap<&'static str, u64>,
    /// The resources that have changed last, oldest first.
    news: VecDeque<(u64, &'static str, Box<str>)>,
}

impl Store {
    pub(super) fn new(config: CacheConfig) -> Self {
        Self {
            config,
            kept: BTreeMap::new(),
            by_use: BTreeMap::new(),
            bytes: 0,
            steps: 0,
            epoch: 0,
            outdated: BTreeMap::new(),
            news: VecDeque::new(),
        }
    }

    /// Whether anything is ever kept.
    pub(super) fn is_on(&self) -> bool {
        self.config.bytes > 0 && self.config.entries > 0
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whom the requests from now on are made for.
    pub(super) fn set_context(&mut self, context: CacheContext) {
        if self.config.context != context {
            self.config.context = context;
            self.epoch = self.step();
        }
    }

    /// Ends every context: private answers are forgotten, and answers to the requests made so far are not kept.
    pub(super) fn end_contexts(&mut self) {
        self.epoch = self.step();
        let private: Vec<Key> = self.kept.keys().filter(|key| key.owner.is_some()).cloned().collect();
        for key in &private {
            self.remove(key);
        }
    }

    /// Forgets everything, what is on its way included.
    pub(super) fn clear(&mut self) {
        self.epoch = self.step();
        self.kept.clear();
        self.by_use.clear();
        self.bytes = 0;
    }

    // --- Asking ---

    /// The answer to a request, while it is fresh.
    pub(super) fn find(&mut self, now: Instant, request: &Request) -> Option<Raw> {
        for owner in [Some(self.config.context.clone()), None] {
            let key = Key { request: request.clone(), owner };
            let Some(kept) = self.kept.get(&key) else { continue };
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
    pub(super) fn fill(&mut self, now: Instant, request: Request, fallback: Fallback) -> Fill {
        let usable = |kept: &Kept| now < kept.until + self.config.stale_if_error;
        let old = self.either(&request).is_some_and(|(_, kept)| usable(kept));
        let fallback = if old { fallback } else { Fallback::None };
        Fill { request, since: self.step(), fallback }
    }

    /// What is still there of the answer that a request was to replace, for want of another.
    pub(super) fn fall_back(&mut self, fill: &Fill) -> Option<Raw> {
        if fill.fallback == Fallback::None || self.is_outdated(fill) {
            return None;
        }
        let (key, result) = self.either(&fill.request).map(|(key, kept)| (key, kept.result.clone()))?;
        self.touch(&key);
        Some(result)
    }

    // --- Keeping ---

    /// The answer to a request has come; `lease` is what it says of how long it may be kept.
    pub(super) fn keep(&mut self, now: Instant, fill: Fill, result: &Raw, lease: Option<Lease>) {
        let Fill { request, since, .. } = &fill;
        // What was asked for later, and has come before, is newer.
        let later = |kept: &Kept| kept.asked > *since;
        if *since < self.epoch || self.either(request).is_some_and(|(_, kept)| later(kept)) {
            return;
        }
        self.forget(request);
        let Some(lease) = lease.filter(|lease| !lease.ttl.is_zero()) else { return };
        if self.is_outdated(&fill) {
            return;
        }
        let owner = match lease.scope {
            CacheScope::Public => None,
            CacheScope::Private if !self.config.private => return,
            CacheScope::Private => Some(self.config.context.clone()),
        };
        let key = Key { request: request.clone(), owner };
        let bytes = charge(&key, result.as_bytes().len());
        if bytes > self.config.bytes / 4 {
            return;
        }
        while self.kept.len() >= self.config.entries || self.bytes.saturating_add(bytes) > self.config.bytes {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.remove(&oldest);
        }
        let used = self.step();
        self.bytes = self.bytes.saturating_add(bytes);
        self.by_use.insert(used, key.clone());
        // Not a slice of the input, which it would keep as a whole.
        let result = result.detached();
        self.kept.insert(key, Kept { result, until: now + lease.ttl, asked: *since, used });
    }

    // --- What is out of date ---

    /// All answers of a method are out of date, those on their way included.
    pub(super) fn outdate(&mut self, method: &'static str) {
        if !self.is_on() {
            return;
        }
        let now = self.step();
        self.outdated.insert(method, now);
        self.news.retain(|(_, of, _)| *of != method);
        let first = Key { request: Request::first(method), owner: None };
        while let Some((key, _)) =
            self.kept.range(&first..).next().filter(|(key, _)| key.request.method == method)
        {
            let key = key.clone();
            self.remove(&key);
        }
    }

    /// The answers of a method about one thing are out of date, and those about what it is a part of.
    pub(super) fn outdate_subject(&mut self, method: &'static str, subject: &str) {
        if !self.is_on() {
            return;
        }
        self.note_news(method, subject);
        let mut end = Request::beyond(method, within_longest(subject));
        loop {
            let end_key = Key { request: end.clone(), owner: None };
            let Some((key, _)) = self.kept.range(..end_key).next_back() else { return };
            if key.request.method != method {
                return;
            }
            // What lies between has less in common with the subject than this, so none of it is the beginning of it.
            let shared = common(subject, &key.request.subject);
            end = if shared.len() < key.request.subject.len() {
                Request::beyond(method, shared)
            } else {
                Request::about(method, shared)
            };
            if shared.len() == key.request.subject.len() && concerns(subject, shared) {
                self.remove_about(method, shared);
            }
        }
    }

    fn note_news(&mut self, method: &'static str, subject: &str) {
        let now = self.step();
        if within_longest(subject).len() < subject.len() {
            self.outdated.insert(method, now);
            return;
        }
        self.news.push_back((now, method, subject.into()));
        if self.news.len() > NEWS
            && let Some((then, method, _)) = self.news.pop_front()
        {
            let last = self.outdated.entry(method).or_default();
            *last = then.max(*last);
        }
    }

    /// Whether the answer to a request that is on its way is out of date already.
    fn is_outdated(&self, fill: &Fill) -> bool {
        let Request { method, subject, .. } = &fill.request;
        let all = self.outdated.get(method).is_some_and(|&at| at > fill.since);
        let news = self
            .news
            .iter()
            .rev()
            .take_while(|(at, ..)| *at > fill.since)
            .any(|(_, of, news)| of == method && concerns(news, subject));
        fill.since < self.epoch || all || news
    }

    // --- Within ---

    fn step(&mut self) -> u64 {
        self.steps = self.steps.saturating_add(1);
        self.steps
    }

    /// What is kept of a request for the present context.
    fn either(&self, request: &Request) -> Option<(Key, &Kept)> {
        [Some(self.config.context.clone()), None].into_iter().find_map(|owner| {
            let key = Key { request: request.clone(), owner };
            let kept = self.kept.get(&key)?;
            Some((key, kept))
        })
    }

    fn touch(&mut self, key: &Key) {
        let now = self.step();
        if let Some(kept) = self.kept.get_mut(key)
            && let Some(key) = self.by_use.remove(&kept.used)
        {
            kept.used = now;
            self.by_use.insert(now, key);
        }
    }

    fn forget(&mut self, request: &Request) {
        for owner in [Some(self.config.context.clone()), None] {
            self.remove(&Key { request: request.clone(), owner });
        }
    }

    fn remove_about(&mut self, method: &'static str, subject: &str) {
        let first = Key { request: Request::about(method, subject), owner: None };
        let is_it = |key: &Key| key.request.method == method && *key.request.subject == *subject;
        while let Some((key, _)) = self.kept.range(&first..).next().filter(|(key, _)| is_it(key)) {
            let key = key.clone();
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(kept) = self.kept.remove(key) {
            self.by_use.remove(&kept.used);
            self.bytes = self.bytes.saturating_sub(charge(key, kept.result.as_bytes().len()));
        }
    }
}

/// What an answer counts for, in bytes.
fn charge(key: &Key, result: usize) -> usize {
    // The key stands in both trees, but its text is shared.
    key.bytes().saturating_add(result).saturating_add(OVERHEAD)
}

#[cfg(test)]
mod tests;
