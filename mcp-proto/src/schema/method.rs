//! The table of all methods and notifications of the protocol.

use core::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::skills;
use super::tasks::{self, legacy};
use super::*;
use crate::prelude::*;
use crate::rpc::Raw;
use Direction::{Both, ClientToServer, ServerToClient};

/// The parameters of a request or a notification.
pub trait Params:
    WriteAt + Serialize + DeserializeOwned + Clone + Debug + PartialEq + Send + Sync + 'static
{
    /// Decodes the parameters from JSON text.
    ///
    /// # Errors
    /// If the text is not valid JSON, or has a value of the wrong type.
    fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Decodes the parameters of a received message, of which nothing is scanned twice.
    ///
    /// # Errors
    /// If they are not valid JSON, or have a value of the wrong type.
    fn from_raw(raw: &Raw) -> Result<Self, serde_json::Error> {
        Self::from_json(raw.as_str())
    }

    /// Metadata of the message: `_meta`.
    fn meta(&self) -> &Meta;

    /// Mutable access to `_meta`.
    fn meta_mut(&mut self) -> &mut Meta;

    /// Appends every field except `_meta` to an open object.
    fn write_fields(&self, view: Projection, out: &mut Vec<u8>);

    /// Whether [`write_fields`](Self::write_fields) may write a field of this name.
    fn may_have_field(&self, _name: &str) -> bool {
        true
    }
}

/// The result of a request.
pub trait ResultFields: WriteAt + Serialize + DeserializeOwned + Clone + Debug + PartialEq + 'static {
    /// Decodes the result from JSON text.
    ///
    /// # Errors
    /// If the text is not valid JSON, or has a value of the wrong type.
    fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Metadata of the result: `_meta`.
    fn meta(&self) -> &Meta;

    /// Mutable access to `_meta`.
    fn meta_mut(&mut self) -> &mut Meta;

    /// Return type of handlers: the result itself or, for cacheable results, [`Cached`](super::Cached) or
    /// [`CachedPage`](super::CachedPage), which require a time to live.
    type HandlerOutput: IntoResult<Self>;

    /// Time to live in milliseconds and cache scope, as far as the result has them.
    fn cache_hint(&self) -> (Option<u64>, Option<CacheScope>) {
        (None, None)
    }

    /// Kind of the result, if it has a `resultType`.
    fn result_type(&self) -> Option<&ResultType>;

    /// Whether [`write_fields`](Self::write_fields) writes a field of this name.
    fn has_field(&self, name: &str) -> bool;

    /// Appends every field except `_meta`, `resultType`, `ttlMs` and `cacheScope` to an open object.
    fn write_fields(&self, view: Projection, out: &mut Vec<u8>);

    /// Whether its content may embed a resource. If so, the encoded result is searched for one.
    fn may_embed_resource(&self) -> bool {
        true
    }
}

/// A method: a type without values that ties the parameters of a request to its result.
///
/// ```
/// use mcp_proto::schema::{CallTool, Direction, Method, MethodInfo, Revision};
///
/// assert_eq!(CallTool::NAME, "tools/call");
/// let found = MethodInfo::find("tools/call", Direction::ClientToServer, Revision::LATEST);
/// assert_eq!(found, Some(CallTool::INFO));
/// ```
pub trait Method: 'static {
    /// Name of the method on the wire.
    const NAME: &'static str = Self::INFO.name;
    /// Properties of the method.
    const INFO: &'static MethodInfo;
    /// Parameters of its requests.
    type Params: Params;
    /// Result of its requests.
    type Result: ResultFields;
}

/// A notification: a type without values that ties a name to its parameters.
pub trait Notification: 'static {
    /// Name of the notification on the wire.
    const NAME: &'static str = Self::INFO.name;
    /// Properties of the notification.
    const INFO: &'static NotificationInfo;
    /// Parameters of the notification.
    type Params: Params;
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// From the client to the server.
    ClientToServer,
    /// From the server to the client.
    ServerToClient,
    /// In both directions.
    Both,
}

