//! The application's handle to its servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_proto::Instant;
use mcp_proto::front::{Client, Error};
use mcp_proto::host::config::{Config, ServerEntry, ServerId};
use mcp_proto::host::consent::{Approval, ApprovalRequest, Approvals};
use mcp_proto::host::control::{ControlPlane, Repeat, Status, UnknownServer};
use mcp_proto::host::tools::{
    Catalogue, CatalogueItem, Entry, Freshness, ItemKind, LookupError, PinChange, TypeScriptDeclarations,
    TypeScriptLimits,
};
use mcp_proto::peer::RequestError;
use mcp_proto::schema::{
    CallTool, CallToolParams, GetPrompt, GetPromptParams, Json, Map, Method, Prompt, ReadResource,
    ReadResourceParams, Resource, Tool,
};
use serde::Serialize;

use super::calls::{HostRequest, Lookup, Target};
use super::driver::configure;
use super::events::{CallError, Counters, HostEvent, ServerReport};
use super::model::{ModelMethod, ModelRequest};
use super::settings::Settings;
use super::shared::{HostEvents, OpenHost, Shared, State};
use super::storage::Loaded;

//= F92 "One handle: parallel connections, one flat list of tools, one close"
/// Many servers as one: their tools under names for a model, kept connected.
///
/// It is cheap to clone and usable from any thread. Its [driver](super::HostDriver) must be polled. When the last clone
/// is dropped and no request is pending, the host closes.
#[derive(Clone)]
pub struct Host {
    open: Arc<OpenHost>,
    pub(super) settings: Arc<Settings>,
}

/// A tool of a server under its name for a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HostTool {
    /// The name for a model.
    pub name: String,
    /// The server's name in the configuration.
    pub server: String,
    /// The tool as the server lists it, with its name for the wire. Its texts are the server's.
    pub tool: Tool,
}

impl Host {
    pub(super) fn new(shared: Arc<Shared>, settings: Arc<Settings>) -> Self {
        let mut layers = settings.layers.clone();
        // What the user agrees to is what is sent.
        layers.extend(&settings.questions);
        Self { open: Arc::new(OpenHost { shared, layers }), settings }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.open.shared
    }

    #[cfg(feature = "auth")]
    pub(super) fn entry(&self, name: &str) -> Option<Arc<ServerEntry>> {
        self.with(|state| state.entries.get(&state.find(name)?).cloned())
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        self.shared().with(|state, _| act(state))
    }

    fn read_all<T>(&self, read: impl FnOnce(&State, &mut Catalogue) -> T) -> T {
        self.shared().catalogue(|catalogue| self.with(|state| read(state, catalogue)))
    }
}

/// # Life
impl Host {
    /// Waits until every server is connected or has failed, its first attempt at least. Servers that are switched off,
    /// start with their first call, or wait for the user's approval are not awaited.
    ///
    /// A server that does not start fails at the end of its start timeout, 30 s unless it is
    /// [configured](super::HostOptions::timeouts); this is the limit of the wait. To go on earlier, use
    /// [`wait_for_gate`](Self::wait_for_gate). The tools of the connected servers are listed then. Prompts and resources
    /// are read after that: requests for them wait until they are listed.
    pub async fn ready(&self) {
        self.shared().wait(State::has_settled).await;
    }

    /// Waits until the startup gate has passed: every server is connected or has failed, or
    /// [`ControlConfig::startup_gate`](mcp_proto::host::control::ControlConfig::startup_gate) is over, 250 ms by default,
    /// and the required ones are connected or have failed.
    ///
    /// The others go on to start, and their tools are not listed yet, except those that a
    /// [storage](super::HostOptions::storage) remembers. Calls wait for their servers.
    pub async fn wait_for_gate(&self) {
        self.shared().wait(|state| state.is_gate_passed).await;
    }

