//! Routers that are combined from others.

use alloc::sync::Arc;

use super::origin::{Origin, PartAccess, Prefix, ResourceNames, no_completions};
use super::registry::Entry;
#[cfg(feature = "skills")]
use super::skills::MountedSkills;
#[cfg(feature = "skills")]
use super::skills::RegisteredSkills;
use super::tools::{RegisteredTool, is_tool_name};
use super::uri::UriTemplate;
use super::{Context, HandlerMode, Router, RouterContents, RouterError, TemplateEntry, TemplateMatch};
use crate::front::params::{ToolCall, decode_params};
use crate::ordered_map;
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::skills::{GetSkill, ListSkills, ReadDirectory};
use crate::schema::{
    CacheHint, CacheScope, CallTool, Complete, GetPrompt, GetPromptParams, Json, ListPrompts,
    ListResourceTemplates, ListResources, ListTools, Map, Method as _, Prompt, ReadResource,
    ReadResourceParams, Reference, Resource, ResourceTemplate, ServerCapability,
};

/// Combined routers.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Adds everything that `other` offers, under the same names. Its handlers keep their own state.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// fn tool(name: &str) -> Tool {
    ///     Tool::new(name, "Says it", Json::empty_object())
    /// }
    ///
    /// let clock = Router::new("clock", "1.0.0").tool_with(tool("time"), async |NoArguments {}, _| "ten o'clock");
    /// let router = Router::new("desk", "1.0.0")
    ///     .tool_with(tool("date"), async |NoArguments {}, _| "Monday")
    ///     .merge(clock);
    /// assert!(router.check().is_ok());
    /// // A name may be used once.
    /// let clock = Router::new("clock", "1.0.0").tool_with(tool("date"), async |NoArguments {}, _| "1 January");
    /// assert!(router.merge(clock).check().is_err());
    /// ```
    ///
    /// What limits a request holds further: the limits of this router for everything, those of `other` in addition for
    /// what comes from `other`.
    ///
    /// | Of `other` | becomes |
    /// |---|---|
    /// | tools, resources, templates, prompts, skills | items of this router, listed after those that it has |
    /// | [completions](Self::completion) | asked for the prompts and templates of `other`; the handler of this router is asked for its own |
    /// | [handlers](Self::handler) of methods and [notifications](Self::notification), [fallbacks](Self::fallback) | handlers of this router |
    /// | scopes and [time limits](Self::tool_timeout) of tools | kept |
    /// | [rates](Self::tool_rate), [limiters](Self::tool_limiter), [access to subscriptions](Self::subscription_access) | kept for the items of `other` |
    /// | [cache hint](Self::cache) of `resources/read` | kept for the resources of `other` |
    /// | other cache hints | the stricter one if this router has one too, otherwise dropped, except with a handler of the method |
    /// | [capabilities](Self::declare), [experimental](Self::experimental) ones, extensions | declared by this router |
    /// | [tasks](Self::tasks) | those of this router if it has tasks, otherwise those of `other` |
    /// | [instructions](Self::instructions) | appended |
    /// | [spawned handlers](Self::spawn_handlers) | the handlers of both are spawned, by this router's function if it has one |
    /// | name and version, page size, keys and settings of request states | dropped: those of this router hold |
    ///
    /// A tool, prompt, resource, template, skill, method, notification, fallback, or a capability or extension with other settings that
    /// both have, is an error of [`check`](Self::check); so are [layers](Self::layer) of `other`, which would see the
    /// requests of both, and every error of `other`. Then nothing of `other` is added.
    pub fn merge<T>(self, other: Router<M, T>) -> Self {
        self.combine(|| Ok(Prefix::NONE), other.contents)
    }

    /// Adds everything that `other` offers, under names that begin with `prefix`. Its handlers keep their own state, and
    /// see the names and URIs that they were registered under.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Resource, Tool};
    ///
    /// let notes = Router::new("notes", "1.0.0")
    ///     .tool_with(Tool::new("clear", "Deletes all notes", Json::empty_object()), async |NoArguments {}, _| "done")
    ///     .resource(Resource::new("note:///today", "today"), async |_, _| "Buy milk");
    /// // The same router may be mounted several times: the handlers of its clones share what they capture.
    /// let router = Router::new("desk", "1.0.0").mount("notes", notes.clone()).mount("shared", notes);
    /// // Clients see the tools `notes_clear` and `shared_clear`, and the resource `notes+note:///today`.
    /// assert!(router.check().is_ok());
    /// ```
    ///
    /// A prefix is a lower-case letter and more of them, digits and `-`. What it becomes:
    ///
    /// | Of `other` | here | why |
    /// |---|---|---|
    /// | names of tools and prompts | `prefix_name` | of the characters that names may have (letters, digits, `_`, `.`, `-`), interfaces of models allow no dot; and as a prefix has no `_`, the first one ends it |
    /// | URIs and templates | `prefix+uri`: `notes+note:///today` | any URI becomes another one, and none a URI that hosts would open themselves, such as `https:` or `file:` |
    /// | `ui:` and `skill:` URIs | `ui://prefix/rest` | hosts know these schemes |
    /// | the [page](Self::page) that a tool names | renamed with the resource | |
    /// | links and embedded resources in results of tools and prompts, the contents of resources | renamed if their URI is that of a resource of `other`, or matches a template of it, at this call | any other link leads elsewhere |
    /// | URIs and names in texts, structured content, pages, parts of results, progress and log messages | not changed | what they mean cannot be known |
    /// | references of completions | the handler of `other` sees its own names | |
    /// | instructions | appended under a line that names the prefix | |
    ///
    /// Everything else is as with [`merge`](Self::merge). Routers may be mounted in routers that are mounted: the tool is then
    /// `outer_inner_name`. [`mounted_name`](crate::front::mounted_name) and [`mounted_uri`](crate::front::mounted_uri)
    /// return what a name becomes: updates of a resource are published under its URI here.
    ///
    /// Methods and notifications keep their names, as the names are the protocol's or those of an extension: a router that has
    /// some can be mounted once. A router whose
    /// tools, prompts or resources a hand-written [handler](Self::handler) lists or serves cannot be mounted, because the
    /// names in its results are not known; it can be merged.
    ///
    /// A [live](Self::live) router may mount others in an [update](super::LiveRouter::update).
    pub fn mount<T>(self, prefix: impl Into<String>, other: Router<M, T>) -> Self {
        self.combine(|| Prefix::of_mount(prefix.into()), other.contents)
    }

    /// Adds all of `other`, or records the first conflict and adds nothing.
    fn combine(self, prefix: impl FnOnce() -> Result<Prefix, RouterError>, other: RouterContents<M>) -> Self {
        self.change(|contents| {
            let mut combined = contents.clone();
            Part::new(prefix()?, &other)?.add_to(&mut combined, other)?;
            *contents = combined;
            Ok(())
        })
    }
}

