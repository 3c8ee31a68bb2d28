//! A child in a job object of its own.
//! **Untested**: written against the documentation, not yet run on Windows.

use std::io;
use std::os::windows::io::{AsHandle as _, AsRawHandle as _, OwnedHandle};
use std::os::windows::process::CommandExt as _;
use std::process::{self, ExitStatus};
use std::task::{Context, Poll, ready};

use async_io::os::windows::Waitable;
use win32job::{ExtendedLimitInfo, Job};

/// `CREATE_NO_WINDOW`: no console window appears for a console program.
const NO_WINDOW: u32 = 0x0800_0000;

/// The child and every process it has started since it was assigned to its job.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    leader: process::Child,
    /// Closing it kills every process in it, so a tree ends with this process at the latest. `None` if the system
    /// refused one.
    job: Option<Job>,
    exited: Option<Waitable<OwnedHandle>>,
    reaped: bool,
}

impl ProcessTree {
    /// Windows has no SIGTERM for a program without a window.
    pub(crate) const CAN_TERMINATE: bool = false;

    pub(crate) fn prepare(command: &mut process::Command) {
        command.creation_flags(NO_WINDOW);
    }

    pub(crate) fn new(leader: process::Child) -> Self {
        // Processes that it starts before this assignment escape. To prevent that, the child would have to be created
        // suspended, and std cannot resume it.
        let job = Job::create_with_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close())
            .ok()
            .filter(|job| job.assign_process(leader.as_raw_handle() as isize).is_ok());
        Self { leader, job, exited: None, reaped: false }
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
            let exited = match &mut self.exited {
                Some(exited) => exited,
                none => none.insert(Waitable::new(self.leader.as_handle().try_clone_to_owned()?)?),
            };
            ready!(exited.poll_ready(cx))?;
        }
    }

    /// Does nothing; see [`CAN_TERMINATE`](Self::CAN_TERMINATE).
    pub(crate) fn terminate(&mut self) {}

    /// Kills the whole job.
    pub(crate) fn kill(&mut self) {
        self.job = None;
        // Fails if it has exited.
        let _ = self.leader.kill();
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
