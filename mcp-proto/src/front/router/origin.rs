//! Where the items of a combined router come from, and the names that they have there and here.

use alloc::sync::Arc;

use super::dispatch::Dispatch;
use super::tool_limits::Rates;
use super::uri::UriTemplate;
use super::{Context, HandlerMode, RouterContents, RouterError};
use crate::front::reply::Reply;
use crate::ordered_set::OrderedSet;
use crate::peer::Principal;
use crate::peer::server::{SubscriptionAccess, resource_not_found};
use crate::peer::{AnyParams as _, AnyResult};
use crate::prelude::*;
use crate::rpc::{Raw, code};
use crate::schema::{
    CacheHint, Cacheable, CallToolResult, CompleteParams, CompleteResult, Completion, ContentBlock,
    GetPromptResult, ReadResourceResult, Reference, ResourceContents, ResultFields as _, Revision,
};

/// The schemes that hosts know: their URIs keep them, and get the prefix as the first segment.
const KEPT_SCHEMES: [&str; 2] = ["ui://", "skill://"];

/// The name that a tool or a prompt has after [`Router::mount`](super::Router::mount).
///
/// ```
/// use mcp_proto::front::mounted_name;
///
/// assert_eq!(mounted_name("notes", "clear"), "notes_clear");
/// ```
pub fn mounted_name(prefix: &str, name: &str) -> String {
    format!("{prefix}_{name}")
}

/// The URI, or the URI template, that a resource has after [`Router::mount`](super::Router::mount): that under which
/// its updates are published.
///
/// ```
/// use mcp_proto::front::mounted_uri;
///
/// assert_eq!(mounted_uri("notes", "note:///today"), "notes+note:///today");
/// assert_eq!(mounted_uri("notes", "ui://editor/page.html"), "ui://notes/editor/page.html");
/// ```
pub fn mounted_uri(prefix: &str, uri: &str) -> String {
    match split_kept(uri) {
        Some((scheme, rest)) => format!("{scheme}{prefix}/{rest}"),
        None => format!("{prefix}+{uri}"),
    }
}

/// Splits a URI after a scheme that it keeps.
fn split_kept(uri: &str) -> Option<(&str, &str)> {
    let is_kept = |kept: &&str| uri.get(..kept.len()).is_some_and(|start| start.eq_ignore_ascii_case(kept));
    uri.split_at_checked(KEPT_SCHEMES.into_iter().find(is_kept)?.len())
}

/// The prefix of the names and URIs that a router's items have in another; none if they keep them.
#[derive(Clone)]
pub(super) struct Prefix(Option<Arc<str>>);

impl Prefix {
    pub(super) const NONE: Self = Self(None);

    /// Checks the prefix of a mounted router. It is a part of names and, before the `+`, of schemes, which URI libraries
    /// write in lower case. It has no `_`, so that the first `_` of a name ends it.
    pub(super) fn of_mount(prefix: String) -> Result<Self, RouterError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if prefix.starts_with(|c: char| c.is_ascii_lowercase()) && prefix.chars().all(allowed) {
            Ok(Self(Some(prefix.into())))
        } else {
            Err(RouterError::Prefix { prefix })
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(super) fn name(&self, name: &str) -> String {
        self.as_str().map_or_else(|| name.into(), |prefix| mounted_name(prefix, name))
    }

    pub(super) fn uri(&self, uri: &str) -> String {
        self.as_str().map_or_else(|| uri.into(), |prefix| mounted_uri(prefix, uri))
    }

    /// The name that a tool or a prompt was registered under.
    pub(super) fn registered_name(&self, name: &str) -> String {
        let prefix = self.as_str().and_then(|prefix| name.strip_prefix(prefix)?.strip_prefix('_'));
        prefix.unwrap_or(name).into()
    }

    /// The URI or the template that a resource was registered under.
    pub(super) fn registered_uri(&self, uri: &str) -> String {
        self.strip_uri(uri).unwrap_or_else(|| uri.into())
    }

    /// The URI without the prefix, if it has it.
    fn strip_uri(&self, uri: &str) -> Option<String> {
        let Some(prefix) = self.as_str() else { return Some(uri.into()) };
        if let Some(uri) = uri.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('+')) {
            return Some(uri.into());
        }
        let (scheme, rest) = split_kept(uri)?;
        Some(format!("{scheme}{}", rest.strip_prefix(prefix)?.strip_prefix('/')?))
    }
}

