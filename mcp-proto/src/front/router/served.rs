//! The router as servers hold it.

use alloc::sync::Arc;
use core::fmt;

use super::{HandlerMode, Router, SendHandlers};

/// A router as servers hold it, whatever the type of its state. Everything that serves takes
/// `impl Into<ServedRouter<M>>`: a [`Router`] or an `Arc` of one.
pub struct ServedRouter<M: HandlerMode = SendHandlers>(Arc<Router<M>>);

impl<M: HandlerMode> ServedRouter<M> {
    /// The present contents of the router, for a server's [configuration](Router::config) and for
    /// [checks](Router::check).
    pub fn router(&self) -> Arc<Router<M>> {
        self.0.clone()
    }

    /// A router with these contents for as long as it is served.
    #[cfg(feature = "http")]
    pub(crate) fn unchanging(router: Arc<Router<M>>) -> Self {
        Self(router)
    }
}

impl<M: HandlerMode, S: 'static> From<Router<M, S>> for ServedRouter<M> {
    fn from(router: Router<M, S>) -> Self {
        Self(Arc::new(router.replace_state(Arc::default())))
    }
}

impl<M: HandlerMode, S: 'static> From<Arc<Router<M, S>>> for ServedRouter<M> {
    fn from(router: Arc<Router<M, S>>) -> Self {
        Arc::unwrap_or_clone(router).into()
    }
}

impl<M: HandlerMode> Clone for ServedRouter<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: HandlerMode> fmt::Debug for ServedRouter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.router().fmt(f)
    }
}
