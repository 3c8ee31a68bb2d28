//! JSON-RPC messages: requests, notifications, responses and batches, their ids, errors and undecoded values.

use core::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

use super::envelope::element;
use super::json_reader::{Reader, Span};
use super::json_value::JsonValue;
use super::members::NotedMembers;
use super::scan::{Cursor, ScanMode, Value};
use super::{EnvelopeKind, Malformed, Text, read_members};
use crate::prelude::*;
use crate::text::SafeText;

/// One JSON-RPC message.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A call that the receiver answers.
    Request(Request),
    /// A call that is never answered.
    Notification(Notification),
    /// The answer to a request.
    Response(Response),
}

/// A call that the receiver answers with a [`Response`] of the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id that the sender chose.
    pub id: Id,
    /// The method.
    pub method: Text,
    /// An object or an array; `null` counts as none.
    pub params: Option<Raw>,
}

/// A call that is never answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The method.
    pub method: Text,
    /// An object or an array; `null` counts as none.
    pub params: Option<Raw>,
    /// The tolerated breach of JSON-RPC: the id of a method `notifications/…` is `null`. `None` for a valid notification.
    pub deviation: Option<Box<Malformed>>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The id of the request; `None` (absent or `null`) only for an error whose sender could not read the id.
    pub id: Option<Id>,
    /// The result or the error.
    pub outcome: Result<Raw, ErrorObject>,
    /// The first tolerated breach of JSON-RPC: an id that is an integral float, an error that is not an object or has
    /// no integer code or no string message, text that is not Unicode. `None` for a valid response.
    pub deviation: Option<Box<Malformed>>,
}

impl Message {
    /// The kind of the message.
    #[must_use]
    pub fn kind(&self) -> EnvelopeKind {
        match self {
            Self::Request(_) => EnvelopeKind::Request,
            Self::Notification(_) => EnvelopeKind::Notification,
            Self::Response(_) => EnvelopeKind::Response,
        }
    }
}

/// The content of one line or one body: a message or a batch.
#[derive(Clone, Debug)]
pub enum Frame {
    /// A message.
    Single(Message),
    /// An array of messages: revision 2025-03-26 only.
    Batch(Batch),
}

/// An iterator over the messages of a batch, which parses each on demand; a malformed one does not affect the others.
///
/// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
#[derive(Clone, Debug)]
pub struct Batch {
    frame: Text,
    /// The offset behind the opening bracket or behind the last element returned.
    at: usize,
    left: usize,
    first: bool,
    max_depth: usize,
}

impl Batch {
    /// The greatest number of elements accepted. The answers are held until the last one is ready, and no known peer
    /// sends more than a few.
    pub const MAX: usize = 1024;

    /// A batch over an array of `left` elements that has been scanned; `at` is the offset behind its opening bracket.
    pub(super) fn new(frame: Text, at: usize, left: usize, max_depth: usize) -> Self {
        Self { frame, at, left, first: true, max_depth }
    }

    /// The number of messages left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether no message is left. A batch that is empty from the start is an error: answer it with
    /// [`INVALID_REQUEST`](super::code::INVALID_REQUEST).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Batch {
    fn next_value(&mut self) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let mode = ScanMode::Strict { max_depth: self.max_depth };
        let mut cursor = Cursor::new(self.frame.as_bytes(), self.at, mode);
        // The array was scanned as a whole: each element is complete.
        cursor.item(self.first, b']', "a comma").ok()?;
        let value = cursor.value().ok()?;
        self.first = false;
        self.at = value.end;
        Some(value)
    }

    /// The text of the next element, unparsed.
    #[cfg(feature = "std")]
    pub(crate) fn next_text(&mut self) -> Option<Bytes> {
        let value = self.next_value()?;
        Some(self.frame.as_bytes().slice(value.start..value.end))
    }
}

impl Iterator for Batch {
    type Item = Result<Message, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.next_value()?;
        Some(element(&self.frame, value, self.max_depth))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Batch {}

/// The id of a request on the wire, or a progress token: an integer or a string.
///
/// `0` and `""` are valid ids. Fractions, `null` and integers beyond 64 bits are not.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#requests>
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string, unescaped.
    String(Box<str>),
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// As JSON: a string in quotes, so that `1` and `"1"` differ.
display_text! { Id:
    Number(number) => "{number}";
    String(text) => "{text:?}";
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a string")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                i64::try_from(number).map(Id::Number).map_err(|_| E::custom("id beyond 64 bits"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id::String(text.into()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A JSON-RPC error object, received from a peer or sent to one.
///
/// Errors that occur on this side have types of their own, so that they are never mistaken for a peer's answer.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-responses>
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct ErrorObject {
    /// The kind of error: see [`code`].
    pub code: i64,
    /// A sentence that describes the error.
    pub message: String,
    /// Further information, as raw JSON.
    pub data: Option<Raw>,
}

/// How many of the capabilities that a client lacks are shown.
const MAX_SHOWN_CAPABILITIES: usize = 8;

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets [`data`](Self::data).
    #[must_use]
    pub fn with_data(mut self, data: Raw) -> Self {
        self.data = Some(data);
        self
    }

    /// The size in bytes of its message and its data.
    pub(crate) fn bytes(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.as_bytes().len());
        self.message.len().saturating_add(data)
    }

