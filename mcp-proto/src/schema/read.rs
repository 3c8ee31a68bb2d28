//! Reading JSON in one pass, without failing at an unexpected value.
//!
//! Only invalid JSON is an error here. A value of the wrong shape becomes an [`UnexpectedJson`]: its JSON and the reason
//! why it does not fit. The caller decides whether to keep it raw, skip it or fail.

use alloc::borrow::Cow;

use serde::de;

use super::Json;
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, ReadNumber, Reader};
use crate::rpc::{Id, Raw, first_member};

/// A valid JSON value that does not fit where it occurs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnexpectedJson {
    pub(crate) json: Json,
    pub(crate) reason: Reason,
}

/// The reason why a value does not fit, as the end of a sentence.
pub(crate) type Reason = Box<str>;

display_text! { UnexpectedJson { reason } => "{reason}" }

/// A value of the expected type, or the JSON value found instead.
pub(crate) type ReadResult<T> = Result<T, UnexpectedJson>;

/// A value of the expected type, or the reason why the one found does not fit.
pub(crate) type Fit<T> = Result<T, Reason>;

/// The reason of a value of another type than the one expected.
#[cold]
pub(crate) fn expected<T>(what: &str) -> Fit<T> {
    Err(format!("expected {what}").into())
}

/// A type that can be read from JSON; each JSON shape that it does not accept gives an [`UnexpectedJson`].
pub(crate) trait Read: Sized {
    /// Description of accepted values, to complete "expected …".
    const EXPECTED: &'static str;
    /// Whether `null` is accepted for an empty list of this type: some languages encode an empty list so.
    const LIST_MAY_BE_NULL: bool = false;

    fn from_null() -> Fit<Self> {
        expected(Self::EXPECTED)
    }

    fn from_bool(_: bool) -> Fit<Self> {
        expected(Self::EXPECTED)
    }

    fn from_number(_: ReadNumber) -> Fit<Self> {
        expected(Self::EXPECTED)
    }

    fn from_text(_: Cow<'_, str>) -> Fit<Self> {
        expected(Self::EXPECTED)
    }

    fn from_list(_: Items<'_, '_>) -> Result<Fit<Self>, NotJson> {
        Ok(expected(Self::EXPECTED))
    }

    fn from_object(_: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        Ok(expected(Self::EXPECTED))
    }

    /// Keeps a value that does not fit, if the type has a place for it.
    fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
        Err(unexpected)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// If the text is not valid JSON.
    // One copy for a type, not one for each field of it.
    #[inline(never)]
    fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        let first = reader.first_byte()?;
        let start = reader.at();
        let fit = match first {
            b'"' => Self::from_text(reader.string()?),
            b'{' => Self::from_object(Fields::enter(reader)?)?,
            b'[' => Self::from_list(Items::enter(reader)?)?,
            b't' | b'f' => Self::from_bool(reader.skip()? == "true"),
            b'n' => {
                reader.skip()?;
                Self::from_null()
            }
            _ => Self::from_number(reader.number()?),
        };
        match fit {
            Ok(value) => Ok(Ok(value)),
            Err(reason) => unexpected(reader, start, reason).map(Self::or_keep),
        }
    }
}

/// Goes back to `start` and reads the value there as JSON.
#[cold]
fn unexpected(reader: &mut Reader<'_>, start: usize, reason: Reason) -> Result<UnexpectedJson, NotJson> {
    reader.go_to(start);
    Ok(UnexpectedJson { json: Json::read_text(reader)?, reason })
}

/// Reads `text`, which is one value.
///
/// # Errors
/// If it is not valid JSON, or does not fit.
pub(crate) fn read_text<T: Read>(text: &str) -> Result<T, serde_json::Error> {
    read_all(Reader::new(text), text)
}

/// Reads `raw`, which is one value.
///
/// # Errors
/// If it is not valid JSON, or does not fit.
pub(crate) fn read_raw<T: Read>(raw: &Raw) -> Result<T, serde_json::Error> {
    read_all(raw.reader(), raw.as_str())
}

fn read_all<T: Read>(mut reader: Reader<'_>, text: &str) -> Result<T, serde_json::Error> {
    match T::read(&mut reader).and_then(|read| reader.end().map(|()| read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(unexpected)) => Err(de::Error::custom(unexpected)),
        Err(NotJson) => Err(Reader::error(text)),
    }
}

/// Reads the first field `name` of the object `text`. Reading stops there.
///
/// # Errors
/// If the field is missing because `text` is not an object, or is not a `T`.
pub(crate) fn peek<T: Read>(text: &str, name: &str) -> Result<Option<T>, serde_json::Error> {
    first_member(text, name)?.map(read_text).transpose()
}

/// The items of a list that is being read. All of them must be read unless the list does not fit.
pub(crate) struct Items<'r, 'a> {
    reader: &'r mut Reader<'a>,
    is_first: bool,
}

impl<'r, 'a> Items<'r, 'a> {
    fn enter(reader: &'r mut Reader<'a>) -> Result<Self, NotJson> {
        reader.enter(b'[')?;
        Ok(Self { reader, is_first: true })
    }

    /// Reads the next item.
    pub(crate) fn item<T: Read>(&mut self) -> Result<Option<ReadResult<T>>, NotJson> {
        match self.reader.item(&mut self.is_first, b']')? {
            true => T::read(self.reader).map(Some),
            false => Ok(None),
        }
    }
}

/// The fields of an object that is being read. All of them must be read unless the object does not fit.
pub(crate) struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    is_first: bool,
}

impl<'r, 'a> Fields<'r, 'a> {
    fn enter(reader: &'r mut Reader<'a>) -> Result<Self, NotJson> {
        reader.enter(b'{')?;
        Ok(Self { reader, is_first: true })
    }

