//! JSON values that belong to the application, and numbers that keep their written form.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::read::{Fit, Read, ReadResult, expected};
use super::{Projection, WriteAt};
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, ReadNumber, Reader};
use crate::rpc::{Raw, write};

/// A JSON value kept as text: valid, owned, and written as it was read.
///
/// Two values are equal if their texts are equal. A Rust string becomes a JSON string, and is decoded as one:
///
/// ```
/// use mcp_proto::schema::Json;
///
/// let city = Json::from("Bern");
/// assert_eq!(city.as_str(), r#""Bern""#);
/// assert_eq!(city.decode::<String>()?, "Bern");
///
/// let schema = Json::new(r#"{"type":"object"}"#)?;
/// assert!(schema.is_object());
/// assert_eq!(Json::from(serde_json::json!({"type": "object"})), schema);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct Json(String);

impl Json {
    /// Parses JSON text.
    ///
    /// # Errors
    /// If `text` is not exactly one JSON value.
    pub fn new(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let text: String = text.into();
        let mut reader = Reader::new(&text);
        match reader.skip().and_then(|value| reader.end().map(|()| value)) {
            Ok(value) if value.len() == text.len() => Ok(Self(text)),
            Ok(value) => Ok(Self(value.into())),
            Err(NotJson) => Err(Reader::error(&text)),
        }
    }

    /// Serializes a value to JSON.
    ///
    /// # Errors
    /// If its `Serialize` fails.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(Self)
    }

    /// `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Returns `{}`, which declares a capability without settings.
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// Deserializes the value, borrowing from its text where `T` borrows.
    ///
    /// # Errors
    /// If the value is not a `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Copies the text of the value at the reader.
    pub(super) fn read_text(reader: &mut Reader<'_>) -> Result<Self, NotJson> {
        reader.skip().map(|text| Self(text.into()))
    }

    /// The JSON text, in which a string has its quotes. [`decode`](Self::decode) returns the string itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

macro_rules! json_from {
    ($($type:ty)*) => { $(
        impl From<$type> for Json {
            fn from(value: $type) -> Self {
                Self::encode(&value).unwrap_or_else(|_| Self::null())
            }
        }
    )* };
}

json_from!(serde_json::Value bool i64);

impl From<&str> for Json {
    /// Creates a JSON string. To parse JSON text, use [`Json::new`].
    fn from(value: &str) -> Self {
        Self::encode(value).unwrap_or_else(|_| Self::null())
    }
}

impl From<String> for Json {
    /// Creates a JSON string. To parse JSON text, use [`Json::new`].
    fn from(value: String) -> Self {
        value.as_str().into()
    }
}

impl TryFrom<&Raw> for Json {
    type Error = serde_json::Error;

    /// Validates and copies the text, so that the value does not keep the input buffer alive.
    fn try_from(raw: &Raw) -> Result<Self, serde_json::Error> {
        raw.decode()
    }
}

impl From<Json> for Raw {
    fn from(json: Json) -> Self {
        Self::from_scan(json.0.into())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = self.decode().map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|value| Self(Box::<str>::from(value).into()))
    }
}

impl WriteAt for Json {
    fn write(&self, _: Projection, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_str().as_bytes());
    }
}

impl Read for Json {
    const EXPECTED: &'static str = "a JSON value";

    fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        Self::read_text(reader).map(Ok)
    }
}

/// A number that is written as it was read: integers stay integers.
///
/// ```
/// use mcp_proto::schema::Number;
///
/// assert_eq!(Number::from(50).to_string(), "50");
/// assert_eq!(Number::from(0.5).as_f64(), 0.5);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Number(serde_json::Number);

impl Number {
    /// Returns the nearest floating-point number.
    pub fn as_f64(&self) -> f64 {
        self.0.as_f64().unwrap_or_default()
    }

    /// Returns the number if it is an integer that fits into `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }
}

debug_fields! { Number(number) => "{number}" }

display_text! { Number(number) => "{number}" }

impl From<f64> for Number {
    /// Converts a number; infinities and NaN, which JSON does not have, become 0.
    fn from(value: f64) -> Self {
        Self(serde_json::Number::from_f64(value).unwrap_or_else(|| 0.into()))
    }
}

macro_rules! number_from {
    ($($int:ty)*) => { $(
        impl From<$int> for Number {
            fn from(value: $int) -> Self {
                Self(value.into())
            }
        }
    )* };
}

number_from!(i32 i64 u32 u64);

impl WriteAt for Number {
    fn write(&self, _: Projection, out: &mut Vec<u8>) {
        _ = write::json(out, &self.0);
    }
}

impl Read for Number {
    const EXPECTED: &'static str = "a number";

    fn from_number(number: ReadNumber) -> Fit<Self> {
        match number {
            ReadNumber::I64(value) => Ok(value.into()),
            ReadNumber::U64(value) => Ok(value.into()),
            ReadNumber::F64(value) => serde_json::Number::from_f64(value)
                .map_or_else(|| expected(Self::EXPECTED), |number| Ok(Self(number))),
        }
    }
}
