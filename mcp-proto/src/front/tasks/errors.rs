//! The errors of requests about tasks.

use alloc::format;

use super::StoreError;
use crate::front::reply::Reply;
use crate::peer::Denial;
use crate::rpc::{ErrorObject, code};

//= S11.7 "Unknown taskId → -32602"
/// The error for a task that does not exist, or belongs to another client: the client must not learn which.
pub(super) fn unknown_task(id: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, format!("unknown task {id:?}, or one that has expired"))
}

/// The reply to a call that exceeds the limits of running or stored tasks.
pub(super) fn no_capacity(what: &str) -> Reply {
    Reply::Denied(ErrorObject::new(code::INTERNAL_ERROR, what), Denial::NoRoom)
}

/// The error for a failure of the store.
pub(super) fn store_failed(error: StoreError) -> ErrorObject {
    let code = match error {
        StoreError::Cursor => code::INVALID_PARAMS,
        _ => code::INTERNAL_ERROR,
    };
    ErrorObject::new(code, format!("{error}"))
}

/// The error for tasks of another instance that this one cannot change, because the store is not shared.
pub(super) fn runs_elsewhere() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, "the task runs in another instance of this server")
}

/// The error of tasks whose runner has ended.
pub(super) fn server_ended() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, "the server ended before the task")
}
