//! Event streams that consist of `result` fragments and end with `complete` or `error`: no revision of the protocol has
//! them, some servers do.
//!
//! | event | its data | what it means |
//! |---|---|---|
//! | `result` | members of a result, or a message with such a result | a part: `content` goes on, other members replace those before |
//! | `complete` | the same | the last part; if it has content of its own, the whole of it |
//! | `error` | an error, or a message with one | the request has failed |

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::rpc::{ErrorObject, Raw, write};

const CONTENT: &str = "content";

/// The parts of a result that have arrived.
#[derive(Debug, Default)]
pub(super) struct ResultChunks {
    /// The elements of its content, with commas between them.
    content: Vec<u8>,
    members: BTreeMap<Box<str>, Raw>,
    bytes: usize,
}

type Members<'a> = BTreeMap<Box<str>, &'a RawValue>;

impl ResultChunks {
    /// Adds the part that an event brings; returns whether it can be read.
    pub(super) fn add(&mut self, data: &[u8]) -> bool {
        let members = parse_members(data);
        let is_readable = members.is_some();
        self.add_members(members.unwrap_or_default());
        is_readable
    }

    /// How many bytes of the server's it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn add_members(&mut self, members: Members<'_>) {
        for (name, value) in members {
            self.bytes = self.bytes.saturating_add(name.len()).saturating_add(value.get().len());
            let elements = value.get().trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match elements.filter(|_| *name == *CONTENT) {
                Some(elements) if elements.trim().is_empty() => {}
                Some(elements) => {
                    if !self.content.is_empty() {
                        self.content.push(b',');
                    }
                    self.content.extend_from_slice(elements.as_bytes());
                }
                None => {
                    self.members.insert(name, Raw::from_scan(Bytes::copy_from_slice(value.get().as_bytes())));
                }
            }
        }
    }

    /// Adds the last part, and returns the whole result.
    ///
    /// # Errors
    /// What is wrong with the last part, or with all of them together.
    pub(super) fn finish(mut self, data: &[u8]) -> Result<Raw, &'static str> {
        let members = parse_members(data).ok_or("the result could not be read")?;
        let has_content = members.get(CONTENT).is_some_and(|content| {
            serde_json::from_str::<Vec<&RawValue>>(content.get()).is_ok_and(|content| !content.is_empty())
        });
        if has_content {
            self.content.clear();
        }
        self.add_members(members);
        self.join().ok_or("the parts of the result do not fit together")
    }

    fn join(mut self) -> Option<Raw> {
        self.members.remove(CONTENT);
        let mut out = b"{\"content\":[".to_vec();
        out.extend_from_slice(&self.content);
        out.push(b']');
        for (name, value) in &self.members {
            out.push(b',');
            write::json(&mut out, name).ok()?;
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
        let text = String::from_utf8(out).ok()?;
        Raw::new(text).ok()
    }
}

/// The members of a result: those of the data, or of the message that the data is.
fn parse_members(data: &[u8]) -> Option<Members<'_>> {
    let members: Members<'_> = serde_json::from_slice(data).ok()?;
    match members.get("result") {
        Some(result) if !members.contains_key(CONTENT) => serde_json::from_str(result.get()).ok(),
        _ => Some(members),
    }
}

/// The error that the data is, or that the message has which the data is.
pub(super) fn parse_error(data: &[u8]) -> Option<ErrorObject> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        code: i64,
        message: String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let members: Members<'_> = serde_json::from_slice(data).ok()?;
    let fields: Fields<'_> = match members.get("error") {
        Some(error) => serde_json::from_str(error.get()).ok()?,
        None => serde_json::from_slice(data).ok()?,
    };
    let data = fields.data.map(|data| Raw::from_scan(Bytes::copy_from_slice(data.get().as_bytes())));
    Some(ErrorObject { code: fields.code, message: fields.message, data })
}
