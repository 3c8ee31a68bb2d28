//! A server on a byte pipe, such as a serial line, with `alloc` alone.
//!
//! The duties of the driver: a clock that starts anywhere; the input as it arrives, in pieces of any size; the
//! whole of each block that `poll_transmit` fills, before the next one; and `handle_timeout` no later than the machine's
//! deadline. One small buffer is enough for the input, as the machine keeps what is part of a message.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::peer::server::{Answer, Event, ServerConfig};
use mcp_proto::rpc::{ErrorObject, Raw, code};
use mcp_proto::schema::{
    CallToolResult, Implementation, Json, List, ListToolsResult, ServerCapability, Tool,
};
use mcp_proto::transport::StreamServer;
use mcp_proto::{Bytes, Instant};
use serde::Deserialize;

pub trait BytePipe {
    /// Reads what has arrived, or waits for it until the time is up: then there are 0 bytes. `None` is the end.
    fn read(&mut self, buffer: &mut [u8], timeout: Option<Duration>) -> Option<usize>;

    /// Writes all of it. `None` if the other side has left.
    fn write(&mut self, bytes: &[u8]) -> Option<()>;

    /// The time since any moment that stays the same.
    fn now(&self) -> Duration;
}

#[derive(Deserialize)]
struct Call {
    arguments: Add,
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn add(params: Option<Raw>) -> Result<CallToolResult, ErrorObject> {
    let call = params.and_then(|params| params.decode::<Call>().ok());
    let Add { a, b } =
        call.ok_or_else(|| ErrorObject::new(code::INVALID_PARAMS, "a and b are numbers"))?.arguments;
    Ok(CallToolResult::text(format!("{}", a + b)))
}

/// Serves one client. Returns whether the connection has ended in order.
pub fn serve(pipe: &mut impl BytePipe) -> Option<()> {
    let mut config = ServerConfig::new(Implementation::new("metal", "1"));
    config.capabilities = config.capabilities.with(ServerCapability::Tools);
    let tools =
        ListToolsResult::new(List::from([Tool::new("add", "Adds two numbers", Json::empty_object())]));
    let mut server = StreamServer::new(config);
    let (mut buffer, mut block) = ([0; 512], Vec::new());
    loop {
        let mut has_acted = false;
        while let Some(event) = server.poll_event() {
            has_acted = true;
            let Event::Request { id, method, params, .. } = event else { continue };
            let now = Instant::from_origin(pipe.now());
            match &*method {
                "tools/list" => server.at(now).respond(id, Answer::Result(&tools)),
                _ => match add(params) {
                    Ok(sum) => server.at(now).respond(id, Answer::Result(&sum)),
                    Err(error) => server.at(now).respond(id, Answer::Error(error)),
                },
            }
        }
        while server.poll_transmit(&mut block) {
            has_acted = true;
            pipe.write(&block)?;
            block.clear();
        }
        if has_acted {
            continue;
        }
        if server.is_closed() {
            return Some(());
        }
        let now = Instant::from_origin(pipe.now());
        let timeout = server.poll_timeout().map(|due| due.saturating_since(now));
        let read = pipe.read(&mut buffer, timeout);
        let now = Instant::from_origin(pipe.now());
        match read {
            Some(0) => server.handle_timeout(now),
            Some(count) => server.handle_input(now, Bytes::copy_from_slice(&buffer[..count])),
            None => server.handle_eof(now, ""),
        }
    }
}
