//! The first request of the application, which says who it is and what it can do.

use std::future;
use std::io;

use mcp_proto::Limits;
use mcp_proto::schema::{ClientCapabilities, Implementation, Initialize, Method as _, Ping, meta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use smol::io::{AsyncRead, AsyncReadExt as _};

/// The first request of the application.
#[derive(Debug, Default)]
pub(super) struct FirstRequest {
    /// Its id; `null` if it is none.
    pub(super) id: Value,
    /// The application's name and version, if it says them.
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    /// Whether it is a request of 2026-07-28, rather than `initialize`.
    pub(super) is_modern: bool,
    /// Everything that was read: the request too, which is answered once the server is known.
    pub(super) read: Vec<u8>,
}

#[derive(Deserialize)]
struct FirstMessage {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Map<String, Value>,
}

impl FirstRequest {
    /// Reads up to the first request other than `ping`; `None` if there is none.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) async fn read(input: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let (mut read, mut begin) = (Vec::new(), 0);
        loop {
            let scanned = read.len();
            let count = read_some(input, &mut read).await?;
            let ends = line_ends(read.get(scanned..).unwrap_or_default()).map(|end| scanned + end);
            for end in ends.collect::<Vec<_>>() {
                let line = read.get(begin..end).unwrap_or_default();
                begin = end + 1;
                if let Some(first) = Self::of(line) {
                    return Ok(Some(Self { read, ..first }));
                }
            }
            if count == 0 {
                return Ok(None);
            }
            // The machine that reads it next refuses an oversized message.
            if is_full(&read) {
                return Ok(Some(Self { read, ..Self::default() }));
            }
        }
    }

    fn of(line: &[u8]) -> Option<Self> {
        let FirstMessage { id, method, params } = serde_json::from_slice(line).ok()?;
        let (id, method) = (id?, method.filter(|method| method != Ping::NAME)?);
        let is_modern = method != Initialize::NAME;
        let mut members = params;
        let (mut info, mut capabilities) = ("clientInfo", "capabilities");
        if is_modern {
            members = members.remove("_meta").and_then(decode).unwrap_or_default();
            (info, capabilities) = (meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES);
        }
        let info = members.remove(info).and_then(decode);
        let capabilities = members.remove(capabilities).and_then(decode).unwrap_or_default();
        Some(Self { id, info, capabilities, is_modern, read: Vec::new() })
    }
}

/// Reads on until the application has closed its side. It can be dropped at any time.
pub(super) async fn read_to_end(input: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) {
    while !is_full(read) {
        if let Ok(0) | Err(_) = read_some(input, read).await {
            return;
        }
    }
    future::pending().await
}

async fn read_some(input: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) -> io::Result<usize> {
    let mut block = vec![0; 16 * 1024];
    let count = input.read(&mut block).await?;
    read.extend_from_slice(block.get(..count).unwrap_or_default());
    Ok(count)
}

fn is_full(read: &[u8]) -> bool {
    read.len() > Limits::default().message_bytes
}

/// The positions of the ends of lines.
fn line_ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at)
}

fn decode<T: DeserializeOwned>(value: Value) -> Option<T> {
    // The types of the protocol are read from text alone.
    serde_json::from_str(&value.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::schema::ClientCapability;
    use smol::future::block_on;

    fn first(text: &str) -> Option<FirstRequest> {
        block_on(FirstRequest::read(&mut text.as_bytes())).unwrap()
    }

    #[test]
    fn first_request_names_the_application_and_its_capabilities() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let legacy =
            r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18",
            "capabilities":{"sampling":{}},"clientInfo":{"name":"desk","version":"1"}}}"#
                .replace('\n', "");
        let modern = r#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientInfo":{"name":"desk","version":"1"},
            "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}"#
            .replace('\n', "");
        for (request, is_modern) in [(legacy, false), (modern, true)] {
            let text = format!("{ping}\n\nnoise\n{request}\n{ping}\n");
            let found = first(&text).unwrap();
            assert_eq!((found.is_modern, found.info.unwrap().name), (is_modern, "desk".to_owned()));
            assert!(found.capabilities.has(ClientCapability::Sampling));
            assert_eq!(found.read, text.as_bytes());
        }
    }

    #[test]
    fn application_that_sends_no_request_has_no_first_request() {
        for text in ["", "\n", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "[]\n"] {
            assert!(first(text).is_none(), "{text}");
        }
        let endless = "x".repeat(Limits::default().message_bytes + 1);
        assert_eq!(first(&endless).unwrap().id, Value::Null);
    }
}
