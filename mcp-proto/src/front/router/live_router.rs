//! Routers as they are served: static, or live ones, which change while they serve.

use alloc::sync::{Arc, Weak};
use core::{fmt, mem};

use super::{HandlerMode, Router, RouterError, SendHandlers};
use crate::front::wakers::lock;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::server::ListKind;
use crate::prelude::*;
use crate::schema::{ServerCapabilities, ServerCapability};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex, PoisonError};

/// Live routers.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Makes the router changeable while it serves. It declares `listChanged` for tools, prompts and resources, each
    /// if it is declared.
    ///
    /// Clients learn the capabilities once: [declare](Self::declare) those of later registrations before this call.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, ServerCapability, Tool};
    ///
    /// # fn main() -> Result<(), mcp_proto::front::RouterError> {
    /// let live = Router::new("plugins", "1.0.0").declare(ServerCapability::Tools).live();
    /// // Serve `live.clone()` over any number of connections and transports. At any time, on any thread:
    /// live.update(|router| {
    ///     let ping = Tool::new("ping", "Answers", Json::empty_object());
    ///     router.tool_with(ping, async |NoArguments {}, _| "pong")
    /// })?;
    /// live.update(|router| router.disable_tool("ping"))?;
    /// assert!(live.update(|router| router.remove_tool("pong")).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#list-changed-notification>
    pub fn live(mut self) -> LiveRouter<M, S> {
        for (capability, changes) in [
            (ServerCapability::Tools, ServerCapability::ToolsListChanged),
            (ServerCapability::Prompts, ServerCapability::PromptsListChanged),
            (ServerCapability::Resources, ServerCapability::ResourcesListChanged),
        ] {
            if self.contents.capabilities.has(capability) {
                self = self.declare(changes);
            }
        }
        let state = self.state.clone();
        let shared = LiveState {
            current: Mutex::new(Arc::new(self.into_served())),
            updates: UpdateLock::default(),
            listeners: Arc::default(),
        };
        LiveRouter { shared: Arc::new(shared), state }
    }
}

/// A handle to a router that changes while it serves: see [`Router::live`].
///
/// It is cheap to clone, and usable from any thread if its router's handlers are. Every server of the router, of any
/// transport, notifies its clients of changed lists by itself.
///
/// Each request is answered with the contents of the router at its arrival. Running handlers, and tasks that have
/// started, go on after their tool is removed.
///
/// A handler may keep a handle to its own router. Then neither is dropped before an update removes the handler.
pub struct LiveRouter<M: HandlerMode = SendHandlers, S = ()> {
    shared: Arc<LiveState<M>>,
    state: Arc<S>,
}

/// The state that the handles and the servers of a live router share.
pub(super) struct LiveState<M: HandlerMode> {
    current: Mutex<Arc<Router<M>>>,
    updates: UpdateLock,
    listeners: Arc<ChangeListeners>,
}

impl<M: HandlerMode> LiveState<M> {
    fn router(&self) -> Arc<Router<M>> {
        lock(&self.current).clone()
    }
}

