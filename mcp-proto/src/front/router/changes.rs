//! Items that are removed, disabled and enabled: in a router that is assembled, or in a [live](Router::live) one.

use alloc::sync::Arc;

use super::{HandlerMode, Router, RouterError};

/// Removed and disabled items.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Removes a tool with its scopes (`Router::tool_scopes`).
    ///
    /// A tool that is registered again under the same name takes the same place in the list.
    ///
    /// An unknown name is a [`RouterError::NotRegistered`] of [`check`](Self::check); so it is for all these methods.
    #[must_use]
    pub fn remove_tool(mut self, name: &str) -> Self {
        let removed = self.contents.tools.remove(name);
        if self.contents.task_tools.contains_key(name) {
            Arc::make_mut(&mut self.contents.task_tools).remove(name);
        }
        self.contents.headers.remove(name);
        self.remove_scopes(name);
        self.remove_input_check(name);
        self.require_registered(removed, "tool", name)
    }

    /// Hides a tool: it is not listed, and a call is answered as that of an unknown tool.
    #[must_use]
    pub fn disable_tool(mut self, name: &str) -> Self {
        let found = self.contents.tools.set_enabled(name, false);
        self.require_registered(found, "tool", name)
    }

    /// Makes a disabled tool available again.
    #[must_use]
    pub fn enable_tool(mut self, name: &str) -> Self {
        let found = self.contents.tools.set_enabled(name, true);
        self.require_registered(found, "tool", name)
    }

    /// Removes a prompt.
    #[must_use]
    pub fn remove_prompt(mut self, name: &str) -> Self {
        let removed = self.contents.prompts.remove(name);
        self.require_registered(removed, "prompt", name)
    }

    /// Hides a prompt: it is not listed, and a request for it is answered as that for an unknown prompt.
    #[must_use]
    pub fn disable_prompt(mut self, name: &str) -> Self {
        let found = self.contents.prompts.set_enabled(name, false);
        self.require_registered(found, "prompt", name)
    }

    /// Makes a disabled prompt available again.
    #[must_use]
    pub fn enable_prompt(mut self, name: &str) -> Self {
        let found = self.contents.prompts.set_enabled(name, true);
        self.require_registered(found, "prompt", name)
    }

    /// Removes a resource, or a page of tools.
    #[must_use]
    pub fn remove_resource(mut self, uri: &str) -> Self {
        let removed = self.contents.resources.remove(uri);
        self.require_registered(removed, "resource", uri)
    }

    /// Hides a resource: it is not listed. It cannot be read either, unless a template matches its URI.
    #[must_use]
    pub fn disable_resource(mut self, uri: &str) -> Self {
        let found = self.contents.resources.set_enabled(uri, false);
        self.require_registered(found, "resource", uri)
    }

    /// Makes a disabled resource available again.
    #[must_use]
    pub fn enable_resource(mut self, uri: &str) -> Self {
        let found = self.contents.resources.set_enabled(uri, true);
        self.require_registered(found, "resource", uri)
    }

    /// Removes a resource template.
    #[must_use]
    pub fn remove_template(mut self, uri_template: &str) -> Self {
        let removed = self.contents.templates.remove(uri_template);
        self.require_registered(removed, "resource template", uri_template)
    }

    /// Hides a resource template: it is not listed and matches no URI.
    #[must_use]
    pub fn disable_template(mut self, uri_template: &str) -> Self {
        let found = self.contents.templates.set_enabled(uri_template, false);
        self.require_registered(found, "resource template", uri_template)
    }

    /// Makes a disabled resource template available again.
    #[must_use]
    pub fn enable_template(mut self, uri_template: &str) -> Self {
        let found = self.contents.templates.set_enabled(uri_template, true);
        self.require_registered(found, "resource template", uri_template)
    }

    fn require_registered(mut self, registered: bool, kind: &'static str, name: &str) -> Self {
        if !registered {
            self.record_error(RouterError::NotRegistered { kind, name: name.into() });
        }
        self
    }
}
