//! Cancellation on the wire, where the end of an exchange does not say it: `notifications/cancelled`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>

use crate::peer::{MessageKind, Outbox};
use crate::prelude::*;
use crate::rpc::{Id, write};
use crate::schema::{Cancelled, Notification as _, Revision};

/// Sends `notifications/cancelled` for this side's request `id` on a channel of messages.
pub(super) fn cancel_by_notification(out: &mut impl Outbox, id: i64, reason: Option<&str>) {
    if write_cancelled(out.buffer(), id, reason).is_ok() {
        out.commit(MessageKind::Notification {
            method: Cancelled::NAME,
            request: None,
            revision: Revision::LATEST,
        });
    }
}

/// Appends `notifications/cancelled` for this side's request `id`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
pub(super) fn write_cancelled(
    out: &mut Vec<u8>,
    id: i64,
    reason: Option<&str>,
) -> Result<(), serde_json::Error> {
    #[derive(serde::Serialize)]
    struct Params<'a> {
        #[serde(rename = "requestId")]
        request_id: Id,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    }
    //= K4 "Cancellation goes on the wire: a notification"
    //= C3.4 "Cancel = `notifications/cancelled` with `requestId`"
    let params = Params { request_id: Id::Number(id), reason };
    write::notification(out, Cancelled::NAME, |buffer| write::json(buffer, &params))
}