impl<M: HandlerMode, S: 'static> LiveRouter<M, S> {
    /// Changes the router: all changes of one update are visible at once, and clients are notified once of each list
    /// that has changed. Requests that are being answered are not affected.
    ///
    /// `change` registers, [removes](Router::remove_tool), [disables](Router::disable_tool) and
    /// [enables](Router::enable_tool) items. Everything that [`Router::check`] checks before a router serves is
    /// checked here, too.
    ///
    /// An update waits while another thread updates the same router, so that no change is lost. Servers go on
    /// meanwhile. A handler may update its own router.
    ///
    /// # Errors
    /// The first invalid registration. On any error the router stays as it is, and no client is notified. Other errors
    /// are
    ///
    /// - a capability that was not declared before [`Router::live`], such as that of the first tool;
    /// - a change of what clients learn once: the name, instructions, capabilities and extensions, custom methods,
    ///   handlers of notifications, the access to subscriptions, cache hints, the task configuration;
    /// - an update within `change`.
    pub fn update(&self, change: impl FnOnce(Router<M, S>) -> Router<M, S>) -> Result<(), RouterError> {
        let shared = &*self.shared;
        let Some(updating) = shared.updates.acquire() else { return Err(RouterError::NestedUpdate) };
        let before = shared.router();
        let changed = change(Router::clone(&before).replace_state(self.state.clone()));
        let after = changed.replace_state(before.state.clone());
        after.check()?;
        after.check_fixed(&before)?;
        let lists = after.changed_lists(&before);
        let replaced = mem::replace(&mut *lock(&shared.current), Arc::new(after));
        drop(updating);
        // The last request may drop handlers, which is done outside the locks.
        drop((before, replaced));
        //= S5.7 "list_changed emitted if declared"
        if !lists.is_empty() {
            shared.listeners.publish(|server| lists.iter().for_each(|list| server.list_changed(*list)));
        }
        Ok(())
    }

    /// Notifies the clients that are subscribed to a resource, over every connection and transport, that it has changed.
    ///
    /// The capability must have been [declared](Router::declare).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions>
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        let uri = uri.as_ref();
        self.shared.listeners.publish(|server| server.resource_updated(uri));
    }
}

impl<M: HandlerMode> Router<M> {
    /// Checks that nothing differs from `before` that clients and servers learn once.
    fn check_fixed(&self, before: &Self) -> Result<(), RouterError> {
        if let Some(capability) =
            gained_capability(&self.contents.capabilities, &before.contents.capabilities)
        {
            return Err(RouterError::Undeclared { capability });
        }
        let custom_methods =
            |router: &Self| router.contents.custom_methods.iter().cloned().collect::<OrderedSet<_>>();
        let registry = |router: &Self| router.contents.task_registry.as_ref().map(Arc::as_ptr);
        let fixed = [
            ("name and version", self.contents.info == before.contents.info),
            ("instructions", self.contents.instructions == before.contents.instructions),
            ("task configuration", registry(self) == registry(before)),
            ("capabilities", self.contents.capabilities == before.contents.capabilities),
            ("custom methods", custom_methods(self) == custom_methods(before)),
            (
                "notification handlers",
                self.contents.notifications.handles_same(&before.contents.notifications),
            ),
            ("fallback", self.contents.fallback.is_some() == before.contents.fallback.is_some()),
            ("subscription access", self.has_same_access(before)),
            ("cache hints", self.contents.cache_hints == before.contents.cache_hints),
        ];
        match fixed.into_iter().find(|(_, same)| !same) {
            Some((what, _)) => Err(RouterError::Fixed { what }),
            None => Ok(()),
        }
    }

    fn has_same_access(&self, before: &Self) -> bool {
        let (own, others) = (&self.contents.subscription_access, &before.contents.subscription_access);
        let is_same = match (own, others) {
            (Some(own), Some(other)) => own.is_clone_of(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        let parts = self.contents.part_access.iter().map(Arc::as_ptr);
        is_same && parts.eq(before.contents.part_access.iter().map(Arc::as_ptr))
    }

    /// The lists whose items differ from those of `before`.
    fn changed_lists(&self, before: &Self) -> Vec<ListKind> {
        let resources = self.contents.resources.same_items(&before.contents.resources, |item| item)
            && self.contents.templates.same_items(&before.contents.templates, |item| item);
        let lists = [
            (ListKind::Tools, self.contents.tools.same_items(&before.contents.tools, |item| &item.tool)),
            (ListKind::Prompts, self.contents.prompts.same_items(&before.contents.prompts, |item| item)),
            (ListKind::Resources, resources),
        ];
        lists.into_iter().filter(|(_, same)| !same).map(|(list, _)| list).collect()
    }
}

/// A capability or an extension that the first declares and the second does not.
fn gained_capability(now: &ServerCapabilities, before: &ServerCapabilities) -> Option<String> {
    let capabilities = [
        ServerCapability::Tools,
        ServerCapability::Resources,
        ServerCapability::ResourcesSubscribe,
        ServerCapability::Prompts,
        ServerCapability::Completions,
        ServerCapability::Logging,
    ];
    let gained = capabilities.into_iter().find(|capability| now.has(*capability) && !before.has(*capability));
    let extension = || {
        let mut names = now.extensions.iter().flat_map(|extensions| extensions.iter()).map(|(name, _)| name);
        names.find(|name| !before.has_extension(name)).map(Into::into)
    };
    gained.map(|capability| capability.path().into()).or_else(extension)
}

impl<M: HandlerMode, S> Clone for LiveRouter<M, S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), state: self.state.clone() }
    }
}

