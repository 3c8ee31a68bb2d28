//! How a router's handlers ask clients of 2026-07-28: by states that the clients keep.

use alloc::sync::Arc;
use core::time::Duration;

use super::{HandlerMode, Router};
use crate::front::handler::input_rounds::{Sealing, SingleUse};
use crate::peer::server::Sealer;

impl<M: HandlerMode> Router<M> {
    /// The keys that request states are sealed with, where handlers [ask](crate::front::Context::elicit) clients of
    /// 2026-07-28. Instances of a server between which requests are spread must share them.
    ///
    /// Without this, states are sealed with a random key that nobody but this value knows: good for one process, and
    /// until it ends.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::peer::server::{SealKey, Sealer};
    ///
    /// # fn secret(name: &str) -> [u8; 32] { [7; 32] }
    /// // The newest key first; the one before for as long as states sealed with it are good.
    /// let sealer = Sealer::new(SealKey::new(secret("2026-08")), [SealKey::new(secret("2026-07"))]);
    /// let router = Router::new("shop", "1.0.0").seal(sealer);
    /// # drop(router);
    /// ```
    #[must_use]
    pub fn seal(mut self, sealer: Sealer) -> Self {
        Arc::make_mut(&mut self.sealing).set_sealer(sealer);
        self
    }

    /// How long a client may take for its answers, and so how long a request state is good for: ten minutes unless told
    /// otherwise.
    #[must_use]
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        Arc::make_mut(&mut self.sealing).lifetime = lifetime;
        self
    }

    /// Lets each request state be used once, as `store` remembers. Otherwise a client can send the same answers again
    /// until their state lapses, which most servers need not mind.
    ///
    /// A client that loses the connection while it sends its answers has to begin again, then.
    #[must_use]
    pub fn single_use(mut self, store: Arc<dyn SingleUse>) -> Self {
        Arc::make_mut(&mut self.sealing).single_use = Some(store);
        self
    }

    pub(crate) fn sealing(&self) -> &Arc<Sealing> {
        &self.sealing
    }
}