/// The methods that list or use what a router has registered.
const ITEM_METHODS: [&str; 10] = [
    ListTools::NAME,
    CallTool::NAME,
    ListPrompts::NAME,
    GetPrompt::NAME,
    ListResources::NAME,
    ListResourceTemplates::NAME,
    ReadResource::NAME,
    ListSkills::NAME,
    GetSkill::NAME,
    ReadDirectory::NAME,
];

/// The methods that list or use prompts, whose arguments may be completed.
pub(super) const PROMPT_METHODS: [&str; 2] = [ListPrompts::NAME, GetPrompt::NAME];

/// The methods that list or use templates, whose variables may be completed.
pub(super) const TEMPLATE_METHODS: [&str; 2] = [ListResourceTemplates::NAME, ReadResource::NAME];

/// The capabilities that hold for the whole router. Those of tasks come with the tasks, and extensions have settings.
const CAPABILITIES: [ServerCapability; 9] = [
    ServerCapability::Tools,
    ServerCapability::ToolsListChanged,
    ServerCapability::Resources,
    ServerCapability::ResourcesListChanged,
    ServerCapability::ResourcesSubscribe,
    ServerCapability::Prompts,
    ServerCapability::PromptsListChanged,
    ServerCapability::Completions,
    ServerCapability::Logging,
];

/// A router that becomes a part of another.
struct Part<M: HandlerMode> {
    prefix: Prefix,
    names: Arc<ResourceNames>,
    /// The origin of its own items.
    origin: Arc<Origin<M>>,
    /// The cache hint of its resources.
    read_hint: Option<CacheHint>,
    /// What hand-written handlers list or use of it, whose completions are asked of one, too.
    by_hand: ByHand,
}

/// What hand-written handlers list or use.
#[derive(Clone, Copy)]
struct ByHand {
    prompts: bool,
    templates: bool,
}

