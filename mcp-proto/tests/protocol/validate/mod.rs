//! Validation against ordinary and hostile JSON Schemas.
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
        Err(CheckError::Mismatch { pointer, reason }) => (pointer, reason),
        other => panic!("{other:?}"),
    }
}

/// Runs `act`, which must end without exhausting its stack, on a thread with the stack size of a worker.
#[track_caller]
fn guarded<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    thread.spawn(move || done.send(act())).unwrap();
    // The validator counts its steps; the timeout fails the test if that does not bound the work.
    result.recv_timeout(Duration::from_secs(60)).expect("the validator ends without a panic")
}
