//! Tools for a model: the tools, prompts and resources of many servers under names of their own.

mod digest;
mod filter;
mod name;
mod pin;

pub use digest::Digest;
pub use filter::{Glob, InvalidGlobError, ToolFilter, ToolPattern};
pub use name::{InvalidSchemeError, NameScheme};
pub use pin::{Change, ItemKind, Member, Pin, PinChange, PinPolicy, Pins};
