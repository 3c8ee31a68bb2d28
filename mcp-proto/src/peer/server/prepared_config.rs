//! Configuration data shared by all servers of one configuration.

use alloc::sync::Arc;

use crate::schema::{At, Json, Revision};

use super::ServerConfig;

/// A configuration with the JSON that is encoded from it once.
#[derive(Clone, Debug)]
pub(crate) struct PreparedConfig {
    pub(super) config: Arc<ServerConfig>,
    /// The server information in modern results.
    pub(super) info: Option<Arc<Json>>,
}

impl PreparedConfig {
    pub(crate) fn new(mut config: Arc<ServerConfig>) -> Self {
        if !config.extensions.is_empty() {
            let mut declared = ServerConfig::clone(&config);
            declared.capabilities.declare_extensions(&declared.extensions);
            config = Arc::new(declared);
        }
        let info = config
            .send_info
            .then(|| Json::encode(&At(&config.info, Revision::LATEST)).ok())
            .flatten()
            .map(Arc::new);
        Self { config, info }
    }
}
