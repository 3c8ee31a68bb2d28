//! The check of a router's registrations.

use super::{HandlerMode, Router, RouterError};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask, legacy};
use crate::schema::{
    CallTool, Complete, GetPrompt, ListPrompts, ListResourceTemplates, ListResources, ListTools, Method,
    ReadResource, ServerCapability,
};

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Checks all registrations. Everything that serves a router calls it: the adapters' servers end with the error,
    /// and until then each request is answered with [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR).
    ///
    /// Beside invalid items it reports items that a hand-written [handler](Self::handler) hides, such as a tool beside
    /// a handler of `tools/list`, and a capability whose methods have no handler.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::ServerCapability;
    ///
    /// let router = Router::new("calculator", "1.0.0").declare(ServerCapability::Completions);
    /// let error = router.check().unwrap_err();
    /// assert!(error.to_string().contains("call `Router::completion`"));
    /// ```
    ///
    /// # Errors
    /// The first invalid registration.
    pub fn check(&self) -> Result<(), RouterError> {
        let missing = || self.missing_page().or_else(|| self.missing_tasks()).or_else(|| self.missing_tool());
        let handlers = || self.shadowed_item().or_else(|| self.unanswered_capability());
        self.contents.error.clone().or_else(missing).or_else(handlers).map_or(Ok(()), Err)
    }

    /// Whether a hand-written handler answers a method.
    pub(super) fn has_handler(&self, method: &str) -> bool {
        self.contents.methods.contains_key(method)
    }

    /// Returns an item that the router never lists or uses, because a handler of the method does it instead.
    fn shadowed_item(&self) -> Option<RouterError> {
        let tool = self.contents.tools.iter().next().map(|entry| entry.item.name.as_str());
        let prompt = self.contents.prompts.iter().next().map(|entry| entry.item.name.as_str());
        let resource = self.contents.resources.iter().next().map(|entry| entry.item.uri.as_str());
        let template = self.contents.templates.iter().next().map(|entry| entry.item.0.uri_template.as_str());
        let task_tool = self.contents.task_tools.keys().next().map(|name| name.as_str());
        let items: [(_, Option<&str>, &[&'static str]); 5] = [
            ("tool", tool, &[ListTools::NAME, CallTool::NAME]),
            ("prompt", prompt, &[ListPrompts::NAME, GetPrompt::NAME]),
            ("resource", resource, &[ListResources::NAME, ReadResource::NAME]),
            ("resource template", template, &[ListResourceTemplates::NAME, ReadResource::NAME]),
            (
                "task tool",
                task_tool,
                &[
                    GetTask::NAME,
                    UpdateTask::NAME,
                    CancelTask::NAME,
                    legacy::TaskResult::NAME,
                    legacy::ListTasks::NAME,
                ],
            ),
        ];
        items.into_iter().find_map(|(kind, name, methods)| {
            let method = *methods.iter().find(|method| self.has_handler(method))?;
            Some(RouterError::Shadowed { kind, name: name?.into(), method })
        })
    }

    /// Returns a capability that is declared although a method that it requires has no handler. The router itself
    /// answers those of tools, prompts and resources; the server those of logging and subscriptions.
    fn unanswered_capability(&self) -> Option<RouterError> {
        let tasks = self.contents.task_registry.is_some();
        let capabilities: [(_, bool, &[&'static str]); 5] = [
            (ServerCapability::Completions, false, &[Complete::NAME]),
            (ServerCapability::Tasks, tasks, &[legacy::GetTask::NAME, legacy::TaskResult::NAME]),
            (ServerCapability::TasksList, tasks, &[legacy::ListTasks::NAME]),
            (ServerCapability::TasksCancel, tasks, &[legacy::CancelTask::NAME]),
            (ServerCapability::TasksExtension, tasks, &[GetTask::NAME, UpdateTask::NAME, CancelTask::NAME]),
        ];
        let unanswered =
            |methods: &[&'static str]| methods.iter().find(|method| !self.has_handler(method)).copied();
        let declared = |(capability, answered, methods): (ServerCapability, bool, &[&'static str])| {
            let unanswered =
                unanswered(methods).filter(|_| !answered && self.contents.capabilities.has(capability));
            unanswered.map(|method| RouterError::Unanswered { capability, method })
        };
        capabilities.into_iter().find_map(declared)
    }
}
