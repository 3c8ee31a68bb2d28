//! Subscriptions: one request that listens, and what it is told.

use alloc::string::String;
use alloc::vec::Vec;

use super::object::object;

object! {
    /// The parameters of `subscriptions/listen`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    pub params SubscriptionsListenParams {
        required {
            /// What the client wants to be told.
            notifications: SubscriptionFilter = "notifications";
        }
        optional {}
    }
}

object! {
    /// The result of `subscriptions/listen`: the server has ended it in good order.
    pub result SubscriptionsListenResult {
        required {}
        optional {}
    }
}

object! {
    /// The parameters of `notifications/subscriptions/acknowledged`.
    pub params SubscriptionsAcknowledgedParams {
        required {
            /// What of it the server will tell.
            notifications: SubscriptionFilter = "notifications";
        }
        optional {}
    }
}

object! {
    /// What a client wants to be told.
    pub struct SubscriptionFilter {
        required {}
        optional {
            /// That the list of tools has changed.
            tools_list_changed: Option<bool> = "toolsListChanged";
            /// That the list of prompts has changed.
            prompts_list_changed: Option<bool> = "promptsListChanged";
            /// That the list of resources has changed.
            resources_list_changed: Option<bool> = "resourcesListChanged";
            /// Which resources have changed, of these URIs and what lies below them.
            resource_subscriptions: Option<Vec<String>> = "resourceSubscriptions";
            /// How these tasks get on (the tasks extension).
            task_ids: Option<Vec<String>> = "taskIds";
        }
    }
}
