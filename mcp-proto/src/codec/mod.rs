//! Framing alone: where one message ends and the next begins.

mod lines;

pub use lines::{Line, Lines};
