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

mod behaviour;
mod icon;
#[cfg(feature = "host")]
mod lookalike;
mod program;
mod url;
mod variables;

pub use crate::text::{SafeText, shell_word};
pub use behaviour::{Behaviour, Trust};
pub use icon::{IconPolicy, IconSource, ImageKind, UnsafeIconError};
#[cfg(feature = "host")]
pub(crate) use lookalike::{is_opening_bracket, prototype, skeleton};
pub use program::{has_inline_code, runs_commands};
pub use url::{UnsafeUrlError, UrlConsent, UrlWarning};
pub use variables::{is_harmless_variable, is_loader_variable};