/// The resources of a router when it was combined with another.
pub(super) struct ResourceNames {
    prefix: Prefix,
    uris: OrderedSet<String>,
    templates: Vec<UriTemplate>,
    /// What the URIs of its skills begin with.
    roots: Vec<String>,
    /// Whether a hand-written handler reads resources, so that any URI may be one.
    has_any: bool,
}

impl ResourceNames {
    pub(super) fn new<M: HandlerMode>(prefix: Prefix, contents: &RouterContents<M>, has_any: bool) -> Self {
        let uris = contents.resources.keys().map(String::from).collect();
        let templates = contents.templates.iter().map(|entry| entry.item.1.clone()).collect();
        #[cfg(feature = "skills")]
        let roots = contents.skills.iter().map(|skills| skills.source.root().into()).collect();
        #[cfg(not(feature = "skills"))]
        let roots = Vec::new();
        Self { prefix, uris, templates, roots, has_any }
    }

    /// Whether a URI is that of a resource, as the router itself names it.
    fn has(&self, uri: &str) -> bool {
        self.has_any
            || self.uris.contains(uri)
            || self.templates.iter().any(|template| template.matches(uri).is_some())
            || self.roots.iter().any(|root| uri.starts_with(root.as_str()))
    }

    /// The URI that a resource of the router has here; `None` if the router has no such resource.
    pub(super) fn mounted(&self, uri: &str) -> Option<String> {
        self.has(uri).then(|| self.prefix.uri(uri))
    }

    fn rename(&self, uri: &mut String) {
        if let Some(mounted) = self.mounted(uri) {
            *uri = mounted;
        }
    }

    fn rename_contents(&self, contents: &mut ResourceContents) {
        if let Some(uri) = uri_of(contents) {
            self.rename(uri);
        }
    }

    fn rename_block(&self, block: &mut ContentBlock) {
        match block {
            ContentBlock::ResourceLink(link) => self.rename(&mut link.uri),
            ContentBlock::Resource(embedded) => self.rename_contents(&mut embedded.resource),
            _ => {}
        }
    }

    fn rename_blocks(&self, result: &mut CallToolResult) {
        result.content.iter_mut().for_each(|block| self.rename_block(block));
    }

    /// Renames the resources in the reply to a tool call.
    pub(super) fn rename_call(self: &Arc<Self>, mut reply: Reply) -> Reply {
        if let Some(result) = result_of(&mut reply) {
            self.rename_blocks(result);
        }
        if let Reply::Detached(mut call) = reply {
            let names = self.clone();
            call.work = call.work.with_change(move |result| names.rename_blocks(result));
            reply = Reply::Detached(call);
        }
        reply
    }

    /// Renames the resources in the reply to a request for a prompt.
    pub(super) fn rename_prompt(&self, mut reply: Reply) -> Reply {
        if let Some(result) = result_of::<GetPromptResult>(&mut reply) {
            result.messages.iter_mut().for_each(|message| self.rename_block(&mut message.content));
        }
        reply
    }

    /// Renames the resources in the reply to a read of `uri`, and sets how long it may be cached, unless it says so itself.
    pub(super) fn rename_read(
        &self,
        (uri, revision): (&str, Revision),
        hint: Option<CacheHint>,
        mut reply: Reply,
    ) -> Reply {
        let registered = self.prefix.registered_uri(uri);
        if let Some(read) = result_of::<ReadResourceResult>(&mut reply) {
            for contents in &mut read.contents {
                match uri_of(contents) {
                    Some(own) if *own == registered => uri.clone_into(own),
                    _ => self.rename_contents(contents),
                }
            }
            if let (Some(hint), (None, None)) = (hint, read.cache_hint()) {
                read.set_ttl_ms(hint.ttl_ms);
                read.set_cache_scope(Some(hint.scope));
            }
        }
        match reply {
            Reply::Error(error) if error == resource_not_found(&registered, revision) => {
                Reply::Error(resource_not_found(uri, revision))
            }
            reply => reply,
        }
    }
}

