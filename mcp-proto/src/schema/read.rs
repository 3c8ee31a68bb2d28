//! Reading in one pass, without giving up for an odd value.
//!
//! A streaming parser cannot go back: once a field of the wrong type has failed, the rest of the text is lost. So here
//! only bad JSON is an error. A value of the wrong shape is an [`Odd`]: what was read, as JSON again, and what is wrong
//! with it. Whoever asked decides whether to keep it raw, to skip it or to refuse.

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
use crate::rpc::Id;

/// A value that is not what its place asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Odd {
    pub(crate) json: Json,
    /// What is wrong, as the end of a sentence.
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

/// A value, or what stood in its place.
pub(crate) type Attempt<T> = Result<T, Odd>;

/// A type that can be read; each shape that it does not take is odd.
pub(crate) trait Read: Sized {
    /// What it takes, as in "expected …".
    const EXPECTED: &'static str;
    /// Whether `null` is as good as an empty list of these: some languages know no other empty list.
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

    /// # Errors
    /// Only if it is not JSON.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        read_shape(deserializer)
    }

    /// The same, with `null` for nothing.
    ///
    /// # Errors
    /// Only if it is not JSON.
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

/// Reads by shape alone, for types that have their own [`Read::read`].
pub(crate) fn read_shape<'de, T: Read, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Attempt<T>, D::Error> {
    deserializer.deserialize_any(Shapes(PhantomData))
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

/// Reads a `T` where serde asks for a seed.
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

/// A name, borrowed where it has no escapes.
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

/// The fields of an object that is being read: those held back until its kind was known, then those to come.
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

    /// The next name; its value must be read before the next one is asked for.
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

    /// The value of the name just read.
    pub(crate) fn value<T: Read>(&mut self) -> Result<Attempt<T>, A::Error> {
        match self.current.take() {
            None => self.map.next_value_seed(Seed::NEW),
            Some(held) => {
                T::read(&mut serde_json::Deserializer::from_str(held.get())).map_err(A::Error::custom)
            }
        }
    }

    /// The same, as it stands.
    pub(crate) fn json(&mut self) -> Result<Json, A::Error> {
        match self.value::<Json>()? {
            Ok(json) | Err(Odd { json, .. }) => Ok(json),
        }
    }

    /// Holds fields back until one of them, by its name, decides what kind of object this is.
    ///
    /// Without one, all are held and `None` is returned. The deciding field is the first to be read if `T` is decided
    /// by its value, or is read in its turn if its name is enough.
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

    /// The value of the field that decided, now.
    pub(crate) fn decisive<T: Read>(&mut self) -> Result<Attempt<T>, A::Error> {
        self.decisive = None;
        self.is_decided = true;
        self.map.next_value_seed(Seed::NEW)
    }

    /// Whether the field that decided has been read.
    pub(crate) fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// The value of `name`, if it has been held back.
    pub(crate) fn held<T: Read>(&self, name: &str) -> Option<Result<Attempt<T>, A::Error>> {
        let (_, value) = self.held.as_slice().iter().rev().find(|(held, _)| held == name)?;
        Some(T::read(&mut serde_json::Deserializer::from_str(value.get())).map_err(A::Error::custom))
    }

    /// Everything that has not been read, verbatim.
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

    /// The same, with the field that was read in between.
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

/// JSON put together again from what was read of it.
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
        // A vector takes any number of bytes, and what was just read serializes.
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
    const EXPECTED: &'static str = "a whole number, not negative";

    fn from_i64(value: i64) -> Attempt<Self> {
        Self::try_from(value).map_err(|_| Odd::scalar(&value, Self::EXPECTED))
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        Ok(value)
    }

    /// Some languages write `60000.0` or `6e4`.
    fn from_f64(value: f64) -> Attempt<Self> {
        let whole = value as Self;
        if whole as f64 == value { Ok(whole) } else { Err(Odd::scalar(&value, Self::EXPECTED)) }
    }
}

impl Read for i64 {
    const EXPECTED: &'static str = "a whole number";

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

/// One odd item makes the whole list odd.
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
