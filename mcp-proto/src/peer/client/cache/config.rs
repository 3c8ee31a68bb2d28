//! Configuration of the cache, and the authorization context of its answers.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

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
pub struct CacheConfig {
    /// The size of the cache in bytes, keys included. An answer that would fill more than a quarter of it is not
    /// cached. Zero disables the cache.
    ///
    /// Default 16 MiB: the lists of a server with thousands of tools, and the resources that a model reads again.
    pub bytes: usize,
    /// The maximum number of cached answers; each page of a list is one. The least recently used are evicted first.
    ///
    /// Default 1,024.
    pub entries: usize,
    /// Whether private answers, which are most, are cached too: the server means them for one context alone.
    ///
    /// Default true. Turn it off where [the context](Self::context) may change without this client's knowledge: then
    /// only answers that the server marks as public are cached.
    pub private: bool,
    /// The authorization context of this client's requests. Default: an unnamed one.
    pub context: CacheContext,
    /// How long an expired answer may still be used if the server cannot be asked again: the connection is lost, or no
    /// answer arrives in time. A diagnostic reports each use.
    ///
    /// Default zero: expired answers are never used.
    pub stale_if_error: Duration,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            entries: 1024,
            private: true,
            context: CacheContext::default(),
            stale_if_error: Duration::ZERO,
        }
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
pub struct CacheContext(Option<Arc<str>>);

impl CacheContext {
    /// The context of this name.
    pub fn new(name: &str) -> Self {
        Self(Some(Arc::from(name)))
    }

    /// The size of the name in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |name| name.len())
    }
}

impl fmt::Debug for CacheContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CacheContext(..)" } else { "CacheContext(default)" })
    }
}