    /// Whether this answer to `resources/read` means that the resource does not exist: the code is
    /// [`RESOURCE_NOT_FOUND`](code::RESOURCE_NOT_FOUND), or [`INVALID_PARAMS`](code::INVALID_PARAMS) with a `uri` in the
    /// data. Invalid parameters without a `uri` may have another reason.
    ///
    /// ```
    /// use mcp_proto::rpc::{ErrorObject, Raw, code};
    ///
    /// assert!(ErrorObject::new(code::RESOURCE_NOT_FOUND, "2025-11-25").is_resource_not_found());
    /// let data = Raw::new(r#"{"uri":"file:///missing.txt"}"#)?;
    /// assert!(ErrorObject::new(code::INVALID_PARAMS, "2026-07-28").with_data(data).is_resource_not_found());
    /// assert!(!ErrorObject::new(code::INVALID_PARAMS, "`uri` is missing").is_resource_not_found());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling>
    pub fn is_resource_not_found(&self) -> bool {
        let names_uri = || {
            let members = self.data.as_ref().and_then(|data| read_members(data.as_str(), ["uri"]).ok());
            matches!(members, Some([Some(_)]))
        };
        //= C1.13 "Still accept -32002 as "resource not found" from older servers"
        self.code == code::RESOURCE_NOT_FOUND || (self.code == code::INVALID_PARAMS && names_uri())
    }

    /// The first capabilities that the data says the client must declare: `elicitation.url`, for example.
    fn required_capabilities(&self) -> Vec<String> {
        let read = |data: &Raw| {
            let [required] = read_members(data.as_str(), ["requiredCapabilities"]).ok()?;
            serde_json::from_str(required?).ok()
        };
        let Some(JsonValue::<false>(serde_json::Value::Object(required))) = self.data.as_ref().and_then(read)
        else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for (name, settings) in &required {
            match settings.as_object().filter(|parts| !parts.is_empty()) {
                Some(parts) => names.extend(parts.keys().map(|part| format!("{name}.{part}"))),
                None => names.push(name.clone()),
            }
        }
        names.sort_unstable();
        names.truncate(MAX_SHOWN_CAPABILITIES);
        names
    }
}

impl fmt::Display for ErrorObject {
    /// Writes the message as [`SafeText`](crate::consent::SafeText), the capabilities that the client must declare, if it is
    /// that error, and the code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = SafeText::block(&self.message);
        //= F48 "shown with its code and message"
        match self.code {
            code::UNREADABLE => message.fmt(f),
            code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                message.fmt(f)?;
                for (index, name) in self.required_capabilities().iter().enumerate() {
                    let before = if index == 0 { ": " } else { ", " };
                    write!(f, "{before}{}", SafeText::line(name))?;
                }
                write!(f, " ({})", self.code)
            }
            code => write!(f, "{message} ({code})"),
        }
    }
}

impl core::error::Error for ErrorObject {}

/// The error codes of JSON-RPC and of all MCP revisions.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes>
pub mod code {
    /// Placeholder for a code that the peer left out or that is not an integer. It is not a code of JSON-RPC, and
    /// [`ErrorObject`](super::ErrorObject) does not display it.
    pub const UNREADABLE: i64 = 0;
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The receiver has no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed to process the request.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The resource does not exist: 2025-11-25 and earlier; since then [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit a URL first: 2025-11-25 only.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header is missing or contradicts the body: since 2026-07-28.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare with it: since 2026-07-28.
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
    /// The server does not speak the requested version: since 2026-07-28.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
    /// The user rejected a sampling request.
    pub const USER_REJECTED: i64 = -1;

    /// Whether a code is in the range that JSON-RPC reserves, and neither JSON-RPC nor MCP defines it.
    pub(crate) const fn is_undefined(code: i64) -> bool {
        let defined = matches!(
            code,
            PARSE_ERROR
                | INVALID_REQUEST
                | METHOD_NOT_FOUND
                | INVALID_PARAMS
                | INTERNAL_ERROR
                | RESOURCE_NOT_FOUND
                | URL_ELICITATION_REQUIRED
                | HEADER_MISMATCH
                | MISSING_REQUIRED_CLIENT_CAPABILITY
                | UNSUPPORTED_PROTOCOL_VERSION
        );
        matches!(code, -32_768..=-32_000) && !defined
    }
}

/// An undecoded JSON value: a slice of the input that is delimited by its structure and valid UTF-8.
///
/// It shares the memory of the input. Only [`decode`](Self::decode) and [`validate`](Self::validate) check that it is
/// valid JSON throughout.
#[derive(Clone)]
pub struct Raw {
    text: ByteString,
    /// What the scan has noted, if it has found valid JSON.
    noted: NotedMembers,
}

impl Raw {
    /// A `Raw` of a slice that the structural scan has delimited.
    pub(crate) fn from_scan(text: ByteString) -> Self {
        Self { text, noted: NotedMembers::UNKNOWN }
    }