impl Direction {
    /// Whether this direction covers `other`.
    pub fn includes(self, other: Self) -> bool {
        self == Self::Both || self == other
    }
}

/// Properties of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodInfo {
    /// Name on the wire. Two methods of different revisions may share one.
    pub name: &'static str,
    /// Direction of its requests.
    pub direction: Direction,
    /// Revisions with requests of this method.
    pub revisions: Revisions,
    /// Revisions in which a server sends it as an input request in a result.
    pub as_input_request: Option<Revisions>,
    /// Capability that a server must declare to receive it.
    pub server_capability: Option<ServerCapability>,
    /// Capability that a client must declare to receive it, as a request or an input request.
    pub client_capability: Option<ClientCapability>,
    /// Whether its result may be an `InputRequiredResult` (2026-07-28).
    pub input_required: bool,
    /// Whether it may take long, so that the sender asks for progress unless the caller opts out.
    pub long_running: bool,
    /// Whether it waits for something other than the peer's own work, such as a user, and so has no default timeout.
    pub unbounded: bool,
    /// Whether a notification can cancel it.
    pub cancellable: bool,
    /// Whether sending it twice has the same effect as sending it once.
    pub idempotent: bool,
    /// Whether its complete result has a time to live (2026-07-28).
    pub cacheable: bool,
    /// The list method whose cached result is out of date if the server does not know the subject of a request.
    pub list_method: Option<&'static str>,
    /// Whether it may run as a task: in 2025-11-25, and for a tool call in the tasks extension.
    pub can_be_task: bool,
    /// The parameter that identifies the subject of a request. Over HTTP, the header `Mcp-Name` repeats it
    /// (2026-07-28).
    pub subject: Option<&'static str>,
}

impl MethodInfo {
    const BASE: Self = Self {
        name: "",
        direction: Direction::ClientToServer,
        revisions: Revisions::ALL,
        as_input_request: None,
        server_capability: None,
        client_capability: None,
        input_required: false,
        long_running: false,
        unbounded: false,
        cancellable: true,
        idempotent: false,
        cacheable: false,
        list_method: None,
        can_be_task: false,
        subject: None,
    };

    /// Creates a method that the protocol does not define, such as an extension's.
    ///
    /// Its requests go from client to server, at all revisions.
    ///
    /// ```
    /// use mcp_proto::schema::{CustomParams, EmptyResult, Method, MethodInfo};
    ///
    /// /// Asks for the status of a printer.
    /// enum PrinterStatus {}
    ///
    /// impl Method for PrinterStatus {
    ///     const INFO: &'static MethodInfo = &MethodInfo::custom("com.example/status");
    ///     type Params = CustomParams;
    ///     type Result = EmptyResult;
    /// }
    /// assert_eq!(PrinterStatus::NAME, "com.example/status");
    /// ```
    pub const fn custom(name: &'static str) -> Self {
        Self { name, ..Self::BASE }
    }

    /// Whether a server with these `capabilities` may receive it.
    pub fn server_allows(&self, capabilities: &ServerCapabilities, revision: Revision) -> bool {
        self.server_capability.is_none_or(|needed| capabilities.allows(needed, revision))
    }

    /// Whether a client with these `capabilities` may receive it.
    pub fn client_allows(&self, capabilities: &ClientCapabilities) -> bool {
        self.client_capability.is_none_or(|needed| capabilities.has(needed))
    }
}

/// Properties of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotificationInfo {
    /// Name on the wire.
    pub name: &'static str,
    /// Direction of the notification.
    pub direction: Direction,
    /// Revisions with this notification.
    pub revisions: Revisions,
    /// Capability that a server must declare to send it.
    pub server_capability: Option<ServerCapability>,
    /// Capability that a client must declare to send it.
    pub client_capability: Option<ClientCapability>,
    /// Whether, since 2026-07-28, the server sends it only in a subscription.
    pub needs_subscription: bool,
    /// Methods whose cached results it makes out of date; if it names a subject, only results about that subject.
    pub invalidates: &'static [&'static str],
}

