//! Names of the protocol that messages by name alone must not have, because the engine's own commands send them.

use super::RequestError;
use crate::prelude::*;
use crate::schema::{
    Cancelled, ElicitationComplete, Initialize, Initialized, LoggingMessage, Method, MethodInfo,
    Notification, NotificationInfo, Progress, PromptListChanged, ResourceListChanged, ResourceUpdated,
    SubscriptionsAcknowledged, SubscriptionsListen, ToolListChanged, tasks,
};

/// The command to use for a name that the tasks extension reserves.
const OUTSIDE_OF_TASKS: Option<&str> = Some("a name with a prefix of your own, such as `com.example/`");

/// Whether the tasks extension reserves a name that the protocol does not define.
///
/// <https://modelcontextprotocol.io/extensions/tasks/overview>
//= S11.14 "`tasks/` and `notifications/tasks/` are reserved: no custom name begins with them"
pub(crate) fn is_reserved_for_tasks(name: &str) -> bool {
    let is_method = || MethodInfo::all().any(|info| info.name == name);
    let is_notification = || NotificationInfo::all().any(|info| info.name == name);
    ["tasks/", "notifications/tasks/"].iter().any(|prefix| name.starts_with(prefix))
        && !is_method()
        && !is_notification()
}

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
            name if is_reserved_for_tasks(name) => OUTSIDE_OF_TASKS,
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
            name if is_reserved_for_tasks(name) => OUTSIDE_OF_TASKS,
            _ => None,
        },
    )
}

/// Checks the name of a server's request.
///
/// # Errors
/// [`RequestError::Reserved`] if the tasks extension reserves it.
pub(super) fn check_server_request(method: &str) -> Result<(), RequestError> {
    check(method, if is_reserved_for_tasks(method) { OUTSIDE_OF_TASKS } else { None })
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
            name if is_reserved_for_tasks(name) => OUTSIDE_OF_TASKS,
            _ => None,
        },
    )
}
