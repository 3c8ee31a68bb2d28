//! The task that a message belongs to (2025-11-25): what comes of a request names the same one as the request.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#related-task-metadata>

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::Error as _;

use crate::peer::AnyResult;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::legacy::RelatedTask;
use crate::schema::{EmptyResult, Json, Meta, Revision, meta};

/// The task that a request with these parameters belongs to.
pub(crate) fn task_of(params: &Raw) -> Option<String> {
    // Few requests have any, and most of these are seen not to without being read.
    memchr::memmem::find(params.as_bytes(), meta::RELATED_TASK.as_bytes())?;
    Meta::related_task_of(params).map(|related| related.task_id)
}

/// A result as it is written at `revision`, with the task that it belongs to.
///
/// # Errors
/// If it does not encode.
pub(crate) fn with_task(
    result: &dyn AnyResult,
    revision: Revision,
    task: &str,
) -> Result<EmptyResult, ErrorObject> {
    let mut json = Vec::new();
    let written = result.write_result(&mut json, revision, None).and_then(|()| {
        let mut whole: EmptyResult = serde_json::from_slice(&json)?;
        let related = Json::encode(&RelatedTask::new(task)).map_err(serde_json::Error::custom)?;
        whole.meta.insert(meta::RELATED_TASK, related);
        Ok(whole)
    });
    written.map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, format!("the result does not encode: {error}"))
    })
}
