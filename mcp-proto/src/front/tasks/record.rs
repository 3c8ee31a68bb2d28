//! The record of a task, as stores keep it.

use alloc::collections::BTreeMap;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::UnixTime;
use crate::front::clock::{iso_8601, millis};
use crate::peer::Principal;
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::{
    CreateTaskResult, GetTaskResult, TaskError, TaskStatus, TaskUpdatedParams, legacy,
};
use crate::schema::{
    CallToolResult, ElicitParams, InputRequest, InputRequests, InputRequiredResult, InputResponse,
    InputResponses, Json,
};

/// The record of a task, as stores keep it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The task's id.
    pub id: String,
    /// The principal that it belongs to, if the server knows one: to any other the task is unknown.
    pub owner: Option<Principal>,
    /// The owner whose quota it uses in this process: `owner`, or the address that the call came from. It is not part
    /// of the [JSON](Self::to_json).
    pub quota_owner: QuotaOwner,
    /// The version in the store, which each change replaces by another one.
    pub version: u64,
    /// The time of its creation.
    pub created_at: UnixTime,
    /// The time of its last change.
    pub updated_at: UnixTime,
    /// How long it is stored from its creation; `None` means forever.
    pub ttl: Option<Duration>,
    /// The poll interval suggested to clients.
    pub poll_interval: Duration,
    /// The status message.
    pub message: Option<String>,
    /// The state of the task.
    pub state: StoredTaskState,
    /// Answers that other instances stored, by the keys of their input requests.
    ///
    /// The instance that runs the task takes them.
    pub answers: BTreeMap<String, Json>,
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredTaskState {
    /// The handler is running.
    Working,
    /// It waits for input: the open input requests.
    InputRequired(InputRequests),
    /// It is complete: its result, which may be an error of the tool.
    Completed(Json),
    /// It failed with a protocol error.
    Failed(ErrorObject),
    /// It was cancelled.
    Cancelled,
}

impl StoredTaskState {
    /// Whether the state is final.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Working | Self::InputRequired(_))
    }

    /// The status name (2026-07-28).
    fn status(&self) -> TaskStatus {
        match self {
            Self::Working => TaskStatus::Working,
            Self::InputRequired(_) => TaskStatus::InputRequired,
            Self::Completed(_) => TaskStatus::Completed,
            Self::Failed(_) => TaskStatus::Failed,
            Self::Cancelled => TaskStatus::Cancelled,
        }
    }
}

impl TaskRecord {
    /// The time after which it may be deleted; `None` means never.
    pub fn expires_at(&self) -> Option<UnixTime> {
        self.ttl.map(|ttl| self.created_at + ttl)
    }

    /// Whether its lifetime is over.
    pub(super) fn is_expired(&self, now: UnixTime) -> bool {
        self.expires_at().is_some_and(|end| end <= now)
    }

    /// The interval at which the task is looked up. A store is not queried more often than this, however often clients
    /// poll.
    pub(super) fn refresh_interval(&self) -> Duration {
        self.poll_interval.max(Duration::from_millis(100))
    }

    /// Encodes the record as JSON, for a store that keeps text. This is not a message of the protocol.
    ///
    /// ```
    /// # use mcp_proto::front::tasks::TaskRecord;
    /// # fn example(record: TaskRecord) -> Result<(), serde_json::Error> {
    /// let kept: String = record.to_json()?.as_str().to_owned();
    /// assert_eq!(TaskRecord::from_json(&kept)?, record);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If an input request that the application constructed cannot be encoded.
    pub fn to_json(&self) -> Result<Json, serde_json::Error> {
        let (mut asked, mut result, mut error) = (None, None, None);
        match &self.state {
            StoredTaskState::InputRequired(requests) => {
                asked = Some(InputRequiredResult::requests(requests.clone()))
            }
            StoredTaskState::Completed(json) => result = Some(json.clone()),
            StoredTaskState::Failed(object) => error = Some(task_error(object)),
            StoredTaskState::Working | StoredTaskState::Cancelled => {}
        }
        Json::encode(&RecordJson {
            id: self.id.clone(),
            owner: self.owner.as_ref().map(|owner| owner.as_str().into()),
            version: self.version,
            created_at: millis(self.created_at.since_epoch()),
            updated_at: millis(self.updated_at.since_epoch()),
            ttl: self.ttl.map(millis),
            poll_interval: millis(self.poll_interval),
            message: self.message.clone(),
            status: self.state.status(),
            asked,
            result,
            error,
            answers: self.answers.clone(),
        })
    }

