//! A child with its descendants, and the steps that end them: closed input, SIGTERM, SIGKILL.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::future::poll_fn;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_lite::future;

use crate::reactor::{Reactor, sleep};

#[cfg(unix)]
pub(crate) use unix::ProcessTree;
#[cfg(windows)]
pub(crate) use windows::ProcessTree;

//= K11 "the times are configurable"
/// Time limits of the steps of [`Process::shutdown`](crate::Process::shutdown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownTimeouts {
    /// From the end of its input to SIGTERM. Default 2 s, as in the official SDKs: enough for a Node or Python
    /// runtime to store its state and exit.
    pub close: Duration,
    /// From SIGTERM to SIGKILL, for the program and then again for the processes it left behind. Default 2 s: a user
    /// who closes an application still waits through both. Unused on Windows, which has no SIGTERM.
    pub terminate: Duration,
}

impl Default for ShutdownTimeouts {
    fn default() -> Self {
        Self { close: Duration::from_secs(2), terminate: Duration::from_secs(2) }
    }
}

/// The step that ended the spawned program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShutdownStep {
    /// It had already exited by itself.
    AlreadyExited,
    /// It exited at the end of its input, as servers should.
    InputClosed,
    /// It exited after SIGTERM.
    Terminated,
    /// It was killed: by SIGKILL, or by the end of its job object on Windows.
    Killed,
}

/// How long to wait for killed processes. They exit within milliseconds unless the kernel itself is stuck on their
/// behalf (a dead network disk).
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

//= F34 "then sends SIGTERM, then SIGKILL, each after a wait"
//= K11 "SIGTERM to the whole tree"
/// Ends the whole tree, whose input is already closed. Returns no status if the program could not be reaped. The
/// killer cuts every wait short except that for killed processes.
pub(crate) async fn end_tree(
    tree: &mut ProcessTree,
    times: ShutdownTimeouts,
    killer: &Flag,
) -> (Option<ExitStatus>, ShutdownStep) {
    let step = end_leader(tree, times, killer).await;
    // The dead leader is not yet reaped, so its group still owns the id.
    if step == ShutdownStep::Killed || !ProcessTree::CAN_TERMINATE {
        tree.kill();
    } else {
        tree.terminate();
    }
    let status = tree.reap();
    if step == ShutdownStep::Killed || !tree_ends_in_time(tree, times.terminate, killer).await {
        tree.kill();
        tree_ends_in_time(tree, KILL_TIMEOUT, &Flag::default()).await;
    }
    (status, step)
}

async fn end_leader(tree: &mut ProcessTree, times: ShutdownTimeouts, killer: &Flag) -> ShutdownStep {
    if tree.has_exited() {
        return ShutdownStep::AlreadyExited;
    }
    if exits_in_time(tree, times.close, killer).await {
        return ShutdownStep::InputClosed;
    }
    if ProcessTree::CAN_TERMINATE {
        tree.terminate();
        if exits_in_time(tree, times.terminate, killer).await {
            return ShutdownStep::Terminated;
        }
    }
    tree.kill();
    exits_in_time(tree, KILL_TIMEOUT, &Flag::default()).await;
    ShutdownStep::Killed
}

/// Whether the leader has exited. `false` if that cannot be determined, so that the next step runs.
async fn exits_in_time(tree: &mut ProcessTree, time: Duration, killer: &Flag) -> bool {
    let reactor = tree.reactor;
    let exit = async { poll_fn(|cx| tree.poll_exit(cx)).await.is_ok() || tree.is_over() };
    let timeout = async {
        sleep_or_killed(reactor, time, killer).await;
        false
    };
    future::or(exit, timeout).await
}

/// Waits for a duration, or until the killer fires.
async fn sleep_or_killed(reactor: Reactor, time: Duration, killer: &Flag) {
    future::or(poll_fn(|cx| killer.poll(cx)), sleep(reactor, time)).await;
}

/// Polls until the tree is over: members of a group that are not our children cannot be waited for.
async fn tree_ends_in_time(tree: &mut ProcessTree, time: Duration, killer: &Flag) -> bool {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(50);
    let start = Instant::now();
    let mut pause = FIRST;
    while !tree.is_over() {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || killer.is_set() {
            return false;
        }
        sleep_or_killed(tree.reactor, pause.min(left), killer).await;
        pause = (pause * 2).min(LONGEST);
    }
    true
}

/// Kills the server of a [`ClientDriver`](crate::ClientDriver) and its whole process group at once, from any thread.
///
/// For programs that must end without delay, such as at a second Ctrl-C: the shutdown steps of
/// [`Client::close`](mcp_proto::front::Client::close) take up to the times in
/// [`ShutdownTimeouts`](crate::ShutdownTimeouts). After [`kill`](Self::kill) poll the driver to its end, which takes
/// milliseconds and reaps the process.
#[derive(Clone, Debug, Default)]
pub struct Killer(pub(crate) Flag);

impl Killer {
    /// Kills the server, at once if it is running. The driver does not start it again.
    pub fn kill(&self) {
        self.0.set();
    }
}

/// A flag that is set once, from any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<Mutex<(bool, Option<Waker>)>>);

impl Flag {
    fn set(&self) {
        let waker = {
            let mut state = self.state();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.state().0
    }

    /// Ready once it is set. Wakes the task that polled last.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.state() {
            (true, _) => return Poll::Ready(()),
            (false, Some(waker)) => waker.clone_from(cx.waker()),
            (false, none) => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// A poisoned lock is usable: no code under it can panic half-way through a change.
    fn state(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
