//! What a client keeps of its server's answers, so that it need not ask again (2026-07-28).
//!
//! A request that can be answered by what is kept is: its outcome comes by
//! [`poll_event`](crate::peer::client::Client::poll_event) like any other, and nothing goes over the wire. All others
//! are sent, and what comes of them is kept if the server says for how long. Nothing is asked for by itself when its
//! time is over.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>

mod config;
mod key;
mod store;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use memchr::memmem;
use serde::Deserialize;

use crate::Instant;
use crate::peer::{CacheMode, LostReason, Outcome, OutgoingRequest, RequestError};
use crate::rpc::{Raw, code};
use crate::schema::{
    CacheScope, Direction, Era, ListPrompts, ListResourceTemplates, ListResources, ListTools, Method as _,
    MethodInfo, NotificationInfo, ReadResource, Revision, peek,
};

use super::{Client, Diagnostic, EraPolicy, Phase, Topic, WatchFilter, WatchId};

pub use config::{CacheConfig, CacheContext};

use key::CacheRequest;
use store::{CacheFill, CacheStore, Fallback, Freshness};

/// The cache of one client.
#[derive(Debug)]
pub(super) struct Cache {
    store: CacheStore,
    /// What the requests in flight are to be kept by, those of them that are.
    pending_fills: BTreeMap<i64, Box<CacheFill>>,
}

/// How full a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUsage {
    /// How many answers are kept.
    pub entries: usize,
    /// How many bytes they fill, as [`CacheConfig::bytes`] counts them.
    pub bytes: usize,
}

/// What comes of a look into the cache.
pub(super) enum CacheLookup {
    /// The answer.
    Hit(Raw),
    /// There is none; this goes with the request.
    Miss(Box<CacheFill>),
    /// It is no matter of the cache.
    Uncacheable,
}

impl Cache {
    pub(super) fn new(config: CacheConfig) -> Self {
        Self { store: CacheStore::new(config), pending_fills: BTreeMap::new() }
    }

    /// A request has gone out.
    pub(super) fn note_sent(&mut self, number: i64, fill: Option<Box<CacheFill>>) {
        if let Some(fill) = fill {
            self.pending_fills.insert(number, fill);
        }
    }
}

impl Client {
    // --- Commands ---

    /// Sets the authorization context of later requests.
    pub(crate) fn set_cache_context(&mut self, context: CacheContext) {
        self.cache.store.set_context(context);
    }

    /// Ends the authorization context.
    pub(crate) fn end_cache_context(&mut self) {
        self.cache.store.end_contexts();
    }

    /// Clears the cache of answers.
    pub(crate) fn clear_cache(&mut self) {
        self.cache.store.clear();
    }

    // --- Getters ---

    /// How full the cache is.
    pub fn cache_usage(&self) -> CacheUsage {
        CacheUsage { entries: self.cache.store.len(), bytes: self.cache.store.bytes() }
    }

    // --- What the other files share ---

    /// Whether there is an answer to a request already.
    pub(super) fn look_up(&mut self, now: Instant, request: &OutgoingRequest<'_>) -> CacheLookup {
        let Some(info) = request.info.filter(|info| info.cacheable) else { return CacheLookup::Uncacheable };
        let legacy = self.era() == Some(Era::Legacy) || self.config.era_policy == EraPolicy::LegacyOnly;
        if legacy || request.options.cache == CacheMode::Bypass || !self.cache.store.is_enabled() {
            return CacheLookup::Uncacheable;
        }
        let mut params = Vec::new();
        if request.params.write_key(&mut params).is_err() {
            return CacheLookup::Uncacheable;
        }
        let Some(key) = CacheRequest::new(info, params) else { return CacheLookup::Uncacheable };
        let mut fallback = Fallback::None;
        if request.options.cache == CacheMode::Use {
            if matches!(self.phase, Phase::Ready)
                && let Some(result) = self.cache.store.find(now, &key)
            {
                return CacheLookup::Hit(result);
            }
            fallback = Fallback::Stale;
        }
        CacheLookup::Miss(Box::new(self.cache.store.begin_fill(now, key, fallback)))
    }

