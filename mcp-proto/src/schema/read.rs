//! Reading JSON in one pass, without failing at an unexpected value.
//!
//! A streaming parser cannot go back: an error at a field of the wrong type would discard the rest of the text. So only
//! invalid JSON is an error here. A value of the wrong shape becomes an [`UnexpectedJson`]: its JSON and the reason why
//! it does not fit. The caller decides whether to keep it raw, skip it or fail.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::{self, Vec};
use core::fmt;
use core::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::json::Json;
use super::write::{Projection, Viewed, WriteAt};
use crate::rpc::{Id, first_member};

/// A valid JSON value that does not fit where it occurs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnexpectedJson {
    pub(crate) json: Json,
    /// The reason, as the end of a sentence.
    pub(crate) reason: Box<str>,
}

impl UnexpectedJson {
    #[cold]
    pub(crate) fn new(json: Json, reason: impl Into<Box<str>>) -> Self {
        Self { json, reason: reason.into() }
    }

    #[cold]
    pub(crate) fn scalar<T: serde::Serialize + ?Sized>(value: &T, expected: &str) -> Self {
        let json = Json::encode(value).unwrap_or_else(|_| Json::null());
        Self::new(json, format!("expected {expected}"))
    }

    #[cold]
    fn seq<'de, A: SeqAccess<'de>>(seq: A, expected: &str) -> Result<Self, A::Error> {
        let mut text = JsonText::list();
        text.rest(seq)?;
        Ok(text.finish(format!("expected {expected}")))
    }

    #[cold]
    fn map<'de, A: MapAccess<'de>>(map: A, expected: &str) -> Result<Self, A::Error> {
        Fields::new(map).into_unexpected(format!("expected {expected}"))
    }
}

impl fmt::Display for UnexpectedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A value of the expected type, or the JSON value found instead.
pub(crate) type ReadResult<T> = Result<T, UnexpectedJson>;

/// A type that can be read from JSON; each JSON shape that it does not accept gives an [`UnexpectedJson`].
pub(crate) trait Read: Sized {
    /// Description of accepted values, to complete "expected …".
    const EXPECTED: &'static str;
    /// Whether `null` is accepted for an empty list of this type: some languages encode an empty list so.
    const LIST_MAY_BE_NULL: bool = false;

    fn from_bool(value: bool) -> ReadResult<Self> {
        Err(UnexpectedJson::scalar(&value, Self::EXPECTED))
    }

    fn from_i64(value: i64) -> ReadResult<Self> {
        Err(UnexpectedJson::scalar(&value, Self::EXPECTED))
    }

    fn from_u64(value: u64) -> ReadResult<Self> {
        Err(UnexpectedJson::scalar(&value, Self::EXPECTED))
    }

    fn from_f64(value: f64) -> ReadResult<Self> {
        Err(UnexpectedJson::scalar(&value, Self::EXPECTED))
    }

    fn from_text(value: &str) -> ReadResult<Self> {
        Err(UnexpectedJson::scalar(value, Self::EXPECTED))
    }

    fn from_null() -> ReadResult<Self> {
        Err(UnexpectedJson::scalar(&(), Self::EXPECTED))
    }