    /// Takes no more calls, lets those that were sent finish within
    /// [`ControlConfig::grace`](mcp_proto::host::control::ControlConfig::grace), 5 s by default, cancels the others, ends
    /// all servers, and waits until no process is left, within
    /// [`ControlConfig::shutdown`](mcp_proto::host::control::ControlConfig::shutdown).
    pub async fn close(&self) {
        self.shared().command(|state, now| state.plane.close(now));
        self.shared().wait(|_| false).await;
    }

    /// Cancels all calls, ends all servers, and waits until no process is left, as [`close`](Self::close) without a
    /// grace; ends the grace of a `close` before.
    pub async fn close_now(&self) {
        self.shared().command(|state, now| state.plane.close_now(now));
        self.shared().wait(|_| false).await;
    }

    /// Replaces the configuration: starts new servers, ends those that are gone, restarts those that would be reached
    /// in another way. The others are not touched. Calls that were sent to a server that ends or restarts may finish
    /// within [`ControlConfig::grace`](mcp_proto::host::control::ControlConfig::grace); new ones wait for the restart.
    ///
    /// With a [storage](super::HostOptions::storage), the driver first reads the stored lists of new servers.
    pub fn reload(&self, config: &Config) {
        let Self { open, settings } = self;
        let shared = &open.shared;
        match &settings.memory {
            Some(_) => shared.command(|state, _| state.new_config = Some(config.clone())),
            None => configure(shared, settings, config, Loaded::default()),
        }
    }

    /// A stream of events from now on.
    pub fn events(&self) -> HostEvents {
        HostEvents::new(self.open.shared.clone())
    }

    /// Counts of attempts and calls since the start.
    pub fn counters(&self) -> Counters {
        self.with(|state| state.counters)
    }
}

/// # Servers
impl Host {
    /// The servers, sorted by name.
    pub fn servers(&self) -> Vec<ServerReport> {
        let mut reports = self.shared().reports(None);
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        reports
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<ServerReport> {
        let server = self.with(|state| state.find(name))?;
        self.shared().reports(Some(server)).pop()
    }

    /// Keeps a server running, as calls do: a lazy server starts, and is not stopped for want of calls before the hold is
    /// dropped. Hold a server while something of it is open that the host does not see, such as a subscription made by
    /// its [client](Self::client).
    ///
    /// # Errors
    /// If no such server is configured, or the host is closed.
    pub fn hold(&self, name: &str) -> Result<ServerHold, UnknownServer> {
        self.command(name, |plane, now, server| {
            plane.hold(now, server)?;
            Ok(ServerHold { shared: self.open.shared.clone(), server })
        })
    }

    fn command<T>(
        &self,
        name: &str,
        act: impl FnOnce(&mut ControlPlane, Instant, ServerId) -> Result<T, UnknownServer>,
    ) -> Result<T, UnknownServer> {
        self.shared().command(|state, now| {
            let server = state.find(name).ok_or(UnknownServer)?;
            act(&mut state.plane, now, server)
        })
    }

    /// The client of a connected server, for methods that this handle lacks. It is of this one connection and ends with it;
    /// do not close it. For changes, [`watch`](Self::watch) lives on.
    pub fn client(&self, name: &str) -> Option<Client> {
        self.with(|state| state.connections.get(&state.find(name)?)?.client.clone())
    }

    //= F89 "single servers can be reconnected by name"
    /// Reconnects a server at once, in any status, and forgives its failed attempts. Asks again for an
    /// approval that was not given.
    ///
    /// # Errors
    /// If no such server is configured, or the host is closed.
    pub fn reconnect(&self, name: &str) -> Result<(), UnknownServer> {
        self.command(name, ControlPlane::reconnect)
    }

    /// Switches a server on or off, until its configuration changes. Calls that were sent may finish within
    /// [`ControlConfig::grace`](mcp_proto::host::control::ControlConfig::grace).
    ///
    /// # Errors
    /// If no such server is configured, or the host is closed.
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), UnknownServer> {
        self.command(name, |plane, now, server| plane.set_enabled(now, server, enabled))
    }

