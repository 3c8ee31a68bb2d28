//! `_meta`: metadata attached to a message or an object.

use core::fmt;
#[cfg(feature = "std")]
use std::sync::OnceLock;

#[cfg(feature = "std")]
use memchr::memchr;

use super::containers::ParsedMeta;
use super::object::Optional;
#[cfg(feature = "std")]
use super::read::read_text;
use super::read::{Read, ReadResult, peek};
use super::write::{member, serde_impls};
use super::{
    ClientCapabilities, Implementation, Iter, Json, LoggingLevel, Map, Projection, Revision, Revisions,
    WriteAt,
};
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};
use crate::rpc::{Id, Raw};

pub use crate::meta_keys::*;

/// The revisions of reserved keys. All other keys are written at every revision.
const RESERVED: &[(&str, Revisions)] = &[
    (PROTOCOL_VERSION, Revisions::MODERN),
    (CLIENT_INFO, Revisions::MODERN),
    (CLIENT_CAPABILITIES, Revisions::MODERN),
    (LOG_LEVEL, Revisions::MODERN),
    (SUBSCRIPTION_ID, Revisions::MODERN),
    (SERVER_INFO, Revisions::MODERN),
    (RELATED_TASK, Revisions::only(Revision::V2025_11_25)),
];

/// The `_meta` of a message or an object: names with JSON values, in order.
///
/// The accessors of reserved keys return `None` for a value of the wrong type; the value itself is kept.
///
/// ```
/// use mcp_proto::schema::{Meta, meta};
///
/// let mut own = Meta::new();
/// own.insert("com.example/shard", 7);
/// assert!(own.get(meta::PROTOCOL_VERSION).is_none());
/// assert!(Meta::is_valid_key("com.example/shard") && !Meta::is_reserved_key("com.example/shard"));
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta(LazyMap);

impl Meta {
    /// Creates an empty `_meta`.
    pub const fn new() -> Self {
        Self(LazyMap::new())
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.get().get(key)
    }

    /// Sets the value of `key` and returns the old one.
    pub fn insert(&mut self, key: impl Into<alloc::string::String>, value: impl Into<Json>) -> Option<Json> {
        self.0.get_mut().insert(key, value)
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        self.0.get_mut().remove(key)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.get().len()
    }

    /// Iterates over the entries, in order.
    pub fn iter(&self) -> Iter<'_, Json> {
        self.0.get().iter()
    }

    /// Iterates over the entries that are written at a revision: all except reserved keys that it does not have.
    pub fn iter_at(&self, view: Projection) -> impl Iterator<Item = (&str, &Json)> {
        self.iter().filter(move |(key, _)| {
            RESERVED.iter().all(|(reserved, revisions)| reserved != key || view.has(*revisions))
        })
    }

    fn typed<T: for<'a> serde::Deserialize<'a>>(&self, key: &str) -> Option<T> {
        //= C1.18 "Assume nothing about values under reserved `_meta` keys"
        self.get(key)?.decode().ok()
    }

    /// Reads the [`related_task`](Self::related_task) from a message's `params` without decoding the rest.
    pub fn related_task_of(params: &Raw) -> Option<super::tasks::legacy::RelatedTask> {
        let meta: Self = peek(params.as_str(), "_meta").ok()??;
        meta.related_task()
    }

    /// Whether `key` follows the grammar: an optional prefix of dot-separated labels and a slash, then a name.
    ///
    /// A label begins with a letter and ends with a letter or digit, with hyphens between; a name, if it is not empty,
    /// begins and ends with a letter or digit, with hyphens, underscores and dots between.
    //= C1.19 "`_meta` key grammar: optional dotted prefix + `/` + name that starts and ends alphanumeric"
    pub fn is_valid_key(key: &str) -> bool {
        let name = match key.split_once('/') {
            Some((prefix, name)) if prefix.split('.').all(is_label) => name,
            Some(_) => return false,
            None => key,
        };
        let bytes = name.as_bytes();
        bytes.first().is_none_or(u8::is_ascii_alphanumeric)
            && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    }

    /// Whether `key` can identify an extension: a valid key with a prefix and a name.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    //= C2.9 "Extension ids follow `_meta` naming"
    //= C2.16 "Extension ids have a prefix"
    pub fn is_extension(key: &str) -> bool {
        Self::is_valid_key(key) && key.split_once('/').is_some_and(|(_, name)| !name.is_empty())
    }

    /// Whether the prefix of `key` is reserved for the protocol: its second label is `modelcontextprotocol` or `mcp`.
    pub fn is_reserved_key(key: &str) -> bool {
        //= C1.19 "prefixes whose second label is `modelcontextprotocol` or `mcp` are reserved"
        let second = key.split_once('/').and_then(|(prefix, _)| prefix.split('.').nth(1));
        matches!(second, Some("modelcontextprotocol" | "mcp"))
    }
}

