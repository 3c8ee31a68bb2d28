//! Write your own adapter: what a driver owes the machine, in order, and the mistakes to avoid.
//!
//! The crates `mcp-smol` and `mcp-hyper` are adapters whose drivers run under any executor. Write your own where their
//! I/O does not fit: on threads, on completion I/O, in the frame loop of a game, without an operating system.
//!
//! # Three levels
//!
//! | You have | Drive |
//! |---|---|
//! | an executor of your own | the drivers of `mcp-smol` and `mcp-hyper`: futures that any executor polls |
//! | I/O of your own | a [`ClientDriver`](super::ClientDriver) or [`ServerDriver`](super::ServerDriver), for the handles and routers of [`front`](crate::front) |
//! | no `async`, or no `std` | a machine of [`transport`](crate::transport): commands in, events out |
//!
//! The lower two owe the machine the same, as a driver lends it to the adapter.
//!
//! # What the driver owes the machine
//!
//! 1. **A clock** that starts anywhere and does not go backwards; all readings on a connection come from it.
//!    [`SystemClock`](super::SystemClock) is one.
//! 2. **The link.** It opens the link when `poll_link` says so, and reports that by `handle_open` or `handle_open_failed`.
//!    A server's link is open from the start.
//! 3. **Input**, as it arrives and in pieces of any size, by `handle_input`. Every byte of it, in order, and then the end
//!    by `handle_eof`, with what is known of its reason: an exit status, the end of the standard error. While
//!    [`wants_read`](crate::transport::Transport::wants_read) is `false` it does not read.
//! 4. **Output.** It polls all of the outputs again until none of them has anything, and only then waits.
//! 5. **Time.** It sleeps until [`poll_timeout`](crate::transport::Transport::poll_timeout) at most, and then calls
//!    `handle_timeout`. A call too early does nothing.
//! 6. **One block at a time.** It calls `poll_transmit` again when the last block is written, and `handle_written` when a
//!    part of it is: a peer that reads nothing ends the connection, one that reads slowly does not.
//! 7. **The end.** After `CloseWrite` it writes what it still has and closes the output; it goes on reading. After `Abort`
//!    it breaks the link off, whatever it still has. It ends when the machine is closed and has no output left, and calls
//!    [`handle_link_down`](super::ClientDriver::handle_link_down) once all that it has opened is released: the child process has exited.
//! 8. **Randomness**, of servers: an [`Entropy`](super::Entropy) that nobody can guess.
//! 9. **The first poll.** A client's calls sleep by [`set_handle_timer`](super::ClientDriver::set_handle_timer) until the
//!    driver is polled for the first time, so that an application that forgets it learns of that.
//!
//! # Mistakes to avoid
//!
//! | Mistake | Consequence |
//! |---|---|
//! | to wait after a single pass over the outputs | a request that was made during an event is sent late, or never |
//! | to read the deadline before the last command or poll | a timeout fires late: [`next_output`](super::ClientDriver::next_output) compares the two |
//! | to end as soon as `closed` has a reason | the `Abort` that is left over is lost, and the child lives on |
//! | to look for the end only after an output or input | a close that has neither is never noticed |
//! | to write where reading waits for it | deadlock with a peer that writes before it reads |
//! | to take block after block into a queue of one's own | memory without a bound, and no write timeout |
//! | to close the output at `CloseWrite` with a block half written | the last answers are cut off |
//! | to drop a future that reads or writes in parts (`write_all`, completion I/O) | lost bytes: poll it to its end, in a task or a field |
//! | to hand a whole buffer of 64 KiB over for a small message | each value kept of the message keeps the buffer: copy what was read |
//! | to call handles, or to block, inside of `lock` or `poll` | deadlock: both run under the lock of the handles |
//! | to wait for async-io's `poll_readable` alone after a wake | where its reactor has a thread of its own, the event may not count, and nothing is read: [`WakeFlag`](super::WakeFlag) |
//! | to poll a driver only when there is I/O | commands and handlers wake its task: poll it then as well |
//!
//! # A complete adapter
//!
//! A client over any reader and writer, with the sleep of any runtime:
//!
//! ```
//! use std::future::{pending, poll_fn};
//! use std::io;
//! use std::pin::Pin;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
//! use std::task::Poll;
//! use std::time::Duration;
//!
//! use futures_lite::future::or;
//! use futures_lite::{AsyncRead, AsyncWrite, AsyncWriteExt};
//! use mcp_proto::adapter::{self, ClientDriver, Clock, SystemClock};
//! use mcp_proto::front::{Client, ClientHandlers};
//! use mcp_proto::peer::client::{ClientConfig, LinkAction};
//! use mcp_proto::transport::StreamClient;
//! use mcp_proto::{Bytes, Implementation};
//!
//! fn connect<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, S: AsyncFn(Duration)>(
//!     reader: R,
//!     writer: W,
//!     sleep: S,
//! ) -> (Client, impl Future<Output = ()>) {
//!     let clock = Arc::new(SystemClock::new());
//!     let machine = StreamClient::new(ClientConfig::new(Implementation::new("mine", "1.0.0")));
//!     let (client, driver) = adapter::client(machine, clock.clone(), ClientHandlers::new());
//!     (client, drive(driver, clock, reader, writer, sleep))
//! }
//!
//! enum Event {
//!     Output(Option<LinkAction>),
//!     Read(io::Result<usize>),
//!     Written(io::Result<usize>),
//!     Timeout,
//! }
//!
//! async fn drive(
//!     mut driver: ClientDriver<StreamClient>,
//!     clock: Arc<SystemClock>,
//!     mut reader: impl AsyncRead + Unpin,
//!     mut writer: impl AsyncWrite + Unpin,
//!     sleep: impl AsyncFn(Duration),
//! ) {
//!     let (mut buffer, mut block) = (vec![0; 65536], Vec::new());
//!     let (mut is_readable, wants_read, mut is_ending) = (true, AtomicBool::new(true), false);
//!     loop {
//!         let (due, mut next) = (driver.next_timeout(), Vec::new());
//!         let event = {
//!             let output = driver.next_output(due, |machine, _| {
//!                 let action = machine.poll_link();
//!                 let has_block = block.is_empty() && machine.poll_transmit(&mut next);
//!                 wants_read.store(machine.wants_read(), Relaxed);
//!                 (action.is_some() || has_block).then_some(action)
//!             });
//!             // Each future may be dropped: it has moved its bytes, or none.
//!             let output = async { Event::Output(output.await.flatten()) };
//!             // It is polled after the output, which may change whether the machine wants to read.
//!             let read = poll_fn(|cx| match is_readable && wants_read.load(Relaxed) {
//!                 true => Pin::new(&mut reader).poll_read(cx, &mut buffer).map(Event::Read),
//!                 false => Poll::Pending,
//!             });
//!             let write = async {
//!                 if block.is_empty() { pending().await } else { Event::Written(writer.write(&block).await) }
//!             };
//!             let timeout = async {
//!                 let Some(due) = due else { return pending().await };
//!                 sleep(due.saturating_since(clock.now())).await;
//!                 Event::Timeout
//!             };
//!             or(or(output, write), or(read, timeout)).await
//!         };
//!         block.append(&mut next);
//!         match event {
//!             Event::Output(Some(LinkAction::Open)) => driver.lock(|machine, now| machine.handle_open(now)),
//!             Event::Output(Some(LinkAction::CloseWrite)) => is_ending = true,
//!             Event::Output(Some(LinkAction::Abort)) => break,
//!             Event::Output(None) if driver.closed().is_some() => break,
//!             // The next poll handles the timeout.
//!             Event::Output(None) | Event::Timeout => {}
//!             Event::Read(Ok(count @ 1..)) => {
//!                 let input = Bytes::copy_from_slice(&buffer[..count]);
//!                 driver.lock(|machine, now| machine.handle_input(now, input));
//!             }
//!             Event::Read(end) => {
//!                 is_readable = false;
//!                 let detail = end.map_or_else(|error| error.to_string(), |_| String::new());
//!                 driver.lock(|machine, now| machine.handle_eof(now, &detail));
//!             }
//!             Event::Written(Ok(count)) => {
//!                 block.drain(..count);
//!                 driver.lock(|machine, now| machine.handle_written(now));
//!             }
//!             Event::Written(Err(error)) => {
//!                 block.clear();
//!                 driver.lock(|machine, now| machine.handle_eof(now, &error.to_string()));
//!             }
//!         }
//!         if is_ending && block.is_empty() {
//!             is_ending = false;
//!             let _ = writer.close().await;
//!         }
//!     }
//!     // What was opened here is released: the reader and the writer.
//!     drop((reader, writer));
//!     driver.handle_link_down();
//! }
//! # drop(connect::<&[u8], Vec<u8>, fn(Duration) -> std::future::Ready<()>>);
//! ```
//!
//! # Over HTTP
//!
//! A client over HTTP, `transport::http::client::HttpClient`, has `poll_action` in place of
//! `poll_link` and `poll_transmit`. For each `Open` the driver owes it the head of the
//! answer, unless there is none, its body in pieces, and exactly one end. It says whether a request that failed may have
//! reached the server: only one that cannot is sent again. It adds no redirects, cookies, retries or decompression of its
//! own.
//!
//! A server over HTTP has a `front::http::HttpExchange` for each request: its `next_head` and `next_body` wait for the
//! answer, with the sleep of any runtime. Handlers of 2026-07-28 run while these are polled, so that an adapter which
//! only polls when the client wants more also runs them only then. Where the transport reports that the client has gone, the
//! adapter drops the exchange, also while it waits for the next part. `HttpServerDriver::run` drives all sessions; it is
//! polled for as long as the server serves.
//!
//! [`web`](super::web) has both in JavaScript: a client in a web page, and a server in a worker.
//!
//! # Check it
//!
//! `testing::check_transport` (feature `testing`) makes the calls by which an application would notice what a transport does not
//! keep: messages of any content and up to 150 kB, progress in order, calls side by side, cancellation, more bytes in flight than
//! it takes at once, a good end. It needs a client of the transport, whose server serves `testing::transport_router`, and the sleep
//! of any runtime. `check_transport_failure` checks that a crash of the server ends the calls in flight. Child processes on their
//! standard streams, sockets, HTTP/1.1, HTTP/2, WebSocket, `stdio-v2` and `fetch` pass both here; the clients of executors, frame
//! loops, completions and HTTP below pass the first.
//!
//! Calls do not show these: a queue without a bound, a server whose driver is polled only when there is I/O, a server that does
//! not learn of the end.
//!
//! # Adapters to start from
//!
//! Each is at most 120 lines long without comments and blank lines, and run by `.ci/run` against a peer in another
//! process. Those without a folder are in the repository's `tests/adapters/src/bin`.
//!
//! | Program | Lines | What it shows |
//! |---|---:|---|
//! | `threads.rs` | 94 | blocking threads, with `std` alone |
//! | `executor.rs` | 64 | a hand-written executor of one thread |
//! | `local.rs` | 42 | handlers that are not `Send`, on smol's `LocalExecutor` |
//! | `completion.rs` | 100 | completion I/O: compio on io_uring, which owns the buffers |
//! | `frames.rs` | 101 | a frame loop that polls once per frame |
//! | `tests/no_std/src/pipe.rs` | 74 | a byte pipe, with `alloc` alone |
//! | `axum.rs` | 43 | a server inside an axum application |
//! | `hyper_service.rs` | 68 | a server inside a bare hyper service |
//! | `http_client.rs` | 100 | the machine of an HTTP client over hyper-util's pool |
//! | `tests/adapters/web/src/client.rs` | 117 | WebAssembly in a web page: each exchange is a `fetch` |
//! | `tests/adapters/web/src/server.rs` | 85 | WebAssembly on a worker platform: a `Request` in, a `Response` out |
//! | `tokio.rs` | 27 | the features `tokio` of `mcp-smol` and `mcp-hyper` |
//!
//! `tests/editor` is an application, as graphical editors are: the run queue and the timers are its own, and its event loop
//! has a client and a host of three servers in it, programs and a URL.
