//! Lifecycle: `initialize`, `server/discover`, and the identities of client and server.

use crate::prelude::*;
use crate::rpc::Id;

use super::object::{display_names, names, object};
use super::{ClientCapabilities, Json, Number, Revision, ServerCapabilities};

object! {
    /// Identity of a client or server. For display and logs only: it changes no behaviour.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#implementation>
    pub struct Implementation {
        required {
            /// Name for programmatic use.
            name: String = "name";
            /// Version of the implementation.
            version: String = "version";
        }
        optional {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description of the implementation.
            description: Option<String> = "description" since V2025_11_25;
            /// URL of the implementation's website.
            website_url: Option<String> = "websiteUrl" since V2025_11_25;
            /// Icons to display.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
        }
    }
}

display_names!(Implementation);

impl Implementation {
    /// Sets the human-readable title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

object! {
    /// An icon to display in a user interface.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#icons>
    pub struct Icon {
        required {
            /// Location: an `https:` or `data:` URI. Check it with [`IconPolicy`](crate::consent::IconPolicy) before
            /// fetching it.
            src: String = "src";
        }
        optional {
            /// Media type, if the one that the source declares is missing or too general.
            mime_type: Option<String> = "mimeType";
            /// The sizes that it suits, such as `48x48`, or `any`.
            sizes: Option<Vec<String>> = "sizes";
            /// The theme that it suits.
            theme: Option<Theme> = "theme";
        }
    }
}

names! {
    /// The theme that an icon suits.
    pub enum Theme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

object! {
    /// The parameters of `initialize` (2025-11-25 and earlier).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization>
    pub params InitializeParams {
        required {
            /// The newest revision that the client supports, as sent.
            protocol_version: String = "protocolVersion";
            /// Capabilities of the client.
            capabilities: ClientCapabilities = "capabilities";
            /// Identity of the client.
            client_info: Implementation = "clientInfo";
        }
    }

    /// The result of `initialize` (2025-11-25 and earlier).
    pub result InitializeResult {
        required {
            /// The revision that the server has chosen, as sent.
            protocol_version: String = "protocolVersion";
            /// Capabilities of the server.
            capabilities: ServerCapabilities = "capabilities";
            /// Identity of the server.
            server_info: Implementation = "serverInfo";
        }
        optional {
            /// Instructions for the model on how to use the server.
            instructions: Option<String> = "instructions";
        }
    }

    /// The result of `server/discover`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>
    pub cacheable DiscoverResult {
        required {
            /// The revisions that the server supports, as sent.
            supported_versions: Vec<String> = "supportedVersions";
            /// Capabilities of the server.
            capabilities: ServerCapabilities = "capabilities";
        }
        optional {
            /// Instructions for the model on how to use the server.
            instructions: Option<String> = "instructions";
            /// Identity of the server, if the server sends it beside the other fields rather than in `_meta`.
            server_info: Option<Implementation> = "serverInfo" until V2025_11_25;
        }
    }
}

impl DiscoverResult {
    /// Identity of the server, from `_meta` or the field `serverInfo`.
    pub fn identity(&self) -> Option<Implementation> {
        self.meta.server_info().or_else(|| self.server_info.clone())
    }
}

object! {
    /// The parameters of paginated methods.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>
    pub params PaginatedParams {
        optional {
            /// Cursor of the page; absent for the first page. The empty string is a valid cursor.
            cursor: Option<String> = "cursor" type strict;
        }
    }
}

impl PaginatedParams {
    /// Requests the page at `cursor`.
    pub fn at(cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), ..Self::new() }
    }
}

object! {
    /// Parameters without fields of their own, or of a method that this crate does not know.
    ///
    /// Unknown fields are in `extra`.
    pub params EmptyParams {}
}

/// The parameters of methods that this crate does not know.
pub type CustomParams = EmptyParams;
/// The parameters of `server/discover`.
pub type DiscoverParams = EmptyParams;
/// The parameters of `ping` (2025-11-25 and earlier).
pub type PingParams = EmptyParams;
/// The parameters of `roots/list`.
pub type ListRootsParams = EmptyParams;

object! {
    /// A result without fields of its own, or of a method that this crate does not know.
    ///
    /// Unknown fields are in `extra`.
    pub result EmptyResult {}
}

/// The result of methods that this crate does not know.
pub type CustomResult = EmptyResult;

names! {
    /// The audience of a cached result.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
    pub enum CacheScope {
        /// Any client.
        Public = "public",
        /// Only the client that requested it.
        Private = "private",
    }
}

object! {
    /// The data of the error `UNSUPPORTED_PROTOCOL_VERSION` and, in legacy revisions, of a rejected `initialize`.
    pub struct UnsupportedVersionData {
        required {
            /// The revisions that the server supports, as sent.
            supported: Vec<String> = "supported";
        }
        optional {
            /// The requested revision.
            //= C1.11 "`data.requested`"
            requested: Option<String> = "requested";
        }
    }
}

impl UnsupportedVersionData {
    /// Creates the data from the supported revisions and the requested one.
    pub fn from_revisions(supported: &[Revision], requested: impl Into<String>) -> Self {
        let supported: Vec<String> = supported.iter().map(|revision| revision.as_str().into()).collect();
        Self { requested: Some(requested.into()), ..Self::new(supported) }
    }
}

object! {
    /// The data of the error `MISSING_REQUIRED_CLIENT_CAPABILITY`.
    pub struct MissingCapabilityData {
        required {
            /// The capabilities that the client must declare.
            required_capabilities: ClientCapabilities = "requiredCapabilities";
        }
    }
}

// Progress, cancellation, log messages and subscriptions: their notifications, and the requests that ask for them.

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
