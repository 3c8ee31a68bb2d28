//! The source of random numbers.

use alloc::sync::Arc;

/// A source of random bytes for ids of sessions and tasks, and for keys. They must be unguessable: a client that
/// guesses them could act for others. An adapter asks the operating system; tests may count.
///
/// ```
/// use mcp_proto::adapter::Entropy;
///
/// /// Good for tests alone.
/// struct Fixed;
///
/// impl Entropy for Fixed {
///     fn fill(&self, bytes: &mut [u8]) {
///         bytes.fill(4);
///     }
/// }
/// ```
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl<E: Entropy + ?Sized> Entropy for Arc<E> {
    fn fill(&self, bytes: &mut [u8]) {
        (**self).fill(bytes);
    }
}
