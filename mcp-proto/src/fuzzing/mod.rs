//! The bodies of the fuzz targets: here, so that they compile with what they test and run in ordinary tests as well.
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
mod header;
mod http_client;
mod http_server;
mod lines;
mod metadata;
mod reach;
mod schema;
mod server;
mod sse;
mod token_answer;

use alloc::format;
use alloc::string::String;

use arbitrary::{Arbitrary, Unstructured};

use crate::rpc::Id;

pub use challenge::challenge;
pub use envelope::envelope;
pub use header::header;
pub use lines::lines;
pub use metadata::metadata;
pub use reach::reach;
pub use schema::schema;
pub use sse::sse;
pub use token_answer::token_answer;

/// Runs a body on structured input made from a fuzzer's bytes.
fn structured<T: for<'a> Arbitrary<'a>>(data: &[u8], body: impl FnOnce(&T)) {
    if let Ok(input) = T::arbitrary_take_rest(Unstructured::new(data)) {
        body(&input);
    }
}

/// A client under arbitrary operations.
pub fn client(data: &[u8]) {
    structured(data, client::client);
}

/// A client over HTTP under arbitrary operations.
pub fn http_client(data: &[u8]) {
    structured(data, http_client::http_client);
}

/// A server under arbitrary operations.
pub fn server(data: &[u8]) {
    structured(data, server::server);
}

/// A server over HTTP under arbitrary operations.
pub fn http_server(data: &[u8]) {
    structured(data, http_server::http_server);
}

/// What a server may answer of a task, by the id of the request: as the result that creates one, of either revision, and
/// as what has become of it.
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
