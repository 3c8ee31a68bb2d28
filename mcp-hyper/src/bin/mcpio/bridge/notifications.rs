//! The server's notifications for the application: changes and log messages; and the application's subscriptions.

use std::collections::BTreeSet;
use std::future;

use mcp_proto::front::{
    Client, Context, Event, Events, Notification, ServerEvent, ServerHandle, Watch, WatchUpdate,
};
use mcp_proto::peer::client::{Change, ServerInfo, WatchFilter};
use mcp_proto::peer::server::ListKind;
use mcp_proto::schema::tasks::legacy::TaskStatusChanged;
use mcp_proto::schema::{
    ElicitationComplete, Era, LoggingLevel, LoggingMessage, LoggingMessageParams, Notification as _,
    PromptListChanged, ResourceListChanged, ResourceUpdated, ServerCapability, ToolListChanged,
};
use smol::channel::{self, Sender};
use smol::future::or;

use super::Bridge;

const LISTS: [ListKind; 3] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];

/// The notifications about changes, which the watch reports.
const CHANGES: [&str; 4] =
    [ToolListChanged::NAME, PromptListChanged::NAME, ResourceListChanged::NAME, ResourceUpdated::NAME];

enum Relayed {
    FromServer(Event),
    FromApplication(ServerEvent),
    Changed(Option<WatchUpdate>),
    AllPassed(Sender<()>),
}

/// Passes notifications on for ever. `events` are those of the client, `requested` those of the application.
pub(super) async fn pass<T>(
    bridge: &Bridge,
    handle: &ServerHandle,
    mut events: Events<Event>,
    mut requested: Events<ServerEvent>,
) -> T {
    let Ok((client, server)) = bridge.server() else { return future::pending().await };
    let mut subscriptions = Subscriptions::new(client, server);
    loop {
        let from_server = async {
            match events.next().await {
                Some(event) => Relayed::FromServer(event),
                None => future::pending().await,
            }
        };
        let from_application = async {
            match requested.next().await {
                Some(event) => Relayed::FromApplication(event),
                None => future::pending().await,
            }
        };
        // The last, once there is nothing else.
        let waiting = async {
            match bridge.waiting.1.recv().await {
                Ok(waiting) => Relayed::AllPassed(waiting),
                Err(_) => future::pending().await,
            }
        };
        match or(from_server, or(from_application, or(subscriptions.next(), waiting))).await {
            Relayed::FromServer(Event::Notification(notification)) => notify(bridge, handle, &notification),
            Relayed::FromServer(_) => {}
            Relayed::FromApplication(event) => {
                handle_request(bridge, handle, &mut subscriptions, event).await
            }
            Relayed::Changed(update) => report(handle, update),
            Relayed::AllPassed(waiting) => drop(waiting),
        }
    }
}

/// Handles the application's handshake, subscriptions and level of log messages.
async fn handle_request(
    bridge: &Bridge,
    handle: &ServerHandle,
    subscriptions: &mut Subscriptions<'_>,
    event: ServerEvent,
) {
    match event {
        ServerEvent::Initialized => {
            let _ = bridge.session.set(handle.clone()).await;
        }
        ServerEvent::Subscribed { uri } => {
            subscriptions.uris.insert(uri);
            subscriptions.watch();
        }
        ServerEvent::Unsubscribed { uri } => {
            subscriptions.uris.remove(&uri);
            subscriptions.watch();
        }
        ServerEvent::LevelSet(level) => bridge.set_level(level),
        _ => {}
    }
}

impl Bridge {
    /// Waits until the notifications that came before are passed on: a message of the log must come before the answer to
    /// its request, and a level of the log must be set before the next request.
    pub(super) async fn wait_for_notifications(&self) {
        let (waiting, passed) = channel::bounded(1);
        let _ = self.waiting.0.send(waiting).await;
        let _ = passed.recv().await;
    }

    /// Returns the latest running request of 2026-07-28 that is `wanted`.
    fn running(&self, wanted: impl Fn(&Context) -> bool) -> Option<Context> {
        self.state().running.values().rev().find(|request| wanted(request)).cloned()
    }

    /// Sets the level of log messages at a legacy server; requests to newer ones name it themselves.
    fn set_level(&self, level: LoggingLevel) {
        if let Ok((client, server)) = self.server()
            && server.era == Era::Legacy
        {
            // Sent now. A server that has no such levels refuses them.
            if let Ok(setting) = client.set_level(level).start() {
                smol::spawn(async { drop(setting.await) }).detach();
            }
        }
    }