fn uri_of(contents: &mut ResourceContents) -> Option<&mut String> {
    match contents {
        ResourceContents::Text(text) => Some(&mut text.uri),
        ResourceContents::Blob(blob) => Some(&mut blob.uri),
        _ => None,
    }
}

/// The result of a reply, if it is one of this type.
fn result_of<R: 'static>(reply: &mut Reply) -> Option<&mut R> {
    match reply {
        Reply::Result(result) => AnyResult::as_any_mut(&mut **result).downcast_mut(),
        _ => None,
    }
}

/// The access check of a router that is a part of another, for its own resources.
pub(super) struct PartAccess {
    pub(super) names: Arc<ResourceNames>,
    pub(super) access: SubscriptionAccess,
}

impl PartAccess {
    /// Whether a principal may learn of the changes of a resource, if it is one of this part.
    fn allows(&self, uri: &str, principal: Option<&Principal>) -> bool {
        let ResourceNames { prefix, .. } = &*self.names;
        let own = prefix.strip_uri(uri).filter(|own| prefix.as_str().is_some() || self.names.has(own));
        own.is_none_or(|own| self.access.allows(&own, principal))
    }
}

impl<M: HandlerMode> RouterContents<M> {
    /// The access check of all resources, also of those that come from other routers.
    pub(super) fn combined_access(&self) -> Option<SubscriptionAccess> {
        let own = self.subscription_access.clone();
        if self.part_access.is_empty() {
            return own;
        }
        let parts = self.part_access.clone();
        Some(SubscriptionAccess::new(move |uri, principal| {
            own.as_ref().is_none_or(|own| own.allows(uri, principal))
                && parts.iter().all(|part| part.allows(uri, principal))
        }))
    }
}

/// A router that was combined with another, as its items need it there.
pub(super) struct Origin<M: HandlerMode> {
    pub(super) prefix: Prefix,
    pub(super) rates: Rates,
    /// The handler of its completions.
    pub(super) completion: Option<M::Handler<Option<Raw>, Context>>,
    /// The router that the item was registered in, unless it is this one.
    pub(super) inner: Option<Arc<Self>>,
}

impl<M: HandlerMode> Origin<M> {
    /// Checks the rates of a tool call in this router, and in those between it and the tool.
    pub(super) fn check_tool_rates(&self, tool: &str, context: &Context) -> Result<(), Reply> {
        let tool = self.prefix.registered_name(tool);
        self.rates.check_tool(&tool, context)?;
        self.inner.as_ref().map_or(Ok(()), |inner| inner.check_tool_rates(&tool, context))
    }

    /// Checks the rates of completions in this router, and in those between it and the completed item.
    pub(super) fn check_completion_rates(&self, context: &Context) -> Result<(), Reply> {
        self.rates.check_completion(context)?;
        self.inner.as_ref().map_or(Ok(()), |inner| inner.check_completion_rates(context))
    }

    /// Completes an argument by the handler of the router that the prompt or the template was registered in.
    pub(super) fn complete(
        &self,
        mut params: CompleteParams,
        context: Context,
    ) -> Dispatch<M::HandlerFuture> {
        match &mut params.reference {
            Reference::Prompt(prompt) => prompt.name = self.prefix.registered_name(&prompt.name),
            Reference::Resource(resource) => resource.uri = self.prefix.registered_uri(&resource.uri),
            Reference::Unknown(_) => {}
        }
        match (&self.inner, &self.completion) {
            (Some(inner), _) => inner.complete(params, context),
            (None, Some(handler)) => {
                let encoded =
                    params.to_raw().map_err(|error| Reply::error(code::INTERNAL_ERROR, error.to_string()));
                Ok((handler(Some(encoded?), context), None))
            }
            (None, None) => Err(no_completions()),
        }
    }
}

/// The reply of a router without a handler of completions, which is a part of one that has one.
pub(super) fn no_completions() -> Reply {
    Reply::result(CompleteResult::new(Completion::new(Vec::<String>::new())))
}
