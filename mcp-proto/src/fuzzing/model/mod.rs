//! Reference models of a client and a server on a stream, and of an HTTP server: their outcomes, order, ids and states.
//!
//! A model is written to be read beside the specification. It shares no code with the machine that it judges: it reads JSON
//! with `serde_json`, keeps plain lists, and is as slow as that is. After each operation the fuzzer takes all output and all
//! events of the machine and shows them to the model. The model knows what must follow an operation, and fails if
//! something is missing, or if there is anything else.
//!
//! A model stops at input that it does not predict, such as bytes that are no message, and when the connection closes: from then
//! on the contracts alone are checked. [`MODELS`](super::MODELS) counts the operations that the models cover.

mod client;
mod http_server;
mod server;

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

pub(super) use client::ClientModel;
pub(super) use http_server::{HttpServerKind, HttpServerModel};
pub(super) use server::{SentAnswer, ServerModel};

/// The revisions with a handshake.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN: &str = "2026-07-28";
/// The key of a request's revision in its `_meta`.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A JSON-RPC message.
#[derive(Debug)]
enum Message {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Result { id: Value, result: Value },
    Error { id: Value, error: Value },
}

impl Message {
    /// Reads a message that has the members of one kind, and no others.
    fn read(value: Value) -> Option<Self> {
        let Value::Object(mut members) = value else { return None };
        if members.remove("jsonrpc")? != "2.0" {
            return None;
        }
        let mut take = |name: &str| members.remove(name);
        let (id, method, params) = (take("id"), take("method"), take("params"));
        let (result, error) = (take("result"), take("error"));
        if !members.is_empty() || params.as_ref().is_some_and(|params| !params.is_object()) {
            return None;
        }
        let is_id = |id: &Value| id.is_string() || id.is_i64();
        match (id, method, result, error) {
            (Some(id), Some(Value::String(method)), None, None) if is_id(&id) => {
                Some(Self::Request { id, method, params: params.unwrap_or_default() })
            }
            (None, Some(Value::String(method)), None, None) => {
                Some(Self::Notification { method, params: params.unwrap_or_default() })
            }
            (Some(id), None, Some(result), None) if is_id(&id) => Some(Self::Result { id, result }),
            (Some(id), None, None, Some(error)) if id.is_null() || is_id(&id) => {
                error["code"].is_i64().then_some(Self::Error { id, error })
            }
            _ => None,
        }
    }

    /// Reads a line, and whether it is a batch; `None` if it is not JSON, or no messages.
    fn read_line(line: &[u8]) -> Option<(Vec<Self>, bool)> {
        match serde_json::from_slice(line).ok()? {
            Value::Array(batch) => Some((batch.into_iter().map(Self::read).collect::<Option<_>>()?, true)),
            single => Some((Vec::from([Self::read(single)?]), false)),
        }
    }
}

/// The lines of input that comes in pieces.
#[derive(Debug, Default)]
struct InputLines(Vec<u8>);

impl InputLines {
    fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.0.extend(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let rest = self.0.split_off(end + 1);
            let mut line = core::mem::replace(&mut self.0, rest);
            line.pop();
            if !line.iter().all(u8::is_ascii_whitespace) {
                lines.push(line);
            }
        }
        lines
    }
}
