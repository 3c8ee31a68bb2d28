//! The loop of `examples/blocking.rs` over a real socket, with a server that is driven by the same loop.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the driver of a machine reads the clock"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mcp_proto::peer::server::{Answer, Eras, Event, ServerConfig};
use mcp_proto::schema::{Implementation, List, ListToolsResult, ServerCapability, Tool};
use mcp_proto::transport::StreamServer;
use mcp_proto::{Bytes, Instant};
use serde_json::json;

#[path = "../../../examples/blocking.rs"]
#[allow(dead_code, reason = "the program's own entry point")]
mod blocking;

/// Long enough for a busy machine, and shorter than the timeout of a request.
const BOUND: Duration = Duration::from_secs(15);

fn serve(mut socket: TcpStream, eras: Eras) {
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let mut config = ServerConfig::new(Implementation::new("server", "1"));
    config.capabilities = config.capabilities.with(ServerCapability::Tools);
    config.eras = eras;
    let mut server = StreamServer::new(config);
    let start = std::time::Instant::now();
    let now = || Instant::from_origin(start.elapsed());
    let (mut buffer, mut out) = (vec![0; 4096], Vec::new());
    loop {
        let mut moved = false;
        while server.poll_transmit(&mut out) {
            moved = true;
            socket.write_all(&out).unwrap();
            out.clear();
        }
        while let Some(event) = server.poll_event() {
            moved = true;
            if let Event::Request { id, .. } = event {
                let tool = |name| Tool::new(name, "", json!({ "type": "object" }));
                let tools = ListToolsResult::new(List::from(vec![tool("add"), tool("subtract")]));
                server.at(now()).respond(id, Answer::Result(&tools));
            }
        }
        if moved {
            continue;
        }
        if server.is_closed() {
            return;
        }
        match socket.read(&mut buffer).unwrap() {
            0 => server.handle_eof(now(), ""),
            read => server.handle_input(now(), Bytes::copy_from_slice(&buffer[..read])),
        }
    }
}

/// F1
#[test]
fn documented_loop_sends_requests_made_while_it_handles_events() {
    for eras in [Eras::Both, Eras::LegacyOnly] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0, eras));
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let names = blocking::tool_names(TcpStream::connect(address).unwrap());
            done.send(names.map_err(|error| error.to_string())).unwrap();
        });
        let names = ended.recv_timeout(BOUND).expect("the loop ends");
        assert_eq!(names.unwrap(), ["add", "subtract"], "{eras:?}");
        server.join().unwrap();
    }
}
