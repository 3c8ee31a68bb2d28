//! A client without an async runtime, which prints the names of a server's tools.
//!
//! It needs one thread, one blocking socket and one loop.
//!
//! ```text
//! cargo run -p mcp-proto --example blocking -- 127.0.0.1:7000
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the driver of a state machine reads the clock"
)]

use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{ClientConfig, Event, LinkAction, State};
use mcp_proto::schema::{Implementation, ListTools, PaginatedParams};
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Instant};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7000".to_owned());
    for name in tool_names(TcpStream::connect(address)?)? {
        println!("{name}");
    }
    Ok(())
}

pub(crate) fn tool_names(mut socket: TcpStream) -> Result<Vec<String>, Box<dyn Error>> {
    let mut client = StreamClient::new(ClientConfig::new(Implementation::new("blocking", "1.0.0")));
    let start = std::time::Instant::now();
    let now = || Instant::from_origin(start.elapsed());
    let (mut buffer, mut out, mut names) = (vec![0; 65536], Vec::new(), Vec::new());
    loop {
        let mut moved = false;
        while let Some(action) = client.poll_link() {
            moved = true;
            match action {
                LinkAction::Open => client.handle_open(now()),
                LinkAction::CloseWrite => socket.shutdown(Shutdown::Write)?,
                LinkAction::Abort => socket.shutdown(Shutdown::Both)?,
            }
        }
        while client.poll_transmit(&mut out) {
            moved = true;
            socket.write_all(&out)?;
            out.clear();
        }
        while let Some(event) = client.poll_event() {
            moved = true;
            match event {
                Event::State(State::Ready) => {
                    let first_page = PaginatedParams::default();
                    client.at(now()).request::<ListTools>(&first_page, RequestOptions::default())?;
                }
                Event::Outcome { outcome, .. } => {
                    let tools = outcome.decode::<ListTools>()?.tools;
                    names.extend(tools.iter().map(|tool| tool.name.to_string()));
                    client.at(now()).close();
                }
                Event::Diagnostic(diagnostic) => eprintln!("{diagnostic:?}"),
                _ => {}
            }
        }
        if moved {
            // The calls above may have queued output: drain until nothing is left before waiting for input.
            continue;
        }
        if client.is_closed() {
            return Ok(names);
        }
        let due = client.poll_timeout().map(|due| due.saturating_since(now()));
        socket.set_read_timeout(due.map(|wait| wait.max(Duration::from_millis(1))))?;
        match socket.read(&mut buffer) {
            Ok(0) => client.handle_eof(now(), "the server closed the connection"),
            Ok(read) => client.handle_input(now(), Bytes::copy_from_slice(&buffer[..read])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                client.handle_timeout(now());
            }
            Err(error) => client.handle_eof(now(), &error.to_string()),
        }
    }
}
