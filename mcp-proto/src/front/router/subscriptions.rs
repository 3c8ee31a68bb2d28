//! Access control for subscriptions to resources.

use super::{HandlerMode, Router};
use crate::peer::Principal;
use crate::peer::server::SubscriptionAccess;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Restricts the resources to whose changes a client may subscribe. By default every URI is granted, also one that
    /// the router has no resource for.
    ///
    /// `allows` takes the URI and the principal of the request, if the transport knows one. A client of 2026-07-28
    /// receives the acknowledgement of its subscription without the refused URIs; an older one receives the error of a
    /// resource that does not exist. Reading a resource is not affected: its handler checks that.
    ///
    /// The server calls `allows` in the middle of its work: it must return quickly, and must not use the server's
    /// handles.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::ServerCapability;
    ///
    /// let router = Router::new("mail", "1.0.0")
    ///     .declare(ServerCapability::ResourcesSubscribe)
    ///     .subscription_access(|uri, principal| match principal {
    ///         Some(principal) => uri.starts_with(&format!("mail:///{}/", principal.as_str())),
    ///         None => uri == "mail:///status",
    ///     });
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#acknowledgment>
    #[must_use]
    pub fn subscription_access(
        mut self,
        allows: impl Fn(&str, Option<&Principal>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.contents.subscription_access = Some(SubscriptionAccess::new(allows));
        self
    }
}
