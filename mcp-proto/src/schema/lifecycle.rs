//! How a conversation begins: `initialize`, `server/discover`, and who the two are.

use alloc::string::String;
use alloc::vec::Vec;

use super::object::{names, object};
use super::revision::Revision;

use super::capabilities::{ClientCapabilities, ServerCapabilities};

object! {
    /// What a client or a server calls itself. For display and logs only: it changes no behaviour.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#implementation>
    pub struct Implementation {
        required {
            /// Its name for programs.
            name: String = "name";
            /// Its version.
            version: String = "version";
        }
        optional {
            /// Its name for people; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// What it is.
            description: Option<String> = "description" since V2025_11_25;
            /// Its page on the web.
            website_url: Option<String> = "websiteUrl" since V2025_11_25;
            /// Pictures of it.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
        }
    }
}

impl Implementation {
    /// The same with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What to show people: the title, then the name.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// A picture of something, to be shown in a user interface.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#icons>
    pub struct Icon {
        required {
            /// Where it is: an `https:` or `data:` URI. Not to be fetched without care.
            src: String = "src";
        }
        optional {
            /// Its media type, where that of its source says too little.
            mime_type: Option<String> = "mimeType";
            /// The sizes it suits, as `48x48`, or `any`.
            sizes: Option<Vec<String>> = "sizes";
            /// The background it suits.
            theme: Option<Theme> = "theme";
        }
    }
}

names! {
    /// The background that an icon suits.
    pub enum Theme {
        /// A light one.
        Light = "light",
        /// A dark one.
        Dark = "dark",
    }
}

object! {
    /// The parameters of `initialize` (2025-11-25 and earlier).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization>
    pub params InitializeParams {
        required {
            /// The newest revision that the client speaks, as written.
            protocol_version: String = "protocolVersion";
            /// What the server may ask of the client.
            capabilities: ClientCapabilities = "capabilities";
            /// Who the client is.
            client_info: Implementation = "clientInfo";
        }
        optional {}
    }
}

object! {
    /// The result of `initialize` (2025-11-25 and earlier).
    pub result InitializeResult {
        required {
            /// The revision that the server has chosen, as written.
            protocol_version: String = "protocolVersion";
            /// What the server offers.
            capabilities: ServerCapabilities = "capabilities";
            /// Who the server is.
            server_info: Implementation = "serverInfo";
        }
        optional {
            /// How to make use of the server, for the model.
            instructions: Option<String> = "instructions";
        }
    }
}

object! {
    /// The result of `server/discover`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>
    pub cacheable DiscoverResult {
        required {
            /// The revisions that the server speaks, as written.
            supported_versions: Vec<String> = "supportedVersions";
            /// What the server offers.
            capabilities: ServerCapabilities = "capabilities";
        }
        optional {
            /// How to make use of the server, for the model.
            instructions: Option<String> = "instructions";
            /// Who the server is, where its author has put it beside the other fields rather than into `_meta`.
            server_info: Option<Implementation> = "serverInfo" until V2025_11_25;
        }
    }
}

impl DiscoverResult {
    /// Who the server is.
    pub fn identity(&self) -> Option<Implementation> {
        self.meta.server_info().or_else(|| self.server_info.clone())
    }
}

object! {
    /// The parameters of methods that are asked for page by page.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>
    pub params PaginatedParams {
        required {}
        optional {
            /// Where the page begins; absent for the first. The empty string is a cursor like any other.
            cursor: Option<String> = "cursor" odd refused;
        }
    }
}

impl PaginatedParams {
    /// The page that begins at `cursor`.
    pub fn at(cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), ..Self::new() }
    }
}

object! {
    /// Parameters without fields of their own, and those of methods that this crate does not know: they are in `extra`.
    pub params EmptyParams {
        required {}
        optional {}
    }
}

/// The parameters of methods that this crate does not know.
pub type CustomParams = EmptyParams;
/// The parameters of `server/discover`.
pub type DiscoverParams = EmptyParams;
/// The parameters of `ping` (2025-11-25 and earlier).
pub type PingParams = EmptyParams;
/// The parameters of `roots/list`.
pub type ListRootsParams = EmptyParams;

object! {
    /// A result without fields of its own, and that of methods that this crate does not know: they are in `extra`.
    pub result EmptyResult {
        required {}
        optional {}
    }
}

names! {
    /// Who may be given a result that is kept.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
    pub enum CacheScope {
        /// Anyone.
        Public = "public",
        /// Only who asked for it.
        Private = "private",
    }
}

object! {
    /// What goes with the error `UNSUPPORTED_PROTOCOL_VERSION`, and in legacy revisions with a refused `initialize`.
    pub struct UnsupportedVersionData {
        required {
            /// The revisions that the server speaks, as written.
            supported: Vec<String> = "supported";
        }
        optional {
            /// The one that was asked for.
            requested: Option<String> = "requested";
        }
    }
}

impl UnsupportedVersionData {
    /// Says that only `supported` are spoken, not `requested`.
    pub fn of(supported: &[Revision], requested: impl Into<String>) -> Self {
        let supported: Vec<String> = supported.iter().map(|revision| revision.as_str().into()).collect();
        Self { requested: Some(requested.into()), ..Self::new(supported) }
    }
}

object! {
    /// What goes with the error `MISSING_REQUIRED_CLIENT_CAPABILITY`.
    pub struct MissingCapabilityData {
        required {
            /// What the client would have to declare.
            required_capabilities: ClientCapabilities = "requiredCapabilities";
        }
        optional {}
    }
}
