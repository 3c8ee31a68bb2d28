//! The system's randomness.

use mcp_proto::adapter::Entropy;

/// What ids and keys are made of.
pub(super) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "an id that everybody can guess is worse than none")]
    fn fill(&self, bytes: &mut [u8]) {
        // It does not fail on any system that has got as far as to open a socket.
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system gives no random numbers: {error}");
        }
    }
}
