//! The related task of a message (2025-11-25): messages that a request causes name the same task as the request.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#related-task-metadata>

use serde::de::Error as _;

use crate::peer::AnyResult;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::legacy::RelatedTask;
use crate::schema::{EmptyResult, Json, Meta, Revision, meta};

/// The related task of a request with these parameters.
pub(crate) fn task_of(params: &Raw) -> Option<String> {
    // Few requests have a related task; a search of the raw bytes rules out most others without decoding.
    memchr::memmem::find(params.as_bytes(), meta::RELATED_TASK.as_bytes())?;
    Meta::related_task_of(params).map(|related| related.task_id)
}

/// Encodes a result for `revision`, with its related task.
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
        //= C14.7 "related-task meta"
        whole.meta.insert(meta::RELATED_TASK, related);
        Ok(whole)
    });
    written.map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, format!("the result cannot be encoded: {error}"))
    })
}
