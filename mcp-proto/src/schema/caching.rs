//! How long and by whom a result may be kept.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>

use core::time::Duration;

use super::method::ResultFields;
use crate::schema::CacheScope;

/// How long and by whom a result may be kept.
///
/// A hint changes nothing about who may ask: a server checks each request by itself, whatever it said of the answer to
/// the one before.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::schema::{CacheHint, CacheScope};
///
/// let hint = CacheHint::public(Duration::from_secs(60));
/// assert_eq!((hint.ttl_ms, hint.scope), (60_000, CacheScope::Public));
/// assert_eq!(CacheHint::default(), CacheHint::none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheHint {
    /// How long, in milliseconds from when it is received. Default 0: not at all.
    pub ttl_ms: u64,
    /// By whom. Default: only who asked.
    pub scope: CacheScope,
}

impl CacheHint {
    /// Not at all.
    pub const fn none() -> Self {
        Self { ttl_ms: 0, scope: CacheScope::Private }
    }

    /// For this long, by anyone. Gateways may show the result to people who never asked for it: only for what is the
    /// same for all of them, and secret from none.
    pub const fn public(ttl: Duration) -> Self {
        Self { ttl_ms: milliseconds(ttl), scope: CacheScope::Public }
    }

    /// For this long, on behalf of who asked.
    pub const fn private(ttl: Duration) -> Self {
        Self { ttl_ms: milliseconds(ttl), scope: CacheScope::Private }
    }
}

impl Default for CacheHint {
    fn default() -> Self {
        Self::none()
    }
}

/// The greatest whole number that every reader of JSON takes for what it is.
const LONGEST_MS: u64 = (1 << 53) - 1;

const fn milliseconds(ttl: Duration) -> u64 {
    let ms = ttl.as_millis();
    if ms > LONGEST_MS as u128 { LONGEST_MS } else { ms as u64 }
}

/// A result that says how long and by whom it may be kept.
pub trait Cacheable: ResultFields {
    /// Sets how long, in milliseconds.
    fn set_ttl_ms(&mut self, ttl_ms: u64);

    /// Sets by whom; `None` leaves that to the configuration of the server.
    fn set_cache_scope(&mut self, scope: Option<CacheScope>);
}

/// A result with its hint: what a handler of `server/discover` or `resources/read` returns that somebody writes by
/// hand, and what the handler of a single resource may return.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::schema::{CacheHint, Cached};
///
/// let text = Cached::new(CacheHint::private(Duration::from_secs(10)), "what the handler has read");
/// # drop(text);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cached<T> {
    /// How long and by whom it may be kept.
    pub hint: CacheHint,
    /// The result.
    pub result: T,
}

impl<T> Cached<T> {
    /// A result that may be kept as `with_hint` says.
    pub const fn new(hint: CacheHint, result: T) -> Self {
        Self { hint, result }
    }
}

/// A page of a list, and how long it may be kept: what a handler of a list returns that somebody writes by hand.
///
/// By whom is not a question of a page: it must be the same for all pages of a list, and is part of the configuration
/// of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedPage<T> {
    /// How long it may be kept.
    pub ttl: Duration,
    /// The page.
    pub result: T,
}

impl<T> CachedPage<T> {
    /// A page that may be kept for this long; zero stands for not at all.
    pub const fn new(ttl: Duration, result: T) -> Self {
        Self { ttl, result }
    }
}

/// What a handler returns that leads to the result `R`: the result itself, or where it may be kept, the result with
/// what is to be said of that.
pub trait IntoResult<R> {
    /// The result, with its hints.
    fn into_result(self) -> R;
}

impl<R: ResultFields> IntoResult<R> for R {
    fn into_result(self) -> R {
        self
    }
}

impl<R: Cacheable> IntoResult<R> for Cached<R> {
    fn into_result(mut self) -> R {
        self.result.set_ttl_ms(self.hint.ttl_ms);
        self.result.set_cache_scope(Some(self.hint.scope));
        self.result
    }
}

impl<R: Cacheable> IntoResult<R> for CachedPage<R> {
    fn into_result(mut self) -> R {
        self.result.set_ttl_ms(milliseconds(self.ttl));
        self.result.set_cache_scope(None);
        self.result
    }
}
