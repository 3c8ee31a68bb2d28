//! Fair shares of what a server holds for its clients, so that no client starves another.
//!
//! Whatever outlives a request (a session, a connection, a cached answer, a task, a replay record) belongs to an
//! [`Owner`]: the principal of the request, or the address that it came from.

mod owner;

pub use owner::Owner;
