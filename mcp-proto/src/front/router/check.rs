//! The check of a router's registrations, and its errors.

use super::{HandlerMode, Router, TemplateError};
use crate::peer::admission::is_reserved_for_tasks;
use crate::prelude::*;
#[cfg(feature = "skills")]
use crate::schema::skills::SkillFilesError;
use crate::schema::skills::{GetSkill, ListSkills, ReadDirectory};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask, legacy};
use crate::schema::{
    CallTool, Complete, DeclaredCapabilities, ExtensionError, GetPrompt, ListPrompts, ListResourceTemplates,
    ListResources, ListTools, Method, ReadResource, ServerCapability,
};
#[cfg(feature = "http")]
use crate::transport::http::param_headers::ParamHeaderError;
#[cfg(feature = "schema-validate")]
use crate::validate::SchemaError;

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
        let missing = || self.missing_page().or_else(|| self.missing_tasks());
        let missing = || missing().or_else(|| self.contents.tool_timeouts.missing_tool(self));
        #[cfg(feature = "auth")]
        let missing = || missing().or_else(|| self.contents.scopes.missing_tool(self));
        let handlers = || self.shadowed_item().or_else(|| self.unanswered_capability());
        let handlers = || handlers().or_else(|| self.missing_resources());
        let extensions = || {
            let declared = DeclaredCapabilities::Server(&self.contents.capabilities);
            let checked = declared.check_extensions(&self.contents.extensions);
            checked.err().map(|error| RouterError::Extensions { error })
        };
        let found = self.contents.error.clone().or_else(missing).or_else(handlers).or_else(extensions);
        found.map_or(Ok(()), Err)
    }

    /// Returns the first of these tools that is not registered.
    pub(super) fn unregistered_tool<'a>(
        &self,
        tools: impl IntoIterator<Item = &'a String>,
    ) -> Option<RouterError> {
        // A handler of the method knows its own tools.
        let mut tools = tools.into_iter().filter(|_| !self.has_handler(CallTool::NAME));
        let missing = tools.find(|tool| !self.contents.tools.contains(tool))?;
        Some(RouterError::NoTool { tool: missing.clone() })
    }

    /// Whether a hand-written handler answers a method.
    pub(super) fn has_handler(&self, method: &str) -> bool {
        self.contents.methods.contains_key(method)
    }

    /// Returns an item that the router never lists or uses, because a handler of the method does it instead.
    fn shadowed_item(&self) -> Option<RouterError> {
        let tools = || self.contents.tools.iter().map(|entry| &entry.item);
        let task_tool = tools().find(|item| item.task.is_some()).map(|item| item.tool.name.as_str());
        let tool = tools().next().map(|item| item.tool.name.as_str());
        let prompt = self.contents.prompts.iter().next().map(|entry| entry.item.name.as_str());
        let resource = self.contents.resources.iter().next().map(|entry| entry.item.uri.as_str());
        let template = self.contents.templates.iter().next().map(|entry| entry.item.0.uri_template.as_str());
        #[cfg(feature = "skills")]
        let skill = self.contents.skills.first().map(|skills| skills.source.root());
        #[cfg(not(feature = "skills"))]
        let skill = None;
        let items: [(_, Option<&str>, &[&'static str]); 6] = [
            ("tool", tool, &[ListTools::NAME, CallTool::NAME]),
            ("prompt", prompt, &[ListPrompts::NAME, GetPrompt::NAME]),
            ("resource", resource, &[ListResources::NAME, ReadResource::NAME]),
            ("resource template", template, &[ListResourceTemplates::NAME, ReadResource::NAME]),
            ("skill", skill, &[ListSkills::NAME, GetSkill::NAME, ReadDirectory::NAME, ReadResource::NAME]),
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
    /// answers those of tools, prompts, resources and skills; the server those of logging and subscriptions.
    fn unanswered_capability(&self) -> Option<RouterError> {
        let tasks = self.contents.task_registry.is_some();
        let skills = cfg!(feature = "skills");
        let capabilities: [(_, bool, &[&'static str]); 7] = [
            (ServerCapability::SkillsExtension, skills, &[ListSkills::NAME, GetSkill::NAME]),
            (ServerCapability::DirectoryRead, skills, &[ReadDirectory::NAME]),
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

    //= S12.1 "declares `resources` and implements"
    /// Returns the error for skills without resources, as which their files are read.
    fn missing_resources(&self) -> Option<RouterError> {
        let declared = |capability| self.contents.capabilities.has(capability);
        let missing = declared(ServerCapability::SkillsExtension) && !declared(ServerCapability::Resources);
        missing.then_some(RouterError::NoResources)
    }
}

/// What legacy clients get only in a session.
const NEED_SESSIONS: [ServerCapability; 5] = [
    ServerCapability::ResourcesSubscribe,
    ServerCapability::ToolsListChanged,
    ServerCapability::ResourcesListChanged,
    ServerCapability::PromptsListChanged,
    ServerCapability::Logging,
];

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Checks all registrations, and that legacy clients can be served without sessions
    /// (`HttpServerConfig::stateless`): the router must declare neither subscriptions nor changed lists nor log messages.
    ///
    /// ```
    /// use mcp_proto::front::{Router, RouterError};
    /// use mcp_proto::schema::ServerCapability;
    ///
    /// let router = Router::new("notes", "1.0.0");
    /// assert!(router.check_stateless().is_ok());
    /// let error = router.declare(ServerCapability::ResourcesSubscribe).check_stateless().unwrap_err();
    /// assert_eq!(error, RouterError::NeedsSession { capability: ServerCapability::ResourcesSubscribe });
    /// ```
    ///
    /// # Errors
    /// The first invalid registration, or the first capability that needs sessions.
    pub fn check_stateless(&self) -> Result<(), RouterError> {
        self.check()?;
        match NEED_SESSIONS.into_iter().find(|capability| self.capabilities().has(*capability)) {
            Some(capability) => Err(RouterError::NeedsSession { capability }),
            None => Ok(()),
        }
    }
}

/// An invalid registration of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouterError {
    /// The name of a tool is not 1 to 128 characters of `[A-Za-z0-9_.-]`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names>
    ToolName {
        /// The name.
        name: String,
    },
    /// The input schema of a tool does not describe a JSON object.
    InputSchema {
        /// The tool.
        tool: String,
    },
    /// A schema of a tool cannot be compiled.
    #[cfg(feature = "schema-validate")]
    Schema {
        /// The tool.
        tool: String,
        /// Which of its schemas: `input` or `output`.
        which: &'static str,
        /// Why.
        error: SchemaError,
    },
    /// A parameter of a tool cannot be repeated as an HTTP header, although its schema demands it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header>
    #[cfg(feature = "http")]
    ParamHeader {
        /// The tool.
        tool: String,
        /// Why.
        error: ParamHeaderError,
    },
    /// A prompt has no name.
    PromptName,
    /// The URI of a resource is not one of RFC 3986: it has no scheme, or characters that must be percent-encoded.
    Uri {
        /// The URI.
        uri: String,
    },
    /// The URI template of resources is not supported.
    Template {
        /// The template.
        template: String,
        /// Why.
        error: TemplateError,
    },
    /// Calls of a tool run as tasks, but the router has [no task configuration](super::Router::tasks).
    NoTasks {
        /// The tool.
        tool: String,
    },
    /// A scope that a tool requires is malformed.
    Scope {
        /// The tool.
        tool: String,
        /// The malformed scope.
        scope: String,
    },
    /// Scopes are required for a tool that is not registered, or its time is limited.
    NoTool {
        /// The tool.
        tool: String,
    },
    /// The identifier of an extension has no prefix or is malformed.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    Extension {
        /// The identifier.
        identifier: String,
    },
    /// The settings of an experimental capability are not a JSON object.
    Experimental {
        /// The capability.
        name: String,
    },
    /// A handler is registered for a message that the server handles itself, so that it would never be called, or for a
    /// custom message whose name begins with `tasks/` or `notifications/tasks/`.
    Reserved {
        /// The method.
        name: String,
    },
    /// The page of a tool is not a registered resource at a `ui:` URI with the media type of pages.
    ///
    /// <https://modelcontextprotocol.io/extensions/apps/overview>
    Page {
        /// The tool.
        tool: String,
        /// The URI of the page.
        uri: String,
    },
    /// A skill in memory has files that cannot be served as one.
    #[cfg(feature = "skills")]
    Skill {
        /// Its name, or its path if its frontmatter cannot be read.
        name: String,
        /// Why.
        error: SkillFilesError,
    },
    /// Two skills, or sources of skills, have URIs in the same place: one within the folder of the other.
    #[cfg(feature = "skills")]
    SkillOverlap {
        /// What the URIs of the one that was registered last begin with.
        root: String,
        /// What the URIs of the other begin with.
        other: String,
    },
    /// The skills extension is declared without the capability `resources`, by which the files of skills are read.
    ///
    /// <https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx#capability-negotiation>
    NoResources,
    /// An item to remove, disable or enable is not registered.
    NotRegistered {
        /// What kind of item it is.
        kind: &'static str,
        /// Its name, or its URI.
        name: String,
    },
    /// An update of a [live router](super::LiveRouter) declares a capability, or an extension, that was not declared
    /// before the router went live.
    Undeclared {
        /// The path of the capability, or the identifier of the extension.
        capability: String,
    },
    /// An update of a live router changes something that clients learn once.
    Fixed {
        /// The changed part.
        what: &'static str,
    },
    /// An update of a live router was called within another one, on the same thread.
    NestedUpdate,
    /// A registered item is hidden by a hand-written handler of a method that would list or use it.
    Shadowed {
        /// What kind of item it is.
        kind: &'static str,
        /// Its name, or its URI.
        name: String,
        /// The method.
        method: &'static str,
    },
    /// A capability is declared, but a method that it requires has no handler.
    Unanswered {
        /// The capability.
        capability: ServerCapability,
        /// The method.
        method: &'static str,
    },
    /// The router declares what legacy clients get only in a session, and is served without sessions.
    NeedsSession {
        /// The capability.
        capability: ServerCapability,
    },
    /// The prefix of a [mounted](super::Router::mount) router is not a lower-case letter and more of them, digits and `-`.
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// A router cannot be [mounted](super::Router::mount), because a hand-written handler lists or uses its items.
    Mount {
        /// The prefix.
        prefix: String,
        /// The method that has the handler.
        method: &'static str,
    },
    /// A router with [layers](super::Router::layer) is to become a part of another.
    Layered,
    /// The extensions cannot be used together.
    Extensions {
        /// Why.
        error: ExtensionError,
    },
    /// Two registrations of one kind have the same name.
    Duplicate {
        /// What kind of item they are.
        kind: &'static str,
        /// Their name.
        name: String,
    },
}

error_text! { RouterError:
    ToolName { name } => "the tool name {name:?} is not valid: use 1 to 128 letters, digits, _, . and -";
    InputSchema { tool } =>
        "the input schema of the tool {tool:?} does not describe an object: give it the type \"object\", or \
                     let the handler take a struct";
    #[cfg(feature = "schema-validate")]
    Schema { tool, which, error } =>
        "the {which} schema of the tool {tool:?} is not usable, correct it: {error}";
    #[cfg(feature = "http")]
    ParamHeader { tool, error } =>
        "the tool {tool:?} has an invalid x-mcp-header mark: correct its input schema: {error}";
    PromptName => "a prompt has an empty name: name it";
    Uri { uri } => "the resource {uri:?} has no valid URI: write one such as note:///today";
    Template { template, error } => "the URI template {template:?} is not supported: {error}";
    NoTasks { tool } =>
        "the tool {tool:?} runs as a task, but the router runs no tasks: call `Router::tasks`";
    Scope { tool, scope } =>
        "the scope {scope:?} of the tool {tool:?} is malformed: use printable ASCII without spaces, \" and \\";
    NoTool { tool } =>
        "scopes or a timeout are set for the tool {tool:?}, which is not registered: check its name, or register it";
    Extension { identifier } =>
        "{identifier:?} is not an extension identifier: use a form such as com.example/name";
    Experimental { name } => "the settings of the experimental capability {name:?} are not a JSON object";
    Reserved { name } if is_reserved_for_tasks(name) =>
        "{name} cannot have a handler, because the tasks extension reserves the name: use a prefix of your own, \
                 such as com.example/";
    Reserved { name } => "{name} cannot have a handler: the server handles it itself";
    Page { tool, uri } =>
        "the page {uri:?} of the tool {tool:?} is not registered at a ui:// URI: register it with `Router::page`";
    #[cfg(feature = "skills")]
    Skill { name, error } => "the skill {name:?} cannot be served: {error}";
    #[cfg(feature = "skills")]
    SkillOverlap { root, other } =>
        "the skills at {root:?} and at {other:?} lie within each other: register the inner one as files of the outer \
                 one, or give one of them another path, with `under`";
    NoResources =>
        "skills are declared without resources, by which their files are read: call `Router::skill`, or declare \
                 `ServerCapability::Resources`";
    NotRegistered { kind, name } =>
        "the {kind} {name:?} cannot be changed, because it is not registered: check its name";
    Undeclared { capability } =>
        "a live router cannot gain the capability {capability:?}, because clients learn it once: call \
                 `Router::declare` or `Router::extension` before `Router::live`";
    Fixed { what } =>
        "an update cannot change the {what} of a live router, because clients learn them once: set them \
                 before `Router::live`";
    NestedUpdate =>
        "the router is being updated on this thread: make all changes in one call of `LiveRouter::update`";
    Shadowed { kind, name, method } =>
        "the handler of {method} hides the {kind} {name:?}: remove one of them, or change the list at run time \
                 with `Router::live`";
    Unanswered { capability, method } =>
        "the capability {} is declared, but {method} has no handler: call {} or do not declare it",
        capability.path(),
        match capability {
            ServerCapability::Completions => "`Router::completion`",
            ServerCapability::SkillsExtension | ServerCapability::DirectoryRead =>
                "`Router::skill` (feature `skills`), or `Router::handler` for each of its methods,",
            _ => "`Router::tasks`, or `Router::handler` for each of its methods,",
        };
    Prefix { prefix } =>
        "{prefix:?} cannot be the prefix of a mounted router: use a lower-case letter and more of them, digits and -";
    Mount { prefix, method } =>
        "a router with a handler of {method} cannot be mounted as {prefix:?}, because the names in its results are \
                 not known: merge it, or register its items";
    Layered =>
        "a router with layers cannot be merged or mounted, because its layers would see the requests of both: add them \
                 to the router that it becomes a part of";
    Extensions { error } => "{error}";
    Duplicate { kind: what, name } => "the {what} {name:?} is registered twice: rename or remove one of them";
    NeedsSession { capability } =>
        "the router declares {}, which needs sessions: serve it with sessions, or do not declare it", capability.path();
}
