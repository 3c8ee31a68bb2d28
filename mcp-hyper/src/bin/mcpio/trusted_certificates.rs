//! `--cacert`: the certificates to trust instead of the system's.

use std::path::Path;
use std::sync::Arc;

use futures_rustls::pki_types::CertificateDer;
use futures_rustls::pki_types::pem::PemObject as _;
use futures_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::CommandError;

/// A TLS configuration that trusts only the certificates of a PEM file.
pub(crate) fn tls_config(file: &Path) -> Result<ClientConfig, CommandError> {
    let failed =
        |why: &dyn std::fmt::Display| CommandError::Usage(format!("--cacert {}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))? {
        roots.add(certificate.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(failed(&"the file contains no certificate in PEM format"));
    }
    let provider = Arc::new(futures_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| failed(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn certificates_are_read_from_a_pem_file() {
        let folder = std::env::temp_dir().join(format!("mcp-roots-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (good, bad) = (folder.join("good.pem"), folder.join("bad.pem"));
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let der = BASE64_STANDARD.encode(certificate.cert.der());
        let pem = format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n");
        std::fs::write(&good, pem).unwrap();
        std::fs::write(&bad, "no certificate").unwrap();
        assert!(tls_config(&good).is_ok());
        for file in [&bad, &folder.join("none")] {
            assert!(matches!(tls_config(file), Err(CommandError::Usage(why)) if why.contains("--cacert")));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
