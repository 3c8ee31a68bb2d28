//! A server under the application's own accept loop, router or executor.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use crate::common::server::*;
use futures_lite::future;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use mcp_hyper::mcp_proto::front::{Context, NoArguments, Router};
use mcp_hyper::mcp_proto::peer::Principal;
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{HttpService, ServerOptions};
use serde_json::json;

#[test]
fn server_serves_connections_of_a_custom_accept_loop() {
    let log = HandlerLog::default();
    let (listener, address) = smol_listener();
    let (service, driver) = ServerOptions::new(router(&log)).service();
    let accepting = service.clone();
    let server = run(driver);
    std::thread::spawn(move || {
        smol::block_on(async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                smol::spawn(accepting.connection(stream)).detach();
            }
        })
    });
    let mut client = RawClient::connect(address);
    client.echo("hello");
    // The loop takes part in the shutdown.
    let mut busy = RawClient::connect(address);
    busy.call("soon", &json!({}), Progress::Unwanted);
    wait_until("the handler runs", || log.begun_calls() == 1);
    service.server().close();
    assert!(client.closed());
    assert_eq!(text(&busy.answer().1), "done");
    ended(server).unwrap();
}

/// F2
#[test]
fn server_serves_a_pipe_like_a_socket() {
    let (service, _driver) = ServerOptions::new(router(&HandlerLog::default())).service();
    bounded(async {
        let (ours, theirs) = pipe();
        let server = smol::spawn(service.connection(ours));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(smol_hyper::rt::FuturesIo::new(theirs)).await.unwrap();
        let client = smol::spawn(connection);
        let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
        let answer = sender.send_request(request(&headers, &body)).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text(std::str::from_utf8(&body).unwrap()), "hello");
        drop(sender);
        client.await.unwrap();
        server.await.unwrap();
    });
}

type Body = UnsyncBoxBody<bytes::Bytes, Infallible>;

/// The router of an application that serves other pages too.
async fn route(mcp: HttpService, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    match request.uri().path() {
        "/tools" => Ok(mcp.call(request).await?.map(BodyExt::boxed_unsync)),
        _ => Ok(Response::new(Full::from("a page").boxed_unsync())),
    }
}

#[test]
fn service_serves_requests_of_a_custom_router() {
    let (listener, address) = smol_listener();
    let (mcp, driver) = ServerOptions::new(router(&HandlerLog::default())).any_path().service();
    run(driver);
    std::thread::spawn(move || {
        smol::block_on(async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mcp = mcp.clone();
                let service = service_fn(move |request| route(mcp.clone(), request));
                let io = smol_hyper::rt::FuturesIo::new(stream);
                let mut http1 = hyper::server::conn::http1::Builder::new();
                let connection = http1.header_read_timeout(None).serve_connection(io, service);
                smol::spawn(connection).detach();
            }
        })
    });
    let mut client = RawClient::connect(address);
    let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    client.post("/tools", &headers, &body);
    assert_eq!(text(&client.answer().1), "hello");
    client.send("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(client.answer().1, "a page");
}

#[test]
fn application_can_spawn_connections_on_an_executor() {
    let log = HandlerLog::default();
    let (listener, address) = smol_listener();
    let options = ServerOptions::new(router(&log));
    let (server, driver) = options.listen_with(listener, |task| smol::spawn(task).detach());
    let driver = run(driver);
    let mut client = RawClient::connect(address);
    client.echo("hello");
    let mut busy = RawClient::connect(address);
    busy.call("soon", &json!({}), Progress::Unwanted);
    wait_until("the handler runs", || log.begun_calls() == 1);
    server.close();
    assert!(client.closed());
    assert_eq!(text(&busy.answer().1), "done");
    ended(driver).unwrap();
}

