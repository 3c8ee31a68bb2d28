//! What a peer may make this side hold.

/// Bounds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest line or message accepted, in bytes.
    pub message_bytes: usize,
}
impl Default for Limits { fn default() -> Self { Self { message_bytes: 16 * 1024 * 1024 } } }
