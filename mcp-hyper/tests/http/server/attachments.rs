//! What handlers learn about the HTTP requests and connections of their clients.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::runtime::within;
use crate::common::server::*;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use futures_rustls::rustls::server::WebPkiClientVerifier;
use futures_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use http_body_util::BodyExt as _;
use mcp_hyper::mcp_proto::front::{Attachments, Context, NoArguments, Router};
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{PeerAddress, TlsPeer, http};
use serde_json::{Value, json};
use smol::net::TcpStream;

/// Added by a layer before the server.
#[derive(Clone)]
struct Tenant(u32);

/// A tool that describes its request.
fn mirror() -> Router {
    let tool = Tool::new("mirror", "", json!({ "type": "object" }));
    Router::new("mirror", "1").tool_with(tool, async |NoArguments {}, cx: Context| {
        let attached = cx.attachments();
        let head = attached.get::<http::request::Parts>();
        let header = |name: &str| head.and_then(|head| head.headers.get(name)?.to_str().ok());
        json!({
            "head": head.map(|head| format!("{} {} {:?}", head.method, head.uri.path(), head.version)),
            "agent": header("user-agent"),
            "token": header("authorization"),
            "port": attached.get::<SocketAddr>().map(SocketAddr::port),
            "client": attached.get::<PeerAddress>().map(|peer| peer.0),
            "tenant": attached.get::<Tenant>().map(|tenant| tenant.0),
            "layer": head.and_then(|head| Some(head.extensions.get::<Tenant>()?.0)),
            "tls": attached.get::<TlsPeer>().map(|peer| json!([peer.server_name, peer.certificates.len()])),
        })
        .to_string()
    })
}

fn mirrored(body: &str) -> Value {
    serde_json::from_str(&text(body)).unwrap()
}

#[test]
fn handlers_read_the_head_and_the_address_of_their_requests_in_both_eras() {
    let (listener, address) = listener();
    run(serving(mirror()).listen(listener).1);
    let mut client = RawClient::connect(address);
    let port = client.stream.local_addr().unwrap().port();
    let (headers, body) = call("mirror", &json!({}), Progress::Unwanted);
    client.post("/mcp", &format!("{headers}user-agent: one\r\nauthorization: Bearer x\r\n"), &body);
    let expected = |agent: &str, token: Option<&str>| {
        json!({
            "head": "POST /mcp HTTP/1.1", "agent": agent, "token": token, "port": port, "client": "127.0.0.1",
            "tenant": null, "layer": null, "tls": null,
        })
    };
    // Without a guard, credentials are the application's.
    assert_eq!(mirrored(&client.answer().1), expected("one", Some("Bearer x")));

    let session = client.initialize();
    let params = json!({ "name": "mirror", "arguments": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }).to_string();
    // Each request of a session has those of its own POST.
    for agent in ["two", "three"] {
        client.post("/mcp", &format!("{}user-agent: {agent}\r\n", in_session(&session)), &body);
        let (head, body) = client.answer();
        assert_eq!(head.get("content-type"), Some("application/json"));
        assert_eq!(mirrored(&body), expected(agent, None));
    }
}

#[test]
fn handlers_read_the_values_that_the_application_attached() {
    let (service, _driver) = serving(mirror()).service();
    let (headers, body) = call("mirror", &json!({}), Progress::Unwanted);
    bounded(async {
        // To a connection.
        let (ours, theirs) = pipe();
        let attachments = Attachments::new().with(Tenant(7));
        smol::spawn(within(service.connection_with(ours, None, attachments))).detach();
        let io = smol_hyper::rt::FuturesIo::new(theirs);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        smol::spawn(connection).detach();
        let answer = sender.send_request(request(&headers, &body)).await.unwrap();
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        let seen = mirrored(std::str::from_utf8(&answer).unwrap());
        assert_eq!(
            (&seen["tenant"], &seen["layer"], &seen["client"]),
            (&json!(7), &Value::Null, &Value::Null)
        );

        // To a request, by a layer before the service.
        let mut asked = request(&headers, &body);
        asked.extensions_mut().insert(Tenant(8));
        asked.extensions_mut().insert(PeerAddress([10, 0, 0, 9].into()));
        let answer = service.call(asked).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let seen = mirrored(std::str::from_utf8(&answer).unwrap());
        assert_eq!(
            (&seen["tenant"], &seen["layer"], &seen["client"]),
            (&Value::Null, &json!(8), &json!("10.0.0.9"))
        );
    });
}

#[test]
fn handlers_read_the_address_behind_a_trusted_proxy() {
    let (listener, address) = listener();
    let options = serving(mirror()).trusted_proxies(["127.0.0.1".parse().unwrap()]);
    run(options.listen(listener).1);
    let mut client = RawClient::connect(address);
    let port = client.stream.local_addr().unwrap().port();
    let (headers, body) = call("mirror", &json!({}), Progress::Unwanted);
    client.post("/mcp", &format!("{headers}x-forwarded-for: 192.0.2.1\r\n"), &body);
    let seen = mirrored(&client.answer().1);
    assert_eq!((&seen["client"], &seen["port"]), (&json!("192.0.2.1"), &json!(port)));
}

#[test]
fn handlers_read_the_certificate_of_an_encrypted_client() {
    let identity = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        (made.cert.der().clone(), key)
    };
    let trusting = |certificate: &CertificateDer<'static>| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        roots
    };
    let ((server, server_key), (client, client_key)) = (identity(), identity());
    let verifier = WebPkiClientVerifier::builder(Arc::new(trusting(&client))).build().unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(verifier);
    let config = config.with_single_cert(vec![server.clone()], server_key).unwrap();
    let (listener, address) = listener();
    run(serving(mirror()).tls(config).listen(listener).1);

    let config = ClientConfig::builder().with_root_certificates(trusting(&server));
    let mut config = config.with_client_auth_cert(vec![client], client_key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    bounded(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream =
            futures_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let mut sender = http2(stream, |_| {}).await;
        let (headers, body) = call("mirror", &json!({}), Progress::Unwanted);
        let mut asked = request(&headers, &body);
        *asked.uri_mut() = "https://localhost/mcp".parse().unwrap();
        let answer = sender.send_request(asked).await.unwrap();
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        let seen = mirrored(std::str::from_utf8(&answer).unwrap());
        assert_eq!((&seen["tls"], &seen["head"]), (&json!(["localhost", 1]), &json!("POST /mcp HTTP/2.0")));
    });
}
