//! The client's cache of responses (2026-07-28).
//!
//! A request with a cached answer is resolved from the cache: its outcome is an event like any other, and no message is
//! sent. All other requests are sent, and their answers cached if the server sets a lifetime. Expired answers are not
//! refreshed automatically.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>

pub(super) mod store;

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use memchr::memmem;
use store::{CacheFill, CacheRequest, Fallback, Freshness};

use crate::Instant;
use crate::peer::topic::{ListKind, Topic};
use crate::peer::{CacheMode, LostReason, Outcome, OutgoingRequest, RequestError, WireId};
use crate::prelude::*;
use crate::rpc::{Id, JsonStr, Raw, code, decode_member, read_members};
use crate::schema::skills::{GetSkill, ListSkills};
use crate::schema::{
    CacheScope, Direction, Era, ListPrompts, ListResourceTemplates, ListResources, ListTools, Method as _,
    MethodInfo, NotificationInfo, ReadResource, Revision, peek,
};

use super::request_record::ClientRequest;
use super::{Client, Diagnostic, EraPolicy, Phase, WatchFilter, WatchId};

/// The fill level of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUsage {
    /// The number of cached answers.
    pub entries: usize,
    /// Their size in bytes, counted as for [`CacheConfig::bytes`].
    pub bytes: usize,
}

/// The result of a cache lookup.
pub(super) enum CacheLookup {
    /// The cached answer.
    Hit(Raw),
    /// No fresh answer; the fill is stored with the request until its answer arrives.
    Miss(Box<CacheFill>),
    /// The request is never cached.
    Uncacheable,
}

impl Client {
    // --- Commands ---

    /// Sets the authorization context of later requests.
    pub(crate) fn set_cache_context(&mut self, context: CacheContext) {
        self.cache.set_context(context);
    }

    /// Ends the authorization context.
    pub(crate) fn end_cache_context(&mut self) {
        self.cache.end_contexts();
    }

    /// Clears the cache of answers.
    pub(crate) fn clear_cache(&mut self) {
        self.cache.clear();
    }

    // --- Getters ---

    /// The fill level of the cache.
    pub fn cache_usage(&self) -> CacheUsage {
        CacheUsage { entries: self.cache.len(), bytes: self.cache.bytes() }
    }

    // --- Shared with the other modules ---

    /// Keeps the answer to a request out of the cache: a layer has changed one of the two.
    #[cfg(feature = "std")]
    pub(crate) fn withhold_answer(&mut self, id: &Id) {
        if let Some(wire) = self.config.strictness.number_of(id)
            && let Some(request) = self.requests.get_mut(self.requests.find(WireId(wire)))
        {
            request.fill = None;
        }
    }

    /// Looks up the answer to a request.
    pub(super) fn look_up(&mut self, now: Instant, request: &OutgoingRequest<'_>) -> CacheLookup {
        let Some(info) = request.info.filter(|info| info.cacheable) else { return CacheLookup::Uncacheable };
        let legacy = self.era() == Some(Era::Legacy) || self.config.era_policy == EraPolicy::LegacyOnly;
        if legacy || request.options.cache == CacheMode::Bypass || !self.cache.is_enabled() {
            return CacheLookup::Uncacheable;
        }
        let mut params = Vec::new();
        if request.params.write_key(&mut params).is_err() {
            return CacheLookup::Uncacheable;
        }
        let Some(key) = CacheRequest::new(info, params) else { return CacheLookup::Uncacheable };
        let mut fallback = Fallback::None;
        if request.options.cache == CacheMode::Use {
            if matches!(self.connection.phase, Phase::Ready)
                && let Some(result) = self.cache.find(now, &key)
            {
                return CacheLookup::Hit(result);
            }
            fallback = Fallback::Stale;
        }
        CacheLookup::Miss(Box::new(self.cache.begin_fill(now, key, fallback)))
    }

