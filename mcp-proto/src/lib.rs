//! The Model Context Protocol as a sans-IO state machine.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unreachable
    )
)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod limits;
mod time;

pub mod codec;
pub mod rpc;
pub mod schema;

pub use bytes::Bytes;
pub use limits::Limits;
pub use time::Instant;
