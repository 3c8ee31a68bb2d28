//! A server that owns its thread, without a runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mcp_proto::adapter::{Clock as _, ServeError};
use mcp_proto::front::{HandlerMode, SendHandlers, ServedRouter, ServerHandle};

use super::{Connection, ServerOptions};

/// Polls of work that has woken itself, before the thread looks for input again.
const POLLS: usize = 16;

/// Serves this process's standard input and output on this thread until the client closes them, without a runtime. This
/// is all of a server's `main`:
///
/// ```no_run
/// use mcp_smol::mcp_proto::front::{NoArguments, Router};
/// use mcp_smol::mcp_proto::schema::{Json, Tool};
///
/// fn main() -> Result<(), mcp_smol::ServeError> {
///     let tool = Tool::new("whoami", "Tells the name of the server", Json::empty_object());
///     mcp_smol::run_stdio(Router::new("host", "1.0.0").tool_with(tool, async |NoArguments {}, _| "host"))
/// }
/// ```
///
/// It behaves as [`serve_stdio`](crate::serve_stdio) does, and needs three system calls per request where that needs
/// eight: one wait, one read and one write. Handlers run on this thread. They may wait for whatever wakes them from
/// another thread, such as a channel, or async-io's timers and sockets, which use a thread of their own; those of tokio
/// work only inside of a tokio runtime.
///
/// # Errors
///
/// Those of [`ServerDriver`](crate::ServerDriver), and those of [`stdio`](crate::stdio()) if standard input and output
/// cannot be taken.
pub fn run_stdio<H: HandlerMode>(router: impl Into<ServedRouter<H>>) -> Result<(), ServeError> {
    let (_, server) = ServerOptions::new(router).blocking_stdio()?;
    server.run()
}

/// A server on this process's standard streams, made by
/// [`ServerOptions::blocking_stdio`](crate::ServerOptions::blocking_stdio). Dropping it ends the connection.
#[must_use = "nothing happens unless the server runs"]
pub struct StdioServer<H: HandlerMode = SendHandlers>(Connection<os::Reader, os::Writer, H>);

impl<H: HandlerMode> StdioServer<H> {
    pub(super) fn start(options: ServerOptions<H>) -> io::Result<(ServerHandle, Self)> {
        let (reader, writer) = os::streams()?;
        let (handle, connection) = Connection::new(options, reader, writer);
        Ok((handle, Self(connection)))
    }

    /// Serves until the client or the [`ServerHandle`] closes the connection; see [`run_stdio`].
    ///
    /// # Errors
    ///
    /// Those of [`ServerDriver`](crate::ServerDriver).
    pub fn run(self) -> Result<(), ServeError> {
        let mut connection = self.0;
        let sleeper = Arc::new(Sleeper { state: AtomicU8::new(POLLING), bell: os::Bell::new()? });
        let waker = Waker::from(sleeper.clone());
        loop {
            for _ in 0..POLLS {
                // Forgets wakes before now.
                sleeper.state.store(POLLING, Ordering::SeqCst);
                if let Poll::Ready(result) = connection.poll(&mut Context::from_waker(&waker), &waker) {
                    return Ok(result?);
                }
                if sleeper.state.load(Ordering::SeqCst) != WOKEN {
                    break;
                }
            }
            let left =
                connection.deadline().map(|deadline| deadline.saturating_since(connection.clock.now()));
            sleeper.sleep(connection.pump.streams(), left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP))?;
        }
    }
}

debug_fields! { [H: HandlerMode] StdioServer<H>(self) { front = self.0.front } }

/// How long a sleep lasts at most, so that its length fits the system's types.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

const POLLING: u8 = 0;
const SLEEPING: u8 = 1;
const WOKEN: u8 = 2;

/// The sleep of a thread, which ends when one of its streams is ready, when it is woken, or with time.
struct Sleeper {
    state: AtomicU8,
    bell: os::Bell,
}

impl Sleeper {
    /// Sleeps for `time` at most, and not at all if woken since it began polling.
    fn sleep(&self, streams: (&mut os::Reader, &mut os::Writer), time: Duration) -> io::Result<()> {
        let is_woken =
            self.state.compare_exchange(POLLING, SLEEPING, Ordering::SeqCst, Ordering::SeqCst).is_err();
        self.bell.wait(streams, if is_woken { Duration::ZERO } else { time })
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == SLEEPING {
            self.bell.ring();
        }
    }
}

/// Waits for standard input, standard output and wakes of other threads by one `poll`.
#[cfg(unix)]
mod os {
    use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
    use std::pin::Pin;

    use futures_lite::{AsyncRead, AsyncWrite};
    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::io::Errno;

    use super::*;
    use crate::stdio::os::{Descriptor, Kind, read, write};
    use crate::stdio::stdio_descriptors;

    /// A write of this size does not block on a pipe that is ready for writing: `PIPE_BUF` of Linux, and that of POSIX.
    const SMALL_WRITE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

    pub(super) fn streams() -> io::Result<(Reader, Writer)> {
        let (stdin, stdout) = stdio_descriptors()?;
        Ok((Reader(Stream::new(stdin)), Writer(Some(Stream::new(stdout)))))
    }

    /// Standard input.
    pub(in super::super) struct Reader(Stream);

    /// Standard output; `None` once it is closed.
    pub(in super::super) struct Writer(Option<Stream>);

