//! This process's own standard input and output, for a server that communicates over them.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_lite::AsyncRead;

use crate::RuntimeKind;
use crate::io::write_until_closed;
use crate::threaded::{ThreadReader, ThreadWriter};

/// This process's standard input.
#[derive(Debug)]
pub struct Stdin(os::Source);

/// This process's standard output.
#[derive(Debug)]
pub struct Stdout(Option<os::Sink>);

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes this process's standard input and output exclusively for the protocol.
///
/// A server must write only messages to its standard output, yet any library may `println!`, and any program
/// started by a handler inherits both streams. So on Unix this function redirects descriptor 1 to standard error
/// and descriptor 0 to `/dev/null`: printed text is logged, a child process cannot swallow requests, and the
/// returned streams lead where the descriptors led before. To leave the descriptors alone use [`stdio_shared`];
/// on Windows both functions do the same.
///
/// Input that was read through [`std::io::stdin`] before, and so may have been buffered there, is lost to the
/// stream returned.
///
/// # How they are read and written
///
/// Pipes (Linux) and sockets (Unix) are polled, as all other I/O in this crate. Setting the descriptors themselves
/// non-blocking would affect the parent process, which shares them, even after this process has ended. So on Linux
/// the crate opens a pipe a second time through `/proc`, and it reads and writes sockets with a flag not to block in
/// each call. Files, terminals and other descriptors that cannot be polled, pipes on other systems or without access
/// to `/proc`, and everything on Windows go through a thread each, which costs a thread switch per read and write.
///
/// Specification 2026-07-28, basic/transports/stdio.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if the streams are already taken; otherwise the system's.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let (stdin, stdout) = mcp_smol::stdio()?;
/// let io = mcp_smol::Io::new(stdin, stdout);
/// println!("this goes to standard error");
/// # Ok(())
/// # }
/// ```
pub fn stdio() -> io::Result<(Stdin, Stdout)> {
    stdio_on(RuntimeKind::default())
}

/// [`stdio`] on a runtime.
pub(crate) fn stdio_on(runtime: RuntimeKind) -> io::Result<(Stdin, Stdout)> {
    take(|| {
        let streams = open_on(runtime)?;
        os::redirect()?;
        Ok(streams)
    })
}

/// Takes the descriptors like [`stdio`], to use them without a runtime.
#[cfg(all(unix, feature = "server"))]
pub(crate) fn stdio_descriptors() -> io::Result<os::Descriptors> {
    take(|| {
        let descriptors = os::open()?;
        os::redirect()?;
        Ok(descriptors)
    })
}

/// Like [`stdio`], but leaves the descriptors 0 and 1 in place.
///
/// No other code may use them: a stray `println!` corrupts the conversation.
///
/// # Errors
///
/// As [`stdio`].
pub fn stdio_shared() -> io::Result<(Stdin, Stdout)> {
    take(|| open_on(RuntimeKind::default()))
}

fn open_on(runtime: RuntimeKind) -> io::Result<(Stdin, Stdout)> {
    runtime.start()?;
    let (source, sink) = os::streams(os::open()?, runtime)?;
    Ok((Stdin(source), Stdout(Some(sink))))
}

fn take<T>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if TAKEN.swap(true, Ordering::AcqRel) {
        let error = "standard input and output are already taken";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, error));
    }
    open().inspect_err(|_| TAKEN.store(false, Ordering::Release))
}

impl AsyncRead for Stdin {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

// The client sees the end of the output, unless another process shares it.
write_until_closed!(Stdout);

/// Non-blocking use of descriptors whose flags other processes share.
#[cfg(unix)]
pub(crate) mod os {
    use std::fs::File;
    use std::os::fd::{BorrowedFd, OwnedFd};

    use futures_lite::AsyncWrite;
    use rustix::fs::{FileType, Mode, OFlags};
    use rustix::net::{RecvFlags, SendFlags};

    use super::*;
    use crate::watch::{Direction, Watch};

    /// Descriptors below this are the standard streams, which other code uses by number.
    const FIRST_OTHER: i32 = 3;

    /// This process's own copy of the descriptor of a standard stream.
    #[derive(Debug)]
    pub(crate) struct Descriptor {
        pub(crate) fd: OwnedFd,
        pub(crate) kind: Kind,
    }

    /// How a descriptor is used without setting the flags that it shares with other processes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Kind {
        /// A pipe opened a second time, so non-blocking only for this process.
        Pipe,
        /// Each call carries a flag not to block.
        Socket,
        /// Operations block.
        Other,
    }

    /// One direction of a standard stream.
    #[derive(Debug)]
    pub(super) enum Channel<T> {
        Watched(Watch, Kind),
        /// Blocks a thread.
        Threaded(T),
    }

    pub(super) type Source = Channel<ThreadReader<File>>;
    pub(super) type Sink = Channel<ThreadWriter<File>>;

