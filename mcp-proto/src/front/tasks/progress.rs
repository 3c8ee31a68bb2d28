//! Progress reports of tasks (2025-11-25), whose calls were answered when the tasks began.

use alloc::task::Wake;

use super::RunningTask;
use crate::Instant;
use crate::front::handler::task::SendReport;
use crate::front::signal::lock;
use crate::peer::progress_pacer::{ProgressPacer, ProgressRate};
use crate::peer::server::exceeds;
use crate::schema::Number;

/// The progress of one task.
#[derive(Default)]
pub(super) struct TaskProgress {
    /// The last value sent or waiting to be sent.
    last: Option<Number>,
    /// Paces the reports, once there are any.
    pacer: Option<ProgressPacer<(), SendReport>>,
}

impl RunningTask {
    pub(super) fn report_progress(&self, progress: &Number, per_second: u32, send: SendReport) {
        let now = self.clock.now();
        let due = {
            let mut state = lock(&self.state);
            let has_ended = state.end.is_some();
            let TaskProgress { last, pacer } = &mut state.progress;
            if has_ended || last.as_ref().is_some_and(|last| !exceeds(progress, last)) {
                return;
            }
            *last = Some(progress.clone());
            //= S6.2 "rate limit"
            let pacer = pacer.get_or_insert_with(|| ProgressPacer::new(ProgressRate::spaced(per_second)));
            pacer.offer(now, (), send, 0)
        };
        match due {
            Some(send) => send(),
            // The runner's timer may have to fire earlier now.
            None => self.waker().wake_by_ref(),
        }
    }

    /// Sends the waiting report, if its time has come.
    pub(super) fn send_due_progress(&self, now: Instant) {
        let due = lock(&self.state).progress.pacer.as_mut().and_then(|pacer| pacer.pop_due(now));
        if let Some(((), send, _)) = due {
            send();
        }
    }

    /// Sends the waiting report before the task ends.
    pub(super) fn send_last_progress(&self) {
        let last = lock(&self.state).progress.pacer.as_mut().and_then(|pacer| pacer.remove(())?.last);
        if let Some((send, _)) = last {
            send();
        }
    }

    /// When the waiting report is sent.
    pub(super) fn progress_due(&self) -> Option<Instant> {
        lock(&self.state).progress.pacer.as_ref()?.deadline()
    }
}
