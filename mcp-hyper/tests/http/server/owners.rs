//! Clients distinguished by their addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::task::{Context, Poll, ready};

use mcp_hyper::Listener;
use serde_json::json;
use smol::io::{AsyncRead, AsyncWrite};

use crate::common::runtime::ServerListener as TcpListener;
use crate::common::server::{
    HandlerLog, Progress, RawClient, in_session, listener, router, run, serving, text,
};

type Io = <TcpListener as Listener>::Io;

/// A socket that seems to be connected to another address.
struct ReaddressedSocket(Io, IpAddr);

impl AsyncRead for ReaddressedSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for ReaddressedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

/// A listener whose next connection seems to come from the address with this last byte.
struct ReaddressingListener(TcpListener, Arc<AtomicU8>);

impl Listener for ReaddressingListener {
    type Io = ReaddressedSocket;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ReaddressedSocket>> {
        let io = ready!(Listener::poll_accept(&mut self.0, cx))?;
        Poll::Ready(Ok(ReaddressedSocket(io, IpAddr::from([192, 0, 2, self.1.load(SeqCst)]))))
    }

    fn peer_address(io: &ReaddressedSocket) -> Option<IpAddr> {
        Some(io.1)
    }
}

const EVE: u8 = 66;

#[test]
fn client_with_many_connections_loses_one_to_a_new_client() {
    let (listener, address) = listener();
    let next = Arc::new(AtomicU8::new(EVE));
    let options = serving(router(&HandlerLog::default())).limits(|limits| limits.connections = 3);
    let (_server, driver) = options.listen(ReaddressingListener(listener, next.clone()));
    run(driver);
    let connect = |from: u8, message: &str| {
        next.store(from, SeqCst);
        let mut client = RawClient::connect(address);
        client.echo(message);
        client
    };
    let mut streaming = connect(EVE, "first");
    streaming.call("wait", &json!({}), Progress::Wanted);
    streaming.head();
    streaming.event();
    let mut idle = connect(EVE, "second");
    let mut third = connect(EVE, "third");
    let mut newcomer = connect(1, "newcomer");
    assert!(idle.closed(), "the oldest without a request");
    third.echo("the third goes on");
    newcomer.echo("so does the newcomer");

    // One more of the same client waits until one of its connections ends.
    next.store(EVE, SeqCst);
    let mut parked = RawClient::connect(address);
    parked.call("echo", &json!({ "message": "parked" }), Progress::Unwanted);
    newcomer.echo("others are not concerned");
    drop(third);
    assert_eq!(text(&parked.answer().1), "parked");
}

/// Opens a session; returns its id.
fn initialize(address: SocketAddr, forwarded: &str) -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        },
    });
    let mut client = RawClient::connect(address);
    client.post("/mcp", &format!("x-forwarded-for: {forwarded}\r\n"), &body.to_string());
    let (head, body) = client.answer();
    assert_eq!(head.status, 200, "{body}");
    head.get("mcp-session-id").unwrap().to_owned()
}

fn is_alive(address: SocketAddr, session: &str) -> bool {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut client = RawClient::connect(address);
    client.post("/mcp", &in_session(session), &ping.to_string());
    client.answer().0.status == 200
}

/// Whether a client's session survives while another client opens many, behind one proxy.
fn survives(trusted: &[&str]) -> bool {
    let (listener, address) = listener();
    let options = serving(router(&HandlerLog::default()))
        .configure(|config| config.max_sessions = 4)
        .trusted_proxies(trusted.iter().map(|proxy| proxy.parse().unwrap()));
    let (_server, driver) = options.listen(listener);
    run(driver);
    let session = initialize(address, "192.0.2.1");
    assert!(is_alive(address, &session));
    (0..8).for_each(|number| drop(initialize(address, &format!("198.51.100.{number}, 192.0.2.66"))));
    is_alive(address, &session)
}

#[test]
fn server_distinguishes_clients_of_a_trusted_proxy() {
    assert!(survives(&["10.0.0.0/8", "127.0.0.1"]));
}

#[test]
fn server_ignores_forwarded_addresses_of_other_peers() {
    assert!(!survives(&[]));
    assert!(!survives(&["10.0.0.0/8", "unix"]));
}