    /// The servers of projects that wait for the user's approval. Before the event
    /// [`ApprovalNeeded`](HostEvent::ApprovalNeeded), a request may lack the names of variables in the server's file of
    /// variables, and that the user has a login at the server: an approval of it does not count then, and the user is asked
    /// again.
    pub fn pending_approvals(&self) -> Vec<ApprovalRequest> {
        self.with(|state| {
            let unapproved = |id| state.plane.server(id).is_some_and(|it| it.status == Status::Unapproved);
            let entries = state.entries.values().filter(|entry| unapproved(entry.id()));
            entries.filter_map(|entry| Some(state.request(entry)?.0)).collect()
        })
    }

    /// Adds an approval that the user gave after seeing the whole [request](ApprovalRequest), and starts its server, for
    /// which [`ready`](Self::ready) waits then; or that of a [skill](mcp_proto::host::consent::SkillRequest).
    pub fn approve(&self, approval: Approval) {
        self.shared().command(|state, now| {
            state.approve(approval);
            let entries: Vec<_> = state.entries.values().cloned().collect();
            for entry in entries {
                let is_waiting =
                    state.plane.server(entry.id()).is_some_and(|it| it.status == Status::Unapproved);
                if is_waiting && entry.permit(&state.approvals).is_ok() {
                    state.plane.handle_approval(now, entry.id(), entry.meaning(), true);
                }
            }
        });
    }

    /// Removes the approval of the server `name` of the project whose file is at `path`, and those of its skills, and ends
    /// the server. With an empty path, removes those of the skills of the user's server `name`, which goes on. Returns whether
    /// there was one.
    pub fn revoke_approval(&self, path: &str, name: &str) -> bool {
        let is_project = !path.is_empty();
        let server = if is_project { ServerId::project(path, name) } else { ServerId::user(name) };
        self.shared().command(|state, now| {
            state.unsaved.add_approvals(server);
            let of_server = state.approvals.iter().filter(|it| (it.path(), it.server()) == (path, name));
            let skills: Vec<Arc<str>> = of_server.filter_map(|it| it.skill().map(Into::into)).collect();
            let is_revoked = state.approvals.revoke(path, name);
            for skill in skills {
                state.publish(HostEvent::SkillRevoked { server: name.into(), skill });
            }
            if is_revoked && is_project {
                // Running calls do not finish, also of a server that is switched off or removed, and while the host closes.
                state.plane.end_grace(now, server);
                // It fails for want of the approval, if it is configured.
                let _ = state.plane.reconnect(now, server);
            }
            is_revoked
        })
    }

    /// The approvals, to be stored outside of any project by an application without a
    /// [storage](super::HostOptions::storage).
    pub fn approvals(&self) -> Approvals {
        self.with(|state| state.approvals.clone())
    }
}

impl State {
    pub(super) fn find(&self, name: &str) -> Option<ServerId> {
        self.entries.values().find(|entry| entry.name() == name).map(|entry| entry.id())
    }

    /// Whether the user has switched this server off, or has not approved it: nothing of it is offered to a model.
    pub(super) fn is_withdrawn(&self, entry: &ServerEntry) -> bool {
        let status = self.plane.server(entry.id()).map(|server| server.status);
        matches!(status, Some(Status::Disabled | Status::Unapproved))
            || entry.permit(&self.approvals).is_err()
    }
}

