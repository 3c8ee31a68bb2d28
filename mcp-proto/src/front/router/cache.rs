//! Cache hints of a router's results.

use super::{HandlerMode, Router};
use crate::schema::{CacheHint, Method};

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the cache hint of a method's results that have none themselves: lists, resources, `server/discover`. By
    /// default, results are [not cached](CacheHint::none).
    ///
    /// All pages of a list have the same cache scope, as the specification demands: a handler of the list method can
    /// set the lifetime of a page, but not its scope.
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
        self.contents.cache_hints.insert(T::NAME, hint);
        self
    }
}
