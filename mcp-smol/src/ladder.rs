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
pub struct Shutdown {
    /// From the end of its input to being asked to terminate. Default 2 s: what the official SDKs grant,
    /// enough for a Node or Python runtime to store its state and leave.
    pub close: Duration,
    /// From being asked to terminate to being killed, for the program and then again for what it left behind.
    /// Default 2 s: both waits together are still within the patience of somebody who closes an application.
    /// Unused on Windows, which has no such request.
    pub terminate: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { close: Duration::from_secs(2), terminate: Duration::from_secs(2) }
    }
}

/// What it took to end the program that was spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rung {
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
const KILLED: Duration = Duration::from_secs(5);

/// Ends the whole tree; its input is closed already. Without a status in the answer the program could not be
/// reaped. The killer cuts every wait but that for what was killed.
pub(crate) async fn end(tree: &mut Tree, times: Shutdown, killer: &Killer) -> (Option<ExitStatus>, Rung) {
    let rung = end_leader(tree, times, killer).await;
    // The dead leader is not yet reaped, so its group's id is surely still its own.
    if rung == Rung::Killed || !Tree::CAN_TERMINATE {
        tree.kill();
    } else {
        tree.terminate();
    }
    let status = tree.reap();
    if rung == Rung::Killed || !over_within(tree, times.terminate, killer).await {
        tree.kill();
        over_within(tree, KILLED, &Killer::default()).await;
    }
    (status, rung)
}

async fn end_leader(tree: &mut Tree, times: Shutdown, killer: &Killer) -> Rung {
    if future::poll_once(exit(tree)).await == Some(true) {
        return Rung::AlreadyExited;
    }
    if exits_within(tree, times.close, killer).await {
        return Rung::InputClosed;
    }
    if Tree::CAN_TERMINATE {
        tree.terminate();
        if exits_within(tree, times.terminate, killer).await {
            return Rung::Terminated;
        }
    }
    tree.kill();
    exits_within(tree, KILLED, &Killer::default()).await;
    Rung::Killed
}

/// Whether the leader is gone; if that cannot be found out, the next step is due.
async fn exit(tree: &mut Tree) -> bool {
    poll_fn(|cx| tree.poll_exit(cx)).await.is_ok() || tree.is_over()
}

async fn exits_within(tree: &mut Tree, time: Duration, killer: &Killer) -> bool {
    future::or(exit(tree), async {
        pass(time, killer).await;
        false
    })
    .await
}

/// Waits for a time, or for the killer.
async fn pass(time: Duration, killer: &Killer) {
    let timer = async {
        Timer::after(time).await;
    };
    future::or(poll_fn(|cx| killer.poll(cx)), timer).await;
}

/// Members of a group that are not our children cannot be waited for, only looked at.
async fn over_within(tree: &mut Tree, time: Duration, killer: &Killer) -> bool {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(50);
    let start = Instant::now();
    let mut pause = FIRST;
    while !tree.is_over() {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || killer.is_killed() {
            return false;
        }
        pass(pause.min(left), killer).await;
        pause = (pause * 2).min(LONGEST);
    }
    true
}
