//! Servers at `https` URLs.

use std::sync::Arc;

use futures_rustls::pki_types::PrivateKeyDer;
use futures_rustls::{TlsAcceptor, rustls};
use mcp_hyper::mcp_proto::host::control::Status;
use serde_json::json;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::TcpListener;

use super::testbed::*;
use crate::common::auth_testbed::answer;
use crate::common::server::*;

/// Serves one-tool answers over TLS, one request per connection.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        // A client that does not trust the certificate ends the handshake.
        let Ok(mut stream) = acceptor.accept(stream).await else { continue };
        let mut text = Vec::new();
        let body = loop {
            let mut part = [0; 1024];
            let count = stream.read(&mut part).await.unwrap_or(0);
            text.extend_from_slice(&part[..count]);
            let whole = String::from_utf8_lossy(&text);
            let (head, body) = whole.split_once("\r\n\r\n").unwrap_or_default();
            let length = head
                .to_ascii_lowercase()
                .split("content-length: ")
                .nth(1)
                .map(|rest| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
            if count == 0 || length.is_some_and(|length| body.len() >= length) {
                break serde_json::from_str(body).unwrap_or_default();
            }
        };
        let (status, headers, body) = answer(&body);
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {status} OK\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.close().await;
    }
}

#[test]
fn host_trusts_the_certificates_of_its_tls_configuration() {
    bounded(async {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let _serving = smol::spawn(serve(listener, Arc::new(server).into()));
        let with_roots = |roots| {
            let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
            let builder = builder.with_safe_default_protocol_versions().unwrap();
            let tls = builder.with_root_certificates(roots).with_no_client_auth();
            start(options(config(json!({ "web": { "url": url } }))).tls(tls))
        };
        let mut roots = rustls::RootCertStore::empty();
        let (other, _driver) = with_roots(roots.clone());
        roots.add(certificate).unwrap();
        let (host, _driver) = with_roots(roots);
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::Connected, "{:?}", host.servers());
        assert_eq!(tool_names(&host), ["mcp__web__tool"]);
        until("the other host has failed", || other.server("web").unwrap().failure.is_some()).await;
        let failure = other.server("web").unwrap().failure.unwrap();
        assert!(failure.reason.contains("certificate"), "{failure:?}");
    });
}
