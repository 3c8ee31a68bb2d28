//! The router as servers hold it.

use alloc::sync::{Arc, Weak};
use core::fmt;

use super::change_listeners::{ChangeListener, ListenerGuard};
use super::live_router::{LiveRouter, LiveState};
use super::{HandlerMode, Router, SendHandlers};

/// A router as servers hold it, whatever the type of its state. Everything that serves takes
/// `impl Into<ServedRouter<M>>`: a [`Router`], an `Arc` of one, or a [`LiveRouter`].
pub struct ServedRouter<M: HandlerMode = SendHandlers>(Contents<M>);

enum Contents<M: HandlerMode> {
    Static(Arc<Router<M>>),
    Live(Arc<LiveState<M>>),
}

impl<M: HandlerMode> ServedRouter<M> {
    /// The present contents of the router, for a server's [configuration](Router::config) and for
    /// [checks](Router::check).
    pub fn router(&self) -> Arc<Router<M>> {
        //= S8.1 "Lists do not vary per connection"
        match &self.0 {
            Contents::Static(router) => router.clone(),
            Contents::Live(live) => live.router(),
        }
    }

    /// A router with these contents for as long as it is served.
    pub(crate) fn unchanging(router: Arc<Router<M>>) -> Self {
        Self(Contents::Static(router))
    }

    /// Makes `listener` publish the changes of a live router until the returned value is dropped.
    pub(crate) fn listen(&self, listener: Weak<dyn ChangeListener>) -> Option<ListenerGuard> {
        match &self.0 {
            Contents::Static(_) => None,
            Contents::Live(live) => Some(live.listeners.add(listener)),
        }
    }
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Removes the state's type, and checks the router: an invalid one answers all requests with the error.
    pub(super) fn into_served(self) -> Router<M> {
        let mut router = self.replace_state(Arc::default());
        if let Err(error) = router.check() {
            router.record_error(error);
        }
        router
    }
}

impl<M: HandlerMode, S: 'static> From<Router<M, S>> for ServedRouter<M> {
    fn from(router: Router<M, S>) -> Self {
        Self(Contents::Static(Arc::new(router.into_served())))
    }
}

impl<M: HandlerMode, S: 'static> From<Arc<Router<M, S>>> for ServedRouter<M> {
    fn from(router: Arc<Router<M, S>>) -> Self {
        Arc::unwrap_or_clone(router).into()
    }
}

impl<M: HandlerMode, S: 'static> From<LiveRouter<M, S>> for ServedRouter<M> {
    fn from(router: LiveRouter<M, S>) -> Self {
        Self(Contents::Live(router.into_shared()))
    }
}

impl<M: HandlerMode> Clone for ServedRouter<M> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Contents::Static(router) => Contents::Static(router.clone()),
            Contents::Live(live) => Contents::Live(live.clone()),
        })
    }
}

impl<M: HandlerMode> fmt::Debug for ServedRouter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.router().fmt(f)
    }
}
