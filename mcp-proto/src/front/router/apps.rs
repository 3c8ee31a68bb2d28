//! Tools with MCP Apps pages.

use alloc::string::String;
use core::future::Future;

use super::{Context, Handler, HandlerMode, Router, RouterError};
use crate::front::handler::output::ResourceOutput;
use crate::schema::{Resource, apps};

impl<M: HandlerMode, S: 'static> Router<M, S> {
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
    #[must_use]
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
            let uri = entry.item.named_page()?;
            let page = self.contents.resources.get(&uri).and_then(|entry| entry.item.mime_type.as_deref());
            let there = apps::is_page_uri(&uri)
                && (page == Some(apps::MEDIA_TYPE) || (page.is_none() && self.serves_by_template(&uri)));
            (!there).then(|| RouterError::Page { tool: entry.item.name.clone(), uri })
        })
    }

    fn serves_by_template(&self, uri: &str) -> bool {
        let mut templates = self.contents.templates.iter();
        templates.any(|entry| {
            entry.item.0.mime_type.as_deref() == Some(apps::MEDIA_TYPE) && entry.item.1.matches(uri).is_some()
        })
    }
}
