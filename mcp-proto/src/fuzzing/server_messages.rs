//! Messages that a fuzzed client receives.

use super::harness::choose;
use crate::prelude::*;
use crate::rpc::Id;

/// The result of `server/discover`.
pub(super) const DISCOVERED: &str =
    r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
/// The error of a server that does not support the requested revision.
pub(super) const UNSUPPORTED: &str =
    r#""error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28","2025-06-18"]}}"#;
/// A result that ends too early.
pub(super) const BROKEN: &str = r#""result":{"content":["#;

pub(super) fn request(id: i64, method: u8) -> String {
    let method = choose(["ping", "roots/list", "sampling/createMessage", "x"], method);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(super) fn progress(token: i64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    )
}

pub(super) fn cancelled(id: u8) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// A notification for the subscription with the id `subscription`.
pub(super) fn subscription_message(what: u8, subscription: &str) -> String {
    let (method, params) = match what % 7 {
        0 => (
            "subscriptions/acknowledged",
            r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["fuzz:r"],"taskIds":["t"]},"#,
        ),
        1 => ("tools/list_changed", ""),
        2 => ("prompts/list_changed", ""),
        3 => ("resources/updated", r#""uri":"fuzz:r","#),
        4 => ("tasks", r#""taskId":"t","status":"working","#),
        5 => ("tasks", r#""taskId":"t","status":"completed","result":{"content":[]},"#),
        _ => ("tasks/status", r#""taskId":"t","status":"completed","#),
    };
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}"_meta":{{"io.modelcontextprotocol/subscriptionId":{subscription}}}}}}}"#
    )
}

/// An answer about a task, by the id of the request: the result that creates one, of either revision, or its status.
pub(super) fn task(id: &Id) -> String {
    let number = match id {
        Id::Number(number) => *number,
        Id::String(_) => 0,
    };
    let status = match number.rem_euclid(14) / 2 {
        0 => r#""input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}"#,
        1 => r#""completed","result":{"content":[]}"#,
        2 => r#""failed","error":{"code":1,"message":"no"}"#,
        3 => r#""cancelled""#,
        _ => r#""working""#,
    };
    let kind = if number % 3 == 0 { "complete" } else { "task" };
    format!(
        r#""result":{{"resultType":"{kind}","taskId":"t","status":{status},"task":{{"taskId":"t","status":"working"}}}}"#
    )
}
