//! A running child: its streams and its process.

use std::fmt;
use std::future::{self, poll_fn};
use std::io;
use std::pin::Pin;
use std::process::{self, ExitStatus};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures_lite::AsyncRead;
use futures_lite::future::or;

use crate::io::write_until_closed;
use crate::reactor::{Reactor, RuntimeKind, poll_at_intervals};
use crate::stderr::Stderr;
use crate::tree::{Flag, ProcessTree, ShutdownStep, ShutdownTimeouts, end_tree};

/// A child process with its standard input and output; take it apart to hand the streams to a driver.
///
/// Dropping it ends the child: see [`Process`].
#[derive(Debug)]
pub struct Child {
    /// The child's standard input.
    pub stdin: ChildStdin,
    /// The child's standard output.
    pub stdout: ChildStdout,
    /// The process itself, with its standard error.
    pub process: Process,
}

impl Child {
    /// Closes the child's input and shuts the child down; see [`Process::shutdown`].
    ///
    /// Output that the child still writes is read and discarded, so that a full pipe does not keep it from exiting.
    pub async fn shutdown(self) -> Exit {
        let Self { stdin, stdout, process } = self;
        drop(stdin);
        or(process.shutdown(), discard(stdout)).await
    }
}

/// Reads and discards the child's output. Never returns: the exit of the child ends it.
async fn discard(mut stdout: ChildStdout) -> Exit {
    let mut chunk = vec![0; 4 * 1024];
    while let Ok(1..) = poll_fn(|cx| Pin::new(&mut stdout).poll_read(cx, &mut chunk)).await {}
    drop(stdout);
    future::pending().await
}

/// A running child process without its input and output streams.
///
/// It leads a process group of its own (on Windows: a job object), and every method here acts on the whole group:
/// a server behind `npx` or a shell ends with its wrapper, also when the wrapper has already exited. A process
/// that deliberately left the group, as daemons do by `setsid`, keeps running.
///
/// # Dropping it
///
/// Call [`shutdown`](Self::shutdown) to end a child. Dropping the handle ends the child too, but cannot wait for it,
/// and this program may exit next. So the drop sends SIGTERM to the group at once, without first waiting for the
/// closed input to take effect. After [`ShutdownTimeouts::terminate`] a short-lived thread kills the remaining
/// processes and reaps the child; no executor is needed. If this program ends before that, a process that ignores
/// both the end of its input and SIGTERM keeps running. On Windows the drop closes the job at once, which kills.
#[derive(Debug)]
pub struct Process {
    /// `None` only while being dropped.
    tree: Option<ProcessTree>,
    id: u32,
    stderr: Stderr,
    shutdown: ShutdownTimeouts,
    /// Cuts the shutdown steps short.
    pub(crate) killer: Flag,
}

impl Process {
    pub(crate) fn new(tree: ProcessTree, stderr: Stderr, shutdown: ShutdownTimeouts) -> Self {
        Self { id: tree.id(), tree: Some(tree), stderr, shutdown, killer: Flag::default() }
    }

    /// The operating system's process id; on Unix also the id of its group. It stays reserved while this handle
    /// lives.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The child's standard error.
    #[must_use]
    pub fn stderr(&self) -> Stderr {
        self.stderr.clone()
    }

    /// Waits for the child to exit by itself.
    ///
    /// Only watches: processes that the child left behind in its group keep running until
    /// [`shutdown`](Self::shutdown) or the drop of this handle, which also reaps the zombie.
    ///
    /// # Errors
    ///
    /// The system's error, usually because other code in this program reaps all children or ignores SIGCHLD.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    /// Polls for the child's exit: [`wait`](Self::wait) for a driver that polls other sources too. Wakes the task that
    /// polled last.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        match &mut self.tree {
            Some(tree) => tree.poll_exit(cx),
            None => Poll::Ready(Err(io::ErrorKind::NotFound.into())),
        }
    }

    /// What its timers run on.
    pub(crate) fn reactor(&self) -> Reactor {
        self.tree.as_ref().and_then(|tree| tree.reactor)
    }

    /// Sends SIGTERM to the child and its whole group, without waiting (on Windows: does nothing).
    pub fn terminate(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.terminate();
        }
    }

    /// Kills the child and its whole group, without waiting.
    pub fn kill(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.kill();
        }
    }

    /// Ends the child and its whole group: waits for the closed input to take effect, then sends SIGTERM, then
    /// kills, each after the time set by [`Command::shutdown`](crate::Command::shutdown).
    /// Afterwards neither process nor zombie remains.
    ///
    /// **Close or drop the [`ChildStdin`] first**, or the first wait is in vain; and keep reading the
    /// [`ChildStdout`] or drop it. [`Child::shutdown`] does both. Dropping this future drops the process.
    ///
    /// Specification 2026-07-28, basic/transports/stdio, Shutdown.
    pub async fn shutdown(mut self) -> Exit {
        let (status, step) = match &mut self.tree {
            Some(tree) => end_tree(tree, self.shutdown, &self.killer).await,
            None => (None, ShutdownStep::AlreadyExited),
        };
        Exit { status, step, stderr: self.stderr.tail() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut tree) = self.tree.take() else { return };
        if tree.is_over() {
            return;
        }
        // First of all, as the thread may never be scheduled.
        if ProcessTree::CAN_TERMINATE {
            tree.terminate()
        } else {
            tree.kill()
        }
        if tree.reap().is_some() && tree.is_over() {
            return;
        }
        let times = ShutdownTimeouts { close: Duration::ZERO, ..self.shutdown };
        // Keeps standard error open: a child that writes there while it exits would die of SIGPIPE.
        let orphan = (tree, self.stderr.clone());
        let (hand_over, taken) = mpsc::sync_channel::<(ProcessTree, Stderr)>(1);
        let end = move || {
            if let Ok((mut tree, _stderr)) = taken.recv() {
                tree.leave_runtime();
                poll_at_intervals(end_tree(&mut tree, times, &Flag::default()));
                tree.reap_blocking();
            }
        };
        let orphan = match thread::Builder::new().name("mcp-reaper".into()).spawn(end) {
            Ok(_) => hand_over.send(orphan).err().map(|refused| refused.0),
            Err(_) => Some(orphan),
        };
        if let Some((mut tree, _)) = orphan {
            tree.kill();
            tree.reap_blocking();
        }
    }
}

