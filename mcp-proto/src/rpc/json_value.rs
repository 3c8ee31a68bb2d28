//! JSON values of the other side.

use core::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::prelude::*;

/// A JSON value, read as it is: serde_json reads an object with the name of its raw values as the JSON in its text. If
/// `UNIQUE`, it is an error that an object repeats a member: of two, another reader may take the other one.
pub(crate) struct JsonValue<const UNIQUE: bool>(pub(crate) Value);

impl<'de, const UNIQUE: bool> Deserialize<'de> for JsonValue<UNIQUE> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor::<UNIQUE>).map(Self)
    }
}

struct ValueVisitor<const UNIQUE: bool>;

impl<'de, const UNIQUE: bool> Visitor<'de> for ValueVisitor<UNIQUE> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(JsonValue::<UNIQUE>(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, JsonValue::<UNIQUE>(value))) = members.next_entry::<String, _>()? {
            if UNIQUE && object.contains_key(&name) {
                return Err(A::Error::custom(format!("the member {name:?} is repeated")));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_read_as_it_is() {
        let read = |text| serde_json::from_str::<JsonValue<false>>(text).map(|JsonValue(value)| value);
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"x",{}],"b":1,"b":2}"#;
        assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        let raw = r#"[{"$serde_json::private::RawValue":"1"}]"#;
        assert_eq!(read(raw).unwrap()[0]["$serde_json::private::RawValue"], "1");
        assert!(serde_json::from_str::<JsonValue<true>>(text).is_err());
        assert!(serde_json::from_str::<JsonValue<true>>(raw).is_ok());
        assert!(read(&"[".repeat(200)).is_err());
    }
}
