//! A child's standard error: always drained, its end buffered, readable as a stream of lines.

mod drain;
mod ring;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_lite::Stream;

use drain::Drain;
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

    /// The last output: at most [`Command::stderr_bytes`] bytes, from the beginning of a line if one begins there,
    /// with invalid UTF-8 replaced.
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

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stderr").finish_non_exhaustive()
    }
}

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
