//! Bodies of the fuzz targets: in this crate, so that they compile with the code under test and run in ordinary tests
//! too.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a panic is how a fuzz target reports"
)]

mod challenge;
mod client;
mod envelope;
mod fetch_policy;
mod header;
mod http_client;
mod http_server;
mod lines;
mod metadata;
mod schema;
mod server;
mod sse;
mod token_answer;

use alloc::format;
use alloc::string::String;

use arbitrary::{Arbitrary, Unstructured};

use crate::peer::client::{TaskCommand, WatchFilter};
use crate::rpc::Id;

pub use challenge::challenge;
pub use envelope::envelope;
pub use fetch_policy::fetch_policy;
pub use header::header;
pub use lines::lines;
pub use metadata::metadata;
pub use schema::schema;
pub use sse::sse;
pub use token_answer::token_answer;

/// Runs a body on structured input derived from a fuzzer's bytes.
fn structured<T: for<'a> Arbitrary<'a>>(data: &[u8], body: impl FnOnce(&T)) {
    if let Ok(input) = T::arbitrary_take_rest(Unstructured::new(data)) {
        body(&input);
    }
}

/// Fuzzes a client with arbitrary operations.
pub fn client(data: &[u8]) {
    structured(data, client::client);
}

/// Fuzzes a client over HTTP with arbitrary operations.
pub fn http_client(data: &[u8]) {
    structured(data, http_client::http_client);
}

/// Fuzzes a server with arbitrary operations.
pub fn server(data: &[u8]) {
    structured(data, server::server);
}

/// Fuzzes a server over HTTP with arbitrary operations.
pub fn http_server(data: &[u8]) {
    structured(data, http_server::http_server);
}

/// A watch filter from the bits of a number.
fn watch_filter(bits: u8) -> WatchFilter {
    let mut interest = WatchFilter::new();
    if bits & 1 != 0 {
        interest = interest.tools();
    }
    if bits & 2 != 0 {
        interest = interest.prompts();
    }
    if bits & 4 != 0 {
        interest = interest.resources();
    }
    if bits & 8 != 0 {
        interest = interest.resource("fuzz:r");
    }
    if bits & 16 != 0 {
        interest = interest.task("t");
    }
    interest
}

/// A command for the one task that all servers have.
fn task_command(which: u8) -> TaskCommand {
    [TaskCommand::Follow, TaskCommand::Status, TaskCommand::Cancel][usize::from(which % 3)]
}

/// A notification for the subscription with the id `subscription`.
fn subscription_message(what: u8, subscription: &str) -> String {
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
fn task(id: &Id) -> String {
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
