//! Encoder of JSON-RPC envelopes: appends each to a buffer in one pass and on one line.

use core::ops::Range;

use memchr::memchr2;
use serde::Serialize;

use super::json_reader::is_plain;
use super::{ErrorObject, Id, Raw};
use crate::prelude::*;

/// The id of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorId<'a> {
    /// The id of the request.
    Known(&'a Id),
    /// `null`, as JSON-RPC requires for a request whose id could not be read.
    Null,
    /// No id, as MCP allows since 2025-11-25.
    Absent,
}

/// Appends a request. `params` appends one JSON value, or nothing for a request without parameters.
///
/// Returns where the parameters lie in `out`; the range is empty if there are none.
///
/// # Errors
/// If `params` fails; `out` is then unchanged.
///
/// ```
/// use mcp_proto::rpc::{Id, write};
///
/// let mut out = Vec::new();
/// let params = write::request(&mut out, &Id::Number(1), "tools/list", |out| write::json(out, &["page"]))?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":["page"]}"#);
/// assert_eq!(&out[params], br#"["page"]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn request(
    out: &mut Vec<u8>,
    id: &Id,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<Range<usize>, serde_json::Error> {
    on_one_line(out, |out| {
        //= C1.1 "Every request has `jsonrpc:"2.0"`, a string or integer id"
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        json(out, id)?;
        out.push(b',');
        call(out, method, params)
    })
}

/// Appends a notification. `params` appends one JSON value, or nothing for a notification without parameters.
///
/// # Errors
/// If `params` fails; `out` is then unchanged.
pub fn notification(
    out: &mut Vec<u8>,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    on_one_line(out, |out| {
        //= C1.4 "Notifications carry no id"
        out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        call(out, method, params).map(drop)
    })
}

//= S1.1 "result or error, never both"
/// Appends the answer to a request. `result` appends one JSON value.
///
/// # Errors
/// If `result` fails; `out` is then unchanged.
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

/// Appends an error response.
///
/// # Errors
/// If the error's data is not valid JSON throughout; `out` is then unchanged.
pub fn error(out: &mut Vec<u8>, id: ErrorId<'_>, error: &ErrorObject) -> Result<(), serde_json::Error> {
    on_one_line(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        //= C1.9 "id may be absent/null only if the id could not be read"
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
        //= C1.9 "code integer, message string"
        json(out, &error.code)?;
        out.extend_from_slice(br#","message":"#);
        text(out, &error.message);
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
/// If the value's `Serialize` fails; `out` is then unchanged.
pub fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    let start = out.len();
    append(out, value).inspect_err(|_| out.truncate(start))
}

#[cfg(feature = "std")]
fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut serde_json::Serializer::new(out))
}

/// Without `std`, serde_json writes only into vectors of its own.
#[cfg(not(feature = "std"))]
fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    serde_json::to_vec(value).map(|json| out.extend_from_slice(&json))
}

/// Appends a text as a JSON string.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    if !is_plain(text.as_bytes()) {
        // A text always encodes.
        _ = json(out, text);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Checks that a raw value is valid JSON throughout, and appends it unchanged.
