//! Reports about the server's tasks, of every revision.

use core::time::Duration;

use serde::de::Error as _;
use serde_json::value::RawValue;

use crate::ordered_map::OrderedMap;
use crate::peer::AnyResult;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code, decode_member, read_members};
use crate::schema::tasks::legacy::RelatedTask;
use crate::schema::tasks::{TaskError, TaskStatus};
use crate::schema::{EmptyResult, Json, Meta, Revision, meta};

/// A command for a task that is known by its identifier alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum TaskCommand {
    /// Follow the task to its end: the outcome is the task's result, as for the request that created it. Cancelling
    /// this request leaves the task running.
    Follow,
    /// Query the task's status. The outcome is a result, for [`TaskReport::read`].
    Status,
    /// Cancel the task. The outcome confirms that the server has received the command, not that the task has ended.
    Cancel,
}

/// The report of a server's task.
///
/// Tasks of 2025-11-25 and of the extension of 2026-07-28 have the same form here. Required fields that a server omits
/// are absent or empty.
///
/// <https://modelcontextprotocol.io/extensions/tasks>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskReport {
    /// The task's identifier. It is enough to follow the task again, also from another process. Store it safely: it may
    /// grant access to the task.
    pub id: String,
    /// The status of the task.
    pub status: TaskStatus,
    /// A status message in the server's words.
    pub message: Option<String>,
    /// The time of its creation, as in ISO 8601, by the server's clock.
    pub created_at: String,
    /// The time of its last change, as in ISO 8601, by the server's clock.
    pub last_updated_at: String,
    /// How long the server keeps the task, from its creation; `None` if for ever or not specified.
    pub ttl: Option<Duration>,
    /// The poll interval that the server asks for.
    pub poll_interval: Option<Duration>,
    /// A text for the model to use at once, while the task is running (2025-11-25).
    pub immediate: Option<String>,
}

impl TaskReport {
    /// Reads a task report from a result or a notification. The result is that of
    /// [`TaskCommand::Status`](crate::peer::client::TaskCommand::Status), or any other that contains a task.
    ///
    /// # Errors
    /// A message that says why the task cannot be read.
    pub fn read(raw: &Raw) -> Result<Self, String> {
        TaskSnapshot::read(raw).map(|snapshot| *snapshot.report)
    }

    /// The size in bytes of its server-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        [
            self.id.len(),
            optional(&self.message),
            self.created_at.len(),
            self.last_updated_at.len(),
            optional(&self.immediate),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}

/// The state of a task at one moment, as the server reported it.
#[derive(Clone, Debug)]
pub(crate) struct TaskSnapshot {
    pub(crate) report: Box<TaskReport>,
    /// The task's input requests, by key.
    pub(crate) requests: OrderedMap<String, Raw>,
    /// The result of the task.
    pub(crate) result: Option<Raw>,
    pub(crate) error: Option<ErrorObject>,
}

/// The fields of a task on the wire, by the names of either revision.
const FIELDS: [&str; 12] = [
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
    "ttlMs",
    "ttl",
    "pollIntervalMs",
    "pollInterval",
    "inputRequests",
    "result",
    "error",
];

/// Key in `_meta` of the result that creates a task: a text for the model to use meanwhile.
const IMMEDIATE: &str = "io.modelcontextprotocol/model-immediate-response";

/// A duration in milliseconds. Servers in languages with one number type write it with a fraction.
fn duration(field: Option<&str>) -> Option<Duration> {
    let milliseconds: f64 = decode_member(field)?;
    Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
}

impl TaskSnapshot {
    /// Reads the result of `tasks/get`, the parameters of a notification, or a task within something else.
    ///
    /// # Errors
    /// A message that says why the task cannot be read.
    pub(crate) fn read(raw: &Raw) -> Result<Self, String> {
        let [
            id,
            status,
            message,
            created_at,
            last_updated_at,
            ttl_ms,
            ttl,
            poll_interval_ms,
            poll_interval,
            requests,
            result,
            error,
        ] = read_members(raw.as_str(), FIELDS).map_err(|error| error.to_string())?;
        // One malformed field must not invalidate the others.
        let id: String = decode_member(id).ok_or("a task without an identifier")?;
        let status: TaskStatus = decode_member(status).ok_or("a task without a known status")?;
        let part = |field: &str| raw.part(field);
        let requests: OrderedMap<String, &RawValue> = decode_member(requests).unwrap_or_default();
        let report = TaskReport {
            id,
            status,
            message: decode_member(message),
            created_at: decode_member(created_at).unwrap_or_default(),
            last_updated_at: decode_member(last_updated_at).unwrap_or_default(),
            ttl: duration(ttl_ms).or_else(|| duration(ttl)),
            poll_interval: duration(poll_interval_ms).or_else(|| duration(poll_interval)),
            immediate: None,
        };
        Ok(Self {
            report: Box::new(report),
            requests: requests.into_iter().map(|(key, request)| (key, part(request.get()))).collect(),
            result: result.filter(|result| result.starts_with('{')).map(part),
            error: decode_member::<TaskError>(error).map(ErrorObject::from),
        })
    }

    /// Reads a result that may be a task, which 2025-11-25 puts into a member; `None` if it is the method's own result.
    pub(crate) fn read_created(raw: &Raw) -> Option<Result<Self, String>> {
        let [task, meta] = read_members(raw.as_str(), ["task", "_meta"]).ok()?;
        let task = task.filter(|task| task.starts_with('{'))?;
        let task = raw.part(task);
        let meta = meta.and_then(|meta| read_members(meta, [IMMEDIATE]).ok());
        let immediate = meta.and_then(|[text]| decode_member(text));
        Some(Self::read(&task).map(|mut snapshot| {
            snapshot.report.immediate = immediate;
            snapshot
        }))
    }
}

// The related task of a message (2025-11-25): messages that a request causes name the same task as the request.
//
// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#related-task-metadata>

/// The related task of a request with these parameters.
pub(crate) fn related_task_of(params: &Raw) -> Option<String> {
    // Few requests have a related task; a search of the raw bytes rules out most others without decoding.
    memchr::memmem::find(params.as_bytes(), meta::RELATED_TASK.as_bytes())?;
    Meta::related_task_of(params).map(|related| related.task_id)
}

/// Encodes a result for `revision`, with its related task.
///
/// # Errors
/// If it does not encode.
pub(crate) fn with_related_task(
    result: &dyn AnyResult,
    revision: Revision,
    task: &str,
) -> Result<EmptyResult, ErrorObject> {
    let mut json = Vec::new();
    let written = result.write_result(&mut json, revision, None).and_then(|()| {
        let mut whole: EmptyResult = serde_json::from_slice(&json)?;
        let related = Json::encode(&RelatedTask::new(task)).map_err(serde_json::Error::custom)?;
        //= C14.7 "related-task meta"
        whole.meta.insert(meta::RELATED_TASK, related);
        Ok(whole)
    });
    written.map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, format!("the result cannot be encoded: {error}"))
    })
}
