//! Writing envelopes, each appended to a buffer in one pass and on one line.

use alloc::vec::Vec;

use memchr::memchr2;
use serde::Serialize;

use super::{ErrorObject, Id, Raw};

/// The id of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorId<'a> {
    /// The id of the request.
    Known(&'a Id),
    /// `null`, as JSON-RPC asks for a request whose id could not be read.
    Null,
    /// No id, as MCP allows since 2025-11-25.
    Absent,
}

/// Appends a request. `params` appends one JSON value, or nothing for a request without parameters.
///
/// # Errors
/// If `params` fails; `out` is as before then.
///
/// ```
/// use mcp_proto::rpc::{Id, write};
///
/// let mut out = Vec::new();
/// write::request(&mut out, &Id::Number(1), "tools/list", |out| write::json(out, &["page"]))?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":["page"]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn request(
    out: &mut Vec<u8>,
    id: &Id,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    on_one_line(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        json(out, id)?;
        out.push(b',');
        call(out, method, params)
    })
}

/// Appends a notification. `params` appends one JSON value, or nothing for a notification without parameters.
///
/// # Errors
/// If `params` fails; `out` is as before then.
pub fn notification(
    out: &mut Vec<u8>,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    on_one_line(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        call(out, method, params)
    })
}

/// Appends the answer to a request. `result` appends one JSON value.
///
/// # Errors
/// If `result` fails; `out` is as before then.
pub fn result(
    out: &mut Vec<u8>,
    id: &Id,
    result: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    on_one_line(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        json(out, id)?;
        out.extend_from_slice(br#","result":"#);
        result(out)?;
        out.push(b'}');
        Ok(())
    })
}

/// Appends an error.
///
/// # Errors
/// If the error's data is not JSON throughout; `out` is as before then.
pub fn error(out: &mut Vec<u8>, id: ErrorId<'_>, error: &ErrorObject) -> Result<(), serde_json::Error> {
    on_one_line(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        match id {
            ErrorId::Known(id) => {
                out.extend_from_slice(br#""id":"#);
                json(out, id)?;
                out.push(b',');
            }
            ErrorId::Null => out.extend_from_slice(br#""id":null,"#),
            ErrorId::Absent => {}
        }
        out.extend_from_slice(br#""error":{"code":"#);
        json(out, &error.code)?;
        out.extend_from_slice(br#","message":"#);
        json(out, &error.message)?;
        if let Some(data) = &error.data {
            out.extend_from_slice(br#","data":"#);
            raw(out, data)?;
        }
        out.extend_from_slice(b"}}");
        Ok(())
    })
}

/// Appends a value as JSON.
///
/// # Errors
/// If its `Serialize` fails; what was written by then is left in `out`.
pub fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut serde_json::Serializer::new(out))
}

/// Appends JSON as it is, once it is known to be JSON throughout.
///
/// # Errors
/// If it is not.
pub fn raw(out: &mut Vec<u8>, value: &Raw) -> Result<(), serde_json::Error> {
    value.validate()?;
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

fn call(
    out: &mut Vec<u8>,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    const PARAMS: &[u8] = br#","params":"#;
    out.extend_from_slice(br#""method":"#);
    json(out, method)?;
    let without = out.len();
    out.extend_from_slice(PARAMS);
    let start = out.len();
    params(out)?;
    if out.len() == start {
        out.truncate(without);
    }
    out.push(b'}');
    Ok(())
}

/// Undoes what a failed `write` appended, and keeps line breaks out of what a successful one did.
fn on_one_line(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    if let Err(error) = write(out) {
        out.truncate(start);
        return Err(error);
    }
    // Strings of valid JSON hold no raw line breaks, so these are whitespace of values taken over as they were.
    let mut rest = out.get_mut(start..).unwrap_or_default();
    while let Some(near) = memchr2(b'\n', b'\r', rest) {
        let Some((line_break, behind)) = rest.get_mut(near..).and_then(<[u8]>::split_first_mut) else {
            break;
        };
        *line_break = b' ';
        rest = behind;
    }
    Ok(())
}