///
/// # Errors
/// If the value is not valid JSON; `out` is then unchanged.
pub fn raw(out: &mut Vec<u8>, value: &Raw) -> Result<(), serde_json::Error> {
    value.validate()?;
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

fn call(
    out: &mut Vec<u8>,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<Range<usize>, serde_json::Error> {
    const PARAMS: &[u8] = br#","params":"#;
    out.extend_from_slice(br#""method":"#);
    text(out, method);
    let without = out.len();
    out.extend_from_slice(PARAMS);
    let start = out.len();
    params(out)?;
    let end = out.len();
    let written = if end == start {
        out.truncate(without);
        without..without
    } else {
        start..end
    };
    out.push(b'}');
    Ok(written)
}

//= S2.1 "one per line"
/// Runs `write`, replaces the line breaks in its output by spaces, and removes the output of a failed `write`.
fn on_one_line<T>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    let start = out.len();
    let written = write(out).inspect_err(|_| out.truncate(start))?;
    // Strings of valid JSON hold no raw line breaks, so these are whitespace within raw values.
    let mut rest = out.get_mut(start..).unwrap_or_default();
    while let Some(near) = memchr2(b'\n', b'\r', rest) {
        let Some((line_break, behind)) = rest.get_mut(near..).and_then(<[u8]>::split_first_mut) else {
            break;
        };
        //= C3.1 "no embedded newline"
        *line_break = b' ';
        rest = behind;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use serde::ser::Error;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>) -> String {
        let mut out = b"> ".to_vec();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn scanned(text: &'static str) -> Raw {
        Raw::from_scan(text.into())
    }

    #[test]
    fn request_without_params_omits_the_member() {
        let text = written(|out| {
            let params = request(out, &Id::from("a\"b"), "ping", |_| Ok(()))?;
            assert_eq!(out.get(params), Some(&[][..]), "the range lies in the output");
            Ok(())
        });
        assert_eq!(text, r#"> {"jsonrpc":"2.0","id":"a\"b","method":"ping"}"#);
    }

    #[test]
    fn notification_has_no_id() {
        let text = written(|out| notification(out, "notifications/x", |out| json(out, &[1])));
        assert_eq!(text, r#"> {"jsonrpc":"2.0","method":"notifications/x","params":[1]}"#);
    }

    /// S1.1
    #[test]
    fn result_carries_the_id_of_its_request() {
        let text = written(|out| result(out, &Id::Number(-7), |out| json(out, "a\nb")));
        assert_eq!(text, r#"> {"jsonrpc":"2.0","id":-7,"result":"a\nb"}"#);
    }

    /// C1.9
    #[test]
    fn error_has_an_id_or_null_or_none() {
        let plain = ErrorObject::new(-32600, "no\tgood");
        let with_data = plain.clone().with_data(scanned("{ }"));
        let text = written(|out| error(out, ErrorId::Known(&Id::Number(1)), &with_data));
        assert_eq!(
            text,
            r#"> {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no\tgood","data":{ }}}"#
        );
        let text = written(|out| error(out, ErrorId::Null, &plain));
        assert_eq!(text, r#"> {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no\tgood"}}"#);
        let text = written(|out| error(out, ErrorId::Absent, &plain));
        assert_eq!(text, r#"> {"jsonrpc":"2.0","error":{"code":-32600,"message":"no\tgood"}}"#);
    }

    #[test]
    fn failed_write_leaves_the_buffer_unchanged() {
        let mut out = b"kept\n".to_vec();
        let fail = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"half");
            Err(serde_json::Error::custom("no"))
        };
        request(&mut out, &Id::Number(1), "a", fail).unwrap_err();
        notification(&mut out, "a", fail).unwrap_err();
        result(&mut out, &Id::Number(1), fail).unwrap_err();
        let invalid = ErrorObject::new(1, "").with_data(scanned("{\"a\" 1}"));
        error(&mut out, ErrorId::Null, &invalid).unwrap_err();
        assert_eq!(out, b"kept\n");
    }

    /// C3.1
    #[test]
    fn line_breaks_between_raw_tokens_become_spaces() {
        let value = scanned("{\r\n\"a\":\n\"\\n\"}");
        let text = written(|out| result(out, &Id::Number(1), |out| raw(out, &value)));
        assert_eq!(text, r#"> {"jsonrpc":"2.0","id":1,"result":{  "a": "\n"}}"#);
        let text = written(|out| result(out, &Id::Number(1), |out| json(out, &value)));
        assert_eq!(text, r#"> {"jsonrpc":"2.0","id":1,"result":{  "a": "\n"}}"#);
    }

    #[test]
    fn writer_checks_raw_json_before_it_appends_it() {
        let mut out = Vec::new();
        for text in ["{\"a\" 1}", "[1,]", "\"\n\"", "\"\\x\"", "{} {}", ""] {
            raw(&mut out, &scanned(text)).unwrap_err();
            json(&mut out, &(1, scanned(text))).unwrap_err();
        }
        assert!(out.is_empty());
    }
}