impl<M: HandlerMode> Part<M> {
    fn new(prefix: Prefix, other: &RouterContents<M>) -> Result<Self, RouterError> {
        if let Some(error) = &other.error {
            return Err(error.clone());
        }
        if !other.layers.is_empty() {
            return Err(RouterError::Layered);
        }
        let by_hand = |method: &&str| other.methods.contains_key(*method);
        if let (Some(prefix), Some(method)) = (prefix.as_str(), ITEM_METHODS.into_iter().find(by_hand)) {
            return Err(RouterError::Mount { prefix: prefix.into(), method });
        }
        let reads_any = other.methods.contains_key(ReadResource::NAME);
        let origin = Origin {
            prefix: prefix.clone(),
            rates: other.rates.clone(),
            completion: other.methods.get(Complete::NAME).cloned(),
            inner: None,
        };
        Ok(Self {
            names: Arc::new(ResourceNames::new(prefix.clone(), other, reads_any)),
            prefix,
            origin: Arc::new(origin),
            read_hint: other.cache_hints.get(ReadResource::NAME).copied().filter(|_| !reads_any),
            by_hand: ByHand {
                prompts: PROMPT_METHODS.iter().any(by_hand),
                templates: TEMPLATE_METHODS.iter().any(by_hand),
            },
        })
    }

    /// Adds everything of `other`, which is this part.
    ///
    /// # Errors
    /// The first conflict; then some of it has been added.
    fn add_to(&self, contents: &mut RouterContents<M>, other: RouterContents<M>) -> Result<(), RouterError> {
        contents.tools.absorb(&other.tools, |entry| self.tool(entry))?;
        contents.resources.absorb(&other.resources, |entry| Ok(self.resource(entry)))?;
        contents.templates.absorb(&other.templates, |entry| self.template(entry))?;
        contents.prompts.absorb(&other.prompts, |entry| Ok(self.prompt(entry)))?;
        #[cfg(feature = "skills")]
        for skills in other.skills.iter() {
            let source = MountedSkills::of(&skills.source, &self.prefix);
            let files = skills.files.iter().map(|uri| self.prefix.uri(uri)).collect();
            contents.add_skills(RegisteredSkills { source, files })?;
        }
        let name = |tool: &str| self.prefix.name(tool);
        #[cfg(feature = "auth")]
        contents.scopes.absorb(&other.scopes, name);
        contents.tool_timeouts.absorb(&other.tool_timeouts, name);
        contents.limits_parts |= other.limits_parts || other.rates.limits_tools();
        if let Some(access) = other.combined_access() {
            contents.part_access.push(Arc::new(PartAccess { names: self.names.clone(), access }));
        }
        self.add_hints(contents, &other);
        self.add_instructions(contents, other.instructions.as_deref());
        self.add_capabilities(contents, &other)?;
        if contents.spawner.is_none() {
            contents.spawner.clone_from(&other.spawner);
        }
        self.add_methods(contents, other)
    }

    /// The origin of an item, which may have been a part of this part.
    fn origin_of<T, H>(&self, entry: &Entry<T, H, Origin<M>>) -> Arc<Origin<M>> {
        match &entry.origin {
            None => self.origin.clone(),
            Some(inner) => {
                let Origin { prefix, rates, completion, inner: _ } = &*self.origin;
                let (prefix, rates, completion) = (prefix.clone(), rates.clone(), completion.clone());
                Arc::new(Origin { prefix, rates, completion, inner: Some(inner.clone()) })
            }
        }
    }

    fn tool(&self, entry: &ToolEntry<M>) -> Result<ToolEntry<M>, RouterError> {
        let mut item = entry.item.clone();
        item.tool.name = self.prefix.name(entry.key());
        if !is_tool_name(&item.tool.name) {
            return Err(RouterError::ToolName { name: item.tool.name });
        }
        item.tool.rename_page(|uri| self.names.mounted(uri));
        let (key, origin) = (item.tool.name.clone(), self.origin_of(entry));
        let mut handler = entry.handler.clone();
        if self.prefix.as_str().is_some() {
            let (prefix, names) = (self.prefix.clone(), self.names.clone());
            let before = move |mut call: ToolCall, _: &Context| {
                call.name = prefix.registered_name(&call.name).into();
                Ok((call, ()))
            };
            handler = M::adapt_handler(handler, before, move |(), reply| names.rename_call(reply));
        }
        Ok(Entry::moved(&key, item, handler, origin))
    }

    fn prompt(&self, entry: &PromptEntry<M>) -> PromptEntry<M> {
        let mut item = entry.item.clone();
        item.name = self.prefix.name(entry.key());
        let (key, origin) = (item.name.clone(), self.origin_of(entry));
        let mut handler = entry.handler.clone();
        if self.prefix.as_str().is_some() {
            let (prefix, names) = (self.prefix.clone(), self.names.clone());
            let before = move |mut get: GetPromptParams, _: &Context| {
                get.name = prefix.registered_name(&get.name);
                Ok((get, ()))
            };
            handler = M::adapt_handler(handler, before, move |(), reply| names.rename_prompt(reply));
        }
        Entry::moved(&key, item, handler, origin)
    }

