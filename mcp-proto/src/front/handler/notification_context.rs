//! The context of a notification's handler.

use alloc::sync::Arc;

use crate::front::mode::HandlerContext;
use crate::peer::Principal;
use crate::quota::QuotaOwner;

/// The sender of a notification, for its handler.
///
/// `S` is the [state of the router](crate::front::Router::with_state), if it has one.
#[derive(Debug)]
pub struct NotificationContext<S = ()> {
    principal: Option<Principal>,
    owner: QuotaOwner,
    state: Arc<S>,
}

impl NotificationContext {
    pub(in crate::front) fn new(principal: Option<Principal>, owner: QuotaOwner) -> Self {
        Self { principal, owner, state: Arc::default() }
    }
}

impl<S> NotificationContext<S> {
    /// The principal on whose behalf the notification is sent, if the transport knows one.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The owner whose quota the notification uses: its principal, or the address it came from.
    pub fn owner(&self) -> QuotaOwner {
        self.principal.clone().map_or_else(|| self.owner.clone(), QuotaOwner::from)
    }

    /// The state of the router.
    pub fn state(&self) -> &S {
        &self.state
    }
}

impl<S: 'static> HandlerContext for NotificationContext<S> {
    type Plain = NotificationContext;
    type State = S;

    fn with_state(plain: NotificationContext, state: &Arc<S>) -> Self {
        Self { principal: plain.principal, owner: plain.owner, state: state.clone() }
    }
}

impl<S> Clone for NotificationContext<S> {
    fn clone(&self) -> Self {
        Self { principal: self.principal.clone(), owner: self.owner.clone(), state: self.state.clone() }
    }
}