impl NotificationInfo {
    pub(super) const BASE: Self = Self {
        name: "",
        direction: Direction::ServerToClient,
        revisions: Revisions::ALL,
        server_capability: None,
        client_capability: None,
        needs_subscription: false,
        invalidates: &[],
    };
}

macro_rules! table {
    ($trait:ident, $info:ident, $all:ident; $(
        $(#[$attr:meta])*
        $name:ident = $wire:literal ($params:ty) $(-> $result:ty)? $(, server $server:ident)? $(, client $client:ident)?
        { $($field:ident $(: $value:expr)?),* $(,)? }
    )*) => {
        $(
            $(#[$attr])*
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}

            impl $trait for $name {
                const INFO: &'static $info = &$info {
                    name: $wire,
                    $(server_capability: Some(ServerCapability::$server),)?
                    $(client_capability: Some(ClientCapability::$client),)?
                    $($field: table!(@value $($value)?),)*
                    ..$info::BASE
                };
                type Params = $params;
                $(type Result = $result;)?
            }
        )*

        static $all: &[&$info] = &[$($name::INFO),*];

        impl $info {
            /// Returns the whole table.
            pub fn all() -> impl Iterator<Item = &'static Self> {
                $all.iter().copied()
            }

            /// Finds the entry `name` for messages in `direction` at `revision`.
            pub fn find(name: &str, direction: Direction, revision: Revision) -> Option<&'static Self> {
                Self::all().find(|info| {
                    info.name == name && info.direction.includes(direction) && info.revisions.contains(revision)
                })
            }

            /// Whether `revision` has messages of this name and direction.
            pub const fn exists_in(&self, revision: Revision) -> bool {
                self.revisions.contains(revision)
            }
        }
    };
    (@value) => { true };
    (@value $value:expr) => { $value };
}

/// The revision with experimental tasks.
const LEGACY_TASKS: Revisions = Revisions::only(Revision::V2025_11_25);

