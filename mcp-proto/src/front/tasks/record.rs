//! The record of a task, as stores keep it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::UnixTime;
use crate::peer::Principal;
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::tasks::{TaskError, TaskStatus};
use crate::schema::{InputRequests, InputRequiredResult, Json};

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
    /// The number of its changes in the store.
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
    pub(super) fn status(&self) -> TaskStatus {
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
            StoredTaskState::Failed(error) => {
                let data = error.data.as_ref().map_or(0, |data| data.as_bytes().len());
                error.message.len().saturating_add(data)
            }
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

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Converts an error for a task's status. Data that is not valid JSON is omitted.
pub(super) fn task_error(error: &ErrorObject) -> TaskError {
    let data = error.data.as_ref().and_then(|data: &Raw| Json::try_from(data).ok());
    TaskError { data, ..TaskError::new(error.code, error.message.clone()) }
}
