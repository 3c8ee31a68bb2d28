//! The random number generator of the operating system.

use mcp_proto::adapter::Entropy;

/// The random number generator of the operating system: the source of ids and keys in servers of this crate, for those
/// that an application makes itself.
///
/// ```
/// use mcp_smol::SystemEntropy;
/// use mcp_smol::mcp_proto::adapter::Entropy;
///
/// let mut key = [0; 32];
/// SystemEntropy.fill(&mut key);
/// assert_ne!(key, [0; 32]);
/// ```
///
/// # Panics
/// `fill` panics if the generator fails, which happens on no supported system: guessable ids would be insecure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "guessable ids would be insecure")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system's random number generator failed: {error}");
        }
    }
}
