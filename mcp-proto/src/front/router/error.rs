//! What can be wrong with a router.

use alloc::string::String;
use core::fmt;

use super::TemplateError;

/// Something was registered that can not be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouterError {
    /// The name of a tool has other than 1 to 128 characters of `[A-Za-z0-9_.-]`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names>
    ToolName {
        /// The name.
        name: String,
    },
    /// The arguments of a tool are not described as a JSON object.
    InputSchema {
        /// The tool.
        tool: String,
    },
    /// A schema of a tool can not be checked against.
    #[cfg(feature = "schema-validate")]
    Schema {
        /// The tool.
        tool: String,
        /// Which of its schemas: `input` or `output`.
        which: &'static str,
        /// Why.
        error: crate::validate::SchemaError,
    },
    /// A parameter of a tool is marked to be repeated as a header of HTTP, and can not be.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header>
    #[cfg(feature = "http")]
    ParamHeader {
        /// The tool.
        tool: String,
        /// Why.
        error: crate::transport::http::param_headers::ParamHeaderError,
    },
    /// A prompt has no name.
    PromptName,
    /// The URI of a resource has no scheme.
    Uri {
        /// The URI.
        uri: String,
    },
    /// The URI template of resources can not be matched against.
    Template {
        /// The template.
        template: String,
        /// Why.
        error: TemplateError,
    },
    /// Calls of a tool are to become tasks, and the router has [none](super::Router::tasks).
    NoTasks {
        /// The tool.
        tool: String,
    },
    /// What a tool needs of tokens is no scope.
    #[cfg(feature = "auth")]
    Scope {
        /// The tool.
        tool: String,
        /// What it is to need.
        scope: String,
    },
    /// A tool needs scopes, and is not registered.
    #[cfg(feature = "auth")]
    NoTool {
        /// The tool.
        tool: String,
    },
    /// What was to identify an extension has no prefix, or is no identifier.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    Extension {
        /// What it was.
        identifier: String,
    },
    /// The page of a tool is not a registered resource of the media type of pages.
    ///
    /// <https://modelcontextprotocol.io/extensions/apps/overview>
    Page {
        /// The tool.
        tool: String,
        /// The URI that it names.
        uri: String,
    },
    /// Two things of one kind have the same name.
    Duplicate {
        /// What they are.
        kind: &'static str,
        /// Their name.
        name: String,
    },
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToolName { name } => {
                write!(f, "the tool name {name:?} is not 1 to 128 characters of letters, digits, _, . and -")
            }
            Self::InputSchema { tool } => {
                write!(f, "the arguments of the tool {tool:?} are not a JSON object")
            }
            #[cfg(feature = "schema-validate")]
            Self::Schema { tool, which, error } => {
                write!(f, "the {which} schema of the tool {tool:?} is not usable: {error}")
            }
            #[cfg(feature = "http")]
            Self::ParamHeader { tool, error } => write!(f, "the tool {tool:?} can not be offered: {error}"),
            Self::PromptName => f.write_str("a prompt has no name"),
            Self::Uri { uri } => write!(f, "the resource {uri:?} has no scheme in its URI"),
            Self::Template { template, error } => {
                write!(f, "the URI template {template:?} is not usable: {error}")
            }
            Self::NoTasks { tool } => {
                write!(f, "calls of the tool {tool:?} are to become tasks, which this router does not have")
            }
            #[cfg(feature = "auth")]
            Self::Scope { tool, scope } => write!(f, "what the tool {tool:?} needs is no scope: {scope:?}"),
            #[cfg(feature = "auth")]
            Self::NoTool { tool } => write!(f, "the tool {tool:?} needs scopes, and is not registered"),
            Self::Extension { identifier } => {
                write!(f, "{identifier:?} does not identify an extension, as com.example/name would")
            }
            Self::Page { tool, uri } => {
                write!(f, "the page {uri:?} of the tool {tool:?} is not registered as a resource of its kind")
            }
            Self::Duplicate { kind: what, name } => write!(f, "the {what} {name:?} is registered twice"),
        }
    }
}

impl core::error::Error for RouterError {}