    fn resource(&self, entry: &ResourceEntry<M>) -> ResourceEntry<M> {
        let mut item = entry.item.clone();
        item.uri = self.prefix.uri(entry.key());
        let key = item.uri.clone();
        let handler = self.reader(&entry.handler, |read: &mut ReadResourceParams| &mut read.uri);
        Entry::moved(&key, item, handler, self.origin_of(entry))
    }

    fn template(&self, entry: &TemplatesEntry<M>) -> Result<TemplatesEntry<M>, RouterError> {
        let key = self.prefix.uri(entry.key());
        let matcher = UriTemplate::parse(&key)
            .map_err(|error| RouterError::Template { template: key.clone(), error })?;
        let listed = ResourceTemplate { uri_template: key.clone(), ..entry.item.0.clone() };
        let handler = self.reader(&entry.handler, |(uri, _): &mut TemplateMatch| uri);
        Ok(Entry::moved(&key, (listed, matcher), handler, self.origin_of(entry)))
    }

    /// The handler of a resource or a template, of whose parameters `uri` is the URI that is read.
    fn reader<P: 'static>(
        &self,
        handler: &M::Handler<P, Context>,
        uri: fn(&mut P) -> &mut String,
    ) -> M::Handler<P, Context> {
        if self.prefix.as_str().is_none() && self.read_hint.is_none() {
            return handler.clone();
        }
        let (prefix, names, hint) = (self.prefix.clone(), self.names.clone(), self.read_hint);
        let before = move |mut params: P, context: &Context| {
            let own = uri(&mut params);
            let registered = prefix.registered_uri(own);
            let read = core::mem::replace(own, registered);
            Ok((params, (read, context.revision())))
        };
        M::adapt_handler(handler.clone(), before, move |(read, revision): (String, _), reply| {
            names.rename_read((&read, revision), hint, reply)
        })
    }

    /// Adds the cache hints of lists, and of the methods that `other` has handlers for.
    fn add_hints(&self, contents: &mut RouterContents<M>, other: &RouterContents<M>) {
        for (method, hint) in &other.cache_hints {
            match contents.cache_hints.get_mut(method) {
                Some(own) if *method != ReadResource::NAME => *own = stricter(*own, *hint),
                None if other.methods.contains_key(*method) => {
                    contents.cache_hints.insert(method, *hint);
                }
                _ => {}
            }
        }
    }

    fn add_instructions(&self, contents: &mut RouterContents<M>, instructions: Option<&str>) {
        let Some(added) = instructions else { return };
        let all = contents.instructions.get_or_insert_default();
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        if let Some(prefix) = self.prefix.as_str() {
            all.push_str(&format!("About names that begin with {prefix}_, here without it:\n"));
        }
        all.push_str(added);
    }

    fn add_capabilities(
        &self,
        contents: &mut RouterContents<M>,
        other: &RouterContents<M>,
    ) -> Result<(), RouterError> {
        let added = &other.capabilities;
        let declared = CAPABILITIES.into_iter().filter(|capability| added.has(*capability));
        let all = &mut contents.capabilities;
        *all = declared.fold(core::mem::take(all), |all, capability| all.with(capability));
        if contents.task_registry.is_none() {
            contents.task_registry.clone_from(&other.task_registry);
            all.tasks = all.tasks.take().or_else(|| added.tasks.clone());
        }
        add_settings("experimental capability", &mut all.experimental, added.experimental.as_ref())?;
        add_settings("extension", &mut all.extensions, added.extensions.as_ref())?;
        for extension in &other.extensions {
            let mut same =
                contents.extensions.iter().filter(|own| own.identifier() == extension.identifier());
            match same.next() {
                None => contents.extensions.push(extension.clone()),
                Some(own) if own == extension => {}
                Some(_) => return Err(duplicate("extension", extension.identifier())),
            }
        }
        Ok(())
    }

    /// Adds the handlers of methods and notifications.
    fn add_methods(
        &self,
        contents: &mut RouterContents<M>,
        other: RouterContents<M>,
    ) -> Result<(), RouterError> {
        // Without `..`, so that a new field is not forgotten here.
        let RouterContents {
            methods,
            custom_methods,
            fallback,
            notifications,
            // Added by the callers.
            tools: _,
            resources: _,
            templates: _,
            prompts: _,
            #[cfg(feature = "skills")]
                skills: _,
            #[cfg(feature = "auth")]
                scopes: _,
            tool_timeouts: _,
            rates,
            call_rates,
            limits_parts: _,
            subscription_access: _,
            part_access: _,
            cache_hints: _,
            instructions: _,
            capabilities: _,
            extensions: _,
            task_registry: _,
            spawner: _,
            // Errors.
            layers: _,
            error: _,
            // Dropped.
            info: _,
            page_size: _,
            sealing: _,
            #[cfg(feature = "schema-validate")]
                schema_bounds: _,
        } = other;
        for (method, handler) in methods {
            // The completions of registered items are found by the items.
            let of_items = method == Complete::NAME && !self.by_hand.prompts && !self.by_hand.templates;
            match contents.methods.entry(method) {
                ordered_map::Entry::Vacant(free) if of_items => {
                    let refuse = |_: Option<Raw>, _: &Context| Err(no_completions());
                    free.insert(M::adapt_handler(handler, refuse, |(): (), reply| reply));
                }
                ordered_map::Entry::Vacant(free) => {
                    let handler = match &*free.key {
                        Complete::NAME => self.limited_completion(handler),
                        _ => handler,
                    };
                    if free.key == CallTool::NAME {
                        contents.call_rates.push(rates.clone());
                        contents.call_rates.extend(call_rates.iter().cloned());
                    }
                    free.insert(handler);
                }
                ordered_map::Entry::Occupied(_) if of_items => {}
                ordered_map::Entry::Occupied(taken) => {
                    return Err(duplicate("handler of the method", &taken.key));
                }
            }
        }
        contents.custom_methods.extend(custom_methods);
        if contents.fallback.is_some() && fallback.is_some() {
            return Err(duplicate("handler", "fallback"));
        }
        contents.fallback = contents.fallback.take().or(fallback);
        let notifications = contents.notifications.absorb(notifications);
        notifications.map_err(|name| match name {
            Some(name) => duplicate("handler of the notification", &name),
            None => duplicate("handler", "notification_fallback"),
        })
    }

    /// The handler of the completions of what hand-written handlers list or use, with the rate of its router. It is asked for
    /// nothing else that the combined router has.
    fn limited_completion(
        &self,
        handler: M::Handler<Option<Raw>, Context>,
    ) -> M::Handler<Option<Raw>, Context> {
        let (rates, by_hand) = (self.origin.rates.clone(), self.by_hand);
        let before = move |params: Option<Raw>, context: &Context| {
            let is_own = match decode_params::<Complete>(params.clone())?.reference {
                Reference::Prompt(_) => by_hand.prompts,
                Reference::Resource(_) => by_hand.templates,
                Reference::Unknown(_) => true,
            };
            if !is_own {
                return Err(no_completions());
            }
            rates.check_completion(context)?;
            Ok((params, ()))
        };
        M::adapt_handler(handler, before, |(), reply| reply)
    }
}