impl<M: HandlerMode, S> fmt::Debug for LiveRouter<M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveRouter").field(&self.shared.router()).finish()
    }
}

/// A router as servers hold it, whatever the type of its state. Everything that serves takes
/// `impl Into<ServedRouter<M>>`: a [`Router`], an `Arc` of one, or a [`LiveRouter`].
#[derive(Clone)]
pub struct ServedRouter<M: HandlerMode = SendHandlers>(Contents<M>);

#[derive(Clone)]
enum Contents<M: HandlerMode> {
    Static(Arc<Router<M>>),
    Live(Arc<LiveState<M>>),
}

impl<M: HandlerMode> ServedRouter<M> {
    /// The present contents of the router, for a server's [configuration](Router::config) and for
    /// [checks](Router::check).
    pub fn router(&self) -> Arc<Router<M>> {
        //= S8.1 "Lists do not vary per connection"
        match &self.0 {
            Contents::Static(router) => router.clone(),
            Contents::Live(live) => live.router(),
        }
    }

    /// A router with these contents for as long as it is served.
    pub(crate) fn unchanging(router: Arc<Router<M>>) -> Self {
        Self(Contents::Static(router))
    }

    /// Makes `listener` publish the changes of a live router until the returned value is dropped.
    pub(crate) fn listen(&self, listener: Weak<dyn ChangeListener>) -> Option<ListenerGuard> {
        match &self.0 {
            Contents::Static(_) => None,
            Contents::Live(live) => Some(live.listeners.add(listener)),
        }
    }
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Removes the state's type, and checks the router: an invalid one answers all requests with the error.
    fn into_served(self) -> Router<M> {
        let mut router = self.replace_state(Arc::default());
        if let Err(error) = router.check() {
            router.record_error(error);
        }
        router
    }
}

impl<M: HandlerMode, S: 'static> From<Router<M, S>> for ServedRouter<M> {
    fn from(router: Router<M, S>) -> Self {
        Self(Contents::Static(Arc::new(router.into_served())))
    }
}

impl<M: HandlerMode, S: 'static> From<Arc<Router<M, S>>> for ServedRouter<M> {
    fn from(router: Arc<Router<M, S>>) -> Self {
        Arc::unwrap_or_clone(router).into()
    }
}

impl<M: HandlerMode, S: 'static> From<LiveRouter<M, S>> for ServedRouter<M> {
    fn from(router: LiveRouter<M, S>) -> Self {
        Self(Contents::Live(router.shared))
    }
}

impl<M: HandlerMode> fmt::Debug for ServedRouter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.router().fmt(f)
    }
}

/// A server that notifies its clients of changes.
pub(crate) trait ChangeListener: Send + Sync {
    fn list_changed(&self, list: ListKind);

    fn resource_updated(&self, uri: &str);
}

/// The servers of a live router.
#[derive(Default)]
pub(super) struct ChangeListeners(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    listeners: OrderedMap<u64, Weak<dyn ChangeListener>>,
    next: u64,
}

impl ChangeListeners {
    /// Adds a server until the returned value is dropped.
    fn add(self: &Arc<Self>, listener: Weak<dyn ChangeListener>) -> ListenerGuard {
        let mut entries = lock(&self.0);
        let key = entries.next;
        entries.next = key.saturating_add(1);
        entries.listeners.insert(key, listener);
        ListenerGuard { listeners: self.clone(), key }
    }

