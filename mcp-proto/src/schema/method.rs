//! Every method and every notification of the protocol: the one list of them.

use core::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;

use super::caching::IntoResult;
use super::capabilities::{ClientCapabilities, ClientCapability, ServerCapabilities, ServerCapability};
use super::completion::{CompleteParams, CompleteResult};
use super::elicitation::{ElicitParams, ElicitResult, ElicitationCompleteParams};
use super::lifecycle::{
    CacheScope, DiscoverParams, DiscoverResult, EmptyParams, EmptyResult, InitializeParams, InitializeResult,
    ListRootsParams, PingParams,
};
use super::logging::{LoggingMessageParams, SetLoggingLevelParams};
use super::meta::Meta;
use super::progress::{CancelledParams, ProgressParams};
use super::prompts::{GetPromptParams, GetPromptResult, ListPromptsParams, ListPromptsResult};
use super::resources::{
    ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams, ListResourcesResult,
    ReadResourceParams, ReadResourceResult, ResourceUpdatedParams, SubscribeResourceParams,
    UnsubscribeResourceParams,
};
use super::result::ResultType;
use super::revision::{Revision, Revisions};
use super::roots::ListRootsResult;
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::subscriptions::{
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, SubscriptionsListenResult,
};
use super::tasks::{self, legacy};
use super::tools::{CallToolParams, CallToolResult, ListToolsParams, ListToolsResult};
use super::write::{Projection, WriteAt};

/// The parameters of a request or a notification.
pub trait Params: WriteAt + Serialize + DeserializeOwned + Clone + Debug + PartialEq + 'static {
    /// What else goes with the message.
    fn meta(&self) -> &Meta;

    /// The same, to be changed.
    fn meta_mut(&mut self) -> &mut Meta;

    /// Writes every field but `_meta` into an object that is being written.
    ///
    /// # Errors
    /// The serializer's.
    fn write_fields<M: SerializeMap>(&self, view: Projection, map: &mut M) -> Result<(), M::Error>;

    /// Writes every field that `revision` has, but `_meta`, into an object that is being written.
    ///
    /// # Errors
    /// The serializer's.
    fn serialize_fields_at<M: SerializeMap>(&self, revision: Revision, map: &mut M) -> Result<(), M::Error> {
        self.write_fields(Projection::At(revision), map)
    }
}

/// The result of a request.
pub trait ResultFields: WriteAt + Serialize + DeserializeOwned + Clone + Debug + PartialEq + 'static {
    /// What else goes with the result.
    fn meta(&self) -> &Meta;

    /// The same, to be changed.
    fn meta_mut(&mut self) -> &mut Meta;

    /// What a handler returns for it: the result itself, or where it may be kept, one of [`Cached`](super::Cached) and
    /// [`CachedPage`](super::CachedPage), so that nobody forgets to say how long.
    type Handed: IntoResult<Self>;

    /// How long the result may be kept, in milliseconds, and by whom, where it says so itself.
    fn cache_hint(&self) -> (Option<u64>, Option<CacheScope>) {
        (None, None)
    }

    /// What kind of result it says it is, where it says so itself.
    fn result_type(&self) -> Option<&ResultType>;

    /// Whether [`write_fields`](Self::write_fields) writes a field of this name.
    fn has_field(&self, name: &str) -> bool;

    /// Writes every field but `_meta`, `resultType`, `ttlMs` and `cacheScope` into an object that is being written.
    ///
    /// # Errors
    /// The serializer's.
    fn write_fields<M: SerializeMap>(&self, view: Projection, map: &mut M) -> Result<(), M::Error>;

    /// Writes every field that `revision` has, but `_meta`, `resultType`, `ttlMs` and `cacheScope`, into an object that
    /// is being written.
    ///
    /// # Errors
    /// The serializer's.
    fn serialize_fields_at<M: SerializeMap>(&self, revision: Revision, map: &mut M) -> Result<(), M::Error> {
        self.write_fields(Projection::At(revision), map)
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
    /// Its name on the wire.
    const NAME: &'static str = Self::INFO.name;
    /// What there is to know of it.
    const INFO: &'static MethodInfo;
    /// The parameters of its requests.
    type Params: Params;
    /// The result of its requests.
    type Result: ResultFields;
}

