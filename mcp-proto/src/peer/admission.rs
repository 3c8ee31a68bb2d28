//! Checks of messages by their name: names that the protocol reserves because the commands of the machines send them,
//! methods of extensions, and the capabilities that a request needs beyond those of its method.

use crate::prelude::*;
use crate::rpc::{Raw, read_members};
use crate::schema::{
    Cancelled, ClientCapabilities, ClientCapability, CreateMessage, Direction, Elicit, ElicitationComplete,
    Extension, ExtensionMethod, Initialize, Initialized, LoggingMessage, Method, MethodInfo, Notification,
    NotificationInfo, Progress, PromptListChanged, ResourceListChanged, ResourceUpdated,
    SubscriptionsAcknowledged, SubscriptionsListen, ToolListChanged, tasks,
};

use super::RequestError;

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

// Client capabilities that a request needs beyond its method's own: modes and tools.

/// The capability that a request with these parameters needs, if `declared` lacks it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#capabilities>
pub(crate) fn undeclared_capability(
    declared: &ClientCapabilities,
    info: &MethodInfo,
    params: Option<&Raw>,
) -> Option<ClientCapability> {
    let [mode, tools, tool_choice] = read_members(params?.as_str(), ["mode", "tools", "toolChoice"]).ok()?;
    let needed = match info.name {
        //= S9.1 "only declared modes"
        Elicit::NAME if mode.is_some_and(|mode| mode == r#""url""#) => ClientCapability::ElicitationUrl,
        Elicit::NAME => ClientCapability::ElicitationForm,
        //= C11.3 "tool fields without declared support → error"
        //= S9.8 "Tool-enabled sampling only if sampling.tools"
        CreateMessage::NAME if tools.is_some() || tool_choice.is_some() => ClientCapability::SamplingTools,
        _ => return None,
    };
    (!declared.has(needed)).then_some(needed)
}

// The registered extensions of a peer.

/// The extension that defines a method of requests in `direction`, unless the protocol does.
pub(crate) fn find_method<'a>(
    extensions: &'a [Extension],
    name: &str,
    direction: Direction,
) -> Option<(&'a Extension, &'a ExtensionMethod)> {
    let found =
        extensions.iter().find_map(|extension| Some((extension, extension.method(name, direction)?)))?;
    let is_core = MethodInfo::all().any(|info| info.name == name && info.direction.includes(direction));
    (!is_core).then_some(found)
}

/// The extension that defines a notification in `direction`.
pub(crate) fn find_notification<'a>(
    extensions: &'a [Extension],
    name: &str,
    direction: Direction,
) -> Option<&'a Extension> {
    extensions.iter().find(|extension| extension.has_notification(name, direction))
}

/// The extension that defines a value of `resultType`.
pub(crate) fn find_result_type<'a>(extensions: &'a [Extension], name: &str) -> Option<&'a Extension> {
    extensions.iter().find(|extension| extension.has_result_type(name))
}

/// The error for a message of an extension that the other side does not declare.
pub(crate) fn undeclared(method: &str, extension: &Extension) -> RequestError {
    RequestError::Extension { method: method.to_string(), extension: extension.identifier().to_string() }
}
