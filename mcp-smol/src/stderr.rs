//! A child's standard error: always drained, its end buffered, readable as a stream of lines.

mod ring;

use std::io;
use std::pin::Pin;
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_lite::Stream;

use os::Drain;
use ring::Ring;

use crate::RuntimeKind;

/// The end of a child's standard error.
///
/// The thread that waits for I/O on behalf of the process (that of smol's `block_on`, or the `async-io` thread) reads
/// the pipe as soon as it has data, whether or not any task polls or holds a handle of the child. So a child that
/// floods its standard error never blocks on it, and no task or thread is spawned for it. (On
/// tokio, a task of the runtime reads it; on Windows, where such pipes cannot be polled, a thread.) Memory stays within [`Command::stderr_bytes`].
///
/// Servers log to standard error, so output there does not mean a failure; it is worth quoting after another
/// operation has failed. (Specification 2026-07-28, basic/transports/stdio.)
///
/// Clones share one buffer. It outlives the child, so the last output of a dead child can still be read.
///
/// [`Command::stderr_bytes`]: crate::Command::stderr_bytes
#[derive(Clone)]
pub struct Stderr {
    ring: Arc<Mutex<Ring>>,
    drain: Drain,
}

impl Stderr {
    pub(crate) fn new(runtime: RuntimeKind, pipe: ChildStderr, capacity: usize) -> io::Result<Self> {
        let ring = Arc::new(Mutex::new(Ring::new(capacity)));
        let drain = Drain::new(runtime, pipe, ring.clone())?;
        Ok(Self { ring, drain })
    }

    //= K8 "A bounded end of standard error is kept"
    /// The last output: at most [`Command::stderr_bytes`] bytes, from the beginning of a line if one begins there,
    /// with invalid UTF-8 replaced and `\r\n` as `\n`.
    ///
    /// [`Command::stderr_bytes`]: crate::Command::stderr_bytes
    #[must_use]
    pub fn tail(&self) -> String {
        // The child's last output may still be in the pipe.
        self.drain.catch_up();
        lock(&self.ring).tail()
    }

    /// A stream of lines, beginning with those in the buffer; ends when the child and all processes that share its
    /// standard error have closed it.
    ///
    /// The stream reads from the same buffer as [`tail`](Self::tail): a slow reader costs no memory and delays no
    /// other, but misses the oldest lines, and [`StderrLine::lost`] counts their bytes. Several streams do not
    /// disturb one another.
    ///
    /// ```no_run
    /// use futures_lite::StreamExt as _;
    ///
    /// # async fn example(child: mcp_smol::Child) {
    /// let mut lines = child.process.stderr().lines();
    /// while let Some(line) = lines.next().await {
    ///     eprintln!("server: {}", line.text);
    /// }
    /// # }
    /// ```
    pub fn lines(&self) -> StderrLines {
        let (reader, position) = lock(&self.ring).add_reader();
        StderrLines { stderr: self.clone(), reader, position }
    }
}

debug_fields! { Stderr {} }

/// One line of a child's standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StderrLine {
    /// The line without its end, invalid UTF-8 replaced. A line longer than half of the buffer is split into
    /// pieces.
    pub text: String,
    /// How many bytes just before this line were lost because this reader was too slow. If not zero, the beginning
    /// of the line may be among them.
    pub lost: u64,
    /// Whether this is a piece, and the line goes on in the next one.
    pub goes_on: bool,
}

/// The stream of lines of [`Stderr::lines`].
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct StderrLines {
    stderr: Stderr,
    reader: u64,
    position: u64,
}

impl Stream for StderrLines {
    type Item = StderrLine;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StderrLine>> {
        let this = &mut *self;
        lock(&this.stderr.ring).poll_line(this.reader, &mut this.position, cx)
    }
}

impl Drop for StderrLines {
    fn drop(&mut self) {
        let waker = lock(&self.stderr.ring).remove_reader(self.reader);
        drop(waker);
    }
}

/// A poisoned lock is usable: no code under these locks can panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
mod os {
    #[cfg(feature = "smol")]
    use std::sync::Weak;
    use std::task::{Context, Poll};
    #[cfg(feature = "smol")]
    use std::task::{Wake, Waker};

    use futures_lite::AsyncRead as _;

    use super::*;
    use crate::watch::{Direction, Watch};

    /// Large enough to take short output in one read, small enough for the stack.
    const CHUNK: usize = 8 * 1024;
    /// Reads before the thread that waits for I/O returns to its other work; together a whole pipe of the usual
    /// 64 KiB.
    const READS: usize = 8;

    /// The pipe, which is read whenever it is readable: by a waker on async-io, without a task; by a task on tokio.
    #[derive(Clone)]
    pub(super) struct Drain(Arc<Source>);

    struct Source {
        pipe: Mutex<Option<Watch>>,
        ring: Arc<Mutex<Ring>>,
        /// The only waker used: a pipe's readiness has room for one, and a second would displace it.
        #[cfg(feature = "smol")]
        waker: Waker,
        #[cfg(feature = "tokio")]
        task: Mutex<Option<tokio::task::AbortHandle>>,
    }

    /// Weak, as the pipe holds its waker: the descriptor is closed with the last handle.
    #[cfg(feature = "smol")]
    struct Readable(Weak<Source>);

