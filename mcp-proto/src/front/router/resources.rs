//! Resources, resource templates and their handlers.

use alloc::string::String;
use alloc::sync::Arc;
use core::future::Future;

use super::contents::TemplateMatch;
use super::replies::reply;
use super::strings::from_strings;
use super::uri::{self, UriTemplate};
use super::{Context, Router, RouterError};
use crate::front::handler::arguments::Arguments;
use crate::front::handler::output::ResourceOutput;
use crate::front::params::params_error;
use crate::front::reply::Reply;
use crate::front::{Handler, HandlerMode};
use crate::schema::{ReadResourceParams, Resource, ResourceTemplate, Revision, ServerCapability};

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
    #[must_use]
    pub fn resource<F, H>(mut self, resource: Resource, handler: H) -> Self
    where
        F: Future<Output: ResourceOutput> + 'static, // an async closure or function
        H: Fn(String, Context<S>) -> F + Handler<M, String, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let mime_type: Option<Arc<str>> = resource.mime_type.as_deref().map(Arc::from);
        let erased = handler.erase(
            self.state.clone(),
            |read: ReadResourceParams, context: &Context| {
                Ok((read.uri.clone(), (read.uri, context.revision())))
            },
            move |(uri, revision): (String, Revision), output: F::Output| {
                reply(output.into_read_result(&uri, mime_type.as_deref()), revision)
            },
        );
        //= S8.13 "Validate URIs"
        if !uri::is_uri(&resource.uri) {
            self.record_error(RouterError::Uri { uri: resource.uri.clone() });
        }
        if let Err(name) = self.contents.resources.insert(resource.uri.clone(), resource, erased) {
            self.record_error(RouterError::Duplicate { kind: "resource", name });
        }
        //= R5 "derived from what is registered"
        self.declare(ServerCapability::Resources)
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
    #[must_use]
    pub fn template<A, F, H>(mut self, template: ResourceTemplate, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: ResourceOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let mime_type: Option<Arc<str>> = template.mime_type.as_deref().map(Arc::from);
        let erased = handler.erase(
            self.state.clone(),
            |(uri, variables): TemplateMatch, context: &Context| match from_strings(&variables) {
                Ok(variables) => Ok((variables, (uri, context.revision()))),
                Err(error) => Err(Reply::Error(params_error("resources/read", &error))),
            },
            move |(uri, revision): (String, Revision), output: F::Output| {
                reply(output.into_read_result(&uri, mime_type.as_deref()), revision)
            },
        );
        match UriTemplate::parse(&template.uri_template) {
            Ok(matcher) => {
                let key = template.uri_template.clone();
                if let Err(name) = self.contents.templates.insert(key, (template, matcher), erased) {
                    self.record_error(RouterError::Duplicate { kind: "resource template", name });
                }
            }
            Err(error) => self.record_error(RouterError::Template { template: template.uri_template, error }),
        }
        //= R5 "derived from what is registered"
        self.declare(ServerCapability::Resources)
    }
}