    /// Makes a legacy server send log messages of this level, for a request of 2026-07-28 that wants them.
    pub(super) fn lower_level(&self, level: LoggingLevel) {
        let mut state = self.state();
        if state.level.is_none_or(|set| level < set) {
            state.level = Some(level);
            drop(state);
            self.set_level(level);
        }
    }
}

fn notify(bridge: &Bridge, handle: &ServerHandle, notification: &Notification) {
    if CHANGES.contains(&&*notification.method) {
        return;
    }
    // An application that is not ready, or whose revision has no such notification, misses it.
    match &*notification.method {
        LoggingMessage::NAME => {
            pass_as::<LoggingMessage>(notification, |message| log(bridge, handle, message))
        }
        ElicitationComplete::NAME => pass_as::<ElicitationComplete>(notification, |params| {
            handle.notify_session::<ElicitationComplete>(&params);
        }),
        TaskStatusChanged::NAME => pass_as::<TaskStatusChanged>(notification, |params| {
            handle.notify_session::<TaskStatusChanged>(&params);
        }),
        _ => notify_custom(bridge, handle, notification),
    }
}

/// Passes on a notification of the protocol, unless its parameters are invalid.
fn pass_as<N: mcp_proto::schema::Notification>(notification: &Notification, pass: impl FnOnce(N::Params)) {
    if let Some(Ok(params)) = notification.decode::<N>() {
        pass(params);
    }
}

/// An application of 2026-07-28 gets log messages with a request that wants them. On a byte stream any of them will do.
fn log(bridge: &Bridge, handle: &ServerHandle, message: LoggingMessageParams) {
    let LoggingMessageParams { level, logger, data, .. } = message;
    if bridge.session.is_initialized() {
        return handle.log(level, logger, data);
    }
    let wants = |request: &Context| request.log_level().is_some_and(|least| level >= least);
    match (bridge.running(wants), logger) {
        (Some(request), Some(logger)) => request.log_as(level, logger, data),
        (Some(request), None) => request.log(level, data),
        (None, _) => {}
    }
}

/// As a log message: an application of 2026-07-28 gets the notification with a request.
fn notify_custom(bridge: &Bridge, handle: &ServerHandle, notification: &Notification) {
    let Notification { method, params, .. } = notification;
    if bridge.session.is_initialized() {
        let _ = handle.notify_custom(method, params);
    } else if let Some(request) = bridge.running(|_| true) {
        let _ = request.notify_custom(method, params);
    }
}

fn report(handle: &ServerHandle, update: Option<WatchUpdate>) {
    match update {
        Some(WatchUpdate::Changed { change, .. }) => match change {
            Change::Tools => handle.list_changed(ListKind::Tools),
            Change::Prompts => handle.list_changed(ListKind::Prompts),
            Change::Resources => handle.list_changed(ListKind::Resources),
            Change::Resource(uri) => handle.resource_updated(uri),
            _ => {}
        },
        Some(WatchUpdate::Missed { .. }) => LISTS.into_iter().for_each(|list| handle.list_changed(list)),
        _ => {}
    }
}

/// One watch of everything that the application may be told of.
struct Subscriptions<'a> {
    client: &'a Client,
    /// The lists whose changes the server reports.
    lists: WatchFilter,
    uris: BTreeSet<String>,
    watch: Option<Watch>,
}

impl<'a> Subscriptions<'a> {
    fn new(client: &'a Client, server: &ServerInfo) -> Self {
        let declares =
            |capability| server.capabilities.as_ref().is_some_and(|declared| declared.has(capability));
        let mut lists = WatchFilter::new();
        if declares(ServerCapability::ToolsListChanged) {
            lists = lists.tools();
        }
        if declares(ServerCapability::PromptsListChanged) {
            lists = lists.prompts();
        }
        if declares(ServerCapability::ResourcesListChanged) {
            lists = lists.resources();
        }
        let mut subscriptions = Self { client, lists, uris: BTreeSet::new(), watch: None };
        subscriptions.watch();
        subscriptions
    }

    /// Watches what the application subscribes to now.
    fn watch(&mut self) {
        let filter = self.uris.iter().fold(self.lists.clone(), WatchFilter::resource);
        match &mut self.watch {
            Some(watch) => watch.set_filter(filter),
            None if filter.is_empty() => {}
            // A connection that has ended is reported by its requests.
            None => self.watch = self.client.watch().filter(filter).open().ok(),
        }
    }

    async fn next(&mut self) -> Relayed {
        let Some(watch) = &mut self.watch else { return future::pending().await };
        let update = watch.next().await;
        if update.is_none() {
            // The server refuses it; the next subscription tries again.
            self.watch = None;
        }
        Relayed::Changed(update)
    }
}