table! {
    Method, MethodInfo, METHODS;

    /// Opens a legacy session.
    Initialize = "initialize" (InitializeParams) -> InitializeResult {
        revisions: Revisions::LEGACY,
        cancellable: false,
    }
    /// Asks a modern server for its revisions, capabilities and identity.
    Discover = "server/discover" (DiscoverParams) -> DiscoverResult {
        revisions: Revisions::MODERN,
        idempotent,
        cacheable,
    }
    /// Checks that the peer responds.
    Ping = "ping" (PingParams) -> EmptyResult {
        direction: Both,
        revisions: Revisions::LEGACY,
        idempotent,
    }
    /// Lists tools.
    ListTools = "tools/list" (ListToolsParams) -> ListToolsResult, server Tools {
        idempotent,
        cacheable,
    }
    /// Calls a tool.
    CallTool = "tools/call" (CallToolParams) -> CallToolResult, server Tools {
        input_required,
        long_running,
        can_be_task,
        list_method: Some(ListTools::NAME),
        subject: Some("name"),
    }
    /// Lists resources.
    ListResources = "resources/list" (ListResourcesParams) -> ListResourcesResult, server Resources {
        idempotent,
        cacheable,
    }
    /// Lists resource templates.
    ListResourceTemplates = "resources/templates/list" (ListResourceTemplatesParams)
        -> ListResourceTemplatesResult, server Resources {
        idempotent,
        cacheable,
    }
    /// Reads a resource.
    ReadResource = "resources/read" (ReadResourceParams) -> ReadResourceResult, server Resources {
        input_required,
        long_running,
        idempotent,
        cacheable,
        list_method: Some(ListResources::NAME),
        subject: Some("uri"),
    }
    /// Subscribes to a resource (2025-11-25 and earlier).
    SubscribeResource = "resources/subscribe" (SubscribeResourceParams)
        -> EmptyResult, server ResourcesSubscribe {
        revisions: Revisions::LEGACY,
        idempotent,
    }
    /// Unsubscribes from a resource (2025-11-25 and earlier).
    UnsubscribeResource = "resources/unsubscribe" (UnsubscribeResourceParams)
        -> EmptyResult, server ResourcesSubscribe {
        revisions: Revisions::LEGACY,
        idempotent,
    }
    /// Lists prompts.
    ListPrompts = "prompts/list" (ListPromptsParams) -> ListPromptsResult, server Prompts {
        idempotent,
        cacheable,
    }
    /// Gets a prompt.
    GetPrompt = "prompts/get" (GetPromptParams) -> GetPromptResult, server Prompts {
        input_required,
        long_running,
        idempotent,
        list_method: Some(ListPrompts::NAME),
        subject: Some("name"),
    }
    /// Requests completions of an argument.
    Complete = "completion/complete" (CompleteParams) -> CompleteResult, server Completions {
        idempotent,
    }
    /// Sets the level of log messages (2025-11-25 and earlier).
    SetLoggingLevel = "logging/setLevel" (SetLoggingLevelParams) -> EmptyResult, server Logging {
        revisions: Revisions::LEGACY,
        idempotent,
    }
    /// Opens a subscription to notifications (since 2026-07-28).
    SubscriptionsListen = "subscriptions/listen" (SubscriptionsListenParams) -> SubscriptionsListenResult {
        revisions: Revisions::MODERN,
        unbounded,
        idempotent,
    }
    /// Lists the client's roots.
    ListRoots = "roots/list" (ListRootsParams) -> ListRootsResult, client Roots {
        direction: ServerToClient,
        revisions: Revisions::LEGACY,
        as_input_request: Some(Revisions::MODERN),
        idempotent,
    }
    /// Asks the client's model.
    CreateMessage = "sampling/createMessage" (CreateMessageParams) -> CreateMessageResult, client Sampling {
        direction: ServerToClient,
        revisions: Revisions::LEGACY,
        as_input_request: Some(Revisions::MODERN),
        long_running,
        unbounded,
        can_be_task,
    }
    /// Asks the user.
    Elicit = "elicitation/create" (ElicitParams) -> ElicitResult, client Elicitation {
        direction: ServerToClient,
        revisions: Revisions { first: Revision::V2025_06_18, last: Revision::LATEST_LEGACY },
        as_input_request: Some(Revisions::MODERN),
        long_running,
        unbounded,
        can_be_task,
    }
    /// Gets the status of a task (the tasks extension).
    GetTask = "tasks/get" (tasks::GetTaskParams) -> tasks::GetTaskResult, server TasksExtension {
        revisions: Revisions::MODERN,
        idempotent,
        subject: Some("taskId"),
    }
    /// Sends a task the input that it needs (the tasks extension).
    UpdateTask = "tasks/update" (tasks::UpdateTaskParams) -> tasks::UpdateTaskResult, server TasksExtension {
        revisions: Revisions::MODERN,
        idempotent,
        subject: Some("taskId"),
    }
    /// Cancels a task (the tasks extension).
    CancelTask = "tasks/cancel" (tasks::CancelTaskParams) -> tasks::CancelTaskResult, server TasksExtension {
        revisions: Revisions::MODERN,
        idempotent,
        subject: Some("taskId"),
    }
    /// Lists skills (the skills extension).
    ListSkills = "skills/list" (skills::ListSkillsParams) -> skills::ListSkillsResult, server SkillsExtension {
        revisions: Revisions::MODERN,
        idempotent,
        cacheable,
    }
    /// Gets the entry of a skill (the skills extension).
    GetSkill = "skills/get" (skills::GetSkillParams) -> skills::GetSkillResult, server SkillsExtension {
        revisions: Revisions::MODERN,
        idempotent,
        cacheable,
        list_method: Some(ListSkills::NAME),
    }
    /// Lists what is directly within a directory (the skills extension).
    ReadDirectory = "resources/directory/read" (skills::ReadDirectoryParams)
        -> skills::ReadDirectoryResult, server DirectoryRead {
        revisions: Revisions::MODERN,
        idempotent,
    }
    /// Gets the status of a task (2025-11-25).
    LegacyGetTask = "tasks/get" (legacy::GetTaskParams) -> legacy::GetTaskResult, server Tasks, client Tasks {
        direction: Both,
        revisions: LEGACY_TASKS,
        idempotent,
    }
    /// Waits for the result of a task (2025-11-25).
    LegacyTaskResult = "tasks/result" (legacy::TaskResultParams)
        -> legacy::TaskResultResult, server Tasks, client Tasks {
        direction: Both,
        revisions: LEGACY_TASKS,
        unbounded,
        idempotent,
    }
    /// Lists tasks (2025-11-25).
    LegacyListTasks = "tasks/list" (legacy::ListTasksParams)
        -> legacy::ListTasksResult, server TasksList, client TasksList {
        direction: Both,
        revisions: LEGACY_TASKS,
        idempotent,
    }
    /// Cancels a task (2025-11-25).
    LegacyCancelTask = "tasks/cancel" (legacy::CancelTaskParams)
        -> legacy::CancelTaskResult, server TasksCancel, client TasksCancel {
        direction: Both,
        revisions: LEGACY_TASKS,
    }
}

