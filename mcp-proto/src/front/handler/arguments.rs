//! Arguments that handlers take.

/// The arguments of a tool that takes none. Arguments that a client sends are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct NoArguments {}
