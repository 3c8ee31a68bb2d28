//! Requests to the client while its own request is answered, with the same handler code in either era.
//!
//! A legacy client receives a request, and the handler waits for the answer. A client of 2026-07-28 receives the input
//! request in the result: the handler runs as far as it can, is dropped, and runs again from its start when the client
//! sends its request again with the answers. Between the rounds the server stores nothing: earlier answers and the
//! values of [`run_once`](super::Context::run_once) travel with the client, sealed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

mod elicitation;
mod elicitation_completion;
mod input_future;
mod run_once;

pub use elicitation_completion::ElicitationCompletion;
pub use input_future::InputFuture;
