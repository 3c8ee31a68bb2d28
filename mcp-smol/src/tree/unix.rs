//! A child at the head of a process group of its own.
//!
//! This module does without `async-process`, which reaps a child as soon as it has exited, and so frees the child's id,
//! which is also the group's. Here the dead leader stays a zombie until its group has been signalled, so that no
//! signal can ever reach an unrelated process with the same id.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{self, ExitStatus};
use std::task::{Context, Poll, ready};
use std::thread;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, test_kill_process_group, waitid,
};

use super::Flag;
use crate::RuntimeKind;
use crate::reactor::Reactor;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::watch::{Direction, Watch};

/// The child and all its descendants that have not left its group.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    leader: process::Child,
    group: Pid,
    /// What its timers run on.
    pub(crate) reactor: Reactor,
    /// The leader's status, once it is a zombie.
    exited: Option<ExitStatus>,
    exit_watch: Option<ExitWatch>,
    /// Once the leader is reaped, its id is free as soon as the group is empty.
    reaped: Option<ExitStatus>,
    /// No process is left, or the id may belong to another process: no signal may be sent.
    is_released: bool,
}

impl ProcessTree {
    /// Whether a tree can be asked to terminate before it is killed.
    pub(crate) const CAN_TERMINATE: bool = true;

    pub(crate) fn prepare(command: &mut process::Command) {
        command.process_group(0);
    }

    pub(crate) fn new(leader: process::Child, runtime: RuntimeKind) -> Self {
        let group = Pid::from_child(&leader);
        let reactor = runtime.into();
        Self { leader, group, reactor, exited: None, exit_watch: None, reaped: None, is_released: false }
    }

    /// Goes on without a runtime; see [`poll_at_intervals`](crate::reactor::poll_at_intervals).
    pub(crate) fn leave_runtime(&mut self) {
        self.reactor = None;
        self.exit_watch = None;
    }

    pub(crate) fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Ready once the leader has exited. It stays a zombie until [`reap`](Self::reap).
    pub(crate) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        loop {
            // The system is asked only when the watch says that the status may have changed.
            if let Some(watch) = &mut self.exit_watch
                && self.exited.is_none()
                && self.reaped.is_none()
            {
                ready!(watch.poll(cx))?;
            }
            if let Some(status) = self.exit_status()? {
                return Poll::Ready(Ok(status));
            }
            match self.reactor {
                Some(runtime) if self.exit_watch.is_none() => {
                    self.exit_watch = Some(ExitWatch::new(self.group, runtime)?);
                }
                Some(_) => {}
                None => return Poll::Pending,
            }
        }
    }

    /// Whether the leader has exited, asked of the system.
    pub(crate) fn has_exited(&mut self) -> bool {
        match self.exit_status() {
            Ok(status) => status.is_some(),
            Err(_) => self.is_over(),
        }
    }

    /// The leader's status, if it has exited.
    fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        const OPTIONS: WaitIdOptions =
            WaitIdOptions::EXITED.union(WaitIdOptions::NOWAIT).union(WaitIdOptions::NOHANG);
        if self.exited.is_none() && self.reaped.is_none() {
            match rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.group), OPTIONS)) {
                Ok(status) => self.exited = status.as_ref().map(exit_status),
                Err(error) => {
                    // Other code has reaped it (a handler of SIGCHLD, or SIGCHLD is ignored): the id is no longer ours.
                    self.is_released = true;
                    return Err(error.into());
                }
            }
        }
        Ok(self.reaped.or(self.exited))
    }

    /// Sends SIGTERM to the whole group.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        // A stopped process, such as one that read from the terminal in the background, could not react.
        self.signal(Signal::CONT);
    }

    /// Kills the whole group.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) {
        if !self.is_over() {
            // Fails if no process is left that we may signal; nothing can be done then.
            let _ = kill_process_group(self.group, signal);
        }
    }

    /// Reaps the leader if it has exited.
    pub(crate) fn reap(&mut self) -> Option<ExitStatus> {
        if self.reaped.is_none() && !self.is_released {
            self.reaped = self.leader.try_wait().ok().flatten();
        }
        self.reaped
    }

    /// Blocks this thread until the killed leader has exited.
    pub(crate) fn reap_blocking(&mut self) {
        if self.reaped.is_none() && !self.is_released {
            self.reaped = self.leader.wait().ok();
        }
    }

    /// Whether no process is left, not even the leader's zombie.
    pub(crate) fn is_over(&mut self) -> bool {
        if self.reaped.is_some() && !self.is_released {
            if test_kill_process_group(self.group).is_err() {
                self.is_released = true;
            } else if !has_living_members(self.group) {
                // Only zombies that their parent does not reap (a container's first process often reaps none). If one
                // of them is the dead main thread of a living process, this signal ends it.
                let _ = kill_process_group(self.group, Signal::KILL);
                self.is_released = true;
            }
        }
        self.is_released
    }
}

