//! The store of cached answers: a bounded map without a clock of its own.
//!
//! | event | effect |
//! |---|---|
//! | a request is made | returns a fresh answer, or a [`CacheFill`] to store with the request |
//! | its answer arrives, with a lifetime | it replaces the previous answer |
//! | the same, but it was invalidated since the request was made | it is not stored, and the previous answer is removed |
//! | an answer expires | it is found only as a fallback when the server cannot be asked |
//! | the server invalidates an answer | it is removed |
//! | there are too many answers, or too many bytes | the least recently used answers are removed |

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::{CacheScope, Json, MethodInfo, peek};

use super::{CacheConfig, CacheContext};

/// The size charged for an answer beside its own bytes: its entries in two trees.
const OVERHEAD: usize = 256;

/// The number of changed resources remembered by name while requests are in flight. With more changes all resources
/// count as changed.
const MAX_RECENT_CHANGES: usize = 16;

/// The cache key of a request in flight, to store its answer under.
#[derive(Debug)]
pub(in crate::peer::client) struct CacheFill {
    request: CacheRequest,
    /// The step at which the request was made.
    requested_at: u64,
    /// Whether an expired answer may be used if no other arrives.
    fallback: Fallback,
}

impl CacheFill {
    pub(super) fn request(&self) -> &CacheRequest {
        &self.request
    }
}

/// Whether an expired answer may be used if no other arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    Stale,
    None,
}

/// The lifetime and scope of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    pub(super) ttl: Duration,
    pub(super) scope: CacheScope,
}

/// A cached answer.
#[derive(Debug)]
struct CachedEntry {
    result: Raw,
    /// When it expires.
    until: Instant,
    /// The step at which it was requested.
    requested_at: u64,
    /// The step at which it was last used.
    used_at: u64,
}

/// The store of cached answers.
#[derive(Debug)]
pub(in crate::peer::client) struct CacheStore {
    config: CacheConfig,
    entries: OrderedMap<CacheKey, CachedEntry>,
    /// The keys in the order of their last use.
    recency: OrderedMap<u64, CacheKey>,
    bytes: usize,
    /// Logical clock: counts steps.
    clock: u64,
    /// Answers to requests made before this step are not stored: they belong to another context, or the cache was
    /// cleared.
    epoch: u64,
    /// The step at which all answers of a method were last invalidated.
    invalidated: OrderedMap<&'static str, u64>,
    /// The resources that were changed last, oldest first.
    recent_changes: VecDeque<(u64, &'static str, Box<str>)>,
}

impl CacheStore {
    pub(in crate::peer::client) fn new(config: CacheConfig) -> Self {
        Self {
            config,
            entries: OrderedMap::new(),
            recency: OrderedMap::new(),
            bytes: 0,
            clock: 0,
            epoch: 0,
            invalidated: OrderedMap::new(),
            recent_changes: VecDeque::new(),
        }
    }