/// The exit of a child: its status, the shutdown step that ended it, and its last standard error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exit {
    /// Exit status; `None` if it is unknown, because other code reaped the child or the kernel did not end it.
    pub status: Option<ExitStatus>,
    /// The step that ended the spawned program. Processes that it left behind always get SIGTERM, then SIGKILL.
    pub step: ShutdownStep,
    /// The end of its standard error; see [`Stderr::tail`].
    pub stderr: String,
}

impl Exit {
    /// Whether it exited with status zero.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// A sentence, followed by the last lines of standard error if there are any.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the program ended ({status})")?,
            None => f.write_str("the program ended in an unknown way")?,
        }
        f.write_str(match self.step {
            ShutdownStep::AlreadyExited => " by itself",
            ShutdownStep::InputClosed => " when its input was closed",
            ShutdownStep::Terminated => " when asked to terminate",
            ShutdownStep::Killed => " because it was killed",
        })?;
        match self.stderr.trim_end() {
            "" => Ok(()),
            stderr => write!(f, "; its standard error ended with:\n{stderr}"),
        }
    }
}

/// Writes to the child's standard input.
///
/// [`close`](futures_lite::AsyncWriteExt::close), or dropping it, sends the end of file that asks a server to exit. A
/// write after the child has exited fails with [`io::ErrorKind::BrokenPipe`].
#[derive(Debug)]
pub struct ChildStdin(Option<os::Writer>);

/// Reads the child's standard output.
#[derive(Debug)]
pub struct ChildStdout(os::Reader);

impl ChildStdin {
    pub(crate) fn new(runtime: RuntimeKind, pipe: process::ChildStdin) -> io::Result<Self> {
        Ok(Self(Some(os::writer(runtime, pipe)?)))
    }
}

impl ChildStdout {
    pub(crate) fn new(runtime: RuntimeKind, pipe: process::ChildStdout) -> io::Result<Self> {
        Ok(Self(os::reader(runtime, pipe)?))
    }
}

impl AsyncRead for ChildStdout {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

write_until_closed!(ChildStdin);

#[cfg(unix)]
mod os {
    use super::*;
    use crate::watch::{Direction, Watch};

    pub(super) type Reader = Watch;
    pub(super) type Writer = Watch;

    /// Makes this process's end non-blocking. The child does not notice: its end has flags of its own.
    pub(super) fn reader(runtime: RuntimeKind, pipe: process::ChildStdout) -> io::Result<Reader> {
        Watch::nonblocking(runtime, pipe.into(), Direction::Read)
    }

    pub(super) fn writer(runtime: RuntimeKind, pipe: process::ChildStdin) -> io::Result<Writer> {
        Watch::nonblocking(runtime, pipe.into(), Direction::Write)
    }
}

#[cfg(windows)]
mod os {
    use super::*;
    use crate::threaded::{ThreadReader, ThreadWriter};

    /// Anonymous pipes cannot be polled on Windows.
    pub(super) type Reader = ThreadReader<process::ChildStdout>;
    pub(super) type Writer = ThreadWriter<process::ChildStdin>;

    pub(super) fn reader(_: RuntimeKind, pipe: process::ChildStdout) -> io::Result<Reader> {
        Ok(ThreadReader::new(pipe))
    }

    pub(super) fn writer(_: RuntimeKind, pipe: process::ChildStdin) -> io::Result<Writer> {
        Ok(ThreadWriter::new(pipe))
    }
}
