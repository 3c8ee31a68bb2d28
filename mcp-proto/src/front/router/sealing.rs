//! The sealing of request states, which clients of 2026-07-28 store between input rounds.

use alloc::sync::Arc;
use core::time::Duration;

use super::{HandlerMode, Router};
use crate::front::handler::input_rounds::SingleUse;
use crate::peer::server::Sealer;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the keys that seal request states.
    ///
    /// The states serve handlers that [request input](crate::front::Context::elicit) from clients of 2026-07-28.
    /// Instances of a server must share the keys if a client's requests may reach any of them.
    ///
    /// Without this, states are sealed with a random key that only this router holds: valid for one process, until it
    /// ends.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::peer::server::{SealKey, Sealer};
    ///
    /// # fn secret(name: &str) -> [u8; 32] { [7; 32] }
    /// // The newest key first, then the previous key for as long as states sealed with it are valid.
    /// let sealer = Sealer::new(SealKey::new(secret("2026-08")), [SealKey::new(secret("2026-07"))]);
    /// let router = Router::new("shop", "1.0.0").seal(sealer);
    /// # drop(router);
    /// ```
    pub fn seal(mut self, sealer: Sealer) -> Self {
        Arc::make_mut(&mut self.contents.sealing).set_sealer(sealer);
        self
    }

    /// Sets the lifetime of a request state, which is the time that a client has for its answers. Default ten minutes.
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        Arc::make_mut(&mut self.contents.sealing).lifetime = lifetime;
        self
    }

    /// Makes each request state valid for one use, recorded in `store`. Otherwise a client can send the same answers
    /// again until their state expires, which is harmless for most servers.
    ///
    /// With a store, a client that loses the connection while it sends its answers must start its request over.
    pub fn single_use(mut self, store: Arc<dyn SingleUse>) -> Self {
        Arc::make_mut(&mut self.contents.sealing).single_use = Some(store);
        self
    }
}