/// A notification: a type without values that ties a name to its parameters.
pub trait Notification: 'static {
    /// Its name on the wire.
    const NAME: &'static str = Self::INFO.name;
    /// What there is to know of it.
    const INFO: &'static NotificationInfo;
    /// Its parameters.
    type Params: Params;
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the client to the server.
    ClientToServer,
    /// From the server to the client.
    ServerToClient,
    /// Either way.
    Both,
}

impl Direction {
    /// Whether a message that goes `other` way goes this way, too.
    pub fn includes(self, other: Self) -> bool {
        self == Self::Both || self == other
    }
}

/// What there is to know of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodInfo {
    /// Its name on the wire. Two methods of different revisions may share one.
    pub name: &'static str,
    /// Who sends its requests.
    pub direction: Direction,
    /// The revisions that have its requests.
    pub revisions: Revisions,
    /// The revisions in which a server's result may ask for it, in place of a request.
    pub as_input: Option<Revisions>,
    /// What a server must have declared to be sent it.
    pub server: Option<ServerCapability>,
    /// What a client must have declared to be sent it, as a request or in a result.
    pub client: Option<ClientCapability>,
    /// Whether it may be answered by an `InputRequiredResult` (2026-07-28).
    pub input_required: bool,
    /// Whether it may take long, so that progress is asked for unless the caller does not want it.
    pub long: bool,
    /// Whether it waits for something other than the peer's own work, such as a person, and so has no timeout by
    /// default.
    pub unbounded: bool,
    /// Whether it may be given up by a notification.
    pub cancellable: bool,
    /// Whether asking twice does no more than asking once.
    pub repeatable: bool,
    /// Whether its complete result says how long it may be kept (2026-07-28).
    pub cacheable: bool,
    /// The method whose result has what this one is about, and is out of date where a server knows no such thing.
    pub listed_by: Option<&'static str>,
    /// Whether it may become a task: in 2025-11-25, and a tool call in the tasks extension.
    pub task: bool,
    /// The parameter that says what a request is about. Over HTTP the header `Mcp-Name` repeats it (2026-07-28).
    pub subject: Option<&'static str>,
}

impl MethodInfo {
    const BASE: Self = Self {
        name: "",
        direction: Direction::ClientToServer,
        revisions: Revisions::ALL,
        as_input: None,
        server: None,
        client: None,
        input_required: false,
        long: false,
        unbounded: false,
        cancellable: true,
        repeatable: false,
        cacheable: false,
        listed_by: None,
        task: false,
        subject: None,
    };

    /// A method that the protocol does not have, such as an extension's, of clients to servers of every revision.
    ///
    /// ```
    /// use mcp_proto::schema::{CustomParams, EmptyResult, Method, MethodInfo};
    ///
    /// /// InputMechanism how a printer is doing.
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

    /// Every method.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        METHODS.iter().copied()
    }

    /// The method that `name` stands for in a request that goes `direction` at `revision`.
    pub fn find(name: &str, direction: Direction, revision: Revision) -> Option<&'static Self> {
        Self::all().find(|info| {
            info.name == name && info.direction.includes(direction) && info.revisions.contains(revision)
        })
    }

    /// Whether `revision` has its requests.
    pub const fn exists_in(&self, revision: Revision) -> bool {
        self.revisions.contains(revision)
    }

    /// Whether a server that has declared `capabilities` may be sent it.
    pub fn server_allows(&self, capabilities: &ServerCapabilities, revision: Revision) -> bool {
        self.server.is_none_or(|needed| capabilities.allows(needed, revision))
    }

    /// Whether a client that has declared `capabilities` may be sent it.
    pub fn client_allows(&self, capabilities: &ClientCapabilities) -> bool {
        self.client.is_none_or(|needed| capabilities.has(needed))
    }
}

/// What there is to know of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotificationInfo {
    /// Its name on the wire.
    pub name: &'static str,
    /// Who sends it.
    pub direction: Direction,
    /// The revisions that have it.
    pub revisions: Revisions,
    /// What a server must have declared to send it.
    pub server: Option<ServerCapability>,
    /// What a client must have declared to send it.
    pub client: Option<ClientCapability>,
    /// Whether, since 2026-07-28, it is sent only to those who listen for it.
    pub subscribed: bool,
    /// The methods whose results are out of date once it has come; if it names a subject, those about that.
    pub outdates: &'static [&'static str],
}