    /// Decodes a record from JSON.
    ///
    /// # Errors
    /// If the text was not encoded by [`to_json`](Self::to_json).
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let kept: RecordJson = serde_json::from_str(text)?;
        let lacks = || serde::de::Error::custom("a task lacks the result, error or requests of its status");
        let requests = kept.asked.and_then(|asked| asked.input_requests);
        let standing = match (kept.status, requests, kept.result, kept.error) {
            (TaskStatus::Working, ..) => StoredTaskState::Working,
            (TaskStatus::InputRequired, Some(requests), ..) => StoredTaskState::InputRequired(requests),
            (TaskStatus::Completed, _, Some(result), _) => StoredTaskState::Completed(result),
            (TaskStatus::Failed, _, _, Some(error)) => StoredTaskState::Failed(error.into()),
            (TaskStatus::Cancelled, ..) => StoredTaskState::Cancelled,
            _ => return Err(lacks()),
        };
        let owner = kept.owner.map(Principal::new);
        Ok(Self {
            id: kept.id,
            quota_owner: QuotaOwner::from_client(owner.as_ref(), None),
            owner,
            version: kept.version,
            created_at: UnixTime::from_epoch(Duration::from_millis(kept.created_at)),
            updated_at: UnixTime::from_epoch(Duration::from_millis(kept.updated_at)),
            ttl: kept.ttl.map(Duration::from_millis),
            poll_interval: Duration::from_millis(kept.poll_interval),
            message: kept.message,
            state: standing,
            answers: kept.answers,
        })
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let owner = self.owner.as_ref().map_or(0, |owner| owner.as_str().len());
        let message = self.message.as_ref().map_or(0, String::len);
        let standing = match &self.state {
            StoredTaskState::Working | StoredTaskState::Cancelled => 0,
            StoredTaskState::InputRequired(requests) => {
                Json::encode(requests).map_or(0, |requests| requests.as_str().len())
            }
            StoredTaskState::Completed(result) => result.as_str().len(),
            StoredTaskState::Failed(error) => error.bytes(),
        };
        let answer = |(key, answer): (&String, &Json)| key.len().saturating_add(answer.as_str().len());
        let answers = self.answers.iter().map(answer).fold(0, usize::saturating_add);
        [size_of::<Self>(), self.id.len(), owner, message, standing, answers]
            .into_iter()
            .fold(0, usize::saturating_add)
    }
}

/// The stored fields of a record.
#[derive(Serialize, Deserialize)]
struct RecordJson {
    id: String,
    owner: Option<String>,
    version: u64,
    created_at: u64,
    updated_at: u64,
    ttl: Option<u64>,
    poll_interval: u64,
    message: Option<String>,
    status: TaskStatus,
    /// Maps do not implement `Deserialize` themselves.
    asked: Option<InputRequiredResult>,
    result: Option<Json>,
    error: Option<TaskError>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: BTreeMap<String, Json>,
}

/// Converts an error for a task's status. Data that is not valid JSON is omitted.
pub(super) fn task_error(error: &ErrorObject) -> TaskError {
    let data = error.data.as_ref().and_then(|data: &Raw| Json::try_from(data).ok());
    TaskError { data, ..TaskError::new(error.code, error.message.clone()) }
}

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

/// Returns the responses that answer open input requests. Others are ignored.
///
/// # Errors
/// The error for a response that does not match its request.
pub(super) fn matching_answers<'a>(
    responses: &InputResponses,
    asked: impl Fn(&str) -> Option<&'a InputRequest>,
) -> Result<BTreeMap<String, Json>, ErrorObject> {
    let mut fitting = BTreeMap::new();
    for (key, response) in responses.iter() {
        //= S11.8 "stale keys ignored"
        let Some(request) = asked(key) else { continue };
        let encode = |()| Json::encode(response).map_err(|error| error.to_string());
        let answer = check_answer(request, response).and_then(encode).map_err(|why| {
            let message = format!("the response {key:?} does not fit its input request: {why}");
            ErrorObject::new(code::INVALID_PARAMS, message)
        })?;
        fitting.insert(key.to_string(), answer);
    }
    Ok(fitting)
}

/// Checks that a response matches its request.
fn check_answer(request: &InputRequest, response: &InputResponse) -> Result<(), String> {
    match (request, response) {
        (InputRequest::Elicit(ElicitParams::Form(form)), InputResponse::Elicit(answer)) => {
            form.check(answer).map_err(|error| error.to_string())
        }
        (InputRequest::Elicit(_), InputResponse::Elicit(_))
        | (InputRequest::CreateMessage(_), InputResponse::CreateMessage(_))
        | (InputRequest::ListRoots(_), InputResponse::ListRoots(_)) => Ok(()),
        _ => Err("it answers a request of another method".into()),
    }
}

impl TaskRecord {
    /// Stores answers for the instance that runs the task, and removes their input requests. Returns whether there were
    /// any.
    ///
    /// # Errors
    /// The error for a response that does not match its request; then no answer is stored.
    pub(super) fn take_answers(&mut self, responses: &InputResponses) -> Result<bool, ErrorObject> {
        let StoredTaskState::InputRequired(requests) = &mut self.state else { return Ok(false) };
        let mut taken = matching_answers(responses, |key| requests.get(key))?;
        let any = !taken.is_empty();
        for key in taken.keys() {
            requests.remove(key);
        }
        self.answers.append(&mut taken);
        if requests.is_empty() {
            self.state = StoredTaskState::Working;
        }
        Ok(any)
    }
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