    pub(crate) type Descriptors = (Descriptor, Descriptor);

    /// Opens standard input and output.
    pub(super) fn open() -> io::Result<Descriptors> {
        let stdin = descriptor(rustix::stdio::stdin(), OFlags::RDONLY)?;
        Ok((stdin, descriptor(rustix::stdio::stdout(), OFlags::WRONLY)?))
    }

    /// Makes streams of the descriptors, on a runtime.
    pub(super) fn streams((stdin, stdout): Descriptors, runtime: RuntimeKind) -> io::Result<(Source, Sink)> {
        let source = channel(stdin, runtime, Direction::Read, ThreadReader::new)?;
        Ok((source, channel(stdout, runtime, Direction::Write, ThreadWriter::new)?))
    }

    fn channel<T>(
        descriptor: Descriptor,
        runtime: RuntimeKind,
        direction: Direction,
        threaded: impl FnOnce(File) -> T,
    ) -> io::Result<Channel<T>> {
        let Descriptor { fd, kind } = descriptor;
        Ok(match kind {
            Kind::Pipe | Kind::Socket => Channel::Watched(Watch::new(runtime, fd, direction)?, kind),
            Kind::Other => Channel::Threaded(threaded(File::from(fd))),
        })
    }

    /// Redirects descriptors 0 and 1 to `/dev/null` and standard error.
    //= S2.1 "Only MCP messages on stdout"
    //= S2.1 "logs to stderr"
    pub(super) fn redirect() -> io::Result<()> {
        let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(nothing)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(())
    }

    fn descriptor(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<Descriptor> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
        if kind == FileType::Fifo
            && let Some(fd) = reopen(fd, access)
        {
            return Ok(Descriptor { fd, kind: Kind::Pipe });
        }
        let fd = rustix::io::fcntl_dupfd_cloexec(fd, FIRST_OTHER)?;
        let kind = if kind == FileType::Socket { Kind::Socket } else { Kind::Other };
        Ok(Descriptor { fd, kind })
    }

    /// Opens the same pipe again, with flags of its own. Fails if it belongs to another user, or if its other end is
    /// closed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
        use std::os::fd::AsRawFd as _;

        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Not possible here: opening `/dev/fd` on these systems shares the flags.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn reopen(_: BorrowedFd<'_>, _: OFlags) -> Option<OwnedFd> {
        None
    }

    /// Reads once, without blocking if the kind of descriptor allows that.
    pub(crate) fn read(fd: BorrowedFd<'_>, kind: Kind, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match kind {
            Kind::Pipe | Kind::Other => rustix::io::read(fd, buffer),
            Kind::Socket => Ok(rustix::net::recv(fd, buffer, RecvFlags::DONTWAIT)?.1),
        }
    }

    /// Writes once, without blocking if the kind of descriptor allows that.
    pub(crate) fn write(fd: BorrowedFd<'_>, kind: Kind, bytes: &[u8]) -> rustix::io::Result<usize> {
        match kind {
            Kind::Pipe | Kind::Other => rustix::io::write(fd, bytes),
            Kind::Socket => rustix::net::send(fd, bytes, SendFlags::DONTWAIT),
        }
    }

    impl AsyncRead for Source {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            match &mut *self {
                Self::Watched(watch, kind) => {
                    watch.poll_with(cx, buffer.len(), |fd| read(fd, *kind, &mut *buffer))
                }
                Self::Threaded(reader) => Pin::new(reader).poll_read(cx, buffer),
            }
        }
    }

    impl AsyncWrite for Sink {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            match &mut *self {
                Self::Watched(watch, kind) => watch.poll_with(cx, bytes.len(), |fd| write(fd, *kind, bytes)),
                Self::Threaded(writer) => Pin::new(writer).poll_write(cx, bytes),
            }
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            match &mut *self {
                // Neither pipes nor sockets are buffered.
                Self::Watched(..) => Poll::Ready(Ok(())),
                Self::Threaded(writer) => Pin::new(writer).poll_flush(cx),
            }
        }

        /// Dropping closes it. Shutting a socket down would end it for every process that shares it.
        fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }
}

/// The standard streams through threads, without redirection, for which there is no safe function. Tested under Wine.
#[cfg(windows)]
mod os {
    use super::*;

    pub(super) type Source = ThreadReader<io::Stdin>;
    pub(super) type Sink = ThreadWriter<io::Stdout>;

    pub(crate) type Descriptors = ();

    pub(super) fn open() -> io::Result<Descriptors> {
        Ok(())
    }

    pub(super) fn streams((): Descriptors, _: RuntimeKind) -> io::Result<(Source, Sink)> {
        Ok((ThreadReader::new(io::stdin()), ThreadWriter::new(io::stdout())))
    }

    pub(super) fn redirect() -> io::Result<()> {
        Ok(())
    }
}
