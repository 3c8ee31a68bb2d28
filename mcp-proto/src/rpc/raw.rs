//! JSON values that are delimited but not decoded.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// An undecoded JSON value: a slice of the input that is delimited by its structure and valid UTF-8.
///
/// It shares the memory of the input. Only [`decode`](Self::decode) and [`validate`](Self::validate) check that it is
/// valid JSON throughout.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(ByteString);

impl Raw {
    /// A `Raw` of a slice that the structural scan has delimited.
    pub(crate) fn from_scan(text: ByteString) -> Self {
        Self(text)
    }

    /// Checks that `text` is one JSON value, and wraps it.
    ///
    /// # Errors
    /// If `text` is not exactly one JSON value.
    pub fn new(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let text: String = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Self(text.into()))
    }

    /// Encodes a value as JSON.
    ///
    /// # Errors
    /// If the value's `Serialize` fails.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
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
        self.decode::<serde::de::IgnoredAny>().map(drop)
    }

    /// A value within this one: `part` must have been borrowed from it.
    pub(crate) fn part(&self, part: &str) -> Self {
        Self(self.0.slice_ref(part))
    }

    /// Copies the value into memory of its own, so that keeping it does not keep the message alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(self.as_str().into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The JSON text as shared bytes.
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
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
        Ok(Self(Box::<str>::from(value).into()))
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
