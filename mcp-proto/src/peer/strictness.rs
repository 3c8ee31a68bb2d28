//! How strictly a peer holds the other side to the specification.

use crate::peer::event_queue::MakeOwned;
use crate::prelude::*;
use crate::rpc::{Id, Malformed, Raw, Recovered};
use crate::schema::{Method as _, MethodInfo, Ping, Revision, ServerCapability};

/// How strictly a peer holds the other side to the specification.
///
/// Deployed peers deviate from it in ways that leave no doubt about their meaning. Each tolerated deviation is reported
/// as a diagnostic with a [`Leniency`]. With either strictness, this side itself sends only conforming messages, and HTTP
/// servers reject every request that the specification requires them to reject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Strictness {
    /// Tolerate and report known deviations.
    #[default]
    Lenient,
    /// Treat every deviation as an error. Meant for tests of the other side.
    Strict,
}

impl Strictness {
    /// The number of this side's request, or its progress token, for `id`: a number itself, or a string that contains
    /// the number in canonical decimal form. All ids that this side issues are numbers, so a string has no other match.
    pub(crate) fn number_of(self, id: &Id) -> Option<i64> {
        match (id, self) {
            (Id::Number(number), _) => Some(*number),
            (Id::String(text), Self::Lenient) => canonical_number(text),
            (Id::String(_), Self::Strict) => None,
        }
    }
}

impl Strictness {
    /// The empty object, if `result` is a `null` or an empty array that replaces it, with the deviation: the result of
    /// `ping`.
    pub(crate) fn empty_result(self, info: Option<&MethodInfo>, result: &Raw) -> Option<(Raw, Leniency)> {
        let is_ping = info.is_some_and(|info| info.name == Ping::NAME);
        let leniency = match result.as_str() {
            "null" => Leniency::NullResult { method: Ping::NAME },
            "[]" => Leniency::EmptyArray { of: Ping::NAME },
            _ => return None,
        };
        if !is_ping || self == Self::Strict {
            return None;
        }
        Some((Raw::new("{}").ok()?, leniency))
    }
}

/// Reads a number as JSON writes it: without a plus sign, leading zeros or spaces.
fn canonical_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = match digits.as_bytes() {
        [b'0'] => text == digits,
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    text.parse().ok().filter(|_| canonical)
}

/// A deviation from the specification that was tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leniency {
    /// A response, or a progress notification, names a number as a string.
    NumberAsString {
        /// The id or progress token as the peer wrote it.
        id: Id,
    },
    /// A response breaks JSON-RPC and was read nevertheless: its id is an integral float, its error is not an object or
    /// has no integer code or no string message, or its text has lone surrogates or bytes that are not UTF-8, which
    /// U+FFFD replaced.
    Response(
        /// How it breaks JSON-RPC.
        Box<Malformed>,
    ),
    /// A notification has the id `null`, which was ignored.
    Notification(
        /// How it breaks JSON-RPC.
        Box<Malformed>,
    ),
    /// The server rejected `initialize` with an error that lists versions, and the client repeated it with one of them.
    VersionRetried {
        /// The version that the server rejected.
        refused: Revision,
        /// The version of the second attempt.
        offered: Revision,
    },
    /// The server answered `initialize` with a version that this client does not know. The newest known legacy revision
    /// that is not later is used, or else the oldest one.
    UnknownVersion {
        /// The start of the server's version.
        answered: String,
        /// The revision that is used.
        used: Revision,
    },
    /// A request was sent whose capability the server does not declare; the server declares no capability at all.
    Undeclared {
        /// The method.
        method: &'static str,
        /// The capability that it needs.
        needed: ServerCapability,
    },
    /// The body of an HTTP response is a message, but its `Content-Type` is not that of a message.
    ContentType {
        /// The value of the header, if the response has one.
        found: Option<String>,
    },
    /// A result is `null` and was read as an empty object.
    NullResult {
        /// The method.
        method: &'static str,
    },
    /// An empty object is written as an empty array, as PHP encodes it: the result of a method or a server capability.
    EmptyArray {
        /// The method or the name of the capability.
        of: &'static str,
    },
    /// A server before 2026-07-28 accepted a request with status 202 instead of an answer. The client waits for the
    /// answer on the stream of the server's own messages.
    AnswerOnEventStream {
        /// The method of the request.
        method: String,
    },
    /// The body of an HTTP response begins with a byte order mark, which was ignored.
    ByteOrderMark,
    /// The server redirected a request from `http` to `https` on the same host, and every later request goes there.
    RedirectToHttps,
    /// A tool has no `inputSchema`, which was read as the schema of any object.
    MissingInputSchema {
        /// The name of the tool.
        tool: String,
    },
    /// The result of a tool with an output schema has no structured content, and was accepted because of
    /// [`ClientConfig::tolerate_missing_output`](crate::peer::client::ClientConfig::tolerate_missing_output).
    MissingOutput {
        /// The name of the tool.
        tool: String,
    },
    /// A list repeats the empty cursor again and again. The empty cursor was read as the end of the list.
    EmptyCursor {
        /// The method.
        method: &'static str,
    },
    /// The `clientInfo` of `initialize` lacks its name or version, which defaults replaced.
    ClientInfo,
}

