//! Encrypted connections.

use std::sync::Arc;
use std::time::Duration;

use crate::common::client::{ServerConnection, TestOptions, accept, call, connect, listen, modern, run};
use crate::common::h2_server::Server;
use futures_rustls::pki_types::{CertificateDer, PrivateKeyDer};
use futures_rustls::server::TlsStream;
use futures_rustls::{TlsAcceptor, rustls};
use rustls::crypto::CryptoProvider;
use serde_json::json;
use smol::net::{TcpListener, TcpStream};

/// A certificate that no client trusts by default.
struct SelfSignedCert {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl SelfSignedCert {
    fn new(names: &[&str]) -> Self {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        Self { certificate: made.cert.der().clone(), key }
    }

    /// A server with this certificate and these protocols.
    fn acceptor(&self, protocols: &[&[u8]]) -> TlsAcceptor {
        let builder = rustls::ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = builder.with_single_cert(vec![self.certificate.clone()], self.key.clone_key());
        let mut config = config.unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config).into()
    }

    /// A client that trusts this certificate.
    fn trusting(&self) -> TestOptions {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        modern().tls(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

async fn greet(acceptor: &TlsAcceptor, listener: &TcpListener) -> std::io::Result<TlsStream<TcpStream>> {
    acceptor.accept(accept(listener).await.stream).await
}

fn https(url: &str) -> String {
    url.replace("http:", "https:")
}

#[test]
fn client_connects_to_a_trusted_server_over_http1() {
    run(async {
        let identity = SelfSignedCert::new(&["127.0.0.1"]);
        let (listener, url) = listen().await;
        let acceptor = identity.acceptor(&[]);
        let server = smol::spawn(async move {
            ServerConnection { stream: greet(&acceptor, &listener).await.unwrap() }.serve(usize::MAX).await
        });
        let (client, driver) = connect(identity.trusting(), &https(&url));
        assert_eq!(call(&client).await.unwrap(), "1");
        assert_eq!(call(&client).await.unwrap(), "2");
        client.close().await;
        driver.await.unwrap();
        assert_eq!(server.await.len(), 3);
    });
}

#[test]
fn client_and_server_negotiate_http2() {
    run(async {
        let identity = SelfSignedCert::new(&["127.0.0.1"]);
        let (listener, url) = listen().await;
        let acceptor = identity.acceptor(&[b"h2", b"http/1.1"]);
        let server = smol::spawn(async move {
            let stream = greet(&acceptor, &listener).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            Server::handshake(stream, 100).await.serve().await
        });
        let (client, driver) = connect(identity.trusting(), &https(&url));
        assert_eq!(call(&client).await.unwrap(), https(&url), "scheme and authority are those of the URL");
        client.close().await;
        driver.await.unwrap();
        assert_eq!(server.await, 2);
    });
}

#[test]
fn requests_that_wait_for_a_shareable_connection_open_only_one() {
    run(async {
        let identity = SelfSignedCert::new(&["127.0.0.1"]);
        let (listener, url) = listen().await;
        let acceptor = identity.acceptor(&[b"h2"]);
        let (idle, is_idle) = smol::channel::bounded(1);
        let server = smol::spawn(async move {
            for expected in [1, 20] {
                let stream = greet(&acceptor, &listener).await.unwrap();
                // Until the client closes it as idle.
                assert_eq!(Server::handshake(stream, 100).await.serve().await, expected);
                idle.send(()).await.unwrap();
            }
        });
        let options = identity.trusting().idle_timeout(Duration::from_millis(50));
        let (client, _driver) = connect(options, &https(&url));
        client.ready().await.unwrap();
        is_idle.recv().await.unwrap();
        let calls: Vec<_> = (0..20).map(|_| client.call_tool("tool", json!({})).start().unwrap()).collect();
        for call in calls {
            call.await.unwrap();
        }
        is_idle.recv().await.unwrap();
        server.await;
    });
}

/// F50
#[test]
fn client_sends_nothing_to_an_untrusted_server() {
    run(async {
        let identity = SelfSignedCert::new(&["127.0.0.1"]);
        let stranger = SelfSignedCert::new(&["127.0.0.1"]);
        let (listener, url) = listen().await;
        let acceptor = identity.acceptor(&[]);
        let server = smol::spawn(async move { greet(&acceptor, &listener).await.is_err() });
        let (client, _driver) = connect(stranger.trusting(), &https(&url));
        let error = client.ready().await.unwrap_err().to_string();
        let words = "the server's certificate is not signed by an issuer that is trusted here";
        assert!(error.starts_with("cannot connect to 127.0.0.1:") && error.ends_with(words), "{error}");
        assert!(server.await);
    });
}

#[test]
fn client_refuses_a_certificate_for_another_name() {
    run(async {
        let identity = SelfSignedCert::new(&["example.com"]);
        let (listener, url) = listen().await;
        let acceptor = identity.acceptor(&[]);
        let server = smol::spawn(async move { greet(&acceptor, &listener).await.is_err() });
        let (client, _driver) = connect(identity.trusting(), &https(&url));
        let error = client.ready().await.unwrap_err().to_string();
        assert!(error.ends_with("certificate is not for 127.0.0.1, but for example.com"), "{error}");
        assert!(server.await);
    });
}

#[test]
fn default_configuration_works_and_trusts_no_unknown_certificate() {
    run(async {
        let identity = SelfSignedCert::new(&["127.0.0.1"]);
        let (listener, url) = listen().await;
        let acceptor = identity.acceptor(&[]);
        let server = smol::spawn(async move { greet(&acceptor, &listener).await.is_err() });
        let (client, _driver) = connect(modern(), &https(&url));
        assert!(call(&client).await.is_err());
        assert!(server.await);
    });
}

/// The proxy's side: the request to it, and the tunnelled bytes.
mod through_a_proxy {
    use futures_lite::AsyncReadExt as _;
    use futures_lite::future::zip;
    use mcp_hyper::Proxy;

    use super::*;

    #[test]
    fn client_tunnels_encrypted_connections() {
        run(async {
            let identity = SelfSignedCert::new(&["server.example"]);
            let (listener, url) = listen().await;
            let acceptor = identity.acceptor(&[b"h2", b"http/1.1"]);
            let proxy = url.replace("http://", "http://user:secret@");
            let server = smol::spawn(async move {
                let mut wire = accept(&listener).await;
                let request = wire.request().await.unwrap();
                assert_eq!(request.line, "CONNECT server.example:443 HTTP/1.1");
                assert_eq!(request.header("host"), Some("server.example:443"));
                assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
                wire.write("HTTP/1.1 200 Connection established\r\nvia: a\r\n\r\n").await;
                let mut server = Server::handshake(acceptor.accept(wire.stream).await.unwrap(), 100).await;
                let stream = server.next().await.unwrap();
                assert!(!stream.headers.contains_key("proxy-authorization"));
                stream.answer().await;
                server.serve().await
            });
            let options = identity.trusting().proxy(Proxy::through(&proxy).unwrap());
            let (client, driver) = connect(options, "https://server.example/mcp");
            assert_eq!(call(&client).await.unwrap(), "https://server.example/mcp");
            client.close().await;
            driver.await.unwrap();
            assert_eq!(server.await, 1);
        });
    }

    #[test]
    fn connection_to_the_proxy_may_be_encrypted() {
        run(async {
            let identity = SelfSignedCert::new(&["127.0.0.1", "server.example"]);
            let (listener, url) = listen().await;
            let acceptor = identity.acceptor(&[]);
            let server = smol::spawn(async move {
                let mut outer = ServerConnection { stream: greet(&acceptor, &listener).await.unwrap() };
                assert_eq!(outer.request().await.unwrap().line, "CONNECT server.example:8443 HTTP/1.1");
                outer.write("HTTP/1.1 200 OK\r\n\r\n").await;
                let mut inner = ServerConnection { stream: acceptor.accept(outer.stream).await.unwrap() };
                inner.serve(usize::MAX).await.len()
            });
            let options = identity.trusting().proxy(Proxy::through(&https(&url)).unwrap());
            let (client, driver) = connect(options, "https://server.example:8443/mcp");
            assert_eq!(call(&client).await.unwrap(), "1");
            client.close().await;
            driver.await.unwrap();
            assert_eq!(server.await, 2);
        });
    }

    async fn refused_with(answer: &str) -> String {
        let identity = SelfSignedCert::new(&["server.example"]);
        let (listener, url) = listen().await;
        let options = identity.trusting().proxy(Proxy::through(&url).unwrap());
        let (client, _driver) =
            connect(options.configure(|config| config.backoff.attempts = 0), "https://server.example/");
        let proxy = async {
            let mut wire = accept(&listener).await;
            wire.request().await.unwrap();
            wire.write(answer).await;
            if !answer.is_empty() {
                // Nothing that was meant for the server has arrived.
                assert_eq!(wire.stream.read(&mut [0]).await.unwrap_or(0), 0);
            }
        };
        zip(call(&client), proxy).await.0.unwrap_err().to_string()
    }

    #[test]
    fn error_shows_the_refusal_of_a_proxy() {
        run(async {
            let error = refused_with("HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n").await;
            assert!(error.contains("requires a user and a password"), "{error}");
            let error = refused_with("HTTP/1.1 502 Bad gateway\r\n\r\n").await;
            assert!(error.contains("status 502"), "{error}");
            let error = refused_with("SSH-2.0-OpenSSH\r\n\r\n").await;
            assert!(error.contains("is not HTTP"), "{error}");
            let error = refused_with("").await;
            assert!(error.contains("closed the connection"), "{error}");
            let error = refused_with(&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(20_000))).await;
            assert!(error.contains("too long"), "{error}");
        });
    }
}
