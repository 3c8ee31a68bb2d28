//! Requests that a proxy forwards, and those that bypass it.

use crate::common::client::{accept, call, connect, listen, modern, run};
use crate::common::h2_server::Server;
use mcp_hyper::Proxy;

#[test]
fn client_sends_the_whole_url_to_a_proxy() {
    run(async {
        let (listener, url) = listen().await;
        let proxy = Proxy::through(&url.replace("http://", "http://user:secret@")).unwrap();
        let server = smol::spawn(async move { accept(&listener).await.serve(usize::MAX).await });
        let (client, driver) = connect(modern().proxy(proxy), "http://server.example:8080/mcp?key=1");
        assert_eq!(call(&client).await.unwrap(), "1");
        client.close().await;
        driver.await.unwrap();
        for request in server.await {
            assert_eq!(request.line, "POST http://server.example:8080/mcp?key=1 HTTP/1.1");
            assert_eq!(request.header("host"), Some("server.example:8080"));
            assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
        }
    });
}

#[test]
fn client_connects_directly_to_exceptions_and_this_machine() {
    run(async {
        let (nobody, proxy) = listen().await;
        for proxy in [
            Proxy::through(&proxy).unwrap(),
            Proxy::through(&proxy).unwrap().for_loopback().except("127.0.0.0/8"),
            Proxy::none(),
        ] {
            let (listener, url) = listen().await;
            let server = smol::spawn(async move { accept(&listener).await.serve(usize::MAX).await });
            let (client, driver) = connect(modern().proxy(proxy), &url);
            assert_eq!(call(&client).await.unwrap(), "1");
            client.close().await;
            driver.await.unwrap();
            let requests = server.await;
            assert_eq!(requests[0].line, "POST /mcp HTTP/1.1");
            assert_eq!(requests[0].header("proxy-authorization"), None);
        }
        drop(nobody);
    });
}

#[test]
fn client_connects_to_this_machine_through_a_proxy_on_demand() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move { accept(&listener).await.serve(1).await });
        let proxy = Proxy::through(&url).unwrap().for_loopback();
        let (client, _driver) = connect(modern().proxy(proxy), "http://localhost:9/");
        client.ready().await.unwrap();
        assert_eq!(server.await[0].line, "POST http://localhost:9/ HTTP/1.1");
    });
}

#[test]
fn client_tunnels_http2_with_prior_knowledge() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            assert_eq!(wire.request().await.unwrap().line, "CONNECT server.example:80 HTTP/1.1");
            wire.write("HTTP/1.1 200 OK\r\n\r\n").await;
            Server::handshake(wire.stream, 100).await.serve().await
        });
        let options = modern().proxy(Proxy::through(&url).unwrap()).http2_prior_knowledge();
        let (client, driver) = connect(options, "http://server.example/mcp");
        assert_eq!(call(&client).await.unwrap(), "http://server.example/mcp");
        client.close().await;
        driver.await.unwrap();
        assert_eq!(server.await, 2);
    });
}