impl Leniency {
    /// The approximate size in bytes of its peer-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let of_id = |id: &Id| match id {
            Id::String(text) => text.len(),
            Id::Number(_) => 0,
        };
        match self {
            Self::NumberAsString { id } => of_id(id),
            Self::Response(malformed) | Self::Notification(malformed) => {
                let Recovered { id, method, .. } = &malformed.recovered;
                let method = method.as_ref().map_or(0, |method| method.len());
                id.as_ref().map_or(0, of_id).saturating_add(method)
            }
            Self::ContentType { found } => found.as_ref().map_or(0, String::len),
            Self::MissingInputSchema { tool: text }
            | Self::MissingOutput { tool: text }
            | Self::AnswerOnEventStream { method: text } => text.len(),
            Self::UnknownVersion { answered, .. } => answered.len(),
            Self::VersionRetried { .. }
            | Self::Undeclared { .. }
            | Self::NullResult { .. }
            | Self::EmptyArray { .. }
            | Self::ByteOrderMark
            | Self::RedirectToHttps
            | Self::EmptyCursor { .. }
            | Self::ClientInfo => 0,
        }
    }
}

impl MakeOwned for Leniency {
    fn make_owned(&mut self) {
        if let Self::Response(malformed) | Self::Notification(malformed) = self {
            malformed.make_owned();
        }
    }
}

display_text! { Leniency:
    NumberAsString { id } => "the number of a request is written as the string {id}";
    Response(malformed) => "a response breaks JSON-RPC: {malformed}";
    Notification(malformed) => "a notification breaks JSON-RPC: {malformed}";
    VersionRetried { refused, offered } =>
        "the server refused version {}; asking again with version {}", refused.as_str(), offered.as_str();
    UnknownVersion { answered, used } =>
        "the server answers with the unknown version {answered:?}; using {}", used.as_str();
    Undeclared { method, needed } =>
        "{method} was sent although the server does not declare {:?}", needed.path();
    ContentType { found: None } => "a message has no Content-Type";
    ContentType { found: Some(found) } => "a message has the Content-Type {found:?}";
    NullResult { method } => "the result of {method} is null instead of an object";
    EmptyArray { of } => "{of} is an empty array instead of an object";
    AnswerOnEventStream { method } =>
        "{method} was accepted with status 202; its answer is expected on the event stream";
    ByteOrderMark => "a message begins with a byte order mark";
    RedirectToHttps => "the server redirected from http to https";
    MissingInputSchema { tool } => "the tool {tool:?} has no inputSchema";
    MissingOutput { tool } =>
        "the tool {tool:?} has an output schema, but its result has no structured content";
    EmptyCursor { method } => "the empty nextCursor of {method} was read as the end of the list";
    ClientInfo => "the clientInfo of initialize lacks its name or version";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_decimal_strings_stand_for_numbers() {
        for number in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            let text = alloc::format!("{number}");
            assert_eq!(Strictness::Lenient.number_of(&Id::from(&*text)), Some(number));
            assert_eq!(Strictness::Strict.number_of(&Id::from(&*text)), None);
            assert_eq!(Strictness::Strict.number_of(&Id::from(number)), Some(number));
        }
        for text in ["", "-", "+7", "07", "-0", "-07", " 7", "7 ", "7.0", "1e3", "x", "9223372036854775808"] {
            assert_eq!(Strictness::Lenient.number_of(&Id::from(text)), None, "{text:?}");
        }
    }
}
