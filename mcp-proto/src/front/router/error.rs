//! The errors of a router's registrations.

use alloc::string::String;
use core::fmt;

use super::TemplateError;
use super::schema_checks::SchemaError;
use super::tool_headers::ParamHeaderError;
use crate::peer::reserved::is_reserved_for_tasks;
use crate::schema::ServerCapability;

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
    /// Scopes are required for a tool that is not registered.
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
    /// Two registrations of one kind have the same name.
    Duplicate {
        /// What kind of item they are.
        kind: &'static str,
        /// Their name.
        name: String,
    },
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToolName { name } => {
                write!(
                    f,
                    "the tool name {name:?} is not valid: use 1 to 128 letters, digits, _, . and -"
                )
            }
            Self::InputSchema { tool } => {
                write!(
                    f,
                    "the input schema of the tool {tool:?} does not describe an object: give it the type \"object\", or \
                     let the handler take a struct"
                )
            }
            Self::Schema { tool, which, error } => {
                write!(f, "the {which} schema of the tool {tool:?} is not usable, correct it: {error}")
            }
            Self::ParamHeader { tool, error } => {
                write!(f, "the tool {tool:?} has an invalid x-mcp-header mark: correct its input schema: {error}")
            }
            Self::PromptName => f.write_str("a prompt has an empty name: name it"),
            Self::Uri { uri } => {
                write!(f, "the resource {uri:?} has no valid URI: write one such as note:///today")
            }
            Self::Template { template, error } => {
                write!(f, "the URI template {template:?} is not supported: {error}")
            }
            Self::NoTasks { tool } => {
                write!(
                    f,
                    "the tool {tool:?} runs as a task, but the router runs no tasks: call `Router::tasks`"
                )
            }
            Self::Scope { tool, scope } => write!(
                f,
                "the scope {scope:?} of the tool {tool:?} is malformed: use printable ASCII without spaces, \" and \\"
            ),
            Self::NoTool { tool } => {
                write!(
                    f,
                    "scopes are set for the tool {tool:?}, which is not registered: check its name, or register it"
                )
            }
            Self::Extension { identifier } => {
                write!(
                    f,
                    "{identifier:?} is not an extension identifier: use a form such as com.example/name"
                )
            }
            Self::Experimental { name } => {
                write!(f, "the settings of the experimental capability {name:?} are not a JSON object")
            }
            Self::Reserved { name } if is_reserved_for_tasks(name) => write!(
                f,
                "{name} cannot have a handler, because the tasks extension reserves the name: use a prefix of your own, \
                 such as com.example/"
            ),
            Self::Reserved { name } => {
                write!(f, "{name} cannot have a handler: the server handles it itself")
            }
            Self::Page { tool, uri } => {
                write!(
                    f,
                    "the page {uri:?} of the tool {tool:?} is not registered at a ui:// URI: register it with `Router::page`"
                )
            }
            Self::NotRegistered { kind, name } => {
                write!(f, "the {kind} {name:?} cannot be changed, because it is not registered: check its name")
            }
            Self::Undeclared { capability } => write!(
                f,
                "a live router cannot gain the capability {capability:?}, because clients learn it once: call \
                 `Router::declare` or `Router::extension` before `Router::live`"
            ),
            Self::Fixed { what } => write!(
                f,
                "an update cannot change the {what} of a live router, because clients learn them once: set them \
                 before `Router::live`"
            ),
            Self::NestedUpdate => f.write_str(
                "the router is being updated on this thread: make all changes in one call of `LiveRouter::update`",
            ),
            Self::Shadowed { kind, name, method } => write!(
                f,
                "the handler of {method} hides the {kind} {name:?}: remove one of them, or change the list at run time \
                 with `Router::live`"
            ),
            Self::Unanswered { capability, method } => {
                let remedy = match capability {
                    ServerCapability::Completions => "`Router::completion`",
                    _ => "`Router::tasks`, or `Router::handler` for each of its methods,",
                };
                write!(
                    f,
                    "the capability {} is declared, but {method} has no handler: call {remedy} or do not declare it",
                    capability.path()
                )
            }
            Self::Duplicate { kind: what, name } => {
                write!(f, "the {what} {name:?} is registered twice: rename or remove one of them")
            },
            Self::NeedsSession { capability } => {
                write!(
                    f,
                    "the router declares {}, which needs sessions: serve it with sessions, or do not declare it",
                    capability.path()
                )
            }
        }
    }
}

impl core::error::Error for RouterError {}