    struct Stream {
        descriptor: Descriptor,
        /// Whether the next operation need not wait for [`Bell::wait`].
        is_ready: bool,
        /// Whether an operation waits.
        is_awaited: bool,
    }

    impl Stream {
        fn new(descriptor: Descriptor) -> Self {
            Self { descriptor, is_ready: false, is_awaited: false }
        }

        /// The stream, if an operation waits for it, which is then no longer noted.
        fn take_wait(&mut self) -> Option<&mut Self> {
            std::mem::take(&mut self.is_awaited).then_some(self)
        }

        /// Notes whether the awaited operation can be tried again.
        fn note(&mut self, is_ready: bool) {
            self.is_ready |= is_ready;
            self.is_awaited = !is_ready;
        }

        /// Runs an operation on up to `most` bytes, if the descriptor is ready.
        fn poll_with(
            &mut self,
            most: usize,
            mut operate: impl FnMut(BorrowedFd<'_>, Kind) -> rustix::io::Result<usize>,
        ) -> Poll<io::Result<usize>> {
            while self.is_ready {
                let result = operate(self.descriptor.fd.as_fd(), self.descriptor.kind);
                self.is_ready =
                    self.descriptor.kind != Kind::Other && result.is_ok_and(|length| length == most);
                match result {
                    Err(Errno::INTR) => self.is_ready = true,
                    Err(Errno::AGAIN) => {}
                    result => return Poll::Ready(result.map_err(io::Error::from)),
                }
            }
            self.is_awaited = true;
            Poll::Pending
        }
    }

    impl AsyncRead for Reader {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.0.poll_with(buffer.len(), |fd, kind| read(fd, kind, &mut *buffer))
        }
    }

    impl AsyncWrite for Writer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let Some(stream) = &mut self.0 else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
            let bytes = match stream.descriptor.kind {
                Kind::Other => bytes.get(..SMALL_WRITE).unwrap_or(bytes),
                Kind::Pipe | Kind::Socket => {
                    // Trying costs less than asking first.
                    stream.is_ready |= !stream.is_awaited;
                    bytes
                }
            };
            stream.poll_with(bytes.len(), |fd, kind| write(fd, kind, bytes))
        }

        /// Does nothing: descriptors are not buffered.
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0 = None;
            Poll::Ready(Ok(()))
        }
    }

    /// Waits for events of a stream; without one, for no event of the spare descriptor.
    fn watch<'a>(stream: Option<&'a Stream>, events: PollFlags, spare: BorrowedFd<'a>) -> PollFd<'a> {
        match stream {
            Some(stream) => PollFd::from_borrowed_fd(stream.descriptor.fd.as_fd(), events),
            None => PollFd::from_borrowed_fd(spare, PollFlags::empty()),
        }
    }

    /// A descriptor that becomes readable when it is rung.
    pub(super) struct Bell {
        listener: OwnedFd,
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        ringer: OwnedFd,
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            use rustix::event::{EventfdFlags, eventfd};

            Ok(Self { listener: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
        }

        pub(super) fn ring(&self) {
            // Fails only if it was rung 2⁶⁴ times.
            let _ = rustix::io::write(&self.listener, &1_u64.to_ne_bytes());
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            let (listener, ringer) = rustix::pipe::pipe()?;
            for end in [&listener, &ringer] {
                rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(end, true)?;
            }
            Ok(Self { listener, ringer })
        }

        pub(super) fn ring(&self) {
            // Fails if it was rung so often that the pipe is full.
            let _ = rustix::io::write(&self.ringer, &[1]);
        }
    }

    impl Bell {
        /// Waits until a stream is ready, until it is rung, or with time.
        pub(super) fn wait(
            &self,
            (reader, writer): (&mut Reader, &mut Writer),
            time: Duration,
        ) -> io::Result<()> {
            let (input, output) = (reader.0.take_wait(), writer.0.as_mut().and_then(Stream::take_wait));
            let bell = self.listener.as_fd();
            let mut events = [
                PollFd::from_borrowed_fd(bell, PollFlags::IN),
                watch(input.as_deref(), PollFlags::IN, bell),
                watch(output.as_deref(), PollFlags::OUT, bell),
            ];
            match rustix::event::poll(&mut events, Timespec::try_from(time).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [is_rung, input_ready, output_ready] = events.map(|event| !event.revents().is_empty());
            if is_rung {
                let _ = rustix::io::read(&self.listener, &mut [0; 64][..]);
            }
            if let Some(input) = input {
                input.note(input_ready);
            }
            if let Some(output) = output {
                output.note(output_ready);
            }
            Ok(())
        }
    }
}

/// Standard input and output through threads, which wake this one. Tested under Wine.
#[cfg(windows)]
mod os {
    use std::thread::{self, Thread};

    use super::*;
    use crate::stdio::stdio;
    use crate::{Stdin, Stdout};

    pub(super) type Reader = Stdin;
    pub(super) type Writer = Stdout;

    pub(super) fn streams() -> io::Result<(Reader, Writer)> {
        stdio()
    }

    /// Wakes the thread that made it.
    pub(super) struct Bell(Thread);

    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(thread::current()))
        }

        pub(super) fn ring(&self) {
            self.0.unpark();
        }

        /// Waits until it is rung, or with time.
        pub(super) fn wait(&self, _: (&mut Reader, &mut Writer), time: Duration) -> io::Result<()> {
            thread::park_timeout(time);
            Ok(())
        }
    }
}
