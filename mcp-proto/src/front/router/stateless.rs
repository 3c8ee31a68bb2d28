//! Routers that are served without sessions.

use super::{HandlerMode, Router, RouterError};
use crate::schema::ServerCapability;

/// What legacy clients get only in a session.
const NEED_SESSIONS: [ServerCapability; 5] = [
    ServerCapability::ResourcesSubscribe,
    ServerCapability::ToolsListChanged,
    ServerCapability::ResourcesListChanged,
    ServerCapability::PromptsListChanged,
    ServerCapability::Logging,
];

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Checks all registrations, and that legacy clients can be served without sessions
    /// (`HttpServerConfig::stateless`): the router must declare neither subscriptions nor changed lists nor log messages.
    ///
    /// ```
    /// use mcp_proto::front::{Router, RouterError};
    /// use mcp_proto::schema::ServerCapability;
    ///
    /// let router = Router::new("notes", "1.0.0");
    /// assert!(router.check_stateless().is_ok());
    /// let error = router.declare(ServerCapability::ResourcesSubscribe).check_stateless().unwrap_err();
    /// assert_eq!(error, RouterError::NeedsSession { capability: ServerCapability::ResourcesSubscribe });
    /// ```
    ///
    /// # Errors
    /// The first invalid registration, or the first capability that needs sessions.
    pub fn check_stateless(&self) -> Result<(), RouterError> {
        self.check()?;
        match NEED_SESSIONS.into_iter().find(|capability| self.capabilities().has(*capability)) {
            Some(capability) => Err(RouterError::NeedsSession { capability }),
            None => Ok(()),
        }
    }
}
