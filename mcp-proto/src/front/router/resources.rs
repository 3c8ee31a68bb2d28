//! Resources, resource templates and pages of tools, with their handlers; which resources may be subscribed to.

use alloc::sync::Arc;
use core::future::Future;

use super::TemplateMatch;
use super::dispatch::reply;
use super::string_arguments::from_strings;
use super::uri::UriTemplate;
use super::{Context, Router, RouterError, uri};
use crate::front::handler::arguments::Arguments;
use crate::front::handler::output::ResourceOutput;
use crate::front::params::params_error;
use crate::front::reply::Reply;
use crate::front::{Handler, HandlerMode};
use crate::peer::Principal;
use crate::peer::server::SubscriptionAccess;
use crate::prelude::*;
use crate::schema::{ReadResourceParams, Resource, ResourceTemplate, Revision, ServerCapability, apps};

/// Resources.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Registers a resource; its handler takes its URI.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::Resource;
    ///
    /// let router = Router::new("notes", "1.0.0")
    ///     .resource(Resource::new("note:///today", "today"), async |_, _| "Buy milk");
    /// # drop(router);
    /// ```
    pub fn resource<F, H>(mut self, resource: Resource, handler: H) -> Self
    where
        F: Future<Output: ResourceOutput> + 'static, // an async closure or function
        H: Fn(String, Context<S>) -> F + Handler<M, String, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let read = |read: ReadResourceParams| Ok((read.uri.clone(), read.uri));
        let erased = self.read_handler(resource.mime_type.as_deref(), read, handler);
        //= S8.13 "Validate URIs"
        if !uri::is_uri(&resource.uri) {
            self.record_error(RouterError::Uri { uri: resource.uri.clone() });
        }
        let router =
            self.change(|contents| contents.resources.insert(resource.uri.clone(), resource, erased));
        //= R5 "derived from what is registered"
        router.declare(ServerCapability::Resources)
    }

    /// Registers a resource template; the handler takes its variables as a struct or a map.
    ///
    /// Variables are strings; a field that is a number or a `bool` is parsed, and a value that does not parse is
    /// answered by an error that names the variable.
    ///
    /// A template is a URI with expressions of RFC 6570:
    ///
    /// | expression | stands for | the handler gets |
    /// |---|---|---|
    /// | `{a}`, `{a,b}`, `{/a}`, `{/a,b}` | one segment of a path for each name | one segment |
    /// | `{/a*}` | one or more segments, each with a slash before it | segments with `/` between |
    /// | `{+a}`, `{#a}` | any text | any text |
    /// | `{?a,b}`, `{&a,b}`, as the last expression | parameters of the query, each once or not at all | any text, or nothing |
    ///
    /// Other expressions, such as `{a*}` and `{;a}`, are a [`RouterError::Template`] of [`check`](Self::check).
    ///
    /// Values are percent-decoded once and then checked: a segment has no `/`, `\` or NUL and is not `.` or `..`, and
    /// no value has NUL, or `..` between slashes or backslashes. A URI with any other value does not match the
    /// template: the client receives the error of a resource that does not exist, and no handler runs. The value of
    /// `{+a}` may begin with a slash: strip it before you join it to a directory.
    ///
    /// ```
    /// use mcp_proto::front::{HandlerError, Router};
    /// use mcp_proto::schema::ResourceTemplate;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Note {
    ///     id: u32,
    /// }
    ///
    /// let router = Router::new("notes", "1.0.0").template(
    ///     ResourceTemplate::new("note:///{id}", "note"),
    ///     async |Note { id }, _| match id {
    ///         7 => Ok("Buy milk"),
    ///         _ => Err(HandlerError::no_resource(format!("note:///{id}"))),
    ///     },
    /// );
    /// # drop(router);
    /// ```
    pub fn template<A, F, H>(self, template: ResourceTemplate, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: ResourceOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let read = |(uri, variables): TemplateMatch| match from_strings(&variables) {
            Ok(variables) => Ok((variables, uri)),
            Err(error) => Err(Reply::Error(params_error("resources/read", &error))),
        };
        let erased = self.read_handler(template.mime_type.as_deref(), read, handler);
        let key = template.uri_template.clone();
        let router = self.change(|contents| match UriTemplate::parse(&key) {
            Ok(matcher) => contents.templates.insert(key, (template, matcher), erased),
            Err(error) => Err(RouterError::Template { template: key, error }),
        });
        //= R5 "derived from what is registered"
        router.declare(ServerCapability::Resources)
    }

    /// Erases the handler of a resource or of a template, for which `read` makes the arguments and the URI.
    fn read_handler<P: 'static, A, F, H>(
        &self,
        mime_type: Option<&str>,
        read: impl Fn(P) -> Result<(A, String), Reply> + Send + Sync + 'static,
        handler: H,
    ) -> M::Handler<P, Context>
    where
        F: Future<Output: ResourceOutput> + 'static,
        H: Handler<M, A, Context<S>, F>,
    {
        let mime_type: Option<Arc<str>> = mime_type.map(Arc::from);
        handler.erase(
            self.state.clone(),
            move |params: P, context: &Context| {
                read(params).map(|(arguments, uri)| (arguments, (uri, context.revision())))
            },
            move |(uri, revision): (String, Revision), output: F::Output| {
                reply(output.into_read_result(&uri, mime_type.as_deref()), revision)
            },
        )
    }

    /// Registers a page that tools name by [`Tool::with_page`](crate::schema::Tool::with_page): HTML at a `ui:` URI.
    /// The router declares the extension.
    ///
    /// Hosts that render no pages show the text of the tool's result. If the handler returns no text, the JSON of the
    /// structured result becomes the text.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Tool, apps};
    /// use serde_json::json;
    ///
    /// let clock = Tool::new("clock", "Shows the time", json!({"type": "object"})).with_page("ui://clock/page.html");
    /// let router = Router::new("clock", "1.0.0")
    ///     .page("ui://clock/page.html", "clock", async |_, _| "<!doctype html><title>Clock</title>")
    ///     .tool_with(clock, async |NoArguments {}, _| "a quarter to ten");
    /// assert!(router.check().is_ok());
    /// assert!(router.capabilities().has_extension(apps::EXTENSION));
    /// ```
    ///
    /// <https://modelcontextprotocol.io/extensions/apps/overview>
    pub fn page<F, H>(mut self, uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output: ResourceOutput> + 'static,
        H: Fn(String, Context<S>) -> F + Handler<M, String, Context<S>, F>,
    {
        self.contents.capabilities = self.contents.capabilities.with_apps();
        self.resource(Resource::page(uri, name), handler)
    }

    //= S11.12 "Tool `_meta.ui.resourceUri` → `ui://` resource with mimeType text/html;profile=mcp-app"
    /// Returns the error for a tool whose page has no `ui:` URI, is not registered or has the wrong media type.
    pub(super) fn missing_page(&self) -> Option<RouterError> {
        self.contents.tools.iter().find_map(|entry| {
            let uri = entry.item.tool.named_page()?;
            let page = self.contents.resources.get(&uri).and_then(|entry| entry.item.mime_type.as_deref());
            let there = apps::is_page_uri(&uri)
                && (page == Some(apps::MEDIA_TYPE) || (page.is_none() && self.serves_by_template(&uri)));
            (!there).then(|| RouterError::Page { tool: entry.item.tool.name.clone(), uri })
        })
    }

    fn serves_by_template(&self, uri: &str) -> bool {
        let mut templates = self.contents.templates.iter();
        templates.any(|entry| {
            entry.item.0.mime_type.as_deref() == Some(apps::MEDIA_TYPE) && entry.item.1.matches(uri).is_some()
        })
    }

    /// Restricts the resources to whose changes a client may subscribe. By default every URI is granted, also one that
    /// the router has no resource for.
    ///
    /// `allows` takes the URI and the principal of the request, if the transport knows one. A client of 2026-07-28
    /// receives the acknowledgement of its subscription without the refused URIs; an older one receives the error of a
    /// resource that does not exist. Reading a resource is not affected: its handler checks that.
    ///
    /// The server calls `allows` in the middle of its work: it must return quickly, and must not use the server's
    /// handles.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::ServerCapability;
    ///
    /// let router = Router::new("mail", "1.0.0")
    ///     .declare(ServerCapability::ResourcesSubscribe)
    ///     .subscription_access(|uri, principal| match principal {
    ///         Some(principal) => uri.starts_with(&format!("mail:///{}/", principal.as_str())),
    ///         None => uri == "mail:///status",
    ///     });
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#acknowledgment>
    pub fn subscription_access(
        mut self,
        allows: impl Fn(&str, Option<&Principal>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.contents.subscription_access = Some(SubscriptionAccess::new(allows));
        self
    }
}
