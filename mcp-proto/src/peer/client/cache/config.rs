//! What may be kept.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

/// How much a client keeps of a server's answers, and for whom.
///
/// Only a server of 2026-07-28 says how long its answers may be kept; nothing is kept of others.
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
    /// How many bytes are kept, with what they are found by. An answer that would fill more than a quarter of it is not
    /// kept. Zero keeps nothing.
    ///
    /// Default 16 MiB: the lists of a server with thousands of tools, and the resources that a model reads again.
    pub bytes: usize,
    /// How many answers are kept; each page of a list is one. Those that were not used for longest go first.
    ///
    /// Default 1,024.
    pub entries: usize,
    /// Whether answers for one context alone are kept too, as most are.
    ///
    /// Default true. Turn it off where [the context](Self::context) may change without this client's knowledge: then only
    /// answers that the server calls public are kept.
    pub private: bool,
    /// On whose behalf this client asks. Default: the one and only.
    pub context: CacheContext,
    /// For how long after its time an answer will still do if the server can not be asked again: the connection is lost,
    /// or no answer comes in time. A diagnostic tells of it.
    ///
    /// Default zero: not at all.
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
    /// Nothing is kept.
    pub fn disabled() -> Self {
        Self { bytes: 0, entries: 0, ..Self::default() }
    }
}

/// On whose behalf requests are made: an account, an access token's fingerprint. What a server means for one of them
/// alone is never shown to another.
///
/// It is compared and nothing else. It is not shown by `Debug`; a secret should nevertheless be hashed first.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheContext(Option<Arc<str>>);

impl CacheContext {
    /// Whoever goes by this name.
    pub fn new(name: &str) -> Self {
        Self(Some(Arc::from(name)))
    }

    /// How many bytes it holds.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |name| name.len())
    }
}

impl fmt::Debug for CacheContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CacheContext(..)" } else { "CacheContext(default)" })
    }
}