impl NotificationInfo {
    const BASE: Self = Self {
        name: "",
        direction: Direction::ServerToClient,
        revisions: Revisions::ALL,
        server: None,
        client: None,
        subscribed: false,
        outdates: &[],
    };

    /// Every notification.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        NOTIFICATIONS.iter().copied()
    }

    /// Whether `revision` has it.
    pub const fn exists_in(&self, revision: Revision) -> bool {
        self.revisions.contains(revision)
    }

    /// The notification that `name` stands for in a message that goes `direction` at `revision`.
    pub fn find(name: &str, direction: Direction, revision: Revision) -> Option<&'static Self> {
        Self::all().find(|info| {
            info.name == name && info.direction.includes(direction) && info.revisions.contains(revision)
        })
    }
}

macro_rules! methods {
    ($(
        $(#[$attr:meta])*
        $name:ident = $wire:literal ($params:ty) -> $result:ty { $($field:ident: $value:expr),* $(,)? }
    )*) => {
        $(
            $(#[$attr])*
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}

            impl Method for $name {
                const INFO: &'static MethodInfo =
                    &MethodInfo { name: $wire, $($field: $value,)* ..MethodInfo::BASE };
                type Params = $params;
                type Result = $result;
            }
        )*

        static METHODS: &[&MethodInfo] = &[$($name::INFO),*];
    };
}

macro_rules! notifications {
    ($(
        $(#[$attr:meta])*
        $name:ident = $wire:literal ($params:ty) { $($field:ident: $value:expr),* $(,)? }
    )*) => {
        $(
            $(#[$attr])*
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}

            impl Notification for $name {
                const INFO: &'static NotificationInfo =
                    &NotificationInfo { name: $wire, $($field: $value,)* ..NotificationInfo::BASE };
                type Params = $params;
            }
        )*

        static NOTIFICATIONS: &[&NotificationInfo] = &[$($name::INFO),*];
    };
}

methods! {
    /// Begins a legacy conversation.
    Initialize = "initialize" (InitializeParams) -> InitializeResult {
        revisions: Revisions::LEGACY,
        cancellable: false,
    }
    /// Asks what a modern server speaks and offers.
    Discover = "server/discover" (DiscoverParams) -> DiscoverResult {
        revisions: Revisions::MODERN,
        repeatable: true,
        cacheable: true,
    }
    /// Asks whether the other side is there.
    Ping = "ping" (PingParams) -> EmptyResult {
        direction: Direction::Both,
        revisions: Revisions::LEGACY,
        repeatable: true,
    }
    /// Lists tools.
    ListTools = "tools/list" (ListToolsParams) -> ListToolsResult {
        server: Some(ServerCapability::Tools),
        repeatable: true,
        cacheable: true,
    }
    /// Calls a tool.
    CallTool = "tools/call" (CallToolParams) -> CallToolResult {
        server: Some(ServerCapability::Tools),
        input_required: true,
        long: true,
        task: true,
        listed_by: Some(ListTools::NAME),
        subject: Some("name"),
    }
    /// Lists resources.
    ListResources = "resources/list" (ListResourcesParams) -> ListResourcesResult {
        server: Some(ServerCapability::Resources),
        repeatable: true,
        cacheable: true,
    }
    /// Lists templates of resources.
    ListResourceTemplates = "resources/templates/list" (ListResourceTemplatesParams) -> ListResourceTemplatesResult {
        server: Some(ServerCapability::Resources),
        repeatable: true,
        cacheable: true,
    }
    /// Reads a resource.
    ReadResource = "resources/read" (ReadResourceParams) -> ReadResourceResult {
        server: Some(ServerCapability::Resources),
        input_required: true,
        long: true,
        repeatable: true,
        cacheable: true,
        listed_by: Some(ListResources::NAME),
        subject: Some("uri"),
    }
    /// Follows a resource (2025-11-25 and earlier).
    SubscribeResource = "resources/subscribe" (SubscribeResourceParams) -> EmptyResult {
        revisions: Revisions::LEGACY,
        server: Some(ServerCapability::ResourcesSubscribe),
        repeatable: true,
    }
    /// Follows a resource no longer (2025-11-25 and earlier).
    UnsubscribeResource = "resources/unsubscribe" (UnsubscribeResourceParams) -> EmptyResult {
        revisions: Revisions::LEGACY,
        server: Some(ServerCapability::ResourcesSubscribe),
        repeatable: true,
    }
    /// Lists prompts.
    ListPrompts = "prompts/list" (ListPromptsParams) -> ListPromptsResult {
        server: Some(ServerCapability::Prompts),
        repeatable: true,
        cacheable: true,
    }
    /// Gets a prompt.
    GetPrompt = "prompts/get" (GetPromptParams) -> GetPromptResult {
        server: Some(ServerCapability::Prompts),
        input_required: true,
        long: true,
        repeatable: true,
        listed_by: Some(ListPrompts::NAME),
        subject: Some("name"),
    }
    /// Completes an argument.
    Complete = "completion/complete" (CompleteParams) -> CompleteResult {
        server: Some(ServerCapability::Completions),
        repeatable: true,
    }
    /// Says how much is to be logged (2025-11-25 and earlier).
    SetLoggingLevel = "logging/setLevel" (SetLoggingLevelParams) -> EmptyResult {
        revisions: Revisions::LEGACY,
        server: Some(ServerCapability::Logging),
        repeatable: true,
    }
    /// Listens for notifications (since 2026-07-28).
    SubscriptionsListen = "subscriptions/listen" (SubscriptionsListenParams) -> SubscriptionsListenResult {
        revisions: Revisions::MODERN,
        unbounded: true,
        repeatable: true,
    }
    /// Asks where the server may work.
    ListRoots = "roots/list" (ListRootsParams) -> ListRootsResult {
        direction: Direction::ServerToClient,
        revisions: Revisions::LEGACY,
        as_input: Some(Revisions::MODERN),
        client: Some(ClientCapability::Roots),
        repeatable: true,
    }
    /// Asks the client's model.
    CreateMessage = "sampling/createMessage" (CreateMessageParams) -> CreateMessageResult {
        direction: Direction::ServerToClient,
        revisions: Revisions::LEGACY,
        as_input: Some(Revisions::MODERN),
        client: Some(ClientCapability::Sampling),
        long: true,
        unbounded: true,
        task: true,
    }
    /// Asks the person.
    Elicit = "elicitation/create" (ElicitParams) -> ElicitResult {
        direction: Direction::ServerToClient,
        revisions: Revisions { first: Revision::V2025_06_18, last: Revision::LATEST_LEGACY },
        as_input: Some(Revisions::MODERN),
        client: Some(ClientCapability::Elicitation),
        long: true,
        unbounded: true,
        task: true,
    }
    /// Asks how a task is doing (the tasks extension).
    GetTask = "tasks/get" (tasks::GetTaskParams) -> tasks::GetTaskResult {
        revisions: Revisions::MODERN,
        server: Some(ServerCapability::TasksExtension),
        repeatable: true,
        subject: Some("taskId"),
    }
    /// Gives a task what it asked for (the tasks extension).
    UpdateTask = "tasks/update" (tasks::UpdateTaskParams) -> tasks::UpdateTaskResult {
        revisions: Revisions::MODERN,
        server: Some(ServerCapability::TasksExtension),
        repeatable: true,
        subject: Some("taskId"),
    }
    /// Gives a task up (the tasks extension).
    CancelTask = "tasks/cancel" (tasks::CancelTaskParams) -> tasks::CancelTaskResult {
        revisions: Revisions::MODERN,
        server: Some(ServerCapability::TasksExtension),
        repeatable: true,
        subject: Some("taskId"),
    }
    /// Asks how a task is doing (2025-11-25).
    LegacyGetTask = "tasks/get" (legacy::GetTaskParams) -> legacy::GetTaskResult {
        direction: Direction::Both,
        revisions: Revisions::only(Revision::V2025_11_25),
        server: Some(ServerCapability::Tasks),
        client: Some(ClientCapability::Tasks),
        repeatable: true,
    }
    /// Waits for what a task comes to (2025-11-25).
    LegacyTaskResult = "tasks/result" (legacy::TaskResultParams) -> legacy::TaskResultResult {
        direction: Direction::Both,
        revisions: Revisions::only(Revision::V2025_11_25),
        server: Some(ServerCapability::Tasks),
        client: Some(ClientCapability::Tasks),
        unbounded: true,
        repeatable: true,
    }
    /// Lists tasks (2025-11-25).
    LegacyListTasks = "tasks/list" (legacy::ListTasksParams) -> legacy::ListTasksResult {
        direction: Direction::Both,
        revisions: Revisions::only(Revision::V2025_11_25),
        server: Some(ServerCapability::TasksList),
        client: Some(ClientCapability::TasksList),
        repeatable: true,
    }
    /// Gives a task up (2025-11-25).
    LegacyCancelTask = "tasks/cancel" (legacy::CancelTaskParams) -> legacy::CancelTaskResult {
        direction: Direction::Both,
        revisions: Revisions::only(Revision::V2025_11_25),
        server: Some(ServerCapability::TasksCancel),
        client: Some(ClientCapability::TasksCancel),
    }
}

notifications! {
    /// The client is ready (2025-11-25 and earlier).
    Initialized = "notifications/initialized" (EmptyParams) {
        direction: Direction::ClientToServer,
        revisions: Revisions::LEGACY,
    }
    /// A request is given up.
    Cancelled = "notifications/cancelled" (CancelledParams) {
        direction: Direction::Both,
    }
    /// How a request is getting on, of a server.
    Progress = "notifications/progress" (ProgressParams) {}
    /// How a request is getting on, of a client (2025-11-25 and earlier).
    ClientProgress = "notifications/progress" (ProgressParams) {
        direction: Direction::ClientToServer,
        revisions: Revisions::LEGACY,
    }
    /// A log message.
    LoggingMessage = "notifications/message" (LoggingMessageParams) {
        server: Some(ServerCapability::Logging),
    }
    /// A resource has changed.
    ResourceUpdated = "notifications/resources/updated" (ResourceUpdatedParams) {
        server: Some(ServerCapability::ResourcesSubscribe),
        subscribed: true,
        outdates: &[ReadResource::NAME],
    }
    /// The list of resources has changed.
    ResourceListChanged = "notifications/resources/list_changed" (EmptyParams) {
        server: Some(ServerCapability::ResourcesListChanged),
        subscribed: true,
        outdates: &[ListResources::NAME, ListResourceTemplates::NAME],
    }
    /// The list of tools has changed.
    ToolListChanged = "notifications/tools/list_changed" (EmptyParams) {
        server: Some(ServerCapability::ToolsListChanged),
        subscribed: true,
        outdates: &[ListTools::NAME],
    }
    /// The list of prompts has changed.
    PromptListChanged = "notifications/prompts/list_changed" (EmptyParams) {
        server: Some(ServerCapability::PromptsListChanged),
        subscribed: true,
        outdates: &[ListPrompts::NAME],
    }
    /// Where the server may work has changed (2025-11-25 and earlier).
    RootsListChanged = "notifications/roots/list_changed" (EmptyParams) {
        direction: Direction::ClientToServer,
        revisions: Revisions::LEGACY,
        client: Some(ClientCapability::RootsListChanged),
    }
    /// The person is done with a page on the web (2025-11-25).
    ElicitationComplete = "notifications/elicitation/complete" (ElicitationCompleteParams) {
        revisions: Revisions::only(Revision::V2025_11_25),
    }
    /// What of a subscription is granted (since 2026-07-28).
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" (SubscriptionsAcknowledgedParams) {
        revisions: Revisions::MODERN,
        subscribed: true,
    }
    /// How a task is doing (2025-11-25).
    TaskStatusChanged = "notifications/tasks/status" (legacy::TaskStatusParams) {
        direction: Direction::Both,
        revisions: Revisions::only(Revision::V2025_11_25),
    }
    /// How a task is doing (the tasks extension).
    TaskUpdated = "notifications/tasks" (tasks::TaskUpdatedParams) {
        revisions: Revisions::MODERN,
        server: Some(ServerCapability::TasksExtension),
        subscribed: true,
    }
}
