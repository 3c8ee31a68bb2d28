//! Bounded access to members of untrusted JSON documents, and texts of other parties for display.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::{DOCUMENT_BYTES, Scopes, URL_BYTES};
use crate::codec::BYTE_ORDER_MARK;
use crate::rpc::members::collect_members;
use crate::text::SafeText;

/// Maximum number of names in a list, maximum number of scopes, and maximum bytes of each.
const NAMES: usize = 64;
const SCOPES: usize = 1024;
const NAME_BYTES: usize = 256;

/// The text of a JSON document, without a byte order mark, as RFC 8259 allows (section 8.1). `None` if it is not UTF-8.
pub(crate) fn document_text(bytes: &[u8]) -> Option<&str> {
    core::str::from_utf8(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)).ok()
}

/// Why a document is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberError {
    /// The document is longer than [`DOCUMENT_BYTES`].
    TooLong,
    /// The document is not a JSON object.
    Json,
    /// The member occurs twice, and parsers differ in which one they use.
    Duplicate(&'static str),
    /// The member is missing or null.
    Missing(&'static str),
    /// The member has the wrong type, or is too long.
    InvalidMember(&'static str),
}

/// The requested members of an object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a str>>,
}

impl<'a> Members<'a> {
    /// Collects the members with these names in one pass, without allocating for any others.
    pub(crate) fn parse(bytes: &'a [u8], names: &'static [&'static str]) -> Result<Self, MemberError> {
        if bytes.len() > DOCUMENT_BYTES {
            return Err(MemberError::TooLong);
        }
        let text = document_text(bytes).ok_or(MemberError::Json)?;
        let mut values = vec![None; names.len()];
        let repeated = collect_members(text, names, &mut values).map_err(|_| MemberError::Json)?;
        match repeated.and_then(|index| names.get(index)) {
            Some(name) => Err(MemberError::Duplicate(name)),
            None => Ok(Self { names, values }),
        }
    }

    /// A member's raw JSON; `None` if it is null.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a str> {
        let index = self.names.iter().position(|known| *known == name)?;
        let value = (*self.values.get(index)?)?;
        Some(value).filter(|value| *value != "null")
    }

    fn typed<T: serde::Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, MemberError> {
        let value = self.get(name).map(serde_json::from_str).transpose();
        value.map_err(|_| MemberError::InvalidMember(name))
    }

    /// A string of at most `most` bytes. An empty one counts as absent.
    pub(crate) fn text(&self, name: &'static str, most: usize) -> Result<Option<String>, MemberError> {
        let text = self.typed::<String>(name)?.filter(|text| !text.is_empty());
        if text.as_ref().is_some_and(|text| text.len() > most) {
            Err(MemberError::InvalidMember(name))
        } else {
            Ok(text)
        }
    }

    /// A URL, which has not been checked.
    pub(crate) fn url(&self, name: &'static str) -> Result<Option<String>, MemberError> {
        self.text(name, URL_BYTES)
    }

    /// A boolean; false if absent.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, MemberError> {
        Ok(self.typed(name)?.unwrap_or(false))
    }

    /// The first strings of a list, without those that are too long for a name.
    pub(crate) fn names(&self, name: &'static str) -> Result<Option<Vec<String>>, MemberError> {
        self.list(name, NAMES, NAME_BYTES)
    }

    /// The first strings of a list, without those that are longer than the limit.
    pub(crate) fn list(
        &self,
        name: &'static str,
        items: usize,
        bytes: usize,
    ) -> Result<Option<Vec<String>>, MemberError> {
        let Some(written) = self.get(name) else { return Ok(None) };
        let mut list = ListCollector { items, bytes, kept: Vec::new() };
        let mut reader = serde_json::Deserializer::from_str(written);
        let read = reader.deserialize_seq(&mut list);
        read.map(|()| Some(list.kept)).map_err(|_| MemberError::InvalidMember(name))
    }

    /// The first scopes of an array.
    pub(crate) fn scopes(&self, name: &'static str) -> Result<Option<Scopes>, MemberError> {
        let list = self.list(name, SCOPES, NAME_BYTES)?;
        Ok(list.map(|list| list.iter().map(String::as_str).collect()))
    }
}

/// Collects the first strings of a list.
struct ListCollector {
    items: usize,
    bytes: usize,
    kept: Vec<String>,
}

impl<'de> Visitor<'de> for &mut ListCollector {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.kept.len() < self.items {
            match list.next_element::<Cow<'de, str>>()? {
                None => return Ok(()),
                Some(text) if text.len() <= self.bytes => self.kept.push(text.into_owned()),
                Some(_) => {}
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// Maximum number of characters that are shown.
pub(crate) const SHOWN: usize = 500;

/// The beginning of a text, without characters that could steer a terminal, reorder text or hide in it. `None` if
/// nothing remains.
pub(crate) fn sanitize(text: &str) -> Option<String> {
    let shown: String = text.chars().filter(|&letter| !SafeText::is_unsafe(letter)).take(SHOWN).collect();
    (!shown.is_empty()).then_some(shown)
}
