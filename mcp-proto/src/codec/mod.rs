//! Framing: where one message ends and the next begins; header values and media types that describe a message.

pub mod header;
mod lines;
pub mod media;
mod partial;
pub(crate) mod percent;
pub mod sse;

pub use lines::Lines;
pub use partial::Line;
pub use sse::{Sse, SseEvent, SseItem};

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