type ToolEntry<M> = Entry<RegisteredTool, <M as HandlerMode>::Handler<ToolCall, Context>, Origin<M>>;
type PromptEntry<M> = Entry<Prompt, <M as HandlerMode>::Handler<GetPromptParams, Context>, Origin<M>>;
type ResourceEntry<M> = Entry<Resource, <M as HandlerMode>::Handler<ReadResourceParams, Context>, Origin<M>>;
type TemplatesEntry<M> = Entry<TemplateEntry, <M as HandlerMode>::Handler<TemplateMatch, Context>, Origin<M>>;

fn duplicate(kind: &'static str, name: &str) -> RouterError {
    RouterError::Duplicate { kind, name: name.into() }
}

/// Declares what another router declares, if it is not declared with other settings.
fn add_settings(
    kind: &'static str,
    all: &mut Option<Map<Json>>,
    added: Option<&Map<Json>>,
) -> Result<(), RouterError> {
    for (name, settings) in added.into_iter().flat_map(Map::iter) {
        let all = all.get_or_insert_default();
        match all.get(name) {
            Some(own) if own != settings => return Err(duplicate(kind, name)),
            Some(_) => {}
            None => {
                all.insert(name, settings.clone());
            }
        }
    }
    Ok(())
}

/// The shorter time, and the narrower scope.
fn stricter(one: CacheHint, other: CacheHint) -> CacheHint {
    let is_public = one.scope == CacheScope::Public && other.scope == CacheScope::Public;
    let scope = if is_public { CacheScope::Public } else { CacheScope::Private };
    CacheHint { ttl_ms: one.ttl_ms.min(other.ttl_ms), scope }
}
