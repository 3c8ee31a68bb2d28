//! Tool frames: a dialect of peers over WebSocket that know tool calls alone.
//!
//! No revision of the protocol defines it. Each message of the client is `{"id", "name", "arguments"}`, a call of the
//! tool `name`; the server answers with a JSON-RPC response of that id. There is no handshake, nothing else is
//! requested, and clients ignore all other messages. An adapter translates each message with these functions where the
//! application opts in.
//!
//! ```
//! use mcp_proto::transport::tool_frames::{ClientFrame, frame_of, request_of, response_of};
//!
//! let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":2}}}"#;
//! let ClientFrame::Send(frame) = frame_of(call) else { panic!() };
//! assert_eq!(frame, r#"{"id":1,"name":"add","arguments":{"a":2}}"#);
//!
//! let request = request_of(&frame).unwrap();
//! assert!(request.starts_with(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call""#));
//!
//! assert!(response_of(br#"{"id":1,"result":{"content":[]}}"#).is_some());
//! assert!(response_of(br#"{"type":"ping"}"#).is_none());
//! ```

use alloc::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::prelude::*;
use crate::rpc::code;
use crate::schema::{CallTool, Initialize, Method as _, Ping, Revision};

/// What becomes of a client's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// This frame is sent in its place.
    Send(Bytes),
    /// Nothing is sent; the client receives this response.
    Answer(Bytes),
    /// Nothing is sent: the message has no meaning for the server.
    Drop,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// A tool frame; as the parameters of `tools/call`, without an id.
#[derive(Deserialize, Serialize)]
struct ToolCall<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
}

/// The implementation info of a server without a handshake.
const SERVER: &str = r#"{"name":"tool frames","version":""}"#;
/// The error of requests that such a server does not know.
const UNKNOWN: &str = "the server knows tool frames alone";

//= F59 "Dialect of tool frames `{id, name, arguments}`"
/// Translates a message of a client of 2025-11-25 or earlier: a tool call becomes a frame, and every other request is
/// answered at once, as the server knows none.
#[must_use]
pub fn frame_of(message: &[u8]) -> ClientFrame {
    let Ok(Message { id: Some(id), method: Some(method), params }) = serde_json::from_slice(message) else {
        return ClientFrame::Drop;
    };
    if *method == *CallTool::NAME
        && let Some(call) = params.and_then(|params| serde_json::from_str::<ToolCall<'_>>(params.get()).ok())
        && let Ok(frame) = serde_json::to_vec(&ToolCall { id: Some(id), ..call })
    {
        return ClientFrame::Send(frame.into());
    }
    let member = match &*method {
        Initialize::NAME => format!(
            r#""result":{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER}}}"#,
            Revision::LATEST_LEGACY.as_str()
        ),
        Ping::NAME => r#""result":{}"#.into(),
        _ => format!(r#""error":{{"code":{},"message":"{UNKNOWN}"}}"#, code::METHOD_NOT_FOUND),
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},{member}}}"#, id.get());
    ClientFrame::Answer(answer.into())
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

//= F60 "Unknown frames are ignored"
/// Translates a frame of a server: a response, or `None` for a frame that the client ignores.
#[must_use]
pub fn response_of(frame: &[u8]) -> Option<Bytes> {
    let Response { id: Some(id), result, error } = serde_json::from_slice(frame).ok()? else { return None };
    if result.is_none() && error.is_none() {
        return None;
    }
    serde_json::to_vec(&Envelope { jsonrpc: "2.0", id, result, error }).ok().map(Bytes::from)
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    method: &'static str,
    params: CallParams<'a>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    #[serde(flatten)]
    call: ToolCall<'a>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

/// The metadata of 2026-07-28, which needs no handshake.
#[derive(Serialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: &'static str,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Capabilities,
}

#[derive(Serialize)]
struct Capabilities {}

#[derive(Deserialize)]
struct Marker<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
}

/// Translates a frame of a client to a `tools/call` of 2026-07-28; `None` if it is no tool frame, but perhaps a message
/// of JSON-RPC.
#[must_use]
pub fn request_of(frame: &[u8]) -> Option<Bytes> {
    let Marker { jsonrpc: None, method: None } = serde_json::from_slice(frame).ok()? else { return None };
    let ToolCall { id: Some(id), name, arguments } = serde_json::from_slice(frame).ok()? else { return None };
    let request = Request {
        jsonrpc: "2.0",
        id,
        method: CallTool::NAME,
        params: CallParams {
            call: ToolCall { id: None, name, arguments },
            meta: Meta { version: Revision::LATEST.as_str(), capabilities: Capabilities {} },
        },
    };
    serde_json::to_vec(&request).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn text(bytes: &Bytes) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// F59
    #[test]
    fn only_tool_calls_are_sent() {
        let sent = |message: &str| frame_of(message.as_bytes());
        let call =
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a\"b","_meta":{"x":1}}}"#;
        assert_eq!(sent(call), ClientFrame::Send(r#"{"id":7,"name":"a\"b"}"#.into()));
        assert_eq!(sent(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), ClientFrame::Drop);
        assert_eq!(sent(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), ClientFrame::Drop);
        let ClientFrame::Answer(answer) = sent(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#) else {
            panic!()
        };
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        let list = sent(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
        let ClientFrame::Answer(answer) = list else { panic!() };
        assert!(text(&answer).contains(r#""id":3,"error":{"code":-32601"#), "{}", text(&answer));
        let hello = sent(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
        let ClientFrame::Answer(answer) = hello else { panic!() };
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"#,
            r#""serverInfo":{"name":"tool frames","version":""}}}"#,
        );
        assert_eq!(answer, expected);
    }

    /// F60
    #[test]
    fn frames_that_are_no_response_are_ignored() {
        for frame in
            [r#"{"type":"ping"}"#, r#"{"type":"notification","id":1}"#, "[]", "x", r#"{"result":{}}"#]
        {
            assert_eq!(response_of(frame.as_bytes()), None, "{frame}");
        }
        let answer = response_of(br#"{"id":1,"error":{"code":-1,"message":"no"},"more":2}"#).unwrap();
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#);
    }

    #[test]
    fn messages_of_json_rpc_are_no_tool_frames() {
        for frame in [
            r#"{"jsonrpc":"2.0","id":1,"name":"add"}"#,
            r#"{"id":1,"method":"x","name":"add"}"#,
            r#"{"name":"add"}"#,
            "[]",
        ] {
            assert_eq!(request_of(frame.as_bytes()), None, "{frame}");
        }
        let request = request_of(br#"{"name":"add","id":"x","arguments":{"a":2}}"#).unwrap();
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"add","arguments":{"a":2},"#,
            r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        );
        assert_eq!(request, expected);
    }
}
