//! A child's standard error: always drained, its end kept, readable as a stream of lines.

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

/// The last of what a child wrote to its standard error.
///
/// The pipe is read whenever something is in it, by whichever thread waits for I/O on behalf of the process
/// (that of smol's `block_on`, or the `async-io` thread), whether or not anybody polls or keeps anything of
/// the child. So a child that floods its standard error never blocks on it, and no task or thread is spawned
/// for it. (On Windows, where such pipes cannot be polled, a thread reads it.) Memory stays within
/// [`Command::stderr_bytes`].
///
/// Servers log to standard error, so output there is no sign of a failure; it is worth quoting once
/// something else has failed. (Specification 2026-07-28, basic/transports/stdio.)
///
/// Clones share one buffer. It outlives the child, and so can be asked for the last words of a dead one.
///
/// [`Command::stderr_bytes`]: crate::Command::stderr_bytes
#[derive(Clone)]
pub struct Stderr {
    ring: Arc<Mutex<Ring>>,
    drain: Drain,
}

impl Stderr {
    pub(crate) fn new(pipe: ChildStderr, capacity: usize) -> io::Result<Self> {
        let ring = Arc::new(Mutex::new(Ring::new(capacity)));
        let drain = Drain::new(pipe, ring.clone())?;
        Ok(Self { ring, drain })
    }

    /// What was written last: at most [`Command::stderr_bytes`] bytes, from the beginning of a line where
    /// there is one, with invalid UTF-8 replaced.
    ///
    /// [`Command::stderr_bytes`]: crate::Command::stderr_bytes
    #[must_use]
    pub fn tail(&self) -> String {
        // What a child wrote just before it died may still be in the pipe.
        self.drain.catch_up();
        lock(&self.ring).tail()
    }

    /// The lines as they come, beginning with what is still kept; ends when the child and all that share its
    /// standard error have closed it.
    ///
    /// The stream reads from the same buffer as [`tail`](Self::tail): a slow reader costs no memory and
    /// delays nobody, but loses the oldest, and is told how much. Several streams do not disturb one another.
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

/// One line that a child wrote to its standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StderrLine {
    /// The line without its end, invalid UTF-8 replaced. A line longer than half of what is kept comes in
    /// pieces.
    pub text: String,
    /// How many bytes were lost just before it because this reader was too slow; if any, its beginning may be
    /// among them.
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

/// Nothing under these locks can panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
