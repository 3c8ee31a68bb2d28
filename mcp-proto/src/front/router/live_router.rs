//! Routers that change while they serve.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use std::sync::Mutex;

use super::change_listeners::ChangeListeners;
use super::update_lock::UpdateLock;
use super::{HandlerMode, Router, RouterError, SendHandlers};
use crate::front::signal::lock;
use crate::peer::server::ListKind;
use crate::schema::{ServerCapabilities, ServerCapability};

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
    pub(super) listeners: Arc<ChangeListeners>,
}

impl<M: HandlerMode> LiveState<M> {
    pub(super) fn router(&self) -> Arc<Router<M>> {
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
    ///   handlers of notifications, cache hints, the task configuration;
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

    pub(super) fn into_shared(self) -> Arc<LiveState<M>> {
        self.shared
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
            |router: &Self| router.contents.custom_methods.iter().cloned().collect::<BTreeSet<_>>();
        let registry = |router: &Self| router.contents.task_registry.as_ref().map(Arc::as_ptr);
        let fixed = [
            ("name and version", self.contents.info == before.contents.info),
            ("instructions", self.contents.instructions == before.contents.instructions),
            ("task configuration", registry(self) == registry(before)),
            ("capabilities", self.contents.capabilities == before.contents.capabilities),
            ("custom methods", custom_methods(self) == custom_methods(before)),
            ("notification handlers", self.contents.custom.handles_same(&before.contents.custom)),
            ("cache hints", self.contents.cache_hints == before.contents.cache_hints),
        ];
        match fixed.into_iter().find(|(_, same)| !same) {
            Some((what, _)) => Err(RouterError::Fixed { what }),
            None => Ok(()),
        }
    }

    /// The lists whose items differ from those of `before`.
    fn changed_lists(&self, before: &Self) -> Vec<ListKind> {
        let resources = self.contents.resources.same_items(&before.contents.resources)
            && self.contents.templates.same_items(&before.contents.templates);
        let lists = [
            (ListKind::Tools, self.contents.tools.same_items(&before.contents.tools)),
            (ListKind::Prompts, self.contents.prompts.same_items(&before.contents.prompts)),
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