    #[cfg(feature = "smol")]
    impl Wake for Readable {
        fn wake(self: Arc<Self>) {
            if let Some(source) = self.0.upgrade() {
                source.read_and_watch();
            }
        }
    }

    impl Drain {
        pub(super) fn new(
            runtime: RuntimeKind,
            pipe: ChildStderr,
            ring: Arc<Mutex<Ring>>,
        ) -> io::Result<Self> {
            let pipe = Mutex::new(Some(Watch::nonblocking(runtime, pipe.into(), Direction::Read)?));
            #[cfg_attr(not(feature = "smol"), expect(unused_variables))]
            let source = Arc::new_cyclic(|source| Source {
                pipe,
                ring,
                #[cfg(feature = "smol")]
                waker: Waker::from(Arc::new(Readable(source.clone()))),
                #[cfg(feature = "tokio")]
                task: Mutex::default(),
            });
            match runtime {
                #[cfg(feature = "smol")]
                RuntimeKind::Smol => source.read_and_watch(),
                #[cfg(feature = "tokio")]
                RuntimeKind::Tokio => {
                    let weak = Arc::downgrade(&source);
                    let drained = std::future::poll_fn(move |cx| match weak.upgrade() {
                        Some(source) => source.poll_drained(cx),
                        None => Poll::Ready(()),
                    });
                    *lock(&source.task) = Some(tokio::spawn(drained).abort_handle());
                }
            }
            Ok(Self(source))
        }

        /// Reads the available bytes, for which the reactor may not have called the waker yet.
        pub(super) fn catch_up(&self) {
            let _ = self.0.read(|pipe, chunk| match rustix::io::read(pipe.fd(), chunk) {
                Err(rustix::io::Errno::AGAIN) => Poll::Pending,
                read => Poll::Ready(read.map_err(io::Error::from)),
            });
        }
    }

    impl Source {
        /// Reads the available bytes, without blocking, and registers the waker for more.
        #[cfg(feature = "smol")]
        fn read_and_watch(&self) {
            let mut cx = Context::from_waker(&self.waker);
            if self.read(|pipe, chunk| Pin::new(pipe).poll_read(&mut cx, chunk)).is_pending() {
                return;
            }
            // More is available. The next event comes at once, but only once the waker is registered, and that happens
            // only after the current event, which is already past, has been consumed.
            while let Some(pipe) = lock(&self.pipe).as_mut()
                && let Poll::Ready(Ok(())) = pipe.poll_ready(&mut cx)
            {}
        }

        /// Ready once the pipe has ended.
        #[cfg(feature = "tokio")]
        fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<()> {
            if self.read(|pipe, chunk| Pin::new(pipe).poll_read(cx, chunk)).is_pending() {
                return Poll::Pending;
            }
            if lock(&self.pipe).is_none() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }

        /// Reads by `read` until it is pending, up to a limit. Ready if more may follow at once, or at the end.
        fn read(&self, mut read: impl FnMut(&mut Watch, &mut [u8]) -> Poll<io::Result<usize>>) -> Poll<()> {
            let mut wakers = Vec::new();
            let mut chunk = [0; CHUNK];
            let mut polled = Poll::Ready(());
            {
                let mut pipe = lock(&self.pipe);
                for _ in 0..READS {
                    let Some(source) = pipe.as_mut() else { break };
                    match read(source, &mut chunk) {
                        Poll::Pending => {
                            polled = Poll::Pending;
                            break;
                        }
                        Poll::Ready(Ok(length @ 1..)) => {
                            wakers
                                .append(&mut lock(&self.ring).push(chunk.get(..length).unwrap_or_default()));
                        }
                        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                        Poll::Ready(Ok(0) | Err(_)) => {
                            *pipe = None;
                            wakers.append(&mut lock(&self.ring).close());
                        }
                    }
                }
            }
            for (_, waker) in wakers {
                waker.wake();
            }
            polled
        }
    }

    #[cfg(feature = "tokio")]
    impl Drop for Source {
        fn drop(&mut self) {
            if let Some(task) = lock(&self.task).take() {
                task.abort();
            }
        }
    }
}

#[cfg(windows)]
mod os {
    use std::io::Read as _;
    use std::thread;

    use super::*;

    #[derive(Clone)]
    pub(super) struct Drain;

    impl Drain {
        pub(super) fn new(_: RuntimeKind, mut pipe: ChildStderr, ring: Arc<Mutex<Ring>>) -> io::Result<Self> {
            let read = move || {
                let mut chunk = [0; 8 * 1024];
                loop {
                    let wakers = match pipe.read(&mut chunk) {
                        Ok(0) => break,
                        Ok(length) => lock(&ring).push(chunk.get(..length).unwrap_or_default()),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(_) => break,
                    };
                    wakers.into_iter().for_each(|(_, waker)| waker.wake());
                }
                let wakers = lock(&ring).close();
                wakers.into_iter().for_each(|(_, waker)| waker.wake());
            };
            thread::Builder::new().name("mcp-stderr".into()).spawn(read)?;
            Ok(Self)
        }

        /// Does nothing: the thread is behind by at most its wake-up time.
        pub(super) fn catch_up(&self) {}
    }
}