    /// Notifies all servers, outside the lock.
    fn publish(&self, publish: impl Fn(&dyn ChangeListener)) {
        let listeners: Vec<_> = lock(&self.0).listeners.values().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            publish(&*listener);
        }
    }
}

/// The registration of a server with its live router.
pub(crate) struct ListenerGuard {
    listeners: Arc<ChangeListeners>,
    key: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let removed = lock(&self.listeners.0).listeners.remove(&self.key);
        drop(removed);
    }
}

/// A lock that is held while the application's code runs: a second attempt on the same thread fails, instead of a
/// deadlock.
#[derive(Default)]
pub(super) struct UpdateLock {
    holder: Mutex<Option<ThreadId>>,
    released: Condvar,
}

impl UpdateLock {
    /// Waits until no other thread holds the lock; `None` if this thread holds it.
    fn acquire(&self) -> Option<UpdateGuard<'_>> {
        let this = thread::current().id();
        let mut holder = lock(&self.holder);
        while let Some(thread) = *holder {
            if thread == this {
                return None;
            }
            holder = self.released.wait(holder).unwrap_or_else(PoisonError::into_inner);
        }
        *holder = Some(this);
        Some(UpdateGuard(self))
    }
}

pub(super) struct UpdateGuard<'a>(&'a UpdateLock);

impl Drop for UpdateGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.holder) = None;
        self.0.released.notify_one();
    }
}

/// Removed and disabled items.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Removes a tool with its scopes (`Router::tool_scopes`) and its [time limit](Self::tool_timeout).
    ///
    /// A tool that is registered again under the same name takes the same place in the list.
    ///
    /// An unknown name is a [`RouterError::NotRegistered`] of [`check`](Self::check); so it is for all these methods.
    pub fn remove_tool(self, name: &str) -> Self {
        self.change(|contents| {
            #[cfg(feature = "auth")]
            contents.scopes.remove(name);
            contents.tool_timeouts.remove(name);
            contents.tools.remove(name)
        })
    }

    /// Hides a tool: it is not listed, and a call is answered as that of an unknown tool.
    pub fn disable_tool(self, name: &str) -> Self {
        self.change(|contents| contents.tools.set_enabled(name, false))
    }

    /// Makes a disabled tool available again.
    pub fn enable_tool(self, name: &str) -> Self {
        self.change(|contents| contents.tools.set_enabled(name, true))
    }

    /// Removes a prompt.
    pub fn remove_prompt(self, name: &str) -> Self {
        self.change(|contents| contents.prompts.remove(name))
    }

    /// Hides a prompt: it is not listed, and a request for it is answered as that for an unknown prompt.
    pub fn disable_prompt(self, name: &str) -> Self {
        self.change(|contents| contents.prompts.set_enabled(name, false))
    }

    /// Makes a disabled prompt available again.
    pub fn enable_prompt(self, name: &str) -> Self {
        self.change(|contents| contents.prompts.set_enabled(name, true))
    }

    /// Removes a resource, or a page of tools.
    pub fn remove_resource(self, uri: &str) -> Self {
        self.change(|contents| contents.resources.remove(uri))
    }

    /// Hides a resource: it is not listed. It cannot be read either, unless a template matches its URI.
    pub fn disable_resource(self, uri: &str) -> Self {
        self.change(|contents| contents.resources.set_enabled(uri, false))
    }

    /// Makes a disabled resource available again.
    pub fn enable_resource(self, uri: &str) -> Self {
        self.change(|contents| contents.resources.set_enabled(uri, true))
    }

    /// Removes a resource template.
    pub fn remove_template(self, uri_template: &str) -> Self {
        self.change(|contents| contents.templates.remove(uri_template))
    }

    /// Hides a resource template: it is not listed and matches no URI.
    pub fn disable_template(self, uri_template: &str) -> Self {
        self.change(|contents| contents.templates.set_enabled(uri_template, false))
    }

    /// Makes a disabled resource template available again.
    pub fn enable_template(self, uri_template: &str) -> Self {
        self.change(|contents| contents.templates.set_enabled(uri_template, true))
    }
}
