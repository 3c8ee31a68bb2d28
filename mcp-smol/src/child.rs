//! A running child: its streams and its process.

use std::fmt;
use std::future::{self, poll_fn};
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures_lite::AsyncRead;
use futures_lite::future::or;

use crate::killer::Killer;
use crate::os::Tree;
use crate::pipe::{ChildStdin, ChildStdout};
use crate::shutdown::{self, ShutdownStep, ShutdownTimeouts};
use crate::stderr::Stderr;

/// A child and both its streams; take it apart to hand them to whatever drives the conversation.
///
/// Dropping it ends the child, as [`Process`] says.
#[derive(Debug)]
pub struct Child {
    /// To write to.
    pub stdin: ChildStdin,
    /// To read from.
    pub stdout: ChildStdout,
    /// The process itself.
    pub process: Process,
}

impl Child {
    /// Closes the child's input and brings it to its end; see [`Process::shutdown`].
    ///
    /// What it still writes meanwhile is read and discarded, so that a full pipe does not keep it from
    /// leaving.
    pub async fn shutdown(self) -> Exit {
        let Self { stdin, stdout, process } = self;
        drop(stdin);
        or(process.shutdown(), discard(stdout)).await
    }
}

/// Never returns: what matters is when the child ends.
async fn discard(mut stdout: ChildStdout) -> Exit {
    let mut chunk = vec![0; 4 * 1024];
    while let Ok(1..) = poll_fn(|cx| Pin::new(&mut stdout).poll_read(cx, &mut chunk)).await {}
    drop(stdout);
    future::pending().await
}

/// A running child without its streams.
///
/// It leads a process group of its own (on Windows: a job object), and everything here ends the whole of it:
/// a server behind `npx` or a shell goes with its wrapper, also when the wrapper is gone already. What has
/// deliberately left the group, as daemons do by `setsid`, stays.
///
/// # Dropping it
///
/// [`shutdown`](Self::shutdown) is how to part with a child. Dropping ends it too, but there is nobody to
/// wait for it, and the next thing to happen may be the end of this program. So the group is sent SIGTERM at
/// once, not only after a wait for the closed input to take effect. What then remains is killed after
/// [`ShutdownTimeouts::terminate`], and reaped, by a thread that lives only for that; no executor is needed. If this
/// program ends before that, what ignores both the end of its input and SIGTERM stays behind. On Windows the
/// job is closed at once, which kills.
#[derive(Debug)]
pub struct Process {
    /// Gone only while being dropped.
    tree: Option<Tree>,
    id: u32,
    stderr: Stderr,
    shutdown: ShutdownTimeouts,
    killer: Killer,
}

impl Process {
    pub(crate) fn new(tree: Tree, stderr: Stderr, shutdown: ShutdownTimeouts) -> Self {
        Self { id: tree.id(), tree: Some(tree), stderr, shutdown, killer: Killer::default() }
    }

    /// The operating system's number for the process; on Unix also that of its group. It stays reserved while
    /// this handle lives.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the child writes to its standard error.
    #[must_use]
    pub fn stderr(&self) -> Stderr {
        self.stderr.clone()
    }

    /// Waits for the child to exit by itself.
    ///
    /// Only watches: what the child may have left behind in its group goes on, until
    /// [`shutdown`](Self::shutdown) or the drop of this handle, which also clears the zombie away.
    ///
    /// # Errors
    ///
    /// The system's, above all if somebody else in this program reaps all children or SIGCHLD is ignored.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    /// The same as [`wait`](Self::wait), for a driver that polls other things too. Wakes the task that polled
    /// last.
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

    /// Has the shutdown steps cut short once `killer` says so.
    pub(crate) fn set_killer(&mut self, killer: &Killer) {
        self.killer = killer.clone();
    }

    /// Asks the child and its whole group to terminate, without waiting (SIGTERM; nothing on Windows).
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

    /// Brings the child and its whole group to their end: waits for the closed input to take effect, then
    /// asks, then kills, each after the time set by [`Command::shutdown`](crate::Command::shutdown).
    /// Afterwards there is neither process nor zombie.
    ///
    /// **Close or drop the [`ChildStdin`] first**, or the first wait is in vain; and go on reading the
    /// [`ChildStdout`] or drop it. [`Child::shutdown`] does both. Dropping this future is dropping the
    /// process.
    ///
    /// Specification 2026-07-28, basic/transports/stdio, Shutdown.
    pub async fn shutdown(mut self) -> Exit {
        let (status, rung) = match &mut self.tree {
            Some(tree) => shutdown::end_tree(tree, self.shutdown, &self.killer).await,
            None => (None, ShutdownStep::AlreadyExited),
        };
        Exit { status, step: rung, stderr: self.stderr.tail() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut tree) = self.tree.take() else { return };
        if tree.is_over() {
            return;
        }
        // Before anything else, as the thread may never get its turn.
        if Tree::CAN_TERMINATE {
            tree.terminate()
        } else {
            tree.kill()
        }
        if tree.reap().is_some() && tree.is_over() {
            return;
        }
        let times = ShutdownTimeouts { close: Duration::ZERO, ..self.shutdown };
        // With its standard error, as one who takes his leave there would die of its being closed.
        let orphan = (tree, self.stderr.clone());
        let (hand_over, taken) = mpsc::sync_channel::<(Tree, Stderr)>(1);
        let end = move || {
            if let Ok((mut tree, _stderr)) = taken.recv() {
                async_io::block_on(shutdown::end_tree(&mut tree, times, &Killer::default()));
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

/// How a child ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exit {
    /// Its status; absent if it could not be learnt, because somebody else reaped it or the kernel would not
    /// let it go.
    pub status: Option<ExitStatus>,
    /// What it took. Concerns the program that was spawned; what it left behind is always asked, then killed.
    pub step: ShutdownStep,
    /// The end of what it wrote to its standard error; see [`Stderr::tail`].
    pub stderr: String,
}

impl Exit {
    /// Whether it left with status zero.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// A sentence and, if there is something, the last lines of standard error.
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
