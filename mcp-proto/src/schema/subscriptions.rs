//! Subscriptions: `subscriptions/listen` and the notifications that it selects.

use alloc::string::String;
use alloc::vec::Vec;

use super::object::object;

object! {
    /// The parameters of `subscriptions/listen`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    pub params SubscriptionsListenParams {
        required {
            /// The notifications that the client requests.
            notifications: SubscriptionFilter = "notifications";
        }
        optional {}
    }
}

object! {
    /// The result of `subscriptions/listen`: the server has ended the subscription gracefully.
    pub result SubscriptionsListenResult {
        required {}
        optional {}
    }
}

object! {
    /// The parameters of `notifications/subscriptions/acknowledged`.
    pub params SubscriptionsAcknowledgedParams {
        required {
            /// The notifications that the server has agreed to send.
            notifications: SubscriptionFilter = "notifications";
        }
        optional {}
    }
}

object! {
    /// Selection of notifications.
    pub struct SubscriptionFilter {
        required {}
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