    pub(super) fn with_noted(self, noted: Option<NotedMembers>) -> Self {
        Self { noted: noted.unwrap_or(NotedMembers::UNKNOWN), ..self }
    }

    /// The `_meta` of an object that is valid JSON, if the scan has noted whether there is one.
    pub(crate) fn known_meta(&self) -> Option<Option<&str>> {
        self.known(self.noted.meta())
    }

    fn known(&self, span: Span) -> Option<Option<&str>> {
        self.noted.is_complete().then(|| span.of(self.as_str()))
    }

    /// A reader that does not scan again what has been scanned.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::with_known(self.as_str(), self.noted.spans())
    }

    /// The `_meta` of an object, unless it is null.
    pub(crate) fn meta(&self) -> Option<Self> {
        self.known_or_read(self.noted.meta(), "_meta")
    }

    /// The `arguments` of an object, unless they are null.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(crate) fn arguments(&self) -> Option<Self> {
        self.known_or_read(self.noted.arguments(), "arguments")
    }

    /// The `name` and the `arguments` of an object without other members but `_meta`, like most tool calls. `None` if
    /// the scan has not noted so, and for a name with escapes or arguments of another type.
    #[cfg(all(feature = "std", feature = "server"))]
    pub(crate) fn plain_call(&self) -> Option<(ByteString, Option<Self>)> {
        let name = self.known(self.noted.only_name())??.strip_prefix('"')?.strip_suffix('"')?;
        if name.contains('\\') {
            return None;
        }
        let arguments = match self.noted.arguments().of(self.as_str()) {
            Some(object) if object.starts_with('{') => Some(self.part(object)),
            Some(_) => return None,
            None => None,
        };
        Some((self.text.slice_ref(name), arguments))
    }

    fn known_or_read(&self, span: Span, name: &str) -> Option<Self> {
        let value = match self.known(span) {
            Some(value) => value.filter(|value| *value != "null"),
            None => read_members(self.as_str(), [name]).ok()?.into_iter().next()?,
        };
        Some(self.part(value?))
    }

    /// Checks that `text` is one JSON value, and wraps it.
    ///
    /// # Errors
    /// If `text` is not exactly one JSON value.
    pub fn new(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let text: String = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Self::from_scan(text.into()))
    }

    /// Encodes a value as JSON.
    ///
    /// # Errors
    /// If the value's `Serialize` fails.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self::from_scan(text.into()))
    }

    /// Decodes the value, borrowing from it where `T` borrows.
    ///
    /// # Errors
    /// If it is not JSON, or not a `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Checks that the value is valid JSON throughout.
    ///
    /// # Errors
    /// If it is not; the error tells the position.
    pub fn validate(&self) -> Result<(), serde_json::Error> {
        if self.noted.is_complete() {
            return Ok(());
        }
        self.decode::<de::IgnoredAny>().map(drop)
    }

    /// A value within this one: `part` must have been borrowed from it.
    pub(crate) fn part(&self, part: &str) -> Self {
        Self::from_scan(self.text.slice_ref(part))
    }

    /// Copies the value into memory of its own, so that keeping it does not keep the message alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { text: self.as_str().into(), noted: self.noted }
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[cfg(feature = "std")]
    pub(crate) fn into_text(self) -> ByteString {
        self.text
    }

    /// The JSON text as shared bytes.
    pub fn as_bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }
}

impl Serialize for Raw {
    /// Fails if the value is not valid JSON throughout.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = self.decode().map_err(ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::from_scan(Box::<str>::from(value).into()))
    }
}

/// Two values are equal if their texts are.
impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Raw {}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_missing_capabilities_names_them() {
        let shown = |data: &str| {
            let error = ErrorObject::new(code::MISSING_REQUIRED_CLIENT_CAPABILITY, "not declared");
            error.with_data(Raw::new(data).unwrap()).to_string()
        };
        let data = r#"{"requiredCapabilities":{"extensions":{"com.example/print":{}},"sampling":{},"elicitation":{"url":{}}}}"#;
        let names = "elicitation.url, extensions.com.example/print, sampling";
        assert_eq!(shown(data), format!("not declared: {names} (-32021)"));
        assert_eq!(
            shown(r#"{"requiredCapabilities":{"a\u001b\n":1}}"#),
            "not declared: a\\u{1b}\\n (-32021)"
        );
        for data in ["1", "{}", r#"{"requiredCapabilities":[]}"#, r#"{"requiredCapabilities":{}}"#] {
            assert_eq!(shown(data), "not declared (-32021)");
        }
        let many: Vec<_> = (0..20).map(|number| format!(r#""{number}":{{}}"#)).collect();
        let many = shown(&format!(r#"{{"requiredCapabilities":{{{}}}}}"#, many.join(",")));
        assert_eq!(many.matches(", ").count(), MAX_SHOWN_CAPABILITIES - 1);
    }
}
