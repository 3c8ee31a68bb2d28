//! Tools for a model: the tools, prompts and resources of many servers under names of their own.

mod digest;
mod name;

pub use digest::Digest;
pub use name::{InvalidSchemeError, NameScheme};
