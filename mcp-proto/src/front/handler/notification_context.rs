//! The context of a notification's handler.

use crate::peer::Principal;
use crate::quota::QuotaOwner;

/// The sender of a notification, for its handler.
#[derive(Clone, Debug)]
pub struct NotificationContext {
    principal: Option<Principal>,
    owner: QuotaOwner,
}

impl NotificationContext {
    pub(in crate::front) fn new(principal: Option<Principal>, owner: QuotaOwner) -> Self {
        Self { principal, owner }
    }

    /// The principal on whose behalf the notification is sent, if the transport knows one.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The owner whose quota the notification uses: its principal, or the address it came from.
    pub fn owner(&self) -> QuotaOwner {
        self.principal.clone().map_or_else(|| self.owner.clone(), QuotaOwner::from)
    }
}
