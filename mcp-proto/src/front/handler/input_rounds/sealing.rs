//! The sealing of request states by a router.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::OnceLock;

use super::single_use::SingleUse;
use crate::front::entropy::Entropy;
use crate::peer::server::{SealKey, Sealer};

/// The default lifetime of a request state: long enough for a user to read, think and type, short enough that old
/// states soon expire.
const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Sealing {
    /// The server's name: another server rejects its states even if it has the same keys.
    pub(crate) server: String,
    /// The application's sealer, or one with a random key, created at first use.
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

    /// The sealer of request states; without keys of the application, one with a random key.
    pub(crate) fn sealer(&self, entropy: &dyn Entropy) -> &Sealer {
        self.sealer.get_or_init(|| {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            Sealer::new(SealKey::new(bytes), [])
        })
    }
}
