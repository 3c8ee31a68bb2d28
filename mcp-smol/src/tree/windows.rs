//! A child in a job object of its own. Tested under Wine.

use std::io;
use std::os::windows::io::AsRawHandle as _;
use std::os::windows::process::CommandExt as _;
use std::process::{self, ExitStatus};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use win32job::{ExtendedLimitInfo, Job};

use crate::RuntimeKind;
use crate::reactor::{Reactor, Timer};

//= F32 "no window"
/// `CREATE_NO_WINDOW`: no console window appears for a console program.
const NO_WINDOW: u32 = 0x0800_0000;

/// How often to look whether the leader has exited: no safe function waits for a process on every runtime.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The child and every process it has started since it was assigned to its job.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    leader: process::Child,
    /// Closing it kills every process in it, so a tree ends with this process at the latest. `None` if the system
    /// refused one.
    job: Option<Job>,
    /// What its timers run on.
    pub(crate) reactor: Reactor,
    /// Runs until the next look at the leader.
    look: Option<Timer>,
    reaped: bool,
}

impl ProcessTree {
    /// Windows has no SIGTERM for a program without a window.
    pub(crate) const CAN_TERMINATE: bool = false;

    pub(crate) fn prepare(command: &mut process::Command) {
        command.creation_flags(NO_WINDOW);
    }

    pub(crate) fn new(leader: process::Child, runtime: RuntimeKind) -> Self {
        // Processes that it starts before this assignment escape. To prevent that, the child would have to be created
        // suspended, and std cannot resume it.
        let job = Job::create_with_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close())
            .ok()
            .filter(|job| job.assign_process(leader.as_raw_handle() as isize).is_ok());
        Self { leader, job, reactor: runtime.into(), look: None, reaped: false }
    }

    /// Goes on without a runtime; see [`poll_at_intervals`](crate::reactor::poll_at_intervals).
    pub(crate) fn leave_runtime(&mut self) {
        self.reactor = None;
        self.look = None;
    }

    /// Whether the leader has exited, asked of the system.
    pub(crate) fn has_exited(&mut self) -> bool {
        self.leader.try_wait().map_or(true, |status| status.is_some())
    }

    pub(crate) fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Ready once the leader has exited.
    pub(crate) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        loop {
            if let Some(status) = self.leader.try_wait()? {
                return Poll::Ready(Ok(status));
            }
            match &mut self.look {
                Some(look) => ready!(look.poll(cx)),
                none => *none = Some(Timer::new(self.reactor)),
            }
            if let Some(look) = &mut self.look {
                look.set(LOOK_AGAIN);
            }
        }
    }

    /// Does nothing; see [`CAN_TERMINATE`](Self::CAN_TERMINATE).
    pub(crate) fn terminate(&mut self) {}

    /// Kills the whole job.
    pub(crate) fn kill(&mut self) {
        // First, as the end of the job would end it with the exit code of success. Fails if it has exited.
        let _ = self.leader.kill();
        self.job = None;
    }

    /// Records the leader's exit.
    pub(crate) fn reap(&mut self) -> Option<ExitStatus> {
        let status = self.leader.try_wait().ok().flatten();
        self.reaped |= status.is_some();
        status
    }

    /// Blocks this thread until the killed leader has exited.
    pub(crate) fn reap_blocking(&mut self) {
        let _ = self.leader.wait();
        self.reaped = true;
    }

    /// Whether the leader has exited and no process is left in its job.
    pub(crate) fn is_over(&mut self) -> bool {
        let empty = match &self.job {
            Some(job) => job.query_process_id_list().is_ok_and(|members| members.is_empty()),
            None => true,
        };
        self.reaped && empty
    }
}
