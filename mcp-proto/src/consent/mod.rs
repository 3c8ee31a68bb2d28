//! User consent: checks that a host makes before it acts on a peer's request, and the facts to show the user.
//!
//! Nothing here opens, fetches, renders or runs anything. These types tell the host what to show and what to refuse:
//!
//! - [`UrlConsent`]: a page that a server wants the user to visit.
//! - [`IconPolicy`]: the icons of a server.
//! - [`Behaviour`]: the effects of a tool, as far as its server is trusted.
//! - [`SafeText`]: any text of a peer, without terminal control and hidden characters; [`shell_word`] quotes it for a
//!   shell.
//! - [`is_harmless_variable`], [`is_loader_variable`]: which environment variables choose the code that programs run.
//! - [`runs_commands`], [`has_inline_code`]: which commands run code that their arguments contain.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>

#[cfg(feature = "host")]
mod lookalike;
mod program;
mod url;

pub use crate::text::{SafeText, shell_word};
#[cfg(feature = "host")]
pub(crate) use lookalike::{is_opening_bracket, prototype, skeleton};
pub use program::{has_inline_code, is_harmless_variable, is_loader_variable, runs_commands};
pub use url::{IconPolicy, IconSource, ImageKind, UnsafeIconError, UnsafeUrlError, UrlConsent, UrlWarning};

use crate::schema::Tool;

/// Whether a host believes a server's annotations of its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The annotations are believed.
    Trusted,
    /// The annotations are ignored.
    Untrusted,
}

/// The effects of a tool, by which a host decides whether to ask the user.
///
/// The annotations of a tool are hints; those of an untrusted server are ignored. A missing hint counts as the worst
/// case, as the specification requires.
///
/// ```
/// use mcp_proto::consent::{Behaviour, Trust};
/// use mcp_proto::schema::{Tool, ToolAnnotations};
/// use serde_json::json;
///
/// let harmless = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::new() };
/// let tool = Tool::new("list", "Lists files", json!({"type": "object"})).with_annotations(harmless);
/// assert!(!Behaviour::from_tool(&tool, Trust::Trusted).needs_confirmation());
/// assert!(Behaviour::from_tool(&tool, Trust::Untrusted).needs_confirmation());
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#security-considerations>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Whether the tool changes nothing.
    pub read_only: bool,
    /// Whether the tool may destroy something rather than only add.
    pub destructive: bool,
    /// Whether calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Whether the tool interacts with an open world, such as the web.
    pub open_world: bool,
}

impl Behaviour {
    /// The effects of a tool, as far as its server is trusted.
    pub fn from_tool(tool: &Tool, trust: Trust) -> Self {
        //= C9.3 "Tool annotations untrusted unless the server is trusted"
        let hints = tool.annotations.as_ref().filter(|_| trust == Trust::Trusted);
        let read_only = hints.and_then(|hints| hints.read_only_hint).unwrap_or(false);
        Self {
            read_only,
            // These two hints are defined only for tools that are not read-only.
            destructive: !read_only && hints.and_then(|hints| hints.destructive_hint).unwrap_or(true),
            idempotent: read_only || hints.and_then(|hints| hints.idempotent_hint).unwrap_or(false),
            open_world: hints.and_then(|hints| hints.open_world_hint).unwrap_or(true),
        }
    }

    /// Whether the user should confirm each call.
    ///
    /// It is `false` for a tool that changes nothing, or only adds within a closed world.
    pub fn needs_confirmation(&self) -> bool {
        !self.read_only && (self.destructive || self.open_world)
    }
}
