//! An object of JSON values that is parsed when it is first looked at, if there is a lock for that (feature `std`).

use core::fmt;
#[cfg(feature = "std")]
use std::sync::OnceLock;

#[cfg(feature = "std")]
use memchr::memchr;

use super::containers::{Map, ParsedMeta};
use super::json::Json;
use super::read::{Read as _, ReadResult};
#[cfg(feature = "std")]
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};

/// The entries of `_meta`: those of the map, or of the text while there is one.
#[derive(Clone, Default)]
pub(super) struct LazyMap {
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
        super::read::read_text::<ParsedMeta>(text).map(|entries| entries.0).unwrap_or_default()
    }
}

impl LazyMap {
    pub(super) const fn new() -> Self {
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
