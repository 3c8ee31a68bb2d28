//! Access control for subscriptions to resources.

use alloc::sync::Arc;
use core::fmt;

use crate::peer::Principal;

/// Access check for subscriptions to resources: whether a principal may learn of the changes of a URI.
///
/// ```
/// use mcp_proto::peer::server::{ServerConfig, SubscriptionAccess};
/// use mcp_proto::schema::Implementation;
///
/// let mut config = ServerConfig::new(Implementation::new("notes", "1.0.0"));
/// config.subscription_access =
///     Some(SubscriptionAccess::new(|uri, principal| uri.starts_with("note:") && principal.is_some()));
/// ```
#[derive(Clone)]
pub struct SubscriptionAccess(Arc<SubscriptionAccessFn>);

type SubscriptionAccessFn = dyn Fn(&str, Option<&Principal>) -> bool + Send + Sync;

impl SubscriptionAccess {
    /// Creates a check from a closure over URI and principal. The server calls it once for each URI that a client asks
    /// for, in the middle of its work; the closure must not use that server.
    pub fn new(allows: impl Fn(&str, Option<&Principal>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    pub(super) fn allows(&self, uri: &str, principal: Option<&Principal>) -> bool {
        (self.0)(uri, principal)
    }
}

impl fmt::Debug for SubscriptionAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionAccess").finish_non_exhaustive()
    }
}
