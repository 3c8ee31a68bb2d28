//! JSON-RPC 2.0: envelopes, ids, errors.

mod error;
mod id;
mod raw;

pub use error::{ErrorObject, code};
pub use id::Id;
pub use raw::Raw;
