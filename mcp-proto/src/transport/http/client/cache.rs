//! The commands of the cache of answers.

use crate::peer::client::CacheContext;

use super::HttpClient;

impl HttpClient {
    /// Makes requests on behalf of another from now on: see
    /// [`Client::set_cache_context`](crate::peer::client::Client::set_cache_context).
    pub fn set_cache_context(&mut self, context: CacheContext) {
        self.peer.set_cache_context(context);
    }

    /// Ends the authorization context: see
    /// [`Client::end_cache_context`](crate::peer::client::Client::end_cache_context).
    pub fn end_cache_context(&mut self) {
        self.peer.end_cache_context();
    }

    /// Forgets every answer that was kept.
    pub fn clear_cache(&mut self) {
        self.peer.clear_cache();
    }
}
