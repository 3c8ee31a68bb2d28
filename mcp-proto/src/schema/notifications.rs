//! Progress, cancellation, log messages and subscriptions: their notifications, and the requests that ask for them.

use super::object::{names, object};
use super::{Json, Number};
use crate::prelude::*;
use crate::rpc::Id;

object! {
    /// The parameters of `notifications/progress`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
    pub params ProgressParams {
        required {
            /// The progress token of the request.
            progress_token: Id = "progressToken";
            /// Progress so far; it increases with each notification.
            progress: Number = "progress";
        }
        optional {
            /// Total that `progress` reaches at the end, if known.
            total: Option<Number> = "total";
            /// Description of the current step.
            message: Option<String> = "message" since V2025_03_26;
        }
    }

    /// The parameters of `notifications/cancelled`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    pub params CancelledParams {
        optional {
            /// Id of the cancelled request. Only 2025-11-25 allows it to be absent.
            request_id: Option<Id> = "requestId" type strict;
            /// Reason for the cancellation, for display and logs.
            reason: Option<String> = "reason";
        }
    }
}

impl CancelledParams {
    /// Cancels the request with this id.
    pub fn request(request: impl Into<Id>) -> Self {
        Self { request_id: Some(request.into()), ..Self::new() }
    }
}

names! {
    /// Severity of a log message, as in syslog (RFC 5424), the least severe first.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels>
    pub enum LoggingLevel {
        /// Debugging detail.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// A normal but significant event.
        Notice = "notice",
        /// A condition that may lead to an error.
        Warning = "warning",
        /// An error.
        Error = "error",
        /// A critical condition, such as a failed component.
        Critical = "critical",
        /// A condition that needs action at once.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

object! {
    /// The parameters of `logging/setLevel` (2025-11-25 and earlier).
    pub params SetLoggingLevelParams {
        required {
            /// The least severe level to send.
            level: LoggingLevel = "level";
        }
    }

    /// The parameters of `notifications/message`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-message-notifications>
    pub params LoggingMessageParams {
        required {
            /// Severity of the message.
            level: LoggingLevel = "level";
            /// Log data: a string or any other JSON value.
            data: Json = "data";
        }
        optional {
            /// Name of the logger.
            logger: Option<String> = "logger";
        }
    }

    /// The parameters of `subscriptions/listen`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    pub params SubscriptionsListenParams {
        required {
            /// The notifications that the client requests, or that the server agrees to send.
            notifications: SubscriptionFilter = "notifications";
        }
    }

    /// The result of `subscriptions/listen`: the server has ended the subscription gracefully.
    pub result SubscriptionsListenResult {}
}

/// The parameters of `notifications/subscriptions/acknowledged`: what the server has agreed to send.
pub type SubscriptionsAcknowledgedParams = SubscriptionsListenParams;

object! {
    /// Selection of notifications.
    pub struct SubscriptionFilter {
        optional {
            /// Changes of the list of tools.
            tools_list_changed: Option<bool> = "toolsListChanged";
            /// Changes of the list of prompts.
            prompts_list_changed: Option<bool> = "promptsListChanged";
            /// Changes of the list of resources.
            resources_list_changed: Option<bool> = "resourcesListChanged";
            /// Changes of the resources with these URIs and of their sub-resources.
            resource_subscriptions: Option<Vec<String>> = "resourceSubscriptions";
            /// Status changes of the tasks with these ids (the tasks extension).
            task_ids: Option<Vec<String>> = "taskIds";
        }
    }
}
