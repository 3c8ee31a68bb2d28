//! Skills of servers on the side of their clients: entries that are checked, and files that are verified against them.
//!
//! A skill is a folder of instructions for a model. Its server lists it, with the digest and the size of each file, and
//! serves the files as resources: see [`schema::skills`](crate::schema::skills). All of it is untrusted text:
//!
//! - [`SkillManifest`] is an entry in its valid form. It verifies each file that is read, and refuses files that the entry
//!   does not list.
//! - The front's client lists, gets and reads skills by it; nothing is read before it is asked for.
//! - A host asks the user before a skill is loaded, and again when its content changes: see `host::skills`.
//!
//! <https://modelcontextprotocol.io/seps/2640-skills-extension>

mod error;
mod manifest;

use crate::schema::skills::EXTENSION;
use crate::schema::{ClientCapabilities, Json};

pub use error::{SkillError, SkillErrorKind};
pub use manifest::{SkillManifest, VerifiedFile};

impl ClientCapabilities {
    /// Declares skills to servers of 2026-07-28: the client uses theirs.
    ///
    /// ```
    /// use mcp_proto::ClientHandlers;
    /// use mcp_proto::schema::ClientCapabilities;
    ///
    /// let handlers = ClientHandlers::new().declare(ClientCapabilities::declare_skills);
    /// assert!(handlers.capabilities().has_extension(mcp_proto::schema::skills::EXTENSION));
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    pub fn declare_skills(&mut self) {
        self.extensions.get_or_insert_default().insert(EXTENSION, Json::empty_object());
    }
}
