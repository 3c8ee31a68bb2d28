//! Reads the mirrored arguments of a tool call in one pass.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{HeaderArgumentError, ParamHeaders, Properties, display_path};
use crate::codec::header;
use crate::rpc::{JsonStr, Raw};

/// The greatest integer up to which a double-precision number represents every integer exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The value of a mirrored argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
}

impl<'a> Value<'a> {
    /// Reads an argument; `None` for null.
    fn read(raw: &'a RawValue) -> Result<Option<Self>, ValueError> {
        let text = raw.get();
        Ok(Some(match text.as_bytes().first() {
            Some(b'"') => Self::Text(serde_json::from_str::<JsonStr<'_>>(text).map_err(ValueError::Json)?.0),
            Some(b'-' | b'0'..=b'9') => Self::Integer(integer(text)?),
            _ => match text {
                //= C4.10 "null or absent argument → header omitted"
                "null" => return Ok(None),
                "true" => Self::Boolean(true),
                "false" => Self::Boolean(false),
                _ => return Err(ValueError::Kind),
            },
        }))
    }

    /// Encodes the value for a header.
    pub(super) fn encode(self) -> String {
        match self {
            Self::Text(text) => header::encode(&text).into_owned(),
            //= C4.10 "bool `true`/`false`, integers decimal"
            Self::Integer(number) => format!("{number}"),
            Self::Boolean(value) => format!("{value}"),
        }
    }

    /// Returns whether a decoded header has the same value.
    pub(super) fn equals(&self, given: &str) -> bool {
        match self {
            Self::Text(text) => *text == given,
            Self::Integer(_) => {
                let given: Option<&RawValue> = serde_json::from_str(given).ok();
                given.is_some_and(|given| matches!(Value::read(given), Ok(Some(given)) if given == *self))
            }
            Self::Boolean(value) => given == if *value { "true" } else { "false" },
        }
    }
}

/// Reads the values of the mirrored parameters, in the order of the header names; `None` for absent or null ones.
pub(super) fn read<'a>(
    headers: &ParamHeaders,
    arguments: Option<&'a Raw>,
) -> Result<Vec<Option<Value<'a>>>, HeaderArgumentError> {
    let mut walk =
        ArgumentWalk { values: alloc::vec![None; headers.names.len()], path: Vec::new(), error: None };
    let Some(arguments) = arguments else { return Ok(walk.values) };
    let mut text = serde_json::Deserializer::from_str(arguments.as_str());
    let root = ArgumentNode { walk: &mut walk, properties: &headers.root };
    let read = root.deserialize(&mut text).and_then(|()| text.end());
    match (read, walk.error) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(HeaderArgumentError::Json(error.to_string())),
        (Ok(()), None) => Ok(walk.values),
    }
}

struct ArgumentWalk<'p, 'de> {
    values: Vec<Option<Value<'de>>>,
    path: Vec<&'p str>,
    error: Option<HeaderArgumentError>,
}

impl ArgumentWalk<'_, '_> {
    /// Records the error and ends the walk.
    fn fail<E: serde::de::Error>(&mut self, error: impl FnOnce(String) -> HeaderArgumentError) -> E {
        self.error = Some(error(display_path(self.path.iter().copied())));
        E::custom("invalid")
    }
}

/// A position in the arguments that leads to a mirrored one.
struct ArgumentNode<'w, 'p, 'de> {
    walk: &'w mut ArgumentWalk<'p, 'de>,
    properties: &'p Properties,
}

impl<'de> DeserializeSeed<'de> for ArgumentNode<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ArgumentNode<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { walk, properties: below } = self;
        let mut seen: Vec<&str> = Vec::new();
        while let Some(JsonStr(name)) = map.next_key()? {
            //= C4.9 "walk the exact property path"
            let Some((name, param)) = below.0.get_key_value(&*name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            walk.path.push(name);
            if seen.contains(&&**name) {
                return Err(walk.fail(|at| HeaderArgumentError::Duplicate { at }));
            }
            seen.push(name);
            match param.header_index.and_then(|header| walk.values.get_mut(header)) {
                Some(slot) => match Value::read(map.next_value()?) {
                    Ok(value) => *slot = value,
                    Err(ValueError::Kind) => return Err(walk.fail(|at| HeaderArgumentError::Kind { at })),
                    Err(ValueError::Range) => return Err(walk.fail(|at| HeaderArgumentError::Range { at })),
                    Err(ValueError::Json(error)) => return Err(A::Error::custom(error)),
                },
                None => map.next_value_seed(ArgumentNode { walk, properties: &param.properties })?,
            }
            walk.path.pop();
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Why a value cannot be encoded in a header.
enum ValueError {
    Kind,
    Range,
    Json(serde_json::Error),
}

/// Parses a JSON number as an integer. serde_json parses numbers with a fraction inexactly.
fn integer(number: &str) -> Result<i64, ValueError> {
    let whole = match number.parse::<i64>() {
        Ok(whole) => whole,
        Err(_) => {
            let number: f64 = number.parse().map_err(|_| ValueError::Kind)?;
            // A saturating conversion there and back: if the values differ, the number is no integer or out of range.
            let whole = number as i64;
            if whole.unsigned_abs() <= MAX_SAFE_INTEGER && whole as f64 != number {
                return Err(ValueError::Kind);
            }
            whole
        }
    };
    //= C4.11 "integers within ±(2^53−1)"
    //= R6 "`x-mcp-header` integers within ±(2^53−1)"
    if whole.unsigned_abs() <= MAX_SAFE_INTEGER { Ok(whole) } else { Err(ValueError::Range) }
}