/// Whether `/proc` lists a process of this group that is not a zombie.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_living_members(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let group = group.as_raw_nonzero().get();
    processes.flatten().any(|process| {
        if !process.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
            return false;
        }
        let Ok(stat) = std::fs::read(process.path().join("stat")) else { return false };
        member_state(&stat)
            .is_some_and(|(state, member_of)| member_of == group && !matches!(state, "Z" | "X"))
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn has_living_members(_: Pid) -> bool {
    true
}

/// State and process group from `pid (name) state parent group …`, where the name may contain any character.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn member_state(stat: &[u8]) -> Option<(&str, i32)> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(stat.get(after_name..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}

fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    const CORE_DUMPED: i32 = 0x80;
    ExitStatus::from_raw(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) => signal | if status.dumped() { CORE_DUMPED } else { 0 },
        (None, None) => 0,
    })
}

/// Notices that the leader may have exited.
#[derive(Debug)]
enum ExitWatch {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Handle(Watch),
    /// Used by kernels, sandboxes and systems without process handles.
    Thread(Flag),
}

impl ExitWatch {
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), expect(unused_variables))]
    fn new(leader: Pid, runtime: RuntimeKind) -> io::Result<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Ok(handle) = rustix::process::pidfd_open(leader, rustix::process::PidfdFlags::empty())
            && let Ok(handle) = Watch::new(runtime, handle, Direction::Read)
        {
            return Ok(Self::Handle(handle));
        }
        Self::thread(leader)
    }

    fn thread(leader: Pid) -> io::Result<Self> {
        let exited = Flag::default();
        let shared = exited.clone();
        let wait = move || {
            while let Err(Errno::INTR) =
                waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {}
            shared.set();
        };
        thread::Builder::new().name("mcp-wait".into()).spawn(wait)?;
        Ok(Self::Thread(exited))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Handle(handle) => handle.poll_ready(cx),
            Self::Thread(exited) => exited.poll(cx).map(Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::process::{Command, Stdio};

    use futures_lite::future;

    use super::*;

    fn spawn(script: &str) -> ProcessTree {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        ProcessTree::prepare(&mut command);
        ProcessTree::new(command.spawn().unwrap(), RuntimeKind::default())
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        #[cfg(feature = "smol")]
        return async_io::block_on(future);
        #[cfg(not(feature = "smol"))]
        return tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
    }

    /// C3.5
    #[test]
    fn tree_notices_an_exit_without_process_handles() {
        let mut tree = spawn("exit 7");
        tree.exit_watch = Some(ExitWatch::thread(tree.group).unwrap());
        let status = block_on(poll_fn(|cx| tree.poll_exit(cx))).unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(tree.reap(), Some(status));
    }

    /// C3.5
    #[test]
    fn tree_notices_an_exit_without_a_runtime() {
        let mut tree = spawn("exit 7");
        assert!(
            block_on(future::poll_once(poll_fn(|cx| tree.poll_exit(cx)))).is_none_or(|exit| exit.is_ok())
        );
        tree.leave_runtime();
        let status = crate::reactor::poll_at_intervals(poll_fn(|cx| tree.poll_exit(cx))).unwrap();
        assert_eq!(status.code(), Some(7));
    }

    /// C3.5
    #[test]
    fn status_before_reaping_equals_the_reaped_status() {
        for script in ["exit 0", "exit 255", "kill -KILL $$", "kill -TERM $$"] {
            let mut tree = spawn(script);
            let seen = block_on(poll_fn(|cx| tree.poll_exit(cx))).unwrap();
            assert_eq!(tree.reap(), Some(seen), "{script}");
        }
    }

    /// C3.5
    #[test]
    fn tree_does_not_signal_a_child_reaped_by_other_code() {
        let mut tree = spawn("exit 0");
        tree.leader.wait().unwrap();
        assert!(block_on(poll_fn(|cx| tree.poll_exit(cx))).is_err());
        assert!(tree.is_over());
    }

    /// C3.5: as in a container whose first process reaps no children.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn tree_does_not_wait_for_a_zombie_that_its_parent_does_not_reap() {
        let mut tree = spawn("exec sleep 1000");
        let mut member = Command::new("true");
        let mut member = member.process_group(tree.id() as i32).spawn().unwrap();
        waitid(WaitId::Pid(Pid::from_child(&member)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        tree.kill();
        block_on(poll_fn(|cx| tree.poll_exit(cx))).unwrap();
        assert!(!tree.is_over(), "its leader is not reaped");
        tree.reap();
        assert!(tree.is_over());
        member.wait().unwrap();
    }

    /// C3.5
    #[test]
    fn tree_sees_a_living_member_after_the_leader_is_gone() {
        let mut tree = spawn("exec sleep 1000");
        let mut member = Command::new("sleep");
        let mut member = member.arg("1000").process_group(tree.id() as i32).spawn().unwrap();
        tree.leader.kill().unwrap();
        block_on(poll_fn(|cx| tree.poll_exit(cx))).unwrap();
        tree.reap();
        assert!(!tree.is_over());
        tree.kill();
        member.wait().unwrap();
        assert!(tree.is_over());
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn process_name_may_look_like_the_fields_after_it() {
        assert_eq!(member_state(b"12 (a) S 1 99 (x)) Z 7 34 34 0"), Some(("Z", 34)));
        assert_eq!(member_state(b"12 (cut"), None);
    }
}
