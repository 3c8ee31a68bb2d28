//! Messages that several tests send.

use serde_json::{Value, json};

pub const MODERN: &str = "2026-07-28";
pub const LEGACY: &str = "2025-11-25";

/// Parses the lines of a peer's output.
pub fn parse_lines(output: &[u8]) -> impl Iterator<Item = Value> {
    let lines = output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("a line is a JSON message"))
}

pub fn request(id: &Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub fn error(id: &Value, code: i64) -> Value {
    error_with(id, code, None)
}

pub fn error_with(id: &Value, code: i64, data: Option<Value>) -> Value {
    let mut error = json!({"code": code, "message": "no"});
    if let Some(data) = data {
        error["data"] = data;
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

pub fn progress(id: &Value, value: u32) -> Value {
    notification("notifications/progress", json!({"progressToken": id, "progress": value}))
}

/// The result of a tool call.
pub fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

/// The `_meta` of a request of 2026-07-28.
pub fn request_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    })
}

/// Adds [`request_meta`] to the parameters, whose own members take precedence.
pub fn with_request_meta(mut params: Value) -> Value {
    let own = params["_meta"].take();
    params["_meta"] = request_meta();
    for (key, value) in own.as_object().into_iter().flatten() {
        params["_meta"][key] = value.clone();
    }
    params
}

pub fn discover_result() -> Value {
    let mut capabilities = server_capabilities();
    capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    json!({
        "resultType": "complete", "supportedVersions": [MODERN], "capabilities": capabilities,
        "ttlMs": 0, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
    })
}

pub fn initialize_result(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": server_capabilities(),
        "serverInfo": {"name": "scripted", "version": "1"}, "instructions": "Ask nicely.",
    })
}

pub fn server_capabilities() -> Value {
    json!({
        "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true}, "completions": {}, "logging": {},
    })
}
