//! A client on blocking threads, with `std` alone: one thread reads, one writes, and the loop of the machine waits on a
//! channel. It starts a server as a child process and calls its tool `add`: `threads PROGRAM [ARGUMENT…]`.
//!
//! The duties of the driver here: it writes one block at a time, and takes the next when that one is written,
//! because only bytes that the machine still holds count towards its limits and its write timeout. It never writes in
//! the loop: a server that does not read would also keep it from reading.

use std::error::Error;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant as SystemInstant;

use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{ClientConfig, Event, LinkAction, State};
use mcp_proto::schema::{CallTool, CallToolParams, Implementation};
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Instant};

/// Messages of the threads to the loop.
enum Input {
    Read(Bytes),
    Written,
    End,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("usage: threads PROGRAM [ARGUMENT…]")?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut stdin, mut stdout) =
        (child.stdin.take().ok_or("no pipe")?, child.stdout.take().ok_or("no pipe")?);

    // Room for a few blocks: a server that writes faster than the loop handles them waits in its own write.
    let (inputs, inbox) = mpsc::sync_channel(4);
    let (blocks, to_write) = mpsc::channel::<Vec<u8>>();
    let written = inputs.clone();
    thread::spawn(move || {
        while let Ok(block) = to_write.recv()
            && stdin.write_all(&block).is_ok()
            && written.send(Input::Written).is_ok()
        {}
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok(count @ 1..) = stdout.read(&mut buffer)
            && inputs.send(Input::Read(Bytes::copy_from_slice(&buffer[..count]))).is_ok()
        {}
        inputs.send(Input::End)
    });

    let origin = SystemInstant::now();
    let now = || Instant::from_origin(origin.elapsed());
    let mut client = StreamClient::new(ClientConfig::new(Implementation::new("threads", "1.0.0")));
    let (mut blocks, mut is_writing) = (Some(blocks), false);
    loop {
        let mut has_acted = false;
        while let Some(action) = client.poll_link() {
            has_acted = true;
            match action {
                LinkAction::Open => client.handle_open(now()),
                LinkAction::CloseWrite => blocks = None, // The writing thread ends, and with it the pipe.
                LinkAction::Abort => child.kill()?,
            }
        }
        let mut block = Vec::new();
        if !is_writing && client.poll_transmit(&mut block) {
            (has_acted, is_writing) = (true, true);
            blocks.as_ref().map(|blocks| blocks.send(block));
        }
        while let Some(event) = client.poll_event() {
            has_acted = true;
            match event {
                Event::State(State::Ready) => {
                    let call =
                        CallToolParams::new("add").with_arguments(serde_json::json!({ "a": 2, "b": 3 }));
                    client.at(now()).request::<CallTool>(&call, RequestOptions::default())?;
                }
                Event::Outcome { outcome, .. } => {
                    println!("{}", outcome.decode::<CallTool>()?.text_content());
                    client.at(now()).close();
                }
                _ => {}
            }
        }
        if has_acted {
            continue; // The commands above may have made new output.
        }
        if client.is_closed() {
            child.wait()?;
            return Ok(());
        }
        let input = match client.poll_timeout() {
            Some(due) => inbox.recv_timeout(due.saturating_since(now())),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match input {
            Ok(Input::Read(bytes)) => client.handle_input(now(), bytes),
            Ok(Input::Written) => is_writing = false,
            Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => {
                client.handle_eof(now(), "the server has ended")
            }
            Err(RecvTimeoutError::Timeout) => client.handle_timeout(now()),
        }
    }
}