    /// Whether the configuration permits any entries.
    pub(super) fn is_enabled(&self) -> bool {
        self.config.bytes > 0 && self.config.entries > 0
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the authorization context of later requests.
    pub(super) fn set_context(&mut self, context: CacheContext) {
        if self.config.context != context {
            self.config.context = context;
            self.epoch = self.tick();
        }
    }

    /// Ends every context: removes private answers, and does not store answers to earlier requests.
    pub(super) fn end_contexts(&mut self) {
        self.epoch = self.tick();
        let private: Vec<CacheKey> =
            self.entries.keys().filter(|key| key.context.is_some()).cloned().collect();
        for key in &private {
            self.remove(key);
        }
    }

    /// Removes all answers, and does not store those to requests in flight.
    pub(super) fn clear(&mut self) {
        self.epoch = self.tick();
        self.entries.clear();
        self.recency.clear();
        self.bytes = 0;
    }

    // --- Lookup ---

    /// Finds the answer to a request, if it is fresh.
    pub(super) fn find(&mut self, now: Instant, request: &CacheRequest) -> Option<Raw> {
        //= C8.2 "`private` entries never shared across authorization contexts"
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

    /// Creates the fill for a request to the server. `fallback` says whether an expired answer may be used.
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

    /// The expired answer that the request would have replaced, if it is still stored.
    pub(super) fn stale_answer(&mut self, fill: &CacheFill) -> Option<Raw> {
        if fill.fallback == Fallback::None || self.is_invalidated(fill) {
            return None;
        }
        let (key, result) = self.find_entry(&fill.request).map(|(key, kept)| (key, kept.result.clone()))?;
        self.touch(&key);
        Some(result)
    }

    // --- Storing ---

    /// Stores the answer to a request; `lease` is its lifetime and scope.
    pub(super) fn insert(&mut self, now: Instant, fill: CacheFill, result: &Raw, lease: Option<Freshness>) {
        let CacheFill { request, requested_at: since, .. } = &fill;
        // An answer to a later request that has arrived first is newer.
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
        // A slice would keep the whole input alive.
        let result = result.detached();
        self.entries
            .insert(key, CachedEntry { result, until: now + lease.ttl, requested_at: *since, used_at: used });
    }

    // --- Invalidation ---

    /// Invalidates all answers of a method, those in flight included.
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

    /// Invalidates the answers of a method about a subject and about those that contain it.
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
            // Keys in between share a shorter prefix with the subject, so none of them is a prefix of it.
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

    /// Whether the answer to a request in flight is obsolete already.
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

    // --- Internals ---

    fn tick(&mut self) -> u64 {
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    /// The entry of a request in the present context.
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

/// The size in bytes charged for an answer.
fn charge(key: &CacheKey, result: usize) -> usize {
    // The key is in both trees, but its text is shared.
    key.bytes().saturating_add(result).saturating_add(OVERHEAD)
}

/// The maximum size in bytes of the parameters of a cacheable request: far more than URIs and cursors need.
const MAX_PARAMS_BYTES: usize = 8 * 1024;

/// The parameters that carry answers to input requests: the result then depends on more than the key contains.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
const INPUT_PARAMS: [&str; 2] = ["inputResponses", "requestState"];

/// A request, reduced to what its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheRequest {
    pub(super) method: &'static str,
    /// The subject of the request, if the method has a parameter for one.
    pub(super) subject: Arc<str>,
    /// All parameters but `_meta`, encoded.
    params: Arc<str>,
}

impl CacheRequest {
    /// The request of `method` with these parameters, unless its answer must not be cached.
    pub(super) fn new(method: &'static MethodInfo, params: Vec<u8>) -> Option<Self> {
        if params.len() > MAX_PARAMS_BYTES {
            return None;
        }
        let params = String::from_utf8(params).ok()?;
        //= C5.8 "Retries carrying inputResponses/requestState are not cached and not served from cache"
        if INPUT_PARAMS.iter().any(|name| !matches!(peek::<Json>(&params, name), Ok(None))) {
            return None;
        }
        let subject = match method.subject {
            Some(name) => peek::<String>(&params, name).ok()??,
            None => String::new(),
        };
        //= C8.1 "Cache key = method + all params that affect the result (cursor, uri), not `_meta`"
        Some(Self { method: method.name, subject: subject.into(), params: params.into() })
    }

    /// The smallest request of `method`, in key order.
    pub(super) fn min_for_method(method: &'static str) -> Self {
        Self::min_for_subject(method, "")
    }

    /// The smallest request about `subject`, in key order.
    pub(super) fn min_for_subject(method: &'static str, subject: &str) -> Self {
        Self { method, subject: subject.into(), params: Arc::from("") }
    }

    /// A key greater than all requests about `subject` and those before it, and smaller than any other.
    pub(super) fn max_for_subject(method: &'static str, subject: &str) -> Self {
        let mut beyond = String::with_capacity(subject.len().saturating_add(1));
        beyond.push_str(subject);
        beyond.push('\0');
        Self::min_for_subject(method, &beyond)
    }

    /// Whether it requests a page other than the first.
    pub(super) fn has_cursor(&self) -> bool {
        matches!(peek::<Json>(&self.params, "cursor"), Ok(Some(_)))
    }

    fn bytes(&self) -> usize {
        self.subject.len().saturating_add(self.params.len())
    }
}

/// A request with the context that its answer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheKey {
    pub(super) request: CacheRequest,
    /// The context that the answer is private to; `None` for public answers.
    pub(super) context: Option<CacheContext>,
}

impl CacheKey {
    pub(super) fn bytes(&self) -> usize {
        let owner = self.context.as_ref().map_or(0, CacheContext::bytes);
        self.request.bytes().saturating_add(owner)
    }
}

/// Whether a change of the resource `news` affects the one at `uri`: the changed resource is the same or a part of it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams>
pub(super) fn affects(news: &str, uri: &str) -> bool {
    const SEPARATORS: [char; 3] = ['/', '?', '#'];
    match news.strip_prefix(uri) {
        Some(rest) => rest.is_empty() || rest.starts_with(SEPARATORS) || uri.ends_with(SEPARATORS),
        None => false,
    }
}

/// The common prefix of `text` and `other`.
pub(super) fn common_prefix<'a>(text: &'a str, other: &str) -> &'a str {
    let mut len = text.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}

/// The prefix of `text` that fits into a subject.
pub(super) fn truncate_subject(text: &str) -> &str {
    let mut len = text.len().min(MAX_PARAMS_BYTES);
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests;
