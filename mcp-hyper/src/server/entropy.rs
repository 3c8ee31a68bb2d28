//! The system's random number generator.

use mcp_proto::adapter::Entropy;

/// Entropy source for ids and keys.
pub(super) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "guessable ids would be insecure")]
    fn fill(&self, bytes: &mut [u8]) {
        // This fails on no system on which a socket could be opened.
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system's random number generator failed: {error}");
        }
    }
}
