//! TLS of a client's connections: trust roots, ALPN protocols, and the errors of handshakes.

use std::io;
use std::sync::{Arc, OnceLock};

use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use futures_rustls::pki_types::ServerName;
use futures_rustls::rustls::crypto::CryptoProvider;
use futures_rustls::rustls::{
    self, CertificateError, ClientConfig, ConfigBuilder, Error as TlsError, WantsVerifier,
};

use super::error::{definite_error, explained_error};
use crate::runtime::Stream;

/// The TLS configuration that the application sets, if any.
#[derive(Clone, Default)]
pub(crate) struct TlsOptions(pub(crate) Option<Arc<ClientConfig>>);

impl TlsOptions {
    /// Encrypts a stream; also returns whether the server chose HTTP/2.
    pub(super) async fn encrypt(
        &self,
        stream: Box<dyn Stream>,
        host: &str,
    ) -> io::Result<(Box<dyn Stream>, bool)> {
        let stream = connect(self.config()?, stream, host).await?;
        let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok((Box::new(stream), speaks_http2))
    }

    /// Encrypts a stream for HTTP/1.1, which alone has upgrades.
    #[cfg(feature = "websocket")]
    pub(super) async fn encrypt_http1(
        &self,
        stream: Box<dyn Stream>,
        host: &str,
    ) -> io::Result<Box<dyn Stream>> {
        self.encrypt_for(|protocol| protocol != HTTP2, stream, host).await
    }

    /// Encrypts a stream, and offers the server only some of the protocols.
    #[cfg(any(feature = "websocket", feature = "redis"))]
    pub(super) async fn encrypt_for(
        &self,
        is_offered: impl Fn(&[u8]) -> bool,
        stream: Box<dyn Stream>,
        host: &str,
    ) -> io::Result<Box<dyn Stream>> {
        let mut config = ClientConfig::clone(&*self.config()?);
        config.alpn_protocols.retain(|protocol| is_offered(protocol));
        let stream = connect(Arc::new(config), stream, host).await?;
        Ok(Box::new(stream))
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        match &self.0 {
            Some(config) => Ok(config.clone()),
            None => default_client().map_err(definite_error),
        }
    }
}

async fn connect(
    config: Arc<ClientConfig>,
    stream: Box<dyn Stream>,
    host: &str,
) -> io::Result<TlsStream<Box<dyn Stream>>> {
    let name = ServerName::try_from(host.to_owned()).map_err(definite_error)?;
    let connecting = TlsConnector::from(config).connect(name, stream);
    connecting.await.map_err(|error| tls_error(&error))
}

/// Describes a failed TLS handshake.
fn tls_error(error: &io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(TlsError::InvalidCertificate(fault)) => definite_error(describe_certificate_error(fault)),
        Some(TlsError::InvalidMessage(_)) => {
            definite_error("the server does not speak TLS on this port; its URL may begin with http://")
        }
        Some(TlsError::AlertReceived(alert)) => {
            let why = in_words(&format!("{alert:?}"));
            definite_error(format!("the server refuses the encrypted connection: {why}"))
        }
        Some(other) => definite_error(format!("no encrypted connection: {other}")),
        None => explained_error(format!("no encrypted connection: {error}"), false),
    }
}

//= F50 "TLS certificates are checked"
fn describe_certificate_error(fault: &CertificateError) -> String {
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet, by this machine's clock".to_owned()
        }
        // An issuer with the name of a trusted one, but another key, is reported as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the server's certificate is not signed by an issuer that is trusted here".to_owned()
        }
        CertificateError::Revoked => "the server's certificate has been revoked".to_owned(),
        CertificateError::NotValidForName => "the server's certificate is for another name".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            match &presented[..] {
                [] => format!("the server's certificate is not for {expected}, nor for any other name"),
                names => {
                    let names: Vec<_> = names.iter().map(|name| plain_name(name)).collect();
                    format!("the server's certificate is not for {expected}, but for {}", names.join(", "))
                }
            }
        }
        other => format!("the server's certificate is not valid: {}", in_words(&format!("{other:?}"))),
    }
}

/// The innermost name of a value that is written as code: `Other(CaUsedAsEndEntity)` as `ca used as end entity`.
fn in_words(code: &str) -> String {
    let name = |code: &str| code.split(|char: char| !char.is_ascii_alphanumeric()).next().map_or(0, str::len);
    let mut inner = code;
    while let Some(value) = inner.get(name(inner)..).and_then(|rest| rest.strip_prefix('(')) {
        inner = value;
    }
    let inner = inner.get(..name(inner)).unwrap_or(inner);
    let mut words = String::new();
    for char in inner.chars() {
        if char.is_ascii_uppercase() && !words.is_empty() && !words.ends_with(' ') {
            words.push(' ');
        }
        words.push(char.to_ascii_lowercase());
    }
    words
}

/// Extracts `server.example` from `DnsName("server.example")`, as the verifier writes names.
fn plain_name(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')')).trim_matches('"')
}

/// ALPN protocols, in order of preference.
const PROTOCOLS: &[&[u8]] = if cfg!(feature = "http2") { &[HTTP2, HTTP1] } else { &[HTTP1] };
/// The ALPN name of HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";
/// The ALPN name of HTTP/2.
const HTTP2: &[u8] = b"h2";

/// The default TLS configuration, shared by all clients of the process. Sharing reads the system's certificates only
/// once, and resumes sessions across clients. An error's text is shown to the user.
fn default_client() -> Result<Arc<ClientConfig>, String> {
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
pub(super) fn with_protocols(mut config: ClientConfig) -> Arc<ClientConfig> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::error::DialError;

    #[test]
    fn certificate_errors_are_explained() {
        let words = |fault| {
            let error = io::Error::new(io::ErrorKind::InvalidData, TlsError::InvalidCertificate(fault));
            let DialError { detail, is_definite } = DialError::new("server.example:80", &tls_error(&error));
            assert!(is_definite);
            detail
                .strip_prefix("cannot connect to server.example:80: the server's certificate ")
                .unwrap()
                .to_owned()
        };
        assert_eq!(words(CertificateError::Expired), "has expired");
        assert_eq!(words(CertificateError::UnknownIssuer), "is not signed by an issuer that is trusted here");
        assert_eq!(words(CertificateError::InvalidPurpose), "is not valid: invalid purpose");
        let other = rustls::OtherError(Arc::new(io::Error::from(io::ErrorKind::NotFound)));
        assert_eq!(words(CertificateError::Other(other)), "is not valid: not found");
        assert_eq!(words(CertificateError::NotValidYet), "is not valid yet, by this machine's clock");
        let expected = ServerName::try_from("server.example").unwrap();
        let presented = vec![r#"DnsName("one.example")"#.to_owned(), r#"DnsName("two.example")"#.to_owned()];
        let mismatch = CertificateError::NotValidForNameContext { expected, presented };
        assert_eq!(words(mismatch), "is not for server.example, but for one.example, two.example");
    }
}
