//! Names of the protocol that messages by name alone must not have, because the engine's own commands send them.

use alloc::string::ToString;

use super::RequestError;
use crate::schema::{
    Cancelled, ElicitationComplete, Initialize, Initialized, LoggingMessage, Method, Notification, Progress,
    PromptListChanged, ResourceListChanged, ResourceUpdated, SubscriptionsAcknowledged, SubscriptionsListen,
    ToolListChanged, tasks,
};

fn check(method: &str, instead: Option<&'static str>) -> Result<(), RequestError> {
    match instead {
        Some(instead) => Err(RequestError::Reserved { method: method.to_string(), instead }),
        None => Ok(()),
    }
}

/// Checks the name of a client's request.
///
/// # Errors
/// [`RequestError::Reserved`] if another command sends it.
pub(super) fn check_request(method: &str) -> Result<(), RequestError> {
    check(
        method,
        match method {
            Initialize::NAME => Some("the connection, which performs the handshake"),
            SubscriptionsListen::NAME => Some("`subscribe` or `watch`"),
            _ => None,
        },
    )
}

/// Checks the name of a client's notification.
///
/// # Errors
/// [`RequestError::Reserved`] if another command sends it.
pub(super) fn check_client_notification(method: &str) -> Result<(), RequestError> {
    check(
        method,
        match method {
            Initialized::NAME => Some("the connection, which performs the handshake"),
            Cancelled::NAME => Some("`cancel`"),
            Progress::NAME => Some("`notify` with the type `ClientProgress`"),
            _ => None,
        },
    )
}

/// Checks the name of a server's notification.
///
/// # Errors
/// [`RequestError::Reserved`] if another command sends it.
pub(crate) fn check_server_notification(method: &str) -> Result<(), RequestError> {
    check(
        method,
        match method {
            Cancelled::NAME => Some("`cancel`"),
            Progress::NAME => Some("`progress`"),
            LoggingMessage::NAME => Some("`log`"),
            ResourceUpdated::NAME => Some("`resource_updated`"),
            ResourceListChanged::NAME | ToolListChanged::NAME | PromptListChanged::NAME => {
                Some("`list_changed`")
            }
            ElicitationComplete::NAME => Some("`elicitation_complete`"),
            SubscriptionsAcknowledged::NAME => Some("the answer to `subscriptions/listen`"),
            tasks::TaskUpdated::NAME => Some("`task_updated`"),
            tasks::legacy::TaskStatusChanged::NAME => Some("`notify_session`"),
            _ => None,
        },
    )
}