/// # Tools, prompts and resources
impl Host {
    /// The visible tools of all servers that can be called, sorted by name. Those of a server that is away are as it
    /// last listed them; those of a server that is switched off or not approved are left out, and so are those that a project's
    /// server has added or changed since its approval, until [`approve_changes`](Self::approve_changes).
    ///
    /// Tools that exist for [pages](mcp_proto::schema::apps) alone are left out too, and calls of them by their names for a
    /// model are refused. A page's call goes by [`request`](Self::request), once
    /// [`Catalogue::items`] has shown that the server lists the tool.
    pub fn tools(&self) -> Vec<HostTool> {
        let owned = |entry: Entry<'_, Tool>| HostTool {
            name: entry.name.to_owned(),
            server: entry.server.to_owned(),
            tool: entry.item.clone(),
        };
        self.catalogue(|catalogue| catalogue.tools().map(owned).collect())
    }

    /// The visible tools as TypeScript declarations, for a model that writes code against them. For those of a
    /// conversation, use [`TypeScriptDeclarations::of_tools`] within [`catalogue`](Self::catalogue).
    ///
    /// ```no_run
    /// use mcp_proto::host::tools::TypeScriptLimits;
    ///
    /// # fn example(host: mcp_hyper::host::Host) {
    /// let declared = host.typescript(&TypeScriptLimits::default());
    /// println!("{}", declared.text);
    /// # }
    /// ```
    pub fn typescript(&self, limits: &TypeScriptLimits) -> TypeScriptDeclarations {
        self.catalogue(|catalogue| TypeScriptDeclarations::of_tools(catalogue.tools(), limits))
    }

    /// Reads the catalogue: tools, prompts, resources and instructions, or what a
    /// [`Conversation`](mcp_proto::host::tools::Conversation) selects of them. A server that is switched off or not
    /// approved is [withdrawn](Catalogue::set_withdrawn) there.
    ///
    /// The host waits meanwhile: `read` should be quick, and must not use this handle.
    pub fn catalogue<T>(&self, read: impl FnOnce(&Catalogue) -> T) -> T {
        self.shared().visible_catalogue(|catalogue| read(catalogue))
    }

    /// Approves changed definitions of a server that the user has seen; returns how many still waited for it.
    pub fn approve_changes(&self, server: &str, changes: &[PinChange]) -> usize {
        self.shared().command_both(|catalogue, state, _| {
            let count = catalogue.approve(server, changes);
            let kinds: BTreeSet<_> = changes.iter().map(|change| change.kind).collect();
            if let Some(server_id) = state.find(server).filter(|_| count > 0) {
                state.unsaved.add(server_id, true);
            }
            for kind in kinds.into_iter().filter(|_| count > 0) {
                state.publish(HostEvent::CatalogueChanged { server: server.into(), kind });
            }
            count
        })
    }

    /// Calls a tool by its name for a model. `arguments` is any value that serializes to a JSON object.
    ///
    /// The call waits for its server, also for one that still starts and has not listed its tools. If its connection
    /// ends before the answer, it is sent again only if that is safe: see [`HostRequest::repeat`].
    ///
    /// ```no_run
    /// # async fn example(host: mcp_hyper::host::Host) -> Result<(), mcp_hyper::host::CallError> {
    /// let result = host.call_tool("mcp__calculator__add", serde_json::json!({ "a": 2, "b": 3 })).await?;
    /// println!("{}", result.text_content());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> HostRequest<CallTool> {
        let repeat = |tool: Option<&Tool>| match tool.and_then(|tool| tool.annotations.as_ref()) {
            Some(hints) if hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true) => {
                Repeat::IfLost
            }
            _ => Repeat::IfNotSent,
        };
        let arguments = Json::encode(&arguments).map_err(|error| error.to_string());
        let arguments = arguments.and_then(|json| match json.is_object() {
            true => Ok(json),
            false => Err("the arguments of a tool must be a JSON object".to_owned()),
        });
        let params = match arguments {
            Ok(json) => Ok(CallToolParams::new("").with_arguments(json)),
            Err(error) => Err(Error::NotSent(RequestError::Encode(error))),
        };
        let set = |params: &mut CallToolParams, tool: &Tool| params.name.clone_from(&tool.name);
        self.request_item(name, params, repeat, set)
    }

    /// Calls a tool and converts its result for a model: parts of text, images and audio within
    /// [limits](super::HostOptions::result_limits). What exceeds them goes to [files](super::HostOptions::spill_folder),
    /// and the model gets their paths.
    ///
    /// An error of the server that a model can do something about, such as invalid arguments, is content too, with
    /// `is_error`; other errors are with [`errors_as_content`](super::HostOptions::errors_as_content).
    ///
    /// # Errors
    /// If there is no such tool, or its server did not answer.
    pub fn call_for_model(&self, name: &str, arguments: impl Serialize) -> ModelRequest<CallTool> {
        self.for_model(name, self.call_tool(name, arguments))
    }

    /// Gets a prompt as [`get_prompt`](Self::get_prompt) does, and converts its messages for a model, which share the
    /// limits and the folder of [results](Self::call_for_model).
    ///
    /// # Errors
    /// If there is no such prompt, or its server refused it or did not answer: a prompt is a command of the user, so that
    /// its errors are for the user.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#user-interaction-model>
    pub fn get_prompt_for_model<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> ModelRequest<GetPrompt> {
        self.for_model(name, self.get_prompt(name, arguments))
    }

    /// Reads a resource as [`read_resource`](Self::read_resource) does, and converts it for a model as the result of a
    /// [tool](Self::call_for_model), its errors too.
    ///
    /// # Errors
    /// If there is no such resource, or its server did not answer.
    pub fn read_resource_for_model(&self, name: &str) -> ModelRequest<ReadResource> {
        self.for_model(name, self.read_resource(name))
    }

    /// Converts the result of a request for a model, such as that of a resource that a result links to. The names of files
    /// begin with `name`.
    ///
    /// ```no_run
    /// use mcp_hyper::host::{CallError, Host};
    /// use mcp_proto::schema::{ReadResource, ReadResourceParams};
    ///
    /// # async fn example(host: Host) -> Result<(), CallError> {
    /// let report = host.request::<ReadResource>("files", ReadResourceParams::new("file:///report.txt"));
    /// let content = host.for_model("report", report).await?;
    /// println!("{}", content.to_text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_model<M: ModelMethod>(&self, name: &str, request: HostRequest<M>) -> ModelRequest<M> {
        ModelRequest::new(request, name, self.settings.clone())
    }

    /// Gets a prompt by its name in the catalogue, filled in with `arguments`.
    pub fn get_prompt<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> HostRequest<GetPrompt> {
        let arguments: Map<String> =
            arguments.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut params = GetPromptParams::new("");
        params.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
        let set = |params: &mut GetPromptParams, prompt: &Prompt| params.name.clone_from(&prompt.name);
        self.request_item(name, Ok(params), |_| Repeat::IfLost, set)
    }

    /// Reads a resource by its name in the catalogue. For another URI of the server, such as one of a template, use
    /// [`request`](Self::request).
    pub fn read_resource(&self, name: &str) -> HostRequest<ReadResource> {
        let set = |params: &mut ReadResourceParams, item: &Resource| params.uri.clone_from(&item.uri);
        self.request_item(name, Ok(ReadResourceParams::new("")), |_| Repeat::IfLost, set)
    }

    /// Makes a request of any method to the server of this name. No filter of its entry applies to it, and no pin:
    /// [`Catalogue::allows`] tells whether a resource may be read that a template or a link names.
    pub fn request<M: Method<Params: Send + Sync, Result: Send>>(
        &self,
        server: &str,
        params: M::Params,
    ) -> HostRequest<M> {
        let target = self.target(server, None);
        HostRequest::new(self.open.clone(), target, Ok(params), Repeat::IfNotSent, None)
    }

    /// A request for an item of the catalogue, to its server, or else to the one that may list the item later. `set` puts
    /// the item's name for the wire into the parameters.
    fn request_item<M: Method<Params: Send + Sync, Result: Send>, T: CatalogueItem>(
        &self,
        name: &str,
        params: Result<M::Params, Error>,
        repeat: impl Fn(Option<&T>) -> Repeat,
        set: fn(&mut M::Params, &T),
    ) -> HostRequest<M> {
        let found = self.shared().catalogue(|catalogue| {
            let Entry { server, item, .. } = catalogue.find::<T>(name)?;
            Ok((server.to_owned(), item.key().into(), repeat(Some(item))))
        });
        let (target, repeat) = match found {
            Ok((server, key, repeat)) => (self.target(&server, Some(key)), repeat),
            Err(error) => {
                let unlisted = (error == LookupError::Unknown).then(|| self.unlisted_server(name, T::KIND));
                (unlisted.flatten().ok_or(CallError::Name(error)), repeat(None))
            }
        };
        let lookup = lookup::<M, T>(name, &target, set);
        HostRequest::new(self.open.clone(), target, params, repeat, Some(lookup))
    }

    /// The server that may have an item of this name, but has not listed such items since it was started.
    fn unlisted_server(&self, name: &str, kind: ItemKind) -> Option<Target> {
        self.read_all(|state, catalogue| {
            let unlisted = state.entries.values().filter_map(|entry| {
                let (id, server) = (entry.id(), entry.name());
                let freshness = catalogue.freshness(server)?;
                let status = state.plane.server(id).map(|server| server.status);
                let may_list_it = freshness == Freshness::Unlisted
                    || (kind != ItemKind::Tool && !state.is_listed(id))
                    || status == Some(Status::Starting);
                let is_withdrawn = matches!(status, Some(Status::Disabled | Status::Unapproved));
                let is_named = catalogue.scheme().may_belong_to(server, name);
                (is_named && may_list_it).then_some((!is_withdrawn, server.len(), server, id))
            });
            // A server that is off or not approved takes no call from another. The longest name has the most in common
            // with the tool's.
            let (.., server, id) = unlisted.max()?;
            Some(Target { id, server: server.into(), item: None })
        })
    }

    fn target(&self, server: &str, item: Option<Arc<str>>) -> Result<Target, CallError> {
        let id = self.with(|state| state.find(server)).ok_or(CallError::UnknownServer)?;
        Ok(Target { id, server: server.into(), item })
    }
}

