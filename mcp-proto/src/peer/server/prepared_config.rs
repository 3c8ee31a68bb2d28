//! What servers of one configuration share.

use alloc::sync::Arc;

use crate::schema::{At, Json, Revision};

use super::ServerConfig;

/// A configuration, and what is encoded from it once.
#[derive(Clone, Debug)]
pub(crate) struct PreparedConfig {
    pub(super) config: Arc<ServerConfig>,
    /// What modern results carry of the server.
    pub(super) info: Option<Arc<Json>>,
}

impl PreparedConfig {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        let info = config
            .send_info
            .then(|| Json::encode(&At(&config.info, Revision::LATEST)).ok())
            .flatten()
            .map(Arc::new);
        Self { config, info }
    }
}
