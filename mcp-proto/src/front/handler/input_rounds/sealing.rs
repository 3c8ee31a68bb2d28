//! What a router seals states with.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::OnceLock;

use super::single_use::SingleUse;
use crate::front::Entropy;
use crate::peer::server::{SealKey, Sealer};

/// How long a client may take for its answers: a person reads, thinks and types within it, and what has been given out
/// does not stay good for long.
const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Sealing {
    /// What the server calls itself: its states are nothing to another that happens to share its keys.
    pub(crate) server: String,
    /// The application's, or one of this process's own once it is needed.
    sealer: OnceLock<Sealer>,
    pub(crate) single_use: Option<Arc<dyn SingleUse>>,
    pub(crate) lifetime: Duration,
}

impl Sealing {
    pub(crate) fn new(server: String) -> Self {
        Self { server, sealer: OnceLock::new(), single_use: None, lifetime: LIFETIME }
    }

    pub(crate) fn set_sealer(&mut self, sealer: Sealer) {
        self.sealer = sealer.into();
    }

    /// What states are sealed with. Without keys of the application that is a random one.
    pub(crate) fn sealer(&self, entropy: &dyn Entropy) -> &Sealer {
        self.sealer.get_or_init(|| {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            Sealer::new(SealKey::new(bytes), [])
        })
    }
}