/// async-io's reactor runs on a thread of its own there, and has begun its next turn before a late executor polls.
#[test]
fn server_on_an_executor_that_is_late_accepts_after_one_wake() {
    const CONNECTIONS: usize = 20;
    let (listener, address) = smol_listener();
    let (server, mut driver) = ServerOptions::new(router(&HandlerLog::default())).listen(listener);
    let late = std::thread::spawn(move || {
        let mut polls = 0;
        // Not smol's own, which is the reactor meanwhile.
        let ended = future::block_on(std::future::poll_fn(|cx| {
            polls += 1;
            std::thread::sleep(Duration::from_millis(2));
            Pin::new(&mut driver).poll(cx)
        }));
        (ended, polls)
    });
    for _ in 0..CONNECTIONS {
        RawClient::connect(address).echo("hello");
    }
    server.close();
    let (ended, polls) = late.join().unwrap();
    ended.unwrap();
    assert!(polls < 10 * CONNECTIONS, "{polls} polls for {CONNECTIONS} connections");
}

#[test]
fn dropping_the_driver_ends_its_connections_on_any_executor() {
    let log = HandlerLog::default();
    let (listener, address) = smol_listener();
    let options = ServerOptions::new(router(&log));
    let (_, driver) = options.listen_with(listener, |task| smol::spawn(task).detach());
    let driver = smol::spawn(driver);
    let mut client = RawClient::connect(address);
    client.call("wait", &json!({}), Progress::Unwanted);
    wait_until("the handler runs", || log.begun_calls() == 1);
    drop(driver);
    assert!(client.closed());
    wait_until("the handler is dropped", || log.ended_calls() == 1);
}

#[test]
fn local_handlers_stay_on_their_thread() {
    let (listener, address) = smol_listener();
    let server = std::thread::spawn(move || {
        let name = Rc::new("local".to_owned());
        let tool = Tool::new("name", "", json!({ "type": "object" }));
        let router = Router::local("server", "1").tool_with(tool, move |NoArguments {}, _| {
            let name = name.clone();
            async move {
                smol::Timer::after(Duration::from_millis(1)).await;
                name.to_string()
            }
        });
        let (_, driver) = ServerOptions::new(router).listen(listener);
        smol::block_on(driver)
    });
    let mut client = RawClient::connect(address);
    client.call("name", &json!({}), Progress::Unwanted);
    assert_eq!(text(&client.answer().1), "local");
    bounded(async {
        let mut sender = http2(smol::net::TcpStream::connect(address).await.unwrap(), |_| {}).await;
        let (headers, body) = call("name", &json!({}), Progress::Unwanted);
        let mut request = request(&headers, &body);
        *request.uri_mut() = "http://localhost/mcp".parse().unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text(std::str::from_utf8(&body).unwrap()), "local");
    });
    assert!(!server.is_finished());
}

/// S10.9: the principal is the one that the layer before has verified, and not the client's own claim.
#[test]
fn application_sets_the_principal_from_the_head_of_a_request() {
    #[derive(Clone)]
    struct Subject(&'static str);

    let tool = Tool::new("who", "Says who asks", json!({ "type": "object" }));
    let router = Router::new("who", "1").tool_with(tool, async |NoArguments {}, cx: Context| {
        cx.principal().map_or_else(|| "nobody".to_owned(), |principal| principal.as_str().to_owned())
    });
    let (service, _driver) = ServerOptions::new(router)
        .principal(|head| Some(Principal::new(head.extensions.get::<Subject>()?.0)))
        .service();
    for (subject, who) in [(Some(Subject("alice")), "alice"), (None, "nobody")] {
        let (headers, body) = call("who", &json!({}), Progress::Unwanted);
        let mut asked = request(&headers, &body);
        if let Some(subject) = subject {
            asked.extensions_mut().insert(subject);
        }
        let answer = bounded(service.call(asked)).unwrap();
        let body = bounded(answer.into_body().collect()).unwrap().to_bytes();
        assert_eq!(text(std::str::from_utf8(&body).unwrap()), who);
    }
}
