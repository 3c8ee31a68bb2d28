//! Tools for a model: the tools, prompts and resources of many servers under names of their own.

mod digest;
mod filter;
mod name;

pub use digest::Digest;
pub use filter::{Glob, InvalidGlobError, ToolFilter, ToolPattern};
pub use name::{InvalidSchemeError, NameScheme};
