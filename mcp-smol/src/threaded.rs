//! Blocking readers and writers on threads of their own, for streams that cannot be polled.

use std::fmt;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use futures_lite::{AsyncRead, AsyncWrite};

/// The largest piece that is handed to or from a thread.
const BLOCK: usize = 64 * 1024;

/// Reads on a thread, which starts with the first read and reads only on demand.
pub(crate) struct ThreadReader<R> {
    handoff: Arc<Handoff>,
    reader: Option<R>,
}

/// Writes on a thread, which starts with the first write.
pub(crate) struct ThreadWriter<W> {
    handoff: Arc<Handoff>,
    writer: Option<W>,
}

/// A buffer that belongs to the task and to the thread in turns.
#[derive(Default)]
struct Handoff {
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    is_threads: bool,
    /// The task has dropped its end.
    is_over: bool,
    buffer: Vec<u8>,
    /// How much of the buffer the task has read.
    read: usize,
    error: Option<io::Error>,
    task: Option<Waker>,
}

impl Handoff {
    /// A poisoned lock is usable: no code under it can panic half-way through a change.
    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the task to give the turn to this task's thread. Ready at once if it is the task's.
    fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<MutexGuard<'_, Turn>> {
        let mut turn = self.lock();
        if turn.is_threads {
            turn.task = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(turn)
    }

    fn give_to_thread(&self, mut turn: MutexGuard<'_, Turn>) {
        turn.is_threads = true;
        drop(turn);
        self.changed.notify_one();
    }

    /// Runs `act` on the buffer whenever it is the thread's turn, until the task has dropped its end.
    fn run(&self, mut act: impl FnMut(&mut Vec<u8>) -> io::Result<()>) {
        loop {
            let mut turn = self.lock();
            while !turn.is_threads {
                if turn.is_over {
                    return;
                }
                turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
            }
            let mut buffer = std::mem::take(&mut turn.buffer);
            drop(turn);
            let acted = act(&mut buffer);
            let mut turn = self.lock();
            turn.buffer = buffer;
            turn.read = 0;
            turn.error = acted.err();
            turn.is_threads = false;
            let task = turn.task.take();
            drop(turn);
            if let Some(task) = task {
                task.wake();
            }
        }
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_one();
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

impl<R> ThreadReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { handoff: Arc::default(), reader: Some(reader) }
    }
}

impl<R: Read + Send + Unpin + 'static> AsyncRead for ThreadReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(mut reader) = self.reader.take() {
            let handoff = self.handoff.clone();
            start("mcp-reader", move || {
                handoff.run(|buffer| {
                    buffer.resize(BLOCK, 0);
                    let length = read(&mut reader, buffer)?;
                    buffer.truncate(length);
                    Ok(())
                });
            })?;
            self.handoff.give_to_thread(self.handoff.lock());
        }
        let mut turn = ready!(self.handoff.poll_turn(cx));
        if let Some(error) = turn.error.take() {
            turn.buffer.clear();
            return Poll::Ready(Err(error));
        }
        let unread = turn.buffer.get(turn.read..).unwrap_or_default();
        let length = unread.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), unread.get(..length)) {
            to.copy_from_slice(from);
        }
        turn.read += length;
        if length == 0 && !buffer.is_empty() && turn.read > 0 {
            turn.task = Some(cx.waker().clone());
            self.handoff.give_to_thread(turn);
            return Poll::Pending;
        }
        Poll::Ready(Ok(length))
    }
}

fn read(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

impl<W> ThreadWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self { handoff: Arc::default(), writer: Some(writer) }
    }
}

impl<W: Write + Send + Unpin + 'static> AsyncWrite for ThreadWriter<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(mut writer) = self.writer.take() {
            let handoff = self.handoff.clone();
            start("mcp-writer", move || {
                handoff.run(|buffer| {
                    let written = writer.write_all(buffer).and_then(|()| writer.flush());
                    buffer.clear();
                    written
                });
            })?;
        }
        let mut turn = ready!(self.handoff.poll_turn(cx));
        if let Some(error) = turn.error.take() {
            return Poll::Ready(Err(error));
        }
        let bytes = bytes.get(..BLOCK).unwrap_or(bytes);
        turn.buffer.extend_from_slice(bytes);
        self.handoff.give_to_thread(turn);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Waits until the thread has written everything.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut turn = ready!(self.handoff.poll_turn(cx));
        Poll::Ready(turn.error.take().map_or(Ok(()), Err))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl<R> Drop for ThreadReader<R> {
    fn drop(&mut self) {
        self.handoff.end();
    }
}

/// What has been accepted is still written, unless the program ends before.
impl<W> Drop for ThreadWriter<W> {
    fn drop(&mut self) {
        self.handoff.end();
    }
}

impl<R> fmt::Debug for ThreadReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadReader").finish_non_exhaustive()
    }
}

impl<W> fmt::Debug for ThreadWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadWriter").finish_non_exhaustive()
    }
}
