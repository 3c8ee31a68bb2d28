//! What a tool may do.

use crate::schema::Tool;

/// Whether a server is believed in what it says of its own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// It is.
    Trusted,
    /// It is not: its annotations are as good as absent.
    Untrusted,
}

/// What a tool may do, as a host that decides whether to ask should take it.
///
/// What a server says of its tools is a hint; one that is not trusted is not asked. What is not said is taken to be the
/// worst, as the specification has it.
///
/// ```
/// use mcp_proto::consent::{Behaviour, Trust};
/// use mcp_proto::schema::{Tool, ToolAnnotations};
/// use serde_json::json;
///
/// let harmless = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::new() };
/// let tool = Tool::new("list", "Lists files", json!({"type": "object"})).with_annotations(harmless);
/// assert!(!Behaviour::of(&tool, Trust::Trusted).needs_confirmation());
/// assert!(Behaviour::of(&tool, Trust::Untrusted).needs_confirmation());
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#security-considerations>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may destroy something rather than only add.
    pub destructive: bool,
    /// Whether calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Whether it deals with an open world, such as the web.
    pub open_world: bool,
}

impl Behaviour {
    /// Of a tool, as far as its server is trusted.
    pub fn of(tool: &Tool, trust: Trust) -> Self {
        let hints = tool.annotations.as_ref().filter(|_| trust == Trust::Trusted);
        let read_only = hints.and_then(|hints| hints.read_only_hint).unwrap_or(false);
        Self {
            read_only,
            // The two others mean something for tools alone that change anything.
            destructive: !read_only && hints.and_then(|hints| hints.destructive_hint).unwrap_or(true),
            idempotent: read_only || hints.and_then(|hints| hints.idempotent_hint).unwrap_or(false),
            open_world: hints.and_then(|hints| hints.open_world_hint).unwrap_or(true),
        }
    }

    /// Whether a person should agree to each call: unless it changes nothing, or only adds within a closed world.
    pub fn needs_confirmation(&self) -> bool {
        !self.read_only && (self.destructive || self.open_world)
    }
}
