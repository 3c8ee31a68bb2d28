//! Results of tools that embed resources, although the server does not declare `resources`.

use alloc::vec::Vec;

use memchr::memchr_iter;

use super::Server;
use crate::rpc::{decode_member, read_members};
use crate::schema::{CallTool, Method as _, MethodInfo, ServerCapability};

/// The text that every encoded embedded resource contains, before and from its colon on. Within a JSON string its
/// quotes would be escaped.
const MARK: (&[u8], &[u8]) = (br#""type""#, br#":"resource""#);

/// Finds embedded resources in the results of one method.
#[derive(Clone, Copy)]
pub(super) struct ResourceProbe {
    is_active: bool,
}

/// A content block, of which only the type is read.
#[derive(serde::Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a str>,
}

impl Server {
    /// The probe for results of `method`: active for calls of tools if the server does not declare `resources`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#embedded-resources>
    //= S8.10 "Embedded resources → `resources` capability"
    pub(super) fn resource_probe(&self, method: Option<&MethodInfo>) -> ResourceProbe {
        let calls = method.is_some_and(|method| method.name == CallTool::NAME);
        ResourceProbe { is_active: calls && !self.config.capabilities.has(ServerCapability::Resources) }
    }
}

impl ResourceProbe {
    /// Whether an encoded result has a content block that embeds a resource.
    pub(super) fn embeds_resource(self, result: &[u8]) -> bool {
        self.is_active
            && has_mark(result)
            && content(result).is_some_and(|blocks| blocks.iter().any(|block| block.kind == Some("resource")))
    }
}

fn has_mark(result: &[u8]) -> bool {
    memchr_iter(b':', result).any(|colon| {
        let (before, behind) = result.split_at_checked(colon).unwrap_or_default();
        before.ends_with(MARK.0) && behind.starts_with(MARK.1)
    })
}

fn content(result: &[u8]) -> Option<Vec<Block<'_>>> {
    let [content] = read_members(core::str::from_utf8(result).ok()?, ["content"]).ok()?;
    decode_member(content)
}
