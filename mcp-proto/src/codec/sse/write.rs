//! Encoder of event streams. Each function appends to `out`.

use core::time::Duration;

use memchr::memchr2;

use crate::prelude::*;

/// Writes an event.
///
/// The receiver reads every line break in `data`, of any kind, as `\n`. An event stream cannot carry line breaks or
/// NULs in `id` and `name`: they are left out.
///
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>
///
/// ```
/// use mcp_proto::codec::sse::write;
///
/// let mut out = Vec::new();
/// write::event(&mut out, Some("7"), None, b"{}");
/// assert_eq!(out, b"id: 7\ndata: {}\n\n");
/// ```
pub fn event(out: &mut Vec<u8>, id: Option<&str>, name: Option<&str>, data: &[u8]) {
    out.reserve(data.len().saturating_add(32));
    if let Some(name) = name {
        field(out, "event", name);
    }
    if let Some(id) = id {
        field(out, "id", id);
    }
    let mut rest = data;
    loop {
        out.extend_from_slice(b"data: ");
        let end = memchr2(b'\n', b'\r', rest);
        let (line, behind) = end.and_then(|end| rest.split_at_checked(end)).unwrap_or((rest, &[]));
        out.extend_from_slice(line);
        out.push(b'\n');
        if end.is_none() {
            break;
        }
        rest = behind.strip_prefix(b"\r\n").or_else(|| behind.get(1..)).unwrap_or_default();
    }
    out.push(b'\n');
}

/// Writes a priming event: an event without data that gives the client an id to resume from.
///
/// `retry` is the time to wait before the client reconnects, written in whole milliseconds.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::codec::sse::write;
///
/// let mut out = Vec::new();
/// write::priming(&mut out, "7", Some(Duration::from_secs(1)));
/// assert_eq!(out, b"id: 7\nretry: 1000\ndata: \n\n");
/// ```
pub fn priming(out: &mut Vec<u8>, id: &str, retry: Option<Duration>) {
    field(out, "id", id);
    if let Some(retry) = retry {
        field(out, "retry", &retry.as_millis().to_string());
    }
    out.extend_from_slice(b"data: \n\n");
}

/// Writes a comment, which shows that the connection is alive.
pub fn comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

/// Writes the name of an event, whose other lines follow.
#[cfg(all(feature = "http", feature = "server"))]
pub(crate) fn name(out: &mut Vec<u8>, name: &str) {
    field(out, "event", name);
}

fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(value.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
    out.push(b'\n');
}