/// Finds an item again when its call is sent: the name may have become that of another server's item.
fn lookup<M: Method, T: CatalogueItem>(
    name: &str,
    target: &Result<Target, CallError>,
    set: fn(&mut M::Params, &T),
) -> Lookup<M> {
    let name = name.to_owned();
    let server = target.as_ref().ok().map(|target| target.server.clone());
    Box::new(move |catalogue, params| {
        let entry = catalogue.find(&name)?;
        if server.as_deref() != Some(entry.server) {
            return Err(LookupError::Unknown);
        }
        set(params, entry.item);
        Ok(entry.item.key().into())
    })
}

debug_fields! { Host => "Host" }

/// Keeps a server running until it is dropped: see [`Host::hold`](super::Host::hold).
#[must_use = "the server is no longer held once this is dropped"]
pub struct ServerHold {
    shared: Arc<Shared>,
    server: ServerId,
}

impl ServerHold {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn server(&self) -> ServerId {
        self.server
    }
}

impl Drop for ServerHold {
    fn drop(&mut self) {
        self.shared.command(|state, now| state.plane.release(now, self.server));
    }
}

debug_fields! { ServerHold { server } }

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::host::tools::ServerSettings;

    #[test]
    fn call_that_waited_goes_to_no_other_server_that_has_the_name_by_now() {
        let mut catalogue = Catalogue::default();
        catalogue.add_server("b", ServerSettings::default());
        catalogue.update("b", vec![Tool::new("x", "", serde_json::json!({ "type": "object" }))]);
        let sent = |server: &str| {
            let id = ServerId::user(server);
            let target = Ok(Target { id, server: server.into(), item: None });
            let set = |params: &mut CallToolParams, tool: &Tool| params.name.clone_from(&tool.name);
            let mut params = CallToolParams::new("");
            lookup::<CallTool, _>("mcp__b__x", &target, set)(&catalogue, &mut params)
                .map(|found| (params.name, found))
        };
        assert_eq!(sent("b"), Ok(("x".to_owned(), "x".into())));
        assert_eq!(sent("a"), Err(LookupError::Unknown));
    }
}
