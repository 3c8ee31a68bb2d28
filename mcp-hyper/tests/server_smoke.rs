#![allow(missing_docs, clippy::unwrap_used)]
mod server_common;
use mcp_hyper::ServerOptions;
use mcp_hyper::mcp_proto;
use mcp_proto::front::Router;
use server_common::*;
use std::time::Duration;

#[test]
fn smoke() {
    let (l, a) = listener();
    let (server, driver) = ServerOptions::new(Router::new("a", "1"))
        .limits(|l| {
            l.header_timeout = Duration::from_millis(100);
            l.idle_timeout = Duration::from_millis(150);
            l.write_timeout = Duration::from_millis(200);
        })
        .listen(l);
    let t = run(driver);
    let mut c = Raw::connect(a);
    c.post("/mcp", "", "hello");
    let (h, b) = c.answer();
    assert_eq!((h.status, &*b), (200, "hello"));
    c.post("/other", "", "hello");
    let (h, b) = c.answer();
    assert_eq!((h.status, &*b), (404, ""));
    c.post("/mcp", "", "stream");
    let h = c.head();
    eprintln!("{h:?}");
    for _ in 0..4 {
        assert_eq!(c.chunk().unwrap(), "data: hello\n\n");
    }
    let d = server.dropped();
    drop(c);
    wait_until("drop", || server.dropped() == d + 1);
    // slow header
    let mut c = Raw::connect(a);
    c.send("POST /mcp HT");
    assert!(c.closed());
    let mut c = Raw::connect(a);
    c.post("/mcp", "", "hello");
    c.answer();
    assert!(c.closed()); // idle
    let mut c = Raw::connect(a);
    assert!(c.closed()); // idle from the start
    let mut c = Raw::connect(a);
    c.post("/mcp", "", "wait");
    std::thread::sleep(Duration::from_millis(50));
    let d = server.dropped();
    drop(c);
    wait_until("drop", || server.dropped() == d + 1);
    let mut c = Raw::connect(a);
    c.post("/mcp", "", &"x".repeat(1000000));
    let (h, _b) = c.answer();
    assert_eq!(h.status, 413);
    let mut c = Raw::connect(a);
    c.post("/mcp", &format!("x: {}\r\n", "y".repeat(100000)), "a");
    let (h, _b) = c.answer();
    assert_eq!(h.status, 431);
    assert!(c.closed());
    let mut c = Raw::connect(a);
    c.post("/mcp", "", "flood");
    c.head();
    let d = server.dropped();
    wait_until("drop", || server.dropped() == d + 1);
    // fresh connection and listen one
    let mut c = Raw::connect(a);
    c.post("/mcp", "", "hello");
    c.answer();
    server.close();
    let c = Raw::connect(a); // wakes the driver
    drop(c);
    ended(t).unwrap();
}

#[test]
fn two() {
    use http_body_util::BodyExt;
    let (l, a) = listener();
    let (server, driver) = ServerOptions::new(Router::new("a", "1"))
        .limits(|l| {
            l.header_timeout = Duration::from_millis(100);
            l.idle_timeout = Duration::from_millis(400);
            l.write_timeout = Duration::from_millis(200);
        })
        .listen(l);
    let t = run(driver);
    smol::block_on(async {
        let s = smol::net::TcpStream::connect(a).await.unwrap();
        let mut s = http2(s, |_| {}).await;
        let r = s.send_request(post("http://localhost/mcp", "hello")).await.unwrap();
        assert_eq!(r.status(), 200);
        assert_eq!(r.into_body().collect().await.unwrap().to_bytes(), "hello");
        let r = s.send_request(post("http://localhost/mcp", "stream")).await.unwrap();
        let mut b = r.into_body();
        for _ in 0..4 {
            assert_eq!(b.frame().await.unwrap().unwrap().into_data().unwrap(), "data: hello\n\n");
        }
        let d = server.dropped();
        drop(b);
        wait_until("drop", || server.dropped() == d + 1);
        // a stream that nobody reads
        let r = s.send_request(post("http://localhost/mcp", "flood")).await.unwrap();
        let r2 = s.send_request(post("http://localhost/mcp", "hello")).await.unwrap();
        assert_eq!(r2.into_body().collect().await.unwrap().to_bytes(), "hello");
        wait_until("drop", || server.dropped() == d + 3);
        let e = r.into_body().collect().await.unwrap_err();
        eprintln!("{e:?}");
        let r2 = s.send_request(post("http://localhost/mcp", "hello")).await.unwrap();
        assert_eq!(r2.into_body().collect().await.unwrap().to_bytes(), "hello");
        // cancel before head
        let w = s.send_request(post("http://localhost/mcp", "wait"));
        let mut w = Box::pin(w);
        assert!(smol::future::poll_once(&mut w).await.is_none());
        smol::Timer::after(Duration::from_millis(50)).await;
        let d = server.dropped();
        drop(w);
        wait_until("drop", || server.dropped() == d + 1);
        // idle
        let b = std::time::Instant::now();
        while !s.is_closed() {
            smol::Timer::after(Duration::from_millis(5)).await;
            assert!(b.elapsed() < PATIENCE);
        }
        eprintln!("{:?}", b.elapsed());
    });
    server.close();
    drop(Raw::connect(a)); // wakes the driver
    ended(t).unwrap();
}

#[test]
fn secure() {
    use futures_rustls::pki_types::*;
    use futures_rustls::rustls;
    use http_body_util::BodyExt;
    let (l, a) = listener();
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![cert.cert.der().clone()],
            PrivateKeyDer::try_from(cert.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let (server, driver) = ServerOptions::new(Router::new("a", "1"))
        .tls(config)
        .limits(|l| {
            l.header_timeout = Duration::from_millis(100);
            l.idle_timeout = Duration::from_millis(400);
            l.write_timeout = Duration::from_millis(200);
        })
        .listen(l);
    let t = run(driver);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.cert.der().clone()).unwrap();
    let config = std::sync::Arc::new(
        rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth(),
    );
    smol::block_on(async {
        for alpn in [true, false] {
            let s = smol::net::TcpStream::connect(a).await.unwrap();
            let mut config = (*config).clone();
            if alpn {
                config.alpn_protocols = vec![b"h2".to_vec()];
            }
            let s = futures_rustls::TlsConnector::from(std::sync::Arc::new(config))
                .connect(ServerName::try_from("localhost").unwrap(), s)
                .await
                .unwrap();
            assert_eq!(s.get_ref().1.alpn_protocol(), alpn.then_some(&b"h2"[..]));
            let mut s = http2(s, |_| {}).await;
            let r = s.send_request(post("https://localhost/mcp", "hello")).await.unwrap();
            assert_eq!(r.status(), 200);
            assert_eq!(r.into_body().collect().await.unwrap().to_bytes(), "hello");
        }
        // A client that says nothing in the handshake, or nonsense.
        let mut c = Raw::connect(a);
        assert!(c.closed());
        let mut c = Raw::connect(a);
        c.post("/mcp", "", "hello");
        assert!(c.closed());
    });
    server.close();
    drop(Raw::connect(a)); // wakes the driver
    ended(t).unwrap();
}
