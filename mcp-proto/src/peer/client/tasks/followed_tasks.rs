//! The tasks that requests follow, by request, by task and by deadline.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::Instant;
use crate::peer::client::input_requests::InputSetId;

use super::follower::Follower;

/// How a request is related to the task that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOrigin {
    /// The request has become the task; cancelling the request cancels the task.
    ByRequest,
    /// The task existed before the request.
    Existing,
}

#[derive(Debug)]
pub(super) struct FollowedTask {
    pub(super) follower: Follower,
    pub(super) origin: TaskOrigin,
    /// The time under which the task is scheduled.
    due: Option<Instant>,
    /// The `tasks/result` request in flight.
    pub(super) result: Option<i64>,
    /// The input sets that the application was asked for on behalf of the task.
    pub(super) input_sets: Vec<InputSetId>,
}

/// The followed tasks, by the number of the request that follows.
#[derive(Debug, Default)]
pub(super) struct FollowedTasks {
    tasks: BTreeMap<i64, FollowedTask>,
    by_id: BTreeSet<(String, i64)>,
    due: BTreeSet<(Instant, i64)>,
}

impl FollowedTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn get(&self, number: i64) -> Option<&FollowedTask> {
        self.tasks.get(&number)
    }

    /// A task; its [schedule](Self::schedule) is the caller's to update.
    pub(super) fn get_mut(&mut self, number: i64) -> Option<&mut FollowedTask> {
        self.tasks.get_mut(&number)
    }

    /// The requests that follow the task `id`.
    pub(super) fn requests_of(&self, id: &str) -> Vec<i64> {
        let requests = self.by_id.range((id.to_string(), i64::MIN)..=(id.to_string(), i64::MAX));
        requests.map(|(_, number)| *number).collect()
    }

    pub(super) fn insert(&mut self, number: i64, follower: Follower, origin: TaskOrigin) {
        self.by_id.insert((follower.id().to_string(), number));
        self.tasks.insert(
            number,
            FollowedTask { follower, origin, due: None, result: None, input_sets: Vec::new() },
        );
    }

    pub(super) fn remove(&mut self, number: i64) -> Option<FollowedTask> {
        let followed = self.tasks.remove(&number)?;
        self.by_id.remove(&(followed.follower.id().to_string(), number));
        if let Some(due) = followed.due {
            self.due.remove(&(due, number));
        }
        Some(followed)
    }

    // --- Deadlines ---

    /// When the next task is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Schedules a task at its follower's deadline.
    pub(super) fn schedule(&mut self, number: i64) {
        let Some(followed) = self.tasks.get_mut(&number) else { return };
        let due = followed.follower.deadline();
        if due != followed.due {
            if let Some(before) = core::mem::replace(&mut followed.due, due) {
                self.due.remove(&(before, number));
            }
            self.due.extend(due.map(|due| (due, number)));
        }
    }

    /// Takes the next task that is due from the schedule.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<i64> {
        let &(due, number) = self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        if let Some(followed) = self.tasks.get_mut(&number) {
            followed.due = None;
        }
        Some(number)
    }
}
