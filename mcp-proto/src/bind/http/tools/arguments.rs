//! The arguments that are headers as well, found in one pass.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{InvalidArgument, Level, Param, ParamHeaders, place};
use crate::codec::header;
use crate::rpc::Raw;

/// The integers that a double-precision number holds exactly, and no other number becomes.
const MOST: u64 = (1 << 53) - 1;

/// An argument that a header can repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
}

impl Value<'_> {
    /// As a header carries it.
    pub(super) fn encode(self) -> String {
        match self {
            Self::Text(text) => header::encode(&text).into_owned(),
            Self::Integer(number) => format!("{number}"),
            Self::Boolean(value) => format!("{value}"),
        }
    }

    /// Whether a header, decoded, says the same.
    pub(super) fn equals(&self, given: &str) -> bool {
        match self {
            Self::Text(text) => *text == given,
            Self::Integer(number) => {
                let given = serde_json::from_str::<Number>(given).ok().and_then(|given| given.0.ok());
                given == Some(*number)
            }
            Self::Boolean(value) => given == if *value { "true" } else { "false" },
        }
    }
}

/// The values of the marked parameters, in the order of the headers' names; `None` for what is absent or null.
pub(super) fn read<'a>(
    headers: &ParamHeaders,
    arguments: Option<&'a Raw>,
) -> Result<Vec<Option<Value<'a>>>, InvalidArgument> {
    let mut walk = Walk { values: alloc::vec![None; headers.names.len()], path: Vec::new(), error: None };
    let Some(arguments) = arguments else { return Ok(walk.values) };
    let mut text = serde_json::Deserializer::from_str(arguments.as_str());
    let root = Node { walk: &mut walk, header: None, below: &headers.root };
    let read = root.deserialize(&mut text).and_then(|()| text.end());
    match (read, walk.error) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(InvalidArgument::Json(error.to_string())),
        (Ok(()), None) => Ok(walk.values),
    }
}

struct Walk<'p, 'de> {
    values: Vec<Option<Value<'de>>>,
    path: Vec<&'p str>,
    error: Option<InvalidArgument>,
}

impl Walk<'_, '_> {
    /// Ends the walk.
    fn fail<E: serde::de::Error>(&mut self, error: impl FnOnce(String) -> InvalidArgument) -> E {
        self.error = Some(error(place(self.path.iter().copied())));
        E::custom("invalid")
    }
}

/// A place in the arguments that is marked, or leads to one that is.
struct Node<'w, 'p, 'de> {
    walk: &'w mut Walk<'p, 'de>,
    header: Option<usize>,
    below: &'p Level,
}

impl<'de> Node<'_, '_, 'de> {
    fn set<E>(self, value: Value<'de>) -> Result<(), E> {
        if let Some(slot) = self.header.and_then(|header| self.walk.values.get_mut(header)) {
            *slot = Some(value);
        }
        Ok(())
    }

    fn number<E: serde::de::Error>(self, number: Result<i64, Flaw>) -> Result<(), E> {
        match number {
            _ if self.header.is_none() => Ok(()),
            Ok(number) => self.set(Value::Integer(number)),
            Err(Flaw::Kind) => Err(self.walk.fail(|at| InvalidArgument::Kind { at })),
            Err(Flaw::Range) => Err(self.walk.fail(|at| InvalidArgument::Range { at })),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { walk, header, below } = self;
        if header.is_some() {
            return Err(walk.fail(|at| InvalidArgument::Kind { at }));
        }
        let mut seen: Vec<&str> = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            let Some((name, Param { header, below })) = below.0.get_key_value(&*name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            walk.path.push(name);
            if seen.contains(&&**name) {
                return Err(walk.fail(|at| InvalidArgument::Twice { at }));
            }
            seen.push(name);
            map.next_value_seed(Node { walk, header: *header, below })?;
            walk.path.pop();
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.header.is_some() {
            return Err(self.walk.fail(|at| InvalidArgument::Kind { at }));
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.set(Value::Boolean(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.number(of_i64(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.number(of_u64(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.number(of_f64(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.set(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.set(Value::Text(Cow::Owned(value.into())))
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Text, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Why a number is nothing that a header can repeat.
#[derive(Clone, Copy)]
enum Flaw {
    Kind,
    Range,
}

fn of_i64(number: i64) -> Result<i64, Flaw> {
    if number.unsigned_abs() <= MOST { Ok(number) } else { Err(Flaw::Range) }
}

fn of_u64(number: u64) -> Result<i64, Flaw> {
    i64::try_from(number).map_err(|_| Flaw::Range).and_then(of_i64)
}

fn of_f64(number: f64) -> Result<i64, Flaw> {
    // A conversion that saturates, and back: what is lost on the way was no integer, or none of these.
    let whole = number as i64;
    match of_i64(whole) {
        Ok(_) if whole as f64 != number => Err(Flaw::Kind),
        whole => whole,
    }
}

/// A number that a header has.
struct Number(Result<i64, Flaw>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(of_i64(value)))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(of_u64(value)))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(of_f64(value)))
            }
        }
        deserializer.deserialize_any(Read)
    }
}