table! {
    Notification, NotificationInfo, NOTIFICATIONS;

    /// The client is ready (2025-11-25 and earlier).
    Initialized = "notifications/initialized" (EmptyParams) {
        direction: ClientToServer,
        revisions: Revisions::LEGACY,
    }
    /// Cancels a request.
    Cancelled = "notifications/cancelled" (CancelledParams) {
        direction: Both,
    }
    /// Progress of a client's request, from the server.
    Progress = "notifications/progress" (ProgressParams) {}
    /// Progress of a server's request, from the client (2025-11-25 and earlier).
    ClientProgress = "notifications/progress" (ProgressParams) {
        direction: ClientToServer,
        revisions: Revisions::LEGACY,
    }
    /// A log message.
    LoggingMessage = "notifications/message" (LoggingMessageParams), server Logging {
    }
    /// A resource has changed.
    ResourceUpdated = "notifications/resources/updated" (ResourceUpdatedParams), server ResourcesSubscribe {
        needs_subscription,
        invalidates: &[ReadResource::NAME],
    }
    /// The list of resources has changed.
    ResourceListChanged = "notifications/resources/list_changed" (EmptyParams), server ResourcesListChanged {
        needs_subscription,
        // The skills extension has no notification of its own, and the files of skills are resources.
        invalidates: &[ListResources::NAME, ListResourceTemplates::NAME, ListSkills::NAME, GetSkill::NAME],
    }
    /// The list of tools has changed.
    ToolListChanged = "notifications/tools/list_changed" (EmptyParams), server ToolsListChanged {
        needs_subscription,
        invalidates: &[ListTools::NAME],
    }
    /// The list of prompts has changed.
    PromptListChanged = "notifications/prompts/list_changed" (EmptyParams), server PromptsListChanged {
        needs_subscription,
        invalidates: &[ListPrompts::NAME],
    }
    /// The list of roots has changed (2025-11-25 and earlier).
    RootsListChanged = "notifications/roots/list_changed" (EmptyParams), client RootsListChanged {
        direction: ClientToServer,
        revisions: Revisions::LEGACY,
    }
    /// The user has finished with a web page (2025-11-25).
    ElicitationComplete = "notifications/elicitation/complete" (ElicitationCompleteParams) {
        revisions: Revisions::only(Revision::V2025_11_25),
    }
    /// The server has acknowledged a subscription, with the notifications that it will send (since 2026-07-28).
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" (SubscriptionsAcknowledgedParams) {
        revisions: Revisions::MODERN,
        needs_subscription,
    }
    /// The status of a task has changed (2025-11-25).
    TaskStatusChanged = "notifications/tasks/status" (legacy::TaskStatusParams) {
        direction: Both,
        revisions: LEGACY_TASKS,
    }
    /// The status of a task has changed (the tasks extension).
    TaskUpdated = "notifications/tasks" (tasks::TaskUpdatedParams), server TasksExtension {
        revisions: Revisions::MODERN,
        needs_subscription,
    }
}
