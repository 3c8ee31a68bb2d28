//! The steps by which a process tree is brought to its end, each a little less polite.

use std::future::poll_fn;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use async_io::Timer;
use futures_lite::future;

use crate::killer::Killer;
use crate::os::Tree;

/// How long each step of [`Process::shutdown`](crate::Process::shutdown) may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownTimeouts {
    /// From the end of its input to being asked to terminate. Default 2 s: what the official SDKs grant,
    /// enough for a Node or Python runtime to store its state and leave.
    pub close: Duration,
    /// From being asked to terminate to being killed, for the program and then again for what it left behind.
    /// Default 2 s: both waits together are still within the patience of somebody who closes an application.
    /// Unused on Windows, which has no such request.
    pub terminate: Duration,
}

impl Default for ShutdownTimeouts {
    fn default() -> Self {
        Self { close: Duration::from_secs(2), terminate: Duration::from_secs(2) }
    }
}

/// What it took to end the program that was spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShutdownStep {
    /// It had already ended by itself.
    AlreadyExited,
    /// It left at the end of its input, as servers should.
    InputClosed,
    /// It had to be asked: SIGTERM.
    Terminated,
    /// It had to be killed: SIGKILL, or the end of its job object on Windows.
    Killed,
}

/// A killed process is gone within milliseconds, unless the kernel itself is stuck on its behalf (a dead
/// network disk).
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends the whole tree; its input is closed already. Without a status in the answer the program could not be
/// reaped. The killer cuts every wait but that for what was killed.
pub(crate) async fn end_tree(
    tree: &mut Tree,
    times: ShutdownTimeouts,
    killer: &Killer,
) -> (Option<ExitStatus>, ShutdownStep) {
    let rung = end_leader(tree, times, killer).await;
    // The dead leader is not yet reaped, so its group's id is surely still its own.
    if rung == ShutdownStep::Killed || !Tree::CAN_TERMINATE {
        tree.kill();
    } else {
        tree.terminate();
    }
    let status = tree.reap();
    if rung == ShutdownStep::Killed || !tree_ends_in_time(tree, times.terminate, killer).await {
        tree.kill();
        tree_ends_in_time(tree, KILL_TIMEOUT, &Killer::default()).await;
    }
    (status, rung)
}

async fn end_leader(tree: &mut Tree, times: ShutdownTimeouts, killer: &Killer) -> ShutdownStep {
    if future::poll_once(wait_exit(tree)).await == Some(true) {
        return ShutdownStep::AlreadyExited;
    }
    if exits_in_time(tree, times.close, killer).await {
        return ShutdownStep::InputClosed;
    }
    if Tree::CAN_TERMINATE {
        tree.terminate();
        if exits_in_time(tree, times.terminate, killer).await {
            return ShutdownStep::Terminated;
        }
    }
    tree.kill();
    exits_in_time(tree, KILL_TIMEOUT, &Killer::default()).await;
    ShutdownStep::Killed
}

/// Whether the leader is gone; if that cannot be found out, the next step is due.
async fn wait_exit(tree: &mut Tree) -> bool {
    poll_fn(|cx| tree.poll_exit(cx)).await.is_ok() || tree.is_over()
}

async fn exits_in_time(tree: &mut Tree, time: Duration, killer: &Killer) -> bool {
    future::or(wait_exit(tree), async {
        sleep_or_killed(time, killer).await;
        false
    })
    .await
}

/// Waits for a time, or for the killer.
async fn sleep_or_killed(time: Duration, killer: &Killer) {
    let timer = async {
        Timer::after(time).await;
    };
    future::or(poll_fn(|cx| killer.poll(cx)), timer).await;
}

/// Members of a group that are not our children cannot be waited for, only looked at.
async fn tree_ends_in_time(tree: &mut Tree, time: Duration, killer: &Killer) -> bool {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(50);
    let start = Instant::now();
    let mut pause = FIRST;
    while !tree.is_over() {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || killer.is_killed() {
            return false;
        }
        sleep_or_killed(pause.min(left), killer).await;
        pause = (pause * 2).min(LONGEST);
    }
    true
}
