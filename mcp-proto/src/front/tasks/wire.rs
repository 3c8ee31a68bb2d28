//! Task records as clients see them, in both forms of tasks.

use alloc::string::{String, ToString};
use core::time::Duration;
use std::time::SystemTime;

use super::record::{millis, task_error};
use super::{StoredTaskState, TaskRecord};
use crate::UnixTime;
use crate::schema::tasks::{CreateTaskResult, GetTaskResult, TaskStatus, TaskUpdatedParams, legacy};
use crate::schema::{CallToolResult, Json};

/// Builds a wire type of a task with the fields that all of them have.
//= S11.11 "createdAt/lastUpdatedAt/ttl"
macro_rules! shown {
    ($record:expr, $name:path, $status:expr, $poll_interval:ident) => {{
        let record: &TaskRecord = $record;
        let mut shown = <$name>::new(
            record.id.as_str(),
            $status,
            iso_8601(record.created_at),
            iso_8601(record.updated_at),
            record.ttl.map(millis),
        );
        shown.status_message.clone_from(&record.message);
        shown.$poll_interval = Some(millis(record.poll_interval));
        shown
    }};
}

/// Builds a wire type of a task with its input requests, result or error.
//= S11.3 "tasks/get returns full state for status"
macro_rules! detailed {
    ($record:expr, $name:path) => {{
        let record: &TaskRecord = $record;
        let mut shown = shown!(record, $name, record.state.status(), poll_interval_ms);
        match &record.state {
            StoredTaskState::Working | StoredTaskState::Cancelled => {}
            StoredTaskState::InputRequired(requests) => shown.input_requests = Some(requests.clone()),
            StoredTaskState::Completed(result) => shown.result = Some(result.clone()),
            StoredTaskState::Failed(error) => shown.error = Some(task_error(error)),
        }
        shown
    }};
}

impl TaskRecord {
    //= S11.2 "only for CreateTaskResult"
    /// The result of the call that became this task.
    pub(super) fn created(&self) -> CreateTaskResult {
        shown!(self, CreateTaskResult, self.state.status(), poll_interval_ms).stamped()
    }

    //= S11.15 "notifications/tasks has the whole state that tasks/get has at that moment"
    pub(super) fn detailed(&self) -> GetTaskResult {
        detailed!(self, GetTaskResult)
    }

    pub(super) fn updated(&self) -> TaskUpdatedParams {
        detailed!(self, TaskUpdatedParams)
    }

    // --- 2025-11-25 ---

    /// The result of the call that became this task.
    pub(super) fn legacy_created(&self) -> legacy::CreateTaskResult {
        legacy::CreateTaskResult::new(self.legacy_task())
    }

    pub(super) fn legacy_task(&self) -> legacy::Task {
        shown!(self, legacy::Task, self.legacy_status(), poll_interval)
    }

    pub(super) fn legacy_info(&self) -> legacy::TaskInfoResult {
        shown!(self, legacy::TaskInfoResult, self.legacy_status(), poll_interval)
    }

    pub(super) fn legacy_changed(&self) -> legacy::TaskStatusParams {
        shown!(self, legacy::TaskStatusParams, self.legacy_status(), poll_interval)
    }

    /// In 2025-11-25, a tool result with `isError` counts as a failure of the task.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-execution-errors>
    pub(super) fn legacy_status(&self) -> TaskStatus {
        match &self.state {
            StoredTaskState::Completed(result) if tool_error(result).is_some() => TaskStatus::Failed,
            standing => standing.status(),
        }
    }
}

/// The number of characters of a tool's error text in the status message.
const EXCERPT: usize = 200;

/// The error text of a result with `isError`.
pub(super) fn tool_error(result: &Json) -> Option<String> {
    let result: CallToolResult = result.decode().ok()?;
    (result.is_error == Some(true)).then(|| result.text_content().chars().take(EXCERPT).collect())
}

/// Formats a time as ISO 8601.
fn iso_8601(time: UnixTime) -> String {
    /// The end of the year 9999, beyond which the format has no dates.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let elapsed = time.since_epoch().min(LAST);
    let time = SystemTime::UNIX_EPOCH.checked_add(elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_form_of_iso_8601() {
        let at = |millis| iso_8601(UnixTime::from_epoch(Duration::from_millis(millis)));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(1_764_066_600_007), "2025-11-25T10:30:00.007Z");
        assert_eq!(at(u64::MAX), "9999-12-31T23:59:59.000Z");
    }
}
