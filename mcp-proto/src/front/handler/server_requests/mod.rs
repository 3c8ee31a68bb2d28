//! Asking the client while its request is answered: by the same code of a handler in either era.
//!
//! A legacy client is asked by a request, and the handler waits for the answer. One of 2026-07-28 is asked by the result:
//! the handler is run as far as it comes, then dropped, and run again from its start when the client sends its request
//! again with the answers. In between nothing is kept here: what has been answered before, and what the handler has
//! [kept](super::Context::run_once), travels with the client, sealed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

mod elicitation;
mod elicitation_completion;
mod input_future;
mod run_once;

pub use elicitation_completion::ElicitationCompletion;
pub use input_future::InputFuture;
