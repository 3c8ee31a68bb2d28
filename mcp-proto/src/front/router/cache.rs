//! How long and by whom the results of a router may be kept.

use super::{HandlerMode, Router};
use crate::schema::{CacheHint, Method};

impl<M: HandlerMode> Router<M> {
    /// Says how long and by whom the results of a method may be kept that do not say so themselves: lists, resources,
    /// what the server says of itself. Unless told, [nothing is kept](CacheHint::none).
    ///
    /// All pages of a list are kept by the same, as the specification demands: a page of its own making can say how long
    /// it may be kept, but not by whom.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::{CacheHint, ListTools};
    ///
    /// let router = Router::new("calculator", "1.0.0")
    ///     .cache::<ListTools>(CacheHint::public(Duration::from_secs(3600)));
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
    #[must_use]
    pub fn cache<T: Method<Result: crate::schema::Cacheable>>(mut self, hint: CacheHint) -> Self {
        self.cache_hints.insert(T::NAME, hint);
        self
    }
}