    /// What an answer means for what is kept: it is kept itself, or shows that something is out of date.
    pub(super) fn store_answer(
        &mut self,
        now: Instant,
        number: i64,
        info: Option<&'static MethodInfo>,
        outcome: &Outcome,
    ) {
        match outcome {
            Outcome::Result(result) => {
                if let Some(fill) = self.cache.pending_fills.remove(&number) {
                    let lease = if self.era() == Some(Era::Modern) { read_freshness(result) } else { None };
                    self.cache.store.insert(now, *fill, result, lease);
                }
            }
            // What comes after the input depends on it.
            Outcome::InputRequired(_) => {
                self.cache.pending_fills.remove(&number);
            }
            Outcome::Error(error) => {
                let fill = self.cache.pending_fills.remove(&number);
                if error.code == code::INVALID_PARAMS
                    && let Some(request) = fill.as_ref().map(|fill| fill.request())
                    && request.has_cursor()
                {
                    self.invalidate(request.method);
                }
                let unknown = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::RESOURCE_NOT_FOUND]
                    .contains(&error.code);
                if let Some(list) = info.and_then(|info| info.listed_by).filter(|_| unknown) {
                    self.invalidate(list);
                }
            }
            _ => {}
        }
    }

    /// How a request is to end: as it did, unless it failed in a way for which an old answer will do.
    pub(super) fn stale_fallback(&mut self, number: i64, outcome: Outcome) -> Outcome {
        let Some(fill) = self.cache.pending_fills.remove(&number) else { return outcome };
        if !is_transport_failure(&outcome) {
            return outcome;
        }
        match self.cache.store.stale_answer(&fill) {
            Some(result) => {
                let method = fill.request().method;
                self.diagnose(Diagnostic::AnsweredStale { method, reason: outcome.to_string() });
                Outcome::Result(result)
            }
            None => outcome,
        }
    }

    /// The answers of a method that are kept, or on their way, are out of date.
    pub(crate) fn invalidate(&mut self, method: &'static str) {
        self.cache.store.invalidate_method(method);
    }

    /// A watch is on: what was kept of its subjects before may have changed since, and nobody was told.
    pub(super) fn invalidate_unwatched(&mut self, watch: WatchId, missing: &WatchFilter) {
        let covered =
            self.watches.as_ref().map_or_else(Vec::new, |watching| watching.covered_topics(watch, missing));
        for topic in covered {
            match topic {
                Topic::Tools => self.invalidate(ListTools::NAME),
                Topic::Prompts => self.invalidate(ListPrompts::NAME),
                Topic::Resources => {
                    self.invalidate(ListResources::NAME);
                    self.invalidate(ListResourceTemplates::NAME);
                }
                Topic::Resource(uri) => self.cache.store.invalidate_subject(ReadResource::NAME, &uri),
                Topic::Task(_) => {}
            }
        }
    }

    /// What a notification of the server's puts out of date.
    pub(super) fn invalidate_changed(&mut self, notification: &str, params: Option<&Raw>) {
        if !self.cache.store.is_enabled() {
            return;
        }
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let Some(news) = NotificationInfo::find(notification, Direction::ServerToClient, revision) else {
            return;
        };
        for &method in news.outdates {
            let info = MethodInfo::find(method, Direction::ClientToServer, revision);
            match info.and_then(|info| info.subject) {
                None => self.invalidate(method),
                Some(name) => match params
                    .and_then(|params| peek::<alloc::string::String>(params.as_str(), name).ok()?)
                {
                    Some(Ok(subject)) => self.cache.store.invalidate_subject(method, &subject),
                    // It may be any of them.
                    _ => self.invalidate(method),
                },
            }
        }
    }
}

/// Whether the server, rather than answering, could not be reached or does not answer.
fn is_transport_failure(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Lost(LostReason::Disconnected(_) | LostReason::Failed(_) | LostReason::KeepaliveFailed)
        | Outcome::TimedOut { .. }
        | Outcome::Refused(RequestError::Connect(_)) => true,
        Outcome::Transport(error) => error.is_unavailable,
        _ => false,
    }
}

/// What a result says of how long and by whom it may be kept. One that is no JSON, or says it in an odd way, is not kept.
fn read_freshness(result: &Raw) -> Option<Freshness> {
    #[derive(Deserialize)]
    struct Hints<'a> {
        /// Some languages write `60000.0`.
        #[serde(rename = "ttlMs")]
        ttl: Option<f64>,
        #[serde(borrow, rename = "cacheScope")]
        scope: Option<Cow<'a, str>>,
    }

    // Most answers that may be kept may be for no time at all, and some are large.
    memmem::find(result.as_bytes(), b"ttlMs")?;
    let hints: Hints<'_> = result.decode().ok()?;
    // Negative ones become zero.
    let ttl = Duration::from_millis(hints.ttl? as u64);
    let public = hints.scope.as_deref() == Some(CacheScope::Public.as_str());
    let scope = if public { CacheScope::Public } else { CacheScope::Private };
    Some(Freshness { ttl, scope })
}
