//! Recovery of the id, kind and method of an incomplete or invalid message.

use alloc::borrow::Cow;

use memchr::memrchr;

use super::read::{is_notification, member_name, read_id};
use super::scan::{Cursor, ScanMode, Shape, Value};
use super::{EnvelopeKind, Id, Malformed, MalformedKind, Recovered, Text};

/// Recovers top-level members of a message that is cut off, over-long or invalid.
///
/// `head` is the beginning of the message, or all of it.
///
/// ```
/// use mcp_proto::rpc::{Id, EnvelopeKind, recover};
///
/// let recovered = recover(br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"te"#);
/// assert_eq!(recovered.id, Some(Id::Number(7)));
/// assert_eq!(recovered.kind, Some(EnvelopeKind::Response));
/// ```
#[must_use]
pub fn recover(head: &[u8]) -> Recovered {
    let mut found = RecoveredMembers::default();
    let complete = found.read(head).is_some();
    found.recovered(complete)
}

/// Recovers top-level members of a message from its two ends.
///
/// [`Line::TooLong`](crate::codec::Line::TooLong) has both ends, since many peers write the id behind a long result.
///
/// ```
/// use mcp_proto::rpc::{Id, recover_ends};
///
/// let recovered = recover_ends(br#"{"result":{"content":[{"te"#, br#" over"}]},"jsonrpc":"2.0","id":7}"#);
/// assert_eq!(recovered.id, Some(Id::Number(7)));
/// ```
#[must_use]
pub fn recover_ends(head: &[u8], tail: &[u8]) -> Recovered {
    let mut found = RecoveredMembers::default();
    if found.read(head).is_none() {
        found.read_back(tail);
    }
    found.recovered(false)
}

impl Malformed {
    /// The error for a skipped message of `bytes` bytes, with the members recovered from its two ends.
    #[must_use]
    pub fn too_long(head: &[u8], tail: &[u8], bytes: usize) -> Self {
        Self { kind: MalformedKind::TooLong { bytes }, offset: 0, recovered: recover_ends(head, tail) }
    }
}

#[derive(Default)]
struct RecoveredMembers {
    /// The id, and whether it is an exact id rather than an integral float.
    id: UniqueMember<(Id, bool)>,
    method: UniqueMember<Text>,
    outcome: bool,
    /// Whether the id is `null`.
    null_id: bool,
}

/// A member that counts only if it occurs once and is valid.
#[derive(Default)]
enum UniqueMember<T> {
    #[default]
    Absent,
    Once(Option<T>),
    Repeated,
}

impl<T> UniqueMember<T> {
    fn add(&mut self, value: Option<T>) {
        *self = match self {
            Self::Absent => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }

    fn value(self) -> Option<T> {
        match self {
            Self::Once(value) => value,
            Self::Absent | Self::Repeated => None,
        }
    }
}

impl RecoveredMembers {
    /// Reads members until the object ends (`Some`) or a member cannot be read (`None`).
    fn read(&mut self, head: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(head, 0, ScanMode::Lenient);
        cursor.space();
        if cursor.peek() != Some(b'{') {
            return None;
        }
        cursor.enter().ok()?;
        let mut first = true;
        while let Some(name) = cursor.name(first).ok()? {
            first = false;
            let name = member_name(&name, head).unwrap_or(Cow::Borrowed(b""));
            // The name suffices: the value may be cut off.
            self.outcome |= matches!(&*name, b"result" | b"error");
            let value = cursor.value().ok()?;
            if value.end == head.len() && value.shape == Shape::Number {
                // More digits may have followed.
                return None;
            }
            self.add(&name, &value, head);
        }
        Some(())
    }

    /// Reads members backwards from the end of the message, as long as their values are strings or scalars.
    ///
    /// Going backwards from outside of strings, a quote is the end of a string, and the next quote that is not escaped
    /// is its beginning.
    fn read_back(&mut self, tail: &[u8]) -> Option<()> {
        let mut rest = tail.trim_ascii_end().strip_suffix(b"}")?;
        loop {
            let (before, value) = last_token(rest)?;
            let (before, name) = last_token(before.trim_ascii_end().strip_suffix(b":")?)?;
            let (separator, before) = before.trim_ascii_end().split_last()?;
            if *separator != b',' && *separator != b'{' {
                return None;
            }
            let delimited = Cursor::new(name, 0, ScanMode::Lenient).value().ok()?;
            let name = member_name(&delimited, name).ok()?;
            let delimited = Cursor::new(value, 0, ScanMode::Lenient).value().ok()?;
            self.outcome |= matches!(&*name, b"result" | b"error");
            self.add(&name, &delimited, value);
            rest = before;
        }
    }

    fn add(&mut self, name: &[u8], value: &Value, text: &[u8]) {
        match name {
            b"id" => {
                self.null_id |= value.shape == Shape::Null;
                self.id.add(match read_id(value, text) {
                    Ok(id) => Some((id, true)),
                    Err(_) => value.integral_float(text).map(|number| (Id::Number(number), false)),
                });
            }
            b"method" => self.method.add(value.unescaped(text).map(|method| Text::from(&*method))),
            _ => {}
        }
    }

    fn recovered(self, complete: bool) -> Recovered {
        let called = !matches!(self.method, UniqueMember::Absent);
        let method = self.method.value();
        let notifies = matches!(self.id, UniqueMember::Absent)
            || (self.null_id && method.as_ref().is_some_and(|method| is_notification(method)));
        let kind = match (called, self.outcome) {
            (false, true) => Some(EnvelopeKind::Response),
            (true, false) if notifies => complete.then_some(EnvelopeKind::Notification),
            (true, false) => Some(EnvelopeKind::Request),
            _ => None,
        };
        // A response with an integral float as its id answers the request with that number; a request cannot have such
        // an id.
        let id = self.id.value().filter(|(_, exact)| *exact || kind == Some(EnvelopeKind::Response));
        Recovered { id: id.map(|(id, _)| id), kind, method }
    }
}

/// Splits `text` before the string or scalar at its end.
fn last_token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let start = match text.strip_suffix(b"\"") {
        Some(mut inside) => loop {
            let quote = memrchr(b'"', inside)?;
            inside = inside.get(..quote)?;
            let escapes = inside.iter().rev().take_while(|byte| **byte == b'\\').count();
            if escapes % 2 == 0 {
                break quote;
            }
        },
        None => {
            let scalar = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            text.iter().rposition(|byte| !scalar(byte))?.saturating_add(1)
        }
    };
    text.split_at_checked(start)
}
