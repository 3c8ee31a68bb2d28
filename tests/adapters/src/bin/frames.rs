//! A client in a frame loop, as games have: one poll per frame, which never waits. Wakers are not used: what is polled in
//! every frame needs none. It starts a server as a child process and calls its tool `add`: `frames PROGRAM [ARGUMENT…]`.
//!
//! The duties of the driver in each frame: the input that has arrived, up to a limit; `handle_timeout`, which
//! does nothing while no timer is due; and all of the output. A block that the pipe takes in parts is reported with
//! `handle_written`, and the next is taken when it is gone.

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::process::{Child, Command};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_proto::adapter::{self, ClientDriver, SystemClock};
use mcp_proto::front::ClientHandlers;
use mcp_proto::peer::client::{ClientConfig, LinkAction};
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Implementation};

/// The input that one frame handles, in blocks of 64 KiB: the rest waits for the next frames.
const BLOCKS: usize = 4;

struct Connection {
    driver: ClientDriver<StreamClient>,
    socket: UnixStream,
    child: Child,
    buffer: Vec<u8>,
    /// The bytes that the socket has not taken yet.
    unwritten: Vec<u8>,
    /// Whether the output ends after that.
    is_ending: bool,
}

impl Connection {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        for _ in 0..BLOCKS {
            match self.socket.read(&mut self.buffer) {
                Ok(count @ 1..) => {
                    let input = Bytes::copy_from_slice(&self.buffer[..count]);
                    self.driver.lock(|machine, now| machine.handle_input(now, input));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => {
                    self.driver.lock(|machine, now| machine.handle_eof(now, "the server has ended"));
                    break;
                }
            }
        }
        loop {
            while !self.unwritten.is_empty() {
                match self.socket.write(&self.unwritten) {
                    Ok(count) => self.unwritten.drain(..count),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                self.driver.lock(|machine, now| machine.handle_written(now));
            }
            let unwritten = &mut self.unwritten;
            let polled = self.driver.poll(cx, |machine, now| {
                machine.handle_timeout(now);
                let action = machine.poll_link();
                let has_output = unwritten.is_empty() && machine.poll_transmit(unwritten);
                if action.is_some() || has_output { Poll::Ready(action) } else { Poll::Pending }
            });
            match polled {
                Poll::Ready(Some(LinkAction::Open)) => {
                    self.driver.lock(|machine, now| machine.handle_open(now))
                }
                Poll::Ready(Some(LinkAction::CloseWrite)) => self.is_ending = true,
                Poll::Ready(Some(LinkAction::Abort)) => self.child.kill()?,
                Poll::Ready(None) => {}
                Poll::Pending => break,
            }
        }
        if self.is_ending && self.unwritten.is_empty() {
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        if self.driver.closed().is_some() && self.child.try_wait()?.is_some() {
            self.driver.handle_link_down();
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("usage: frames PROGRAM [ARGUMENT…]")?;
    // The child's input and output are one end of a socket: pipes of std cannot be read without waiting.
    let (socket, end) = UnixStream::pair()?;
    socket.set_nonblocking(true)?;
    let (input, output) = (OwnedFd::from(end.try_clone()?), OwnedFd::from(end));
    let child = Command::new(program).args(arguments).stdin(input).stdout(output).spawn()?;

    let machine = StreamClient::new(ClientConfig::new(Implementation::new("frames", "1.0.0")));
    let (client, driver) = adapter::client(machine, Arc::new(SystemClock::new()), ClientHandlers::new());
    let mut connection =
        Connection { driver, socket, child, buffer: vec![0; 65536], unwritten: vec![], is_ending: false };
    let mut quest = pin!(async {
        let sum = client.call_tool("add", serde_json::json!({ "a": 2, "b": 3 })).await?;
        adapters::check(&client).await?;
        client.close().await;
        Ok::<_, Box<dyn Error>>(sum)
    });
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        connection.poll_frame(&mut cx)?;
        if let Poll::Ready(sum) = quest.as_mut().poll(&mut cx) {
            println!("{}", sum?.text_content());
            return Ok(());
        }
        // Here a game moves and draws its world, and then waits for the screen.
        std::thread::sleep(Duration::from_millis(16));
    }
}
