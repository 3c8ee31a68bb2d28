//! Secrets generated from the injected seed.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::auth::random_text;

/// A generator of random bytes. The same seed gives the same bytes.
pub(super) struct SeededRng {
    seed: Zeroizing<[u8; 32]>,
    counter: u64,
}

impl SeededRng {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed), counter: 0 }
    }

    pub(super) fn next_bytes(&mut self) -> [u8; 32] {
        self.counter = self.counter.wrapping_add(1);
        let mut hash = Sha256::new();
        hash.update(b"mcp auth client");
        hash.update(*self.seed);
        hash.update(self.counter.to_be_bytes());
        hash.finalize().into()
    }

    pub(super) fn next_text(&mut self) -> alloc::string::String {
        random_text(self.next_bytes())
    }
}
