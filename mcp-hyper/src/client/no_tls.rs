//! Stands in for `tls` without that feature.

use std::io;

use super::dial_error;
use crate::runtime::Stream;

#[derive(Clone, Default)]
pub(super) struct TlsOptions;

impl TlsOptions {
    pub(super) async fn encrypt(&self, _: Box<dyn Stream>, _: &str) -> io::Result<(Box<dyn Stream>, bool)> {
        Err(dial_error::definite_error("built without TLS: enable the feature `tls`"))
    }

    #[cfg(feature = "websocket")]
    pub(super) async fn encrypt_http1(
        &self,
        stream: Box<dyn Stream>,
        host: &str,
    ) -> io::Result<Box<dyn Stream>> {
        self.encrypt(stream, host).await.map(|(stream, _)| stream)
    }
}