    fn from_seq<'de, A: SeqAccess<'de>>(seq: A) -> Result<ReadResult<Self>, A::Error> {
        UnexpectedJson::seq(seq, Self::EXPECTED).map(Err)
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<ReadResult<Self>, A::Error> {
        UnexpectedJson::map(map, Self::EXPECTED).map(Err)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// If the input is not valid JSON.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ReadResult<Self>, D::Error> {
        // By way of the other, so that a type has one visitor.
        Self::read_nullable(deserializer).map(|read| read?.map_or_else(Self::from_null, Ok))
    }

    /// Reads a value or `null`.
    ///
    /// # Errors
    /// If the input is not valid JSON.
    // The parser's code is in it: one copy for a type, not one for each field of it.
    #[inline(never)]
    fn read_nullable<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ReadResult<Option<Self>>, D::Error> {
        let read = deserializer.deserialize_any(ShapeVisitor::<Nullable<Self>>(PhantomData))?;
        Ok(read.map(|Nullable(value)| value))
    }
}

struct ShapeVisitor<T>(PhantomData<T>);

impl<'de, T: Read> Visitor<'de> for ShapeVisitor<T> {
    type Value = ReadResult<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_bool<E>(self, value: bool) -> Result<ReadResult<T>, E> {
        Ok(T::from_bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ReadResult<T>, E> {
        Ok(T::from_i64(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ReadResult<T>, E> {
        Ok(T::from_u64(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ReadResult<T>, E> {
        Ok(T::from_f64(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<ReadResult<T>, E> {
        Ok(T::from_text(value))
    }

    fn visit_unit<E>(self) -> Result<ReadResult<T>, E> {
        Ok(T::from_null())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<ReadResult<T>, A::Error> {
        T::from_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ReadResult<T>, A::Error> {
        T::from_map(map)
    }
}

/// Reads a value, or keeps the JSON of one that does not fit as `unknown`.
pub(crate) fn read_or_keep<'de, T: Read, D: Deserializer<'de>>(
    deserializer: D,
    unknown: impl FnOnce(Json) -> T,
) -> Result<ReadResult<T>, D::Error> {
    let read = T::read_nullable(deserializer)?;
    match read.and_then(|value| value.map_or_else(T::from_null, Ok)) {
        Err(unexpected) => Ok(Ok(unknown(unexpected.json))),
        read => Ok(read),
    }
}

/// Reads the first field `name` of the object `text`. Reading stops there.
///
/// # Errors
/// If the field is missing because `text` is not an object.
pub(crate) fn peek<T: Read>(text: &str, name: &str) -> Result<Option<ReadResult<T>>, serde_json::Error> {
    let value = first_member(text, name)?;
    value.map(|value| T::read(&mut serde_json::Deserializer::from_str(value))).transpose()
}

struct Nullable<T>(Option<T>);

impl<T: Read> Nullable<T> {
    fn some(read: ReadResult<T>) -> ReadResult<Self> {
        read.map(|value| Self(Some(value)))
    }
}

impl<T: Read> Read for Nullable<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_bool(value: bool) -> ReadResult<Self> {
        Self::some(T::from_bool(value))
    }

    fn from_i64(value: i64) -> ReadResult<Self> {
        Self::some(T::from_i64(value))
    }

    fn from_u64(value: u64) -> ReadResult<Self> {
        Self::some(T::from_u64(value))
    }

    fn from_f64(value: f64) -> ReadResult<Self> {
        Self::some(T::from_f64(value))
    }

    fn from_text(value: &str) -> ReadResult<Self> {
        Self::some(T::from_text(value))
    }

    fn from_null() -> ReadResult<Self> {
        Ok(Self(None))
    }

    fn from_seq<'de, A: SeqAccess<'de>>(seq: A) -> Result<ReadResult<Self>, A::Error> {
        T::from_seq(seq).map(Self::some)
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<ReadResult<Self>, A::Error> {
        T::from_map(map).map(Self::some)
    }
}

/// Reads a `T` where serde takes a [`DeserializeSeed`].
pub(crate) struct ReadSeed<T>(PhantomData<T>);

impl<T> ReadSeed<T> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<'de, T: Read> DeserializeSeed<'de> for ReadSeed<T> {
    type Value = ReadResult<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ReadResult<T>, D::Error> {
        T::read(deserializer)
    }
}

/// Reads a field name, borrowed if it has no escapes.
struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// The fields of an object that is being read: buffered ones first, then the rest of the input.
pub(crate) struct Fields<'de, A> {
    buffered: vec::IntoIter<(Cow<'de, str>, &'de RawValue)>,
    /// The name of the field that decided the kind, if its value is still to be read.
    decisive: Option<Cow<'de, str>>,
    current: Option<&'de RawValue>,
    is_decided: bool,
    map: A,
}

impl<'de, A: MapAccess<'de>> Fields<'de, A> {
    pub(crate) fn new(map: A) -> Self {
        Self { buffered: Vec::new().into_iter(), decisive: None, current: None, is_decided: false, map }
    }

    /// Returns the next field name. Read the field's value before the next call.
    pub(crate) fn name(&mut self) -> Result<Option<Cow<'de, str>>, A::Error> {
        if let Some((name, value)) = self.buffered.next() {
            self.current = Some(value);
            return Ok(Some(name));
        }
        match self.decisive.take() {
            Some(name) => Ok(Some(name)),
            None => self.map.next_key_seed(NameSeed),
        }
    }

    /// Reads the value of the current field.
    pub(crate) fn value<T: Read>(&mut self) -> Result<ReadResult<T>, A::Error> {
        match self.current.take() {
            None => self.map.next_value_seed(ReadSeed::NEW),
            Some(buffered) => {
                T::read(&mut serde_json::Deserializer::from_str(buffered.get())).map_err(A::Error::custom)
            }
        }
    }

    /// Reads the value of the current field as JSON.
    pub(crate) fn json(&mut self) -> Result<Json, A::Error> {
        match self.value::<Json>()? {
            Ok(json) | Err(UnexpectedJson { json, .. }) => Ok(json),
        }
    }

    /// Buffers fields until the name of one of them decides the kind of the object.
    ///
    /// Returns `None` if no field decides; then all fields are buffered. If the value of the deciding field is needed
    /// too, read it with [`decisive`](Self::decisive); otherwise it is read in its turn.
    pub(crate) fn decide<T>(
        &mut self,
        mut by_name: impl FnMut(&str) -> Option<T>,
    ) -> Result<Option<T>, A::Error> {
        let mut buffered = Vec::new();
        let mut decided = None;
        while let Some(name) = self.map.next_key_seed(NameSeed)? {
            decided = by_name(&name);
            if decided.is_some() {
                self.decisive = Some(name);
                break;
            }
            buffered.push((name, self.map.next_value::<&'de RawValue>()?));
        }
        self.buffered = buffered.into_iter();
        Ok(decided)
    }

    /// Reads the value of the deciding field.
    pub(crate) fn decisive<T: Read>(&mut self) -> Result<ReadResult<T>, A::Error> {
        self.decisive = None;
        self.is_decided = true;
        self.map.next_value_seed(ReadSeed::NEW)
    }

    /// Whether [`decisive`](Self::decisive) has read the deciding field.
    pub(crate) fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Reads the value of the buffered field `name`.
    pub(crate) fn buffered<T: Read>(&self, name: &str) -> Option<Result<ReadResult<T>, A::Error>> {
        let (_, value) = self.buffered.as_slice().iter().rev().find(|(buffered, _)| buffered == name)?;
        Some(T::read(&mut serde_json::Deserializer::from_str(value.get())).map_err(A::Error::custom))
    }

    /// Turns all fields that have not been read into an [`UnexpectedJson`] with their original JSON.
    #[cold]
    pub(crate) fn into_unexpected(mut self, reason: impl Into<Box<str>>) -> Result<UnexpectedJson, A::Error> {
        let mut text = JsonText::object();
        self.drain(&mut text)?;
        Ok(text.finish(reason))
    }

    fn drain(&mut self, text: &mut JsonText) -> Result<(), A::Error> {
        while let Some(name) = self.name()? {
            let json = self.json()?;
            text.entry(&name, &json);
        }
        Ok(())
    }

    /// Like [`into_unexpected`](Self::into_unexpected), with the deciding field, which has been read.
    #[cold]
    pub(crate) fn into_unexpected_with(
        mut self,
        name: &str,
        value: &Json,
        reason: impl Into<Box<str>>,
    ) -> Result<UnexpectedJson, A::Error> {
        let mut text = JsonText::object();
        for (name, value) in self.buffered.by_ref() {
            text.raw(&name, value.get());
        }
        text.entry(name, value);
        self.drain(&mut text)?;
        Ok(text.finish(reason))
    }
}

/// Rebuilds the JSON text of a value from its parts.
pub(crate) struct JsonText {
    text: Vec<u8>,
    close: u8,
    first: bool,
}

impl JsonText {
    pub(crate) fn object() -> Self {
        Self { text: b"{".to_vec(), close: b'}', first: true }
    }

    pub(crate) fn list() -> Self {
        Self { text: b"[".to_vec(), close: b']', first: true }
    }

    fn comma(&mut self) {
        if !core::mem::take(&mut self.first) {
            self.text.push(b',');
        }
    }

    fn push<T: WriteAt + ?Sized>(&mut self, value: &T) {
        // Neither step can fail: writes to a vector succeed, and a value that was just read serializes.
        if let Ok(text) = serde_json::to_vec(&Viewed(value, Projection::Full)) {
            self.text.extend_from_slice(&text);
        }
    }

    pub(crate) fn item<T: WriteAt + ?Sized>(&mut self, value: &T) {
        self.comma();
        self.push(value);
    }

    pub(crate) fn entry<T: WriteAt + ?Sized>(&mut self, name: &str, value: &T) {
        self.comma();
        self.push(name);
        self.text.push(b':');
        self.push(value);
    }

    fn raw(&mut self, name: &str, value: &str) {
        self.comma();
        self.push(name);
        self.text.push(b':');
        self.text.extend_from_slice(value.as_bytes());
    }

    pub(crate) fn rest<'de, A: SeqAccess<'de>>(&mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element::<Json>()? {
            self.item(&item);
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, reason: impl Into<Box<str>>) -> UnexpectedJson {
        self.text.push(self.close);
        let json = String::from_utf8(self.text).ok().and_then(|text| Json::new(text).ok());
        UnexpectedJson::new(json.unwrap_or_else(Json::null), reason)
    }
}

impl Read for String {
    const EXPECTED: &'static str = "a string";

    fn from_text(value: &str) -> ReadResult<Self> {
        Ok(value.to_owned())
    }
}

impl Read for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_bool(value: bool) -> ReadResult<Self> {
        Ok(value)
    }
}

impl Read for u64 {
    const EXPECTED: &'static str = "a non-negative integer";

    fn from_i64(value: i64) -> ReadResult<Self> {
        Self::try_from(value).map_err(|_| UnexpectedJson::scalar(&value, Self::EXPECTED))
    }

    fn from_u64(value: u64) -> ReadResult<Self> {
        Ok(value)
    }

    /// Some languages write integers as `60000.0` or `6e4`.
    fn from_f64(value: f64) -> ReadResult<Self> {
        let whole = value as Self;
        if whole as f64 == value { Ok(whole) } else { Err(UnexpectedJson::scalar(&value, Self::EXPECTED)) }
    }
}

impl Read for i64 {
    const EXPECTED: &'static str = "an integer";

    fn from_i64(value: i64) -> ReadResult<Self> {
        Ok(value)
    }

    fn from_u64(value: u64) -> ReadResult<Self> {
        Self::try_from(value).map_err(|_| UnexpectedJson::scalar(&value, Self::EXPECTED))
    }

    fn from_f64(value: f64) -> ReadResult<Self> {
        let whole = value as Self;
        if whole as f64 == value { Ok(whole) } else { Err(UnexpectedJson::scalar(&value, Self::EXPECTED)) }
    }
}

impl Read for Id {
    const EXPECTED: &'static str = "an integer or a string";

    fn from_i64(value: i64) -> ReadResult<Self> {
        Ok(Self::Number(value))
    }

    fn from_u64(value: u64) -> ReadResult<Self> {
        i64::from_u64(value).map(Self::Number)
    }

    fn from_text(value: &str) -> ReadResult<Self> {
        Ok(value.into())
    }
}

impl<T: Read> Read for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ReadResult<Self>, D::Error> {
        T::read_nullable(deserializer)
    }
}

impl<T: Read> Read for Box<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ReadResult<Self>, D::Error> {
        T::read(deserializer).map(|read| read.map(Self::new))
    }

    fn read_nullable<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ReadResult<Option<Self>>, D::Error> {
        T::read_nullable(deserializer).map(|read| read.map(|value| value.map(Self::new)))
    }
}

/// One [`UnexpectedJson`] item makes the whole list an [`UnexpectedJson`].
impl<T: Read + WriteAt> Read for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn from_null() -> ReadResult<Self> {
        if T::LIST_MAY_BE_NULL { Ok(Self::new()) } else { Err(UnexpectedJson::scalar(&(), Self::EXPECTED)) }
    }

    fn from_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<ReadResult<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(item) = seq.next_element_seed(ReadSeed::<T>::NEW)? {
            match item {
                Ok(item) => items.push(item),
                Err(unexpected) => {
                    let mut text = JsonText::list();
                    items.iter().for_each(|item| text.item(item));
                    text.item(&unexpected.json);
                    text.rest(seq)?;
                    return Ok(Err(text.finish(format!("item {}: {unexpected}", items.len()))));
                }
            }
        }
        Ok(Ok(items))
    }
}
