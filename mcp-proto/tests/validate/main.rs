//! JSON Schemas, well-meant and hostile.
#![cfg(feature = "schema-validate")]

mod dialects;
mod errors;
mod hostile;
mod outputs;
mod references;

use core::time::Duration;
use std::sync::mpsc;

use mcp_proto::schema::{CallToolResult, Json, Tool};
use mcp_proto::validate::{
    Bound, Bounds, CheckError, Dialect, OutputError, OutputSchemas, Schema, SchemaError,
};
use serde_json::{Map, Value, json};

fn compile(schema: Value) -> Result<Schema, SchemaError> {
    Schema::compile(&schema.into(), &Bounds::default())
}

#[track_caller]
fn schema(schema: Value) -> Schema {
    compile(schema).unwrap()
}

#[track_caller]
fn mismatch(schema: &Schema, value: Value) -> (String, String) {
    match schema.check(&value.into()) {
        Err(CheckError::Mismatch { pointer: at, reason: why }) => (at, why),
        other => panic!("{other:?}"),
    }
}

/// Runs what must neither use the stack up nor go on for ever, on a thread with the stack of a worker.
#[track_caller]
fn guarded<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    thread.spawn(move || done.send(act())).unwrap();
    // Counted steps bound it; this is for when they do not.
    result.recv_timeout(Duration::from_secs(60)).expect("it ends")
}
