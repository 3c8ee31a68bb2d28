//! Client TLS configuration: trust roots and ALPN protocols.

use std::sync::{Arc, OnceLock};

use futures_rustls::rustls;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ConfigBuilder, WantsVerifier};

/// ALPN protocols, in order of preference.
pub(crate) const PROTOCOLS: &[&[u8]] = if cfg!(feature = "http2") { &[HTTP2, HTTP1] } else { &[HTTP1] };
/// The ALPN name of HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";
/// The ALPN name of HTTP/2.
pub(crate) const HTTP2: &[u8] = b"h2";

/// The default TLS configuration, shared by all clients of the process. Sharing reads the system's certificates only
/// once, and resumes sessions across clients. An error's text is shown to the user.
pub(crate) fn default_client() -> Result<Arc<ClientConfig>, String> {
    static DEFAULT: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = DEFAULT.get() {
        return Ok(config.clone());
    }
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = trusting_default(builder.map_err(|error| error.to_string())?)?;
    Ok(DEFAULT.get_or_init(|| with_protocols(config)).clone())
}

/// Adds this crate's ALPN protocols, unless the application has set some.
pub(crate) fn with_protocols(mut config: ClientConfig) -> Arc<ClientConfig> {
    if config.alpn_protocols.is_empty() {
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    }
    Arc::new(config)
}

#[cfg(feature = "platform-roots")]
fn trusting_default(builder: ConfigBuilder<ClientConfig, WantsVerifier>) -> Result<ClientConfig, String> {
    use rustls_platform_verifier::BuilderVerifierExt as _;

    let builder = builder.with_platform_verifier();
    let builder =
        builder.map_err(|error| format!("the system's trusted certificates cannot be read: {error}"))?;
    Ok(builder.with_no_client_auth())
}

#[cfg(all(feature = "bundled-roots", not(feature = "platform-roots")))]
fn trusting_default(builder: ConfigBuilder<ClientConfig, WantsVerifier>) -> Result<ClientConfig, String> {
    let roots = rustls::RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(not(any(feature = "bundled-roots", feature = "platform-roots")))]
fn trusting_default(_: ConfigBuilder<ClientConfig, WantsVerifier>) -> Result<ClientConfig, String> {
    Err("no trusted certificates: set some with `ClientOptions::tls`, or enable `platform-roots`".to_owned())
}
