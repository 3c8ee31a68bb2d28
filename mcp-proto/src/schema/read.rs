//! Reading JSON in one pass, without failing at an unexpected value.
//!
//! A streaming parser cannot go back: an error at a field of the wrong type would discard the rest of the text. So only
//! invalid JSON is an error here. A value of the wrong shape becomes an [`Odd`]: its JSON and the reason why it does
//! not fit. The caller decides whether to keep it raw, skip it or fail.

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
pub(crate) struct Odd {
    pub(crate) json: Json,
    /// The reason, as the end of a sentence.
    pub(crate) reason: Box<str>,
}

impl Odd {
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
        let mut text = Text::list();
        text.rest(seq)?;
        Ok(text.finish(format!("expected {expected}")))
    }

    #[cold]
    fn map<'de, A: MapAccess<'de>>(map: A, expected: &str) -> Result<Self, A::Error> {
        Fields::new(map).into_odd(format!("expected {expected}"))
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A value of the expected type, or the JSON value found instead.
pub(crate) type Attempt<T> = Result<T, Odd>;

/// A type that can be read from JSON; each JSON shape that it does not accept gives an [`Odd`].
pub(crate) trait Read: Sized {
    /// What the type accepts, to complete "expected …".
    const EXPECTED: &'static str;
    /// Whether `null` is accepted for an empty list of this type: some languages encode an empty list so.
    const LIST_MAY_BE_NULL: bool = false;

    fn from_bool(value: bool) -> Attempt<Self> {
        Err(Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_i64(value: i64) -> Attempt<Self> {
        Err(Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        Err(Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_f64(value: f64) -> Attempt<Self> {
        Err(Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_text(value: &str) -> Attempt<Self> {
        Err(Odd::scalar(value, Self::EXPECTED))
    }

    fn from_null() -> Attempt<Self> {
        Err(Odd::scalar(&(), Self::EXPECTED))
    }

    fn from_seq<'de, A: SeqAccess<'de>>(seq: A) -> Result<Attempt<Self>, A::Error> {
        Odd::seq(seq, Self::EXPECTED).map(Err)
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        Odd::map(map, Self::EXPECTED).map(Err)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// If the input is not valid JSON.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        read_shape(deserializer)
    }

    /// Reads a value or `null`.
    ///
    /// # Errors
    /// If the input is not valid JSON.
    fn read_nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Option<Self>>, D::Error> {
        read_shape::<Nullable<Self>, D>(deserializer).map(|read| read.map(|value| value.0))
    }
}

struct Shapes<T>(PhantomData<T>);

impl<'de, T: Read> Visitor<'de> for Shapes<T> {
    type Value = Attempt<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Attempt<T>, E> {
        Ok(T::from_bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Attempt<T>, E> {
        Ok(T::from_i64(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Attempt<T>, E> {
        Ok(T::from_u64(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Attempt<T>, E> {
        Ok(T::from_f64(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Attempt<T>, E> {
        Ok(T::from_text(value))
    }

    fn visit_unit<E>(self) -> Result<Attempt<T>, E> {
        Ok(T::from_null())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Attempt<T>, A::Error> {
        T::from_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Attempt<T>, A::Error> {
        T::from_map(map)
    }
}

/// Reads a value by its JSON shape alone, for types that override [`Read::read`].
pub(crate) fn read_shape<'de, T: Read, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Attempt<T>, D::Error> {
    deserializer.deserialize_any(Shapes(PhantomData))
}

/// Reads the first field `name` of the object `text`. Reading stops there.
///
/// # Errors
/// If the text read so far is not an object.
pub(crate) fn peek<T: Read>(text: &str, name: &str) -> Result<Option<Attempt<T>>, serde_json::Error> {
    let value = first_member(text, name)?;
    value.map(|value| T::read(&mut serde_json::Deserializer::from_str(value.get()))).transpose()
}

struct Nullable<T>(Option<T>);

impl<T: Read> Nullable<T> {
    fn some(read: Attempt<T>) -> Attempt<Self> {
        read.map(|value| Self(Some(value)))
    }
}

impl<T: Read> Read for Nullable<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_bool(value: bool) -> Attempt<Self> {
        Self::some(T::from_bool(value))
    }

    fn from_i64(value: i64) -> Attempt<Self> {
        Self::some(T::from_i64(value))
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        Self::some(T::from_u64(value))
    }

    fn from_f64(value: f64) -> Attempt<Self> {
        Self::some(T::from_f64(value))
    }

    fn from_text(value: &str) -> Attempt<Self> {
        Self::some(T::from_text(value))
    }

    fn from_null() -> Attempt<Self> {
        Ok(Self(None))
    }

    fn from_seq<'de, A: SeqAccess<'de>>(seq: A) -> Result<Attempt<Self>, A::Error> {
        T::from_seq(seq).map(Self::some)
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        T::from_map(map).map(Self::some)
    }
}

/// Reads a `T` where serde takes a [`DeserializeSeed`].
pub(crate) struct Seed<T>(PhantomData<T>);

impl<T> Seed<T> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<'de, T: Read> DeserializeSeed<'de> for Seed<T> {
    type Value = Attempt<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Attempt<T>, D::Error> {
        T::read(deserializer)
    }
}

/// Reads a field name, borrowed if it has no escapes.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
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
    held: vec::IntoIter<(Cow<'de, str>, &'de RawValue)>,
    /// The name of the field that decided the kind, if its value is still to be read.
    decisive: Option<Cow<'de, str>>,
    current: Option<&'de RawValue>,
    is_decided: bool,
    map: A,
}

impl<'de, A: MapAccess<'de>> Fields<'de, A> {
    pub(crate) fn new(map: A) -> Self {
        Self { held: Vec::new().into_iter(), decisive: None, current: None, is_decided: false, map }
    }

    /// Returns the next field name. Read the field's value before the next call.
    pub(crate) fn name(&mut self) -> Result<Option<Cow<'de, str>>, A::Error> {
        if let Some((name, value)) = self.held.next() {
            self.current = Some(value);
            return Ok(Some(name));
        }
        match self.decisive.take() {
            Some(name) => Ok(Some(name)),
            None => self.map.next_key_seed(KeySeed),
        }
    }

    /// Reads the value of the current field.
    pub(crate) fn value<T: Read>(&mut self) -> Result<Attempt<T>, A::Error> {
        match self.current.take() {
            None => self.map.next_value_seed(Seed::NEW),
            Some(held) => {
                T::read(&mut serde_json::Deserializer::from_str(held.get())).map_err(A::Error::custom)
            }
        }
    }

    /// Reads the value of the current field as JSON.
    pub(crate) fn json(&mut self) -> Result<Json, A::Error> {
        match self.value::<Json>()? {
            Ok(json) | Err(Odd { json, .. }) => Ok(json),
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
        let mut held = Vec::new();
        let mut decided = None;
        while let Some(name) = self.map.next_key_seed(KeySeed)? {
            decided = by_name(&name);
            if decided.is_some() {
                self.decisive = Some(name);
                break;
            }
            held.push((name, self.map.next_value::<&'de RawValue>()?));
        }
        self.held = held.into_iter();
        Ok(decided)
    }

    /// Reads the value of the deciding field.
    pub(crate) fn decisive<T: Read>(&mut self) -> Result<Attempt<T>, A::Error> {
        self.decisive = None;
        self.is_decided = true;
        self.map.next_value_seed(Seed::NEW)
    }

    /// Whether [`decisive`](Self::decisive) has read the deciding field.
    pub(crate) fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Reads the value of the buffered field `name`.
    pub(crate) fn held<T: Read>(&self, name: &str) -> Option<Result<Attempt<T>, A::Error>> {
        let (_, value) = self.held.as_slice().iter().rev().find(|(held, _)| held == name)?;
        Some(T::read(&mut serde_json::Deserializer::from_str(value.get())).map_err(A::Error::custom))
    }

    /// Turns all fields that have not been read into an [`Odd`] with their original JSON.
    #[cold]
    pub(crate) fn into_odd(mut self, reason: impl Into<Box<str>>) -> Result<Odd, A::Error> {
        let mut text = Text::object();
        self.drain(&mut text)?;
        Ok(text.finish(reason))
    }

    fn drain(&mut self, text: &mut Text) -> Result<(), A::Error> {
        while let Some(name) = self.name()? {
            let json = self.json()?;
            text.entry(&name, &json);
        }
        Ok(())
    }

    /// Like [`into_odd`](Self::into_odd), with the deciding field, which has been read.
    #[cold]
    pub(crate) fn into_odd_with(
        mut self,
        name: &str,
        value: &Json,
        reason: impl Into<Box<str>>,
    ) -> Result<Odd, A::Error> {
        let mut text = Text::object();
        for (name, value) in self.held.by_ref() {
            text.raw(&name, value.get());
        }
        text.entry(name, value);
        self.drain(&mut text)?;
        Ok(text.finish(reason))
    }
}

/// Rebuilds the JSON text of a value from its parts.
pub(crate) struct Text {
    text: Vec<u8>,
    close: u8,
    first: bool,
}

impl Text {
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

    pub(crate) fn finish(mut self, reason: impl Into<Box<str>>) -> Odd {
        self.text.push(self.close);
        let json = String::from_utf8(self.text).ok().and_then(|text| Json::new(text).ok());
        Odd::new(json.unwrap_or_else(Json::null), reason)
    }
}

impl Read for String {
    const EXPECTED: &'static str = "a string";

    fn from_text(value: &str) -> Attempt<Self> {
        Ok(value.to_owned())
    }
}

impl Read for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_bool(value: bool) -> Attempt<Self> {
        Ok(value)
    }
}

impl Read for u64 {
    const EXPECTED: &'static str = "a non-negative integer";

    fn from_i64(value: i64) -> Attempt<Self> {
        Self::try_from(value).map_err(|_| Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        Ok(value)
    }

    /// Some languages write integers as `60000.0` or `6e4`.
    fn from_f64(value: f64) -> Attempt<Self> {
        let whole = value as Self;
        if whole as f64 == value { Ok(whole) } else { Err(Odd::scalar(&value, Self::EXPECTED)) }
    }
}

impl Read for i64 {
    const EXPECTED: &'static str = "an integer";

    fn from_i64(value: i64) -> Attempt<Self> {
        Ok(value)
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        Self::try_from(value).map_err(|_| Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_f64(value: f64) -> Attempt<Self> {
        let whole = value as Self;
        if whole as f64 == value { Ok(whole) } else { Err(Odd::scalar(&value, Self::EXPECTED)) }
    }
}

impl Read for Id {
    const EXPECTED: &'static str = "an integer or a string";

    fn from_i64(value: i64) -> Attempt<Self> {
        Ok(Self::Number(value))
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        i64::from_u64(value).map(Self::Number)
    }

    fn from_text(value: &str) -> Attempt<Self> {
        Ok(value.into())
    }
}

impl<T: Read> Read for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        T::read_nullable(deserializer)
    }
}

impl<T: Read> Read for Box<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        T::read(deserializer).map(|read| read.map(Self::new))
    }

    fn read_nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Option<Self>>, D::Error> {
        T::read_nullable(deserializer).map(|read| read.map(|value| value.map(Self::new)))
    }
}

/// One [`Odd`] item makes the whole list an [`Odd`].
impl<T: Read + WriteAt> Read for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn from_null() -> Attempt<Self> {
        if T::LIST_MAY_BE_NULL { Ok(Self::new()) } else { Err(Odd::scalar(&(), Self::EXPECTED)) }
    }

    fn from_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Attempt<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(item) = seq.next_element_seed(Seed::<T>::NEW)? {
            match item {
                Ok(item) => items.push(item),
                Err(odd) => {
                    let mut text = Text::list();
                    items.iter().for_each(|item| text.item(item));
                    text.item(&odd.json);
                    text.rest(seq)?;
                    return Ok(Err(text.finish(format!("item {}: {odd}", items.len()))));
                }
            }
        }
        Ok(Ok(items))
    }
}