    /// Updates the cache after an answer: stores it, or invalidates entries that it makes obsolete.
    pub(super) fn store_answer(&mut self, now: Instant, request: &mut ClientRequest, outcome: &Outcome) {
        match outcome {
            Outcome::Result(result) => {
                if let Some(fill) = request.fill.take() {
                    let lease = if self.era() == Some(Era::Modern) { read_freshness(result) } else { None };
                    self.cache.insert(now, *fill, result, lease);
                }
            }
            // The final answer will depend on the input.
            //= C5.8 "Retries carrying inputResponses/requestState are not cached"
            Outcome::InputRequired(_) => request.fill = None,
            Outcome::Error(error) => {
                let fill = request.fill.take();
                if error.code == code::INVALID_PARAMS
                    && let Some(cached) = fill.as_ref().map(|fill| fill.request())
                    && cached.has_cursor()
                {
                    self.invalidate(cached.method);
                }
                let unknown = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::RESOURCE_NOT_FOUND]
                    .contains(&error.code);
                if let Some(list) = request.info.and_then(|info| info.list_method).filter(|_| unknown) {
                    self.invalidate(list);
                }
            }
            _ => {}
        }
    }

    /// Replaces the outcome of a request by an expired answer, if the request failed in a way that permits it.
    pub(super) fn stale_fallback(&mut self, fill: Option<Box<CacheFill>>, outcome: Outcome) -> Outcome {
        let Some(fill) = fill else { return outcome };
        if !is_transport_failure(&outcome) {
            return outcome;
        }
        match self.cache.stale_answer(&fill) {
            Some(result) => {
                let method = fill.request().method;
                self.report(Diagnostic::AnsweredStale { method, reason: outcome.to_string() });
                Outcome::Result(result)
            }
            None => outcome,
        }
    }

    /// Invalidates the answers of a method, cached or in flight.
    pub(crate) fn invalidate(&mut self, method: &'static str) {
        self.cache.invalidate_method(method);
    }

    /// Invalidates cached answers about the topics of a watch that is now on: changes before that were not reported.
    pub(super) fn invalidate_unwatched(&mut self, watch: WatchId, missing: &WatchFilter) {
        for topic in self.watches.covered_topics(watch, missing) {
            match topic {
                Topic::List(ListKind::Tools) => self.invalidate(ListTools::NAME),
                Topic::List(ListKind::Prompts) => self.invalidate(ListPrompts::NAME),
                Topic::List(ListKind::Resources) => {
                    self.invalidate(ListResources::NAME);
                    self.invalidate(ListResourceTemplates::NAME);
                    self.invalidate(ListSkills::NAME);
                    self.invalidate(GetSkill::NAME);
                }
                Topic::Resource(uri) => self.cache.invalidate_subject(ReadResource::NAME, &uri),
                Topic::Task(_) => {}
            }
        }
    }

    /// Invalidates the answers that a notification of the server makes obsolete.
    pub(super) fn invalidate_changed(&mut self, notification: &str, params: Option<&Raw>) {
        if !self.cache.is_enabled() {
            return;
        }
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let Some(news) = NotificationInfo::find(notification, Direction::ServerToClient, revision) else {
            return;
        };
        for &method in news.invalidates {
            let info = MethodInfo::find(method, Direction::ClientToServer, revision);
            match info.and_then(|info| info.subject) {
                None => self.invalidate(method),
                Some(name) => match params
                    .and_then(|params| peek::<alloc::string::String>(params.as_str(), name).ok()?)
                {
                    Some(subject) => self.cache.invalidate_subject(method, &subject),
                    // It may concern any of them.
                    _ => self.invalidate(method),
                },
            }
        }
    }
}

/// Whether the server did not answer, or could not be reached.
fn is_transport_failure(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Lost(LostReason::Disconnected(_) | LostReason::Failed(_) | LostReason::KeepaliveFailed)
        | Outcome::TimedOut { .. }
        | Outcome::Refused(RequestError::Connect(_)) => true,
        Outcome::Transport(error) => error.is_unavailable,
        _ => false,
    }
}

/// Reads the lifetime and scope of a result. Invalid JSON or values give `None`: the result is not cached.
fn read_freshness(result: &Raw) -> Option<Freshness> {
    // Most results have no lifetime, and some are large: search before decoding.
    memmem::find(result.as_bytes(), b"ttlMs")?;
    let [ttl, scope] = read_members(result.as_str(), ["ttlMs", "cacheScope"]).ok()?;
    // Some languages write `60000.0`. Negative lifetimes become zero.
    let ttl = Duration::from_millis(decode_member::<f64>(ttl)? as u64);
    let public = match scope {
        Some(_) => decode_member::<JsonStr<'_>>(scope)?.0 == CacheScope::Public.as_str(),
        None => false,
    };
    let scope = if public { CacheScope::Public } else { CacheScope::Private };
    Some(Freshness { ttl, scope })
}

// Configuration of the cache, and the authorization context of its answers.

config! {
    /// How much a client caches of a server's answers, and for which authorization context.
    ///
    /// Only servers of 2026-07-28 give their answers a lifetime; answers of older servers are not cached.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::peer::client::{CacheConfig, CacheContext};
    ///
    /// let mut config = CacheConfig::default();
    /// config.context = CacheContext::new("alice@example.com");
    /// config.stale_if_error = Duration::from_secs(600);
    /// assert!(CacheConfig::disabled().bytes == 0);
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct CacheConfig {
        /// The size of the cache in bytes, keys included. An answer that would fill more than a quarter of it is not
        /// cached. Zero disables the cache.
        ///
        /// Default 16 MiB: the lists of a server with thousands of tools, and the resources that a model reads again.
        pub bytes: usize = 16 * 1024 * 1024,
        /// The maximum number of cached answers; each page of a list is one. The least recently used are evicted first.
        ///
        /// Default 1,024.
        pub entries: usize = 1024,
        /// Whether private answers, which are most, are cached too: the server means them for one context alone.
        ///
        /// Default true. Turn it off where [the context](Self::context) may change without this client's knowledge:
        /// then only answers that the server marks as public are cached.
        pub private: bool = true,
        /// The authorization context of this client's requests. Default: an unnamed one.
        pub context: CacheContext = CacheContext::default(),
        /// How long an expired answer may still be used if the server cannot be asked again: the connection is lost, or
        /// no answer arrives in time. A diagnostic reports each use.
        ///
        /// Default zero: expired answers are never used.
        pub stale_if_error: Duration = Duration::ZERO,
    }
}

impl CacheConfig {
    /// A configuration that caches nothing.
    pub fn disabled() -> Self {
        Self { bytes: 0, entries: 0, ..Self::default() }
    }
}

/// The authorization context of requests: an account, or an access token's fingerprint. An answer that a server marks
/// as private to one context is never returned to another.
///
/// Contexts are only compared for equality. `Debug` does not show the name; a secret should nevertheless be hashed
/// first.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct CacheContext(Option<Arc<str>>);

impl CacheContext {
    /// The context of this name.
    pub fn new(name: &str) -> Self {
        Self(Some(Arc::from(name)))
    }

    /// The size of the name in bytes.
    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |name| name.len())
    }
}

impl fmt::Debug for CacheContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CacheContext(..)" } else { "CacheContext(default)" })
    }
}
