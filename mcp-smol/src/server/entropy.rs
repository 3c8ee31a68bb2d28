//! The system's randomness.

use mcp_proto::adapter::Entropy;

/// Source of the random bytes in ids and keys.
pub(super) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "guessable ids would be insecure")]
    fn fill(&self, bytes: &mut [u8]) {
        // It does not fail on any system that is able to start a process.
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system's random number generator failed: {error}");
        }
    }
}
