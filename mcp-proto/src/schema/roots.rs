//! Roots: where a server may work.

use alloc::string::String;

use super::list::List;
use super::meta::Meta;
use super::object::object;

object! {
    /// The result of `roots/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    pub result ListRootsResult {
        required {
            /// Where the server may work.
            roots: List<Root> = "roots";
        }
        optional {}
    }
}

object! {
    /// A place where a server may work.
    pub struct Root {
        required {
            /// Where it is: a `file://` URI.
            uri: String = "uri";
        }
        optional {
            /// Its name for people.
            name: Option<String> = "name";
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl Root {
    /// What to show people: the name, then the URI.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.uri)
    }
}
