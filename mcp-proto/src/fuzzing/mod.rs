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

mod client;
mod envelope;
mod header;
mod http_client;
mod http_server;
mod lines;
mod schema;
mod server;
mod sse;

use arbitrary::{Arbitrary, Unstructured};

pub use envelope::envelope;
pub use header::header;
pub use lines::lines;
pub use schema::schema;
pub use sse::sse;

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
