//! A client on completion I/O: compio on io_uring, which owns a buffer from the start of an operation until its end. It
//! starts a server as a child process and calls its tool `add`: `completion PROGRAM [ARGUMENT…]`.
//!
//! The duties of the driver: a read or a write, once started, is awaited to its end, as dropping its future would
//! lose bytes that the system has moved. So each is in a task of its own, and the loop waits for their reports instead.
//! The buffer of a read goes back to the next one; the block that `poll_transmit` fills belongs to its write.

use std::error::Error;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use compio::BufResult;
use compio::io::{AsyncRead as _, AsyncWriteExt as _};
use compio::process::{Child, Command};
use compio::runtime::{Runtime, spawn};
use mcp_proto::adapter::{self, ClientDriver, Clock as _, SystemClock};
use mcp_proto::front::ClientHandlers;
use mcp_proto::peer::client::{ClientConfig, LinkAction};
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Implementation};
use serde_json::json;
use smol::{channel, future::or};

/// The events of the loop.
enum Event {
    Read(Bytes),
    Written,
    End,
    Output(Option<LinkAction>),
}

/// Waits where the machine has no deadline. A spurious `handle_timeout` does nothing.
const HOUR: Duration = Duration::from_secs(3600);

async fn drive(
    mut driver: ClientDriver<StreamClient>,
    clock: Arc<SystemClock>,
    mut child: Child,
) -> Result<(), Box<dyn Error>> {
    let (mut stdin, mut stdout) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
    let (events, inbox) = channel::bounded(4);
    let (blocks, to_write) = channel::bounded(1);
    let written = events.clone();
    spawn(async move {
        while let Ok(block) = to_write.recv().await
            && let BufResult(Ok(()), _block) = stdin.write_all(block).await
            && written.send(Event::Written).await.is_ok()
        {}
    })
    .detach();
    spawn(async move {
        let mut buffer = Vec::with_capacity(65536);
        // A longer read before may have left more in the buffer.
        while let BufResult(Ok(length @ 1..), filled) = stdout.read(buffer).await
            && events.send(Event::Read(Bytes::copy_from_slice(&filled[..length]))).await.is_ok()
        {
            buffer = filled;
        }
        let _ = events.send(Event::End).await;
    })
    .detach();

    let (mut blocks, mut is_writing) = (Some(blocks), false);
    loop {
        let mut block = Vec::new();
        let due = driver.next_timeout();
        let output = driver.next_output(due, |machine, _| {
            let action = machine.poll_link();
            let has_output = !is_writing && machine.poll_transmit(&mut block);
            (action.is_some() || has_output).then_some(action)
        });
        let output = async { Event::Output(output.await.flatten()) };
        let input = async { inbox.recv().await.unwrap_or(Event::End) };
        let sleep = async {
            compio::time::sleep(due.map_or(HOUR, |due| due.saturating_since(clock.now()))).await;
            Event::Output(None)
        };
        let event = or(output, or(input, sleep)).await;
        if let Some(blocks) = blocks.as_ref().filter(|_| !block.is_empty()) {
            is_writing = blocks.send(block).await.is_ok();
        }
        if matches!(event, Event::Output(None)) && driver.closed().is_some() {
            break;
        }
        driver.lock(|machine, now| match event {
            Event::Read(bytes) => machine.handle_input(now, bytes),
            Event::Written => is_writing = false,
            Event::End => machine.handle_eof(now, "the server has ended"),
            Event::Output(Some(LinkAction::Open)) => machine.handle_open(now),
            // The writing task ends, and with it the pipe.
            Event::Output(Some(LinkAction::CloseWrite)) => blocks = None,
            Event::Output(Some(LinkAction::Abort)) => drop(child.kill()),
            // The next poll handles the timeout.
            Event::Output(None) => {}
        });
    }
    child.wait().await?;
    driver.handle_link_down();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("usage: completion PROGRAM [ARGUMENT…]")?;
    let clock = Arc::new(SystemClock::new());
    let machine = StreamClient::new(ClientConfig::new(Implementation::new("completion", "1.0.0")));
    let (client, driver) = adapter::client(machine, clock.clone(), ClientHandlers::new());
    Runtime::new()?.block_on(async {
        let mut command = Command::new(program);
        let child = command.args(arguments).stdin(Stdio::piped())?.stdout(Stdio::piped())?.spawn()?;
        let driver = spawn(drive(driver, clock, child));
        println!("{}", client.call_tool("add", json!({ "a": 2, "b": 3 })).await?.text_content());
        adapters::check(&client).await?;
        client.close().await;
        driver.await.map_err(|_| "the driver panicked")?
    })
}
