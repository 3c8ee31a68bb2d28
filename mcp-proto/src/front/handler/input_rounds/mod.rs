//! Input rounds of 2026-07-28: the client answers input requests by sending its request again.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

mod rounds;
mod sealing;
mod single_use;
mod state_binding;

pub(in crate::front) use rounds::InputRounds;
pub(in crate::front) use sealing::Sealing;
pub use single_use::{SingleUse, StateId, StateUse, UsedStates};
