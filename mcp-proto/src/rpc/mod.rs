//! JSON-RPC 2.0: envelopes, ids, errors and the table of pending requests.
//!
//! [`read`] parses a frame without decoding its parameters or result, [`write`](mod@write) encodes one, and [`Pending`]
//! holds the requests in flight.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

mod blocks;
mod envelope;
pub(crate) mod json_reader;
pub(crate) mod json_value;
mod malformed;
pub(crate) mod members;
mod message;
mod pending;
mod repair;
mod scan;
pub mod write;

pub use envelope::read;
pub(crate) use envelope::read_knowing;
pub(crate) use json_reader::unescape;
pub use malformed::{EnvelopeKind, InvalidMessageKind, Malformed, MalformedKind, Recovered};
pub use malformed::{recover, recover_ends};
#[cfg(all(feature = "http", feature = "server"))]
pub(crate) use members::KnownObject;
#[cfg(feature = "std")]
pub(crate) use members::each_member;
pub(crate) use members::{JsonStr, decode_member, first_member, read_members};
pub use message::Id;
pub use message::Raw;
pub use message::{Batch, Frame, Message, Notification, Request, Response};
pub use message::{ErrorObject, code};
pub use pending::Pending;
#[cfg(all(feature = "client", feature = "http"))]
pub(crate) use repair::repair_outcome;
pub use write::ErrorId;

/// An immutable string that shares the memory of the message it came in.
///
/// Reading a message's string to a `Text` allocates only if the JSON string has escapes. A copy `Text::from(&*text)` has
/// memory of its own, so that keeping it does not keep the message alive.
pub type Text = bytestring::ByteString;