/// Declares the typed values of known keys.
macro_rules! typed {
    ($($(#[$attr:meta])* $name:ident: $type:ty = $key:ident;)*) => {
        impl Meta { $(
            $(#[$attr])*
            pub fn $name(&self) -> Option<$type> {
                self.typed($key)
            }
        )* }
    };
}

typed! {
    /// The token for progress notifications, if the sender wants them.
    progress_token: Id = PROGRESS_TOKEN;
    /// The revision of the request, as sent.
    protocol_version: alloc::string::String = PROTOCOL_VERSION;
    /// Identity of the client that makes the request.
    client_info: Implementation = CLIENT_INFO;
    /// Capabilities of the client that makes the request.
    client_capabilities: ClientCapabilities = CLIENT_CAPABILITIES;
    /// Level of the log messages that the client wants during the request.
    log_level: LoggingLevel = LOG_LEVEL;
    /// Id of the `subscriptions/listen` request that the notification belongs to.
    subscription_id: Id = SUBSCRIPTION_ID;
    /// Identity of the server that answers the request.
    server_info: Implementation = SERVER_INFO;
    /// The task that the message belongs to (2025-11-25).
    related_task: super::tasks::legacy::RelatedTask = RELATED_TASK;
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

impl From<Map<Json>> for Meta {
    fn from(entries: Map<Json>) -> Self {
        Self(entries.into())
    }
}

impl<K: Into<alloc::string::String>> FromIterator<(K, Json)> for Meta {
    fn from_iter<I: IntoIterator<Item = (K, Json)>>(entries: I) -> Self {
        Self(entries.into_iter().collect::<Map<Json>>().into())
    }
}

impl Optional for Meta {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Read for Meta {
    const EXPECTED: &'static str = ParsedMeta::EXPECTED;

    fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        LazyMap::read(reader).map(|read| read.map(Self))
    }
}

impl WriteAt for Meta {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        out.push(b'{');
        for (key, value) in self.iter_at(view) {
            member(out, key, value, view);
        }
        out.push(b'}');
    }
}

serde_impls!(Meta);

// The entries as they arrived: an object that is parsed when it is first looked at, if there is a lock for that (feature
// `std`).

/// The entries of `_meta`: those of the map, or of the text while there is one.
#[derive(Clone, Default)]
struct LazyMap {
    map: Map<Json>,
    #[cfg(feature = "std")]
    text: Option<UnparsedMap>,
}

/// An object as read, with at least one member and without escapes.
#[cfg(feature = "std")]
#[derive(Clone)]
struct UnparsedMap {
    text: Box<str>,
    parsed: OnceLock<Map<Json>>,
}

#[cfg(feature = "std")]
impl UnparsedMap {
    fn parse(text: &str) -> Map<Json> {
        // An object without escapes in its names always parses: the default is never used.
        read_text::<ParsedMeta>(text).map(|entries| entries.0).unwrap_or_default()
    }
}

impl LazyMap {
    const fn new() -> Self {
        Self::of(Map::new())
    }

    const fn of(map: Map<Json>) -> Self {
        Self {
            map,
            #[cfg(feature = "std")]
            text: None,
        }
    }

    /// Whether there are no entries. Does not parse them.
    pub(super) fn is_empty(&self) -> bool {
        #[cfg(feature = "std")]
        if self.text.is_some() {
            return false;
        }
        self.map.is_empty()
    }

    pub(super) fn get(&self) -> &Map<Json> {
        #[cfg(feature = "std")]
        if let Some(unparsed) = &self.text {
            return unparsed.parsed.get_or_init(|| UnparsedMap::parse(&unparsed.text));
        }
        &self.map
    }

    pub(super) fn get_mut(&mut self) -> &mut Map<Json> {
        #[cfg(feature = "std")]
        if let Some(UnparsedMap { text, parsed }) = self.text.take() {
            self.map = parsed.into_inner().unwrap_or_else(|| UnparsedMap::parse(&text));
        }
        &mut self.map
    }

    /// Checks that the value is valid JSON, and leaves an object unparsed.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        #[cfg(feature = "std")]
        {
            reader.first_byte()?;
            let start = reader.at();
            let text = reader.skip()?;
            let members = text.strip_prefix('{').map_or("}", str::trim_ascii_start);
            // Only the parser tells whether the escapes of a name are valid.
            if !members.starts_with('}') && memchr(b'\\', members.as_bytes()).is_none() {
                let text = Some(UnparsedMap { text: text.into(), parsed: OnceLock::new() });
                return Ok(Ok(Self { map: Map::new(), text }));
            }
            reader.go_to(start);
        }
        ParsedMeta::read(reader).map(|read| read.map(|entries| Self::of(entries.0)))
    }
}

impl From<Map<Json>> for LazyMap {
    fn from(map: Map<Json>) -> Self {
        Self::of(map)
    }
}

impl PartialEq for LazyMap {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for LazyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
