//! Blocking readers and writers on threads of their own, for streams that cannot be polled.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use futures_lite::{AsyncRead, AsyncWrite};

/// The largest piece that is handed to or from a thread.
const BLOCK: usize = 64 * 1024;

/// Reads on a thread, which starts with the first read and reads only on demand.
#[derive(Debug)]
pub(crate) struct ThreadReader<R> {
    handoff: Handoff,
    reader: Option<R>,
}

/// Writes on a thread, which starts with the first write. Accepted bytes are still written after it is dropped,
/// unless the program ends before.
#[derive(Debug)]
pub(crate) struct ThreadWriter<W> {
    handoff: Handoff,
    writer: Option<W>,
}

/// The task's end of a buffer that it shares with its thread, which ends when this is dropped.
#[derive(Default)]
struct Handoff(Arc<SharedBuffer>);

impl Drop for Handoff {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_one();
    }
}

debug_fields! { Handoff {} }

/// A buffer that belongs to the task and to the thread in turns.
#[derive(Default)]
struct SharedBuffer {
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

impl SharedBuffer {
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
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

impl<R> ThreadReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { handoff: Handoff::default(), reader: Some(reader) }
    }
}

impl<R: Read + Send + Unpin + 'static> AsyncRead for ThreadReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(mut reader) = self.reader.take() {
            let handoff = self.handoff.0.clone();
            start("mcp-reader", move || {
                handoff.run(|buffer| {
                    buffer.resize(BLOCK, 0);
                    let length = read(&mut reader, buffer)?;
                    buffer.truncate(length);
                    Ok(())
                });
            })?;
            self.handoff.0.give_to_thread(self.handoff.0.lock());
        }
        let mut turn = ready!(self.handoff.0.poll_turn(cx));
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
            self.handoff.0.give_to_thread(turn);
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
        Self { handoff: Handoff::default(), writer: Some(writer) }
    }
}

impl<W: Write + Send + Unpin + 'static> AsyncWrite for ThreadWriter<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(mut writer) = self.writer.take() {
            let handoff = self.handoff.0.clone();
            start("mcp-writer", move || {
                handoff.run(|buffer| {
                    let written = writer.write_all(buffer).and_then(|()| writer.flush());
                    buffer.clear();
                    written
                });
            })?;
        }
        let mut turn = ready!(self.handoff.0.poll_turn(cx));
        if let Some(error) = turn.error.take() {
            return Poll::Ready(Err(error));
        }
        let bytes = bytes.get(..BLOCK).unwrap_or(bytes);
        turn.buffer.extend_from_slice(bytes);
        self.handoff.0.give_to_thread(turn);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Waits until the thread has written everything.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut turn = ready!(self.handoff.0.poll_turn(cx));
        Poll::Ready(turn.error.take().map_or(Ok(()), Err))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
