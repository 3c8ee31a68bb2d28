//! JSON-RPC 2.0: envelopes, ids, errors and the table of pending requests.
//!
//! [`read`] parses a frame without decoding its parameters or result, [`write`](mod@write) encodes one, and [`Pending`]
//! holds the requests in flight.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

mod block;
#[cfg(feature = "server")]
mod check;
mod error;
mod id;
mod malformed;
mod member_ranges;
pub(crate) mod members;
mod message;
mod pending;
mod plain;
mod raw;
mod read;
mod recover;
mod repair;
mod scan;
mod text;
#[cfg(all(feature = "http", feature = "server"))]
mod unique_members;
pub mod write;

#[cfg(feature = "server")]
pub(crate) use check::check_object;
pub use error::{ErrorObject, code};
pub use id::Id;
pub use malformed::{EnvelopeKind, InvalidMessageKind, Malformed, MalformedKind, Recovered};
pub(crate) use member_ranges::find_members;
#[cfg(feature = "client")]
pub(crate) use member_ranges::may_have_member;
pub(crate) use members::{JsonStr, decode_member, first_member, read_members};
pub use message::{Batch, Frame, Message, Notification, Request, Response};
pub use pending::Pending;
pub use raw::Raw;
pub use read::read;
pub use recover::{recover, recover_ends};
pub use text::Text;
pub(crate) use text::unescape;
#[cfg(all(feature = "http", feature = "server"))]
pub(crate) use unique_members::{DuplicateMember, unique_members};
pub use write::ErrorId;
