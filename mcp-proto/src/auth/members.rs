//! Bounded access to members of untrusted JSON documents, and texts of other parties for display.

use serde_json::value::RawValue;

use super::{DOCUMENT_BYTES, MetadataError, Scopes, URL_BYTES};
use crate::codec::BYTE_ORDER_MARK;
use crate::prelude::*;
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

/// The requested members of an object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a str>>,
}

impl<'a> Members<'a> {
    /// Collects the members with these names in one pass, without allocating for any others.
    pub(crate) fn parse(bytes: &'a [u8], names: &'static [&'static str]) -> Result<Self, MetadataError> {
        if bytes.len() > DOCUMENT_BYTES {
            return Err(MetadataError::TooLong);
        }
        let text = document_text(bytes).ok_or(MetadataError::Json)?;
        let mut values = vec![None; names.len()];
        let repeated = collect_members(text, names, &mut values).map_err(|_| MetadataError::Json)?;
        match repeated.and_then(|index| names.get(index)) {
            Some(name) => Err(MetadataError::Duplicate(name)),
            None => Ok(Self { names, values }),
        }
    }

    /// A member's raw JSON; `None` if it is null.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a str> {
        let index = self.names.iter().position(|known| *known == name)?;
        let value = (*self.values.get(index)?)?;
        Some(value).filter(|value| *value != "null")
    }

    fn typed<T: serde::Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, MetadataError> {
        let value = self.get(name).map(serde_json::from_str).transpose();
        value.map_err(|_| MetadataError::InvalidMember(name))
    }

    /// A string of at most `most` bytes. An empty one counts as absent.
    pub(crate) fn text(&self, name: &'static str, most: usize) -> Result<Option<String>, MetadataError> {
        let text = self.typed::<String>(name)?.filter(|text| !text.is_empty());
        if text.as_ref().is_some_and(|text| text.len() > most) {
            Err(MetadataError::InvalidMember(name))
        } else {
            Ok(text)
        }
    }

    /// A URL, which has not been checked.
    pub(crate) fn url(&self, name: &'static str) -> Result<Option<String>, MetadataError> {
        self.text(name, URL_BYTES)
    }

    /// A boolean; false if absent.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, MetadataError> {
        Ok(self.typed(name)?.unwrap_or(false))
    }

    /// The first strings of a list, without those that are too long for a name.
    pub(crate) fn names(&self, name: &'static str) -> Result<Option<Vec<String>>, MetadataError> {
        self.list(name, NAMES, NAME_BYTES)
    }

    /// The first strings of a list, without those that are longer than the limit.
    pub(crate) fn list(
        &self,
        name: &'static str,
        items: usize,
        bytes: usize,
    ) -> Result<Option<Vec<String>>, MetadataError> {
        let Some(list) = self.typed::<Vec<&RawValue>>(name)? else { return Ok(None) };
        let texts = list.into_iter().map(|item| serde_json::from_str::<String>(item.get()));
        let fitting = texts.filter(|text| text.as_ref().map_or(true, |text| text.len() <= bytes));
        let kept: Result<Vec<_>, _> = fitting.take(items).collect();
        kept.map(Some).map_err(|_| MetadataError::InvalidMember(name))
    }

    /// The first scopes of an array.
    pub(crate) fn scopes(&self, name: &'static str) -> Result<Option<Scopes>, MetadataError> {
        let list = self.list(name, SCOPES, NAME_BYTES)?;
        Ok(list.map(|list| list.iter().map(String::as_str).collect()))
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