    /// Returns the next field name. Read the field's value before the next call.
    pub(crate) fn name(&mut self) -> Result<Option<Cow<'a, str>>, NotJson> {
        self.reader.name(&mut self.is_first)
    }

    /// Reads the value of the current field.
    pub(crate) fn value<T: Read>(&mut self) -> Result<ReadResult<T>, NotJson> {
        T::read(self.reader)
    }

    /// Reads the value of the current field, and checks it.
    pub(crate) fn checked<T: Read, E: AsRef<str>>(
        &mut self,
        check: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<ReadResult<T>, NotJson> {
        let start = self.reader.at();
        match T::read(self.reader)? {
            Ok(value) => match check(&value) {
                Ok(()) => Ok(Ok(value)),
                Err(what) => {
                    unexpected(self.reader, start, format!("expected {}", what.as_ref()).into()).map(Err)
                }
            },
            Err(unexpected) => Ok(Err(unexpected)),
        }
    }

    /// Whether the value of the current field, which is read, is this string.
    pub(crate) fn is_text(&mut self, expected: &str) -> Result<bool, NotJson> {
        if self.reader.first_byte()? == b'"' {
            return Ok(self.reader.string()? == expected);
        }
        self.reader.skip().map(|_| false)
    }

    /// Reads the value of the current field as JSON.
    pub(crate) fn json(&mut self) -> Result<Json, NotJson> {
        Json::read_text(self.reader)
    }

    /// Skips the value of the current field and returns its text.
    pub(crate) fn skip(&mut self) -> Result<&'a str, NotJson> {
        self.reader.skip()
    }

    /// Reads the value of the first field `name`: of the one that comes next, or else ahead of the fields that follow.
    pub(crate) fn tag<T: Read>(&mut self, name: &str) -> Result<Option<ReadResult<T>>, NotJson> {
        let start = (self.reader.at(), self.is_first);
        if self.name()?.is_some_and(|next| next == name) {
            return self.value().map(Some);
        }
        self.reader.go_to(start.0);
        self.is_first = start.1;
        self.look_at(name)
    }

    /// Looks at the fields that follow, without reading them, until `by_name` returns something for a name.
    pub(crate) fn look<T>(&self, mut by_name: impl FnMut(&str) -> Option<T>) -> Result<Option<T>, NotJson> {
        let mut ahead = Fields { reader: &mut self.reader.clone(), is_first: self.is_first };
        while let Some(name) = ahead.name()? {
            let found = by_name(&name);
            if found.is_some() {
                return Ok(found);
            }
            ahead.reader.skip()?;
        }
        Ok(None)
    }

    /// Looks at the value of the first field `name` that follows, without reading any.
    pub(crate) fn look_at<T: Read>(&self, name: &str) -> Result<Option<ReadResult<T>>, NotJson> {
        let mut ahead = Fields { reader: &mut self.reader.clone(), is_first: self.is_first };
        while let Some(found) = ahead.name()? {
            if found == name {
                return ahead.value().map(Some);
            }
            ahead.reader.skip()?;
        }
        Ok(None)
    }
}

impl Read for String {
    const EXPECTED: &'static str = "a string";

    fn from_text(value: Cow<'_, str>) -> Fit<Self> {
        Ok(value.into_owned())
    }
}

impl Read for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_bool(value: bool) -> Fit<Self> {
        Ok(value)
    }
}

/// Implements [`Read`] for a type of integers. Some languages write integers as `60000.0` or `6e4`.
macro_rules! integer {
    ($type:ty, $expected:literal) => {
        impl Read for $type {
            const EXPECTED: &'static str = $expected;

            fn from_number(number: ReadNumber) -> Fit<Self> {
                let whole = match number {
                    ReadNumber::I64(value) => Self::try_from(value).ok(),
                    ReadNumber::U64(value) => Self::try_from(value).ok(),
                    ReadNumber::F64(value) => Some(value as Self).filter(|whole| *whole as f64 == value),
                };
                whole.map_or_else(|| expected(Self::EXPECTED), Ok)
            }
        }
    };
}

integer!(u64, "a non-negative integer");
integer!(i64, "an integer");

impl Read for Id {
    const EXPECTED: &'static str = "an integer or a string";

    fn from_number(number: ReadNumber) -> Fit<Self> {
        match number {
            ReadNumber::F64(_) => expected(Self::EXPECTED),
            whole => i64::from_number(whole).map(Self::Number),
        }
    }

    fn from_text(value: Cow<'_, str>) -> Fit<Self> {
        Ok((&*value).into())
    }
}

impl<T: Read> Read for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        if reader.first_byte()? == b'n' {
            reader.skip()?;
            return Ok(Ok(None));
        }
        T::read(reader).map(|read| read.map(Some))
    }
}

impl<T: Read> Read for Box<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        T::read(reader).map(|read| read.map(Self::new))
    }

    // Variants of an enum are read by it.
    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        Ok(T::from_object(fields)?.map(Self::new))
    }
}

/// One [`UnexpectedJson`] item makes the whole list an [`UnexpectedJson`].
impl<T: Read> Read for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn from_null() -> Fit<Self> {
        if T::LIST_MAY_BE_NULL { Ok(Self::new()) } else { expected(Self::EXPECTED) }
    }

    fn from_list(mut list: Items<'_, '_>) -> Result<Fit<Self>, NotJson> {
        let mut items = Self::new();
        while let Some(item) = list.item()? {
            match item {
                Ok(item) => items.push(item),
                Err(unexpected) => return Ok(Err(format!("item {}: {unexpected}", items.len()).into())),
            }
        }
        Ok(Ok(items))
    }
}
