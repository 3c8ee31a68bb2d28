//! What a host needs before it does what the other side asks for: what to show people, and what to refuse.
//!
//! Nothing here opens, fetches, renders or runs anything. A host asks first, by what these types tell it:
//!
//! - [`UrlConsent`]: a page that a server wants a person to visit.
//! - [`IconPolicy`]: the pictures that a server names.
//! - [`Behaviour`]: what a tool may do, as far as its server is trusted.
//! - [`SafeText`]: any text of a peer, without what steers terminals or hides; [`shell_word`] quotes it for a shell.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>

mod behaviour;
mod icon;
mod text;
mod url;

pub use behaviour::{Behaviour, Trust};
pub use icon::{IconPolicy, IconSource, ImageKind, UnsafeIconError};
pub use text::{SafeText, shell_word};
pub use url::{UnsafeUrlError, UrlConsent, UrlWarning};
