//! The system's random number generator.

use mcp_proto::adapter::Entropy;

/// Entropy source for ids and keys.
pub(super) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "an id that everybody can guess is worse than none")]
    fn fill(&self, bytes: &mut [u8]) {
        // This fails on no system on which a socket could be opened.
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system gives no random numbers: {error}");
        }
    }
}
