//! JSON that is delimited and not yet decoded.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// One JSON value as it came: a slice of the input, delimited by its structure and valid UTF-8.
///
/// It shares the memory it was read from. Whether it is valid JSON throughout is only known once it is
/// decoded, by [`decode`](Self::decode) or [`validate`](Self::validate).
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Bytes);

impl Raw {
    /// Takes a slice that the structural scan has delimited.
    pub(crate) fn from_scan(bytes: Bytes) -> Self {
        debug_assert!(core::str::from_utf8(&bytes).is_ok());
        Self(bytes)
    }

    /// Takes JSON text.
    ///
    /// # Errors
    /// If `text` is not exactly one JSON value.
    pub fn new(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let text: String = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Self(Bytes::from(text.into_bytes())))
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// If its `Serialize` fails.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(Bytes::from(text)))
    }

    /// Decodes the value, borrowing from it where `T` borrows.
    ///
    /// # Errors
    /// If it is not JSON, or not a `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Checks that it is JSON throughout.
    ///
    /// # Errors
    /// Says where it is not.
    pub fn validate(&self) -> Result<(), serde_json::Error> {
        self.decode::<serde::de::IgnoredAny>().map(drop)
    }

    /// A value within this one, which was borrowed from it.
    pub(crate) fn part(&self, part: &RawValue) -> Self {
        Self(self.0.slice_ref(part.get().as_bytes()))
    }

    /// The same value in memory of its own: to be kept without keeping the message that it came in.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Every constructor has checked it; the empty string stands for what can not happen.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The text as shared bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl Serialize for Raw {
    /// Fails if it is not JSON throughout.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = self.decode().map_err(ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::from(Box::<str>::from(value).into_string().into_bytes())))
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
