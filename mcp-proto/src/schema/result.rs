//! Kinds of results, and how long they may be cached.

use alloc::borrow::Cow;
use core::fmt;
use core::time::Duration;

use super::read::{Fit, Read, read_text};
use super::write::text_impls;
use super::{CacheScope, ResultFields};
use crate::prelude::*;
use crate::rpc::{Raw, first_member};

/// Kind of a result: its `resultType`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#result-types>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultType {
    /// The method's own result. A result without `resultType` is of this kind.
    Complete,
    /// An [`InputRequiredResult`](super::InputRequiredResult).
    InputRequired,
    /// A [`CreateTaskResult`](super::tasks::CreateTaskResult) of the tasks extension.
    Task,
    /// Another kind; the result is invalid unless an extension defines it.
    Other(Box<str>),
}

impl ResultType {
    /// The kind as written on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for ResultType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Read for ResultType {
    const EXPECTED: &'static str = "a string";

    fn from_text(name: Cow<'_, str>) -> Fit<Self> {
        Ok(match &*name {
            "complete" => Self::Complete,
            "input_required" => Self::InputRequired,
            "task" => Self::Task,
            _ => Self::Other(name.into()),
        })
    }
}

text_impls!(ResultType);

impl ResultType {
    /// Reads the kind of the result `raw` without decoding the rest; reading stops at `resultType`.
    ///
    /// # Errors
    /// If it is not an object, or its `resultType` is not a string.
    pub fn from_result(raw: &Raw) -> Result<Self, serde_json::Error> {
        result_type(raw.as_str())
    }
}

/// Reads the kind of the result `text` without decoding the rest; reading stops at `resultType`.
///
/// ```
/// use mcp_proto::schema::{ResultType, result_type};
///
/// assert_eq!(result_type(r#"{"resultType":"input_required","requestState":"x"}"#)?, ResultType::InputRequired);
/// assert_eq!(result_type(r#"{"tools":[]}"#)?, ResultType::Complete);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// If `text` is not an object, or its `resultType` is not a string.
pub fn result_type(text: &str) -> Result<ResultType, serde_json::Error> {
    first_member(text, "resultType")?.map_or(Ok(ResultType::Complete), kind_of)
}

fn kind_of(json: &str) -> Result<ResultType, serde_json::Error> {
    if json == "\"complete\"" { Ok(ResultType::Complete) } else { read_text(json) }
}

/// Cache hint of a result: how long and by whom it may be cached.
///
/// A hint does not affect access control: the server checks each request on its own, whatever hint an earlier result
/// carried.
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
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct CacheHint {
    /// Time to live in milliseconds from receipt. Default 0: not cached.
    pub ttl_ms: u64,
    /// Cache scope. Default: private.
    pub scope: CacheScope,
}

impl CacheHint {
    /// Not cacheable.
    pub const fn none() -> Self {
        //= S7.3 "`public` only for data free of user content"
        Self { ttl_ms: 0, scope: CacheScope::Private }
    }

    /// Cacheable by anyone for `ttl`. Gateways may serve the result to other clients: use this only for results that
    /// are the same for all clients and not secret.
    pub const fn public(ttl: Duration) -> Self {
        Self { ttl_ms: milliseconds(ttl), scope: CacheScope::Public }
    }

    /// Cacheable for `ttl` on behalf of the requesting client only.
    pub const fn private(ttl: Duration) -> Self {
        Self { ttl_ms: milliseconds(ttl), scope: CacheScope::Private }
    }
}

impl Default for CacheHint {
    fn default() -> Self {
        Self::none()
    }
}

/// The greatest integer that every JSON reader represents exactly.
const LONGEST_MS: u64 = (1 << 53) - 1;

const fn milliseconds(ttl: Duration) -> u64 {
    let ms = ttl.as_millis();
    if ms > LONGEST_MS as u128 { LONGEST_MS } else { ms as u64 }
}

/// A result with a time to live and a cache scope.
pub trait Cacheable: ResultFields {
    /// Sets the time to live in milliseconds.
    fn set_ttl_ms(&mut self, ttl_ms: u64);

    /// Sets the cache scope; `None` leaves it to the server's configuration.
    fn set_cache_scope(&mut self, scope: Option<CacheScope>);
}

/// A result with its cache hint.
///
/// A handler registered for `server/discover` or `resources/read` as a whole returns this; the handler of a single
/// resource may return it.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::schema::{CacheHint, Cached};
///
/// let text = Cached::new(CacheHint::private(Duration::from_secs(10)), "the contents of the resource");
/// # drop(text);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cached<T> {
    /// How long and by whom the result may be cached.
    pub hint: CacheHint,
    /// The result.
    pub result: T,
}

impl<T> Cached<T> {
    /// Attaches a hint to a result.
    pub const fn new(hint: CacheHint, result: T) -> Self {
        Self { hint, result }
    }
}

/// A page of a list with its time to live.
///
/// A handler registered for a list method as a whole returns this. It has no cache scope, because all pages of a list
/// must have the same one: the server's configuration sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedPage<T> {
    /// Time to live from receipt.
    pub ttl: Duration,
    /// The page.
    pub result: T,
}

impl<T> CachedPage<T> {
    /// Attaches a time to live to a page; zero means that the page is not cached.
    pub const fn new(ttl: Duration, result: T) -> Self {
        Self { ttl, result }
    }
}

/// Return value of a handler for a method with the result `R`.
///
/// This is the result itself or, for a cacheable method, the result with a cache hint.
pub trait IntoResult<R> {
    /// Converts it to the result, with its cache hint.
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
        //= S7.2 "Same cacheScope over all pages of a list"
        self.result.set_cache_scope(None);
        self.result
    }
}
