//! Input rounds of 2026-07-28: the client answers input requests by sending its request again.
//!
//! Without the feature `seal` this module is disabled, and handlers cannot request input from clients of that revision.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

#[cfg(not(feature = "seal"))]
mod disabled;
mod round_reply;
#[cfg(feature = "seal")]
mod rounds;
#[cfg(feature = "seal")]
mod sealing;
#[cfg(feature = "seal")]
mod single_use;
#[cfg(feature = "seal")]
mod state_binding;

#[cfg(not(feature = "seal"))]
pub(in crate::front) use disabled::InputRounds;
pub(in crate::front) use round_reply::RoundReply;
#[cfg(feature = "seal")]
pub(in crate::front) use rounds::InputRounds;
#[cfg(feature = "seal")]
pub(in crate::front) use sealing::Sealing;
#[cfg(feature = "seal")]
pub use single_use::{SingleUse, StateId, StateUse, UsedStates};
