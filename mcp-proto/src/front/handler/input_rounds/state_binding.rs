//! The binding of a request state to one request of one principal to one server.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::peer::Principal;
use crate::rpc::{Raw, write};

/// The parameters that differ between attempts at the same request.
const PER_ATTEMPT_PARAMS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// Encodes server, principal, method and parameters: the same bytes for each attempt at a request, however its
/// parameters are ordered and spaced, and different bytes for any other request.
///
/// # Errors
/// If a member of the parameters occurs twice: it would be ambiguous which of them counts.
pub(super) fn state_binding(
    server: &str,
    principal: Option<&Principal>,
    method: &str,
    params: Option<&Raw>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    let mut part = |part: &str| {
        out.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        out.extend_from_slice(part.as_bytes());
    };
    part(server);
    part(if principal.is_some() { "of" } else { "of nobody" });
    //= S9.3 "Bind state to verified user identity (sub)"
    part(principal.map_or("", Principal::as_str));
    part(method);
    if let Some(params) = params {
        let mut value: CanonicalJson = params.decode()?;
        if let CanonicalJson::Object(members) = &mut value {
            members.retain(|name, _| !PER_ATTEMPT_PARAMS.contains(&name.as_str()));
        }
        value.write(&mut out)?;
    }
    Ok(out)
}

/// A JSON value in its canonical form.
enum CanonicalJson {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<CanonicalJson>),
    Object(BTreeMap<String, CanonicalJson>),
}

impl CanonicalJson {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => write::json(out, value)?,
            Self::Number(value) => write::json(out, value)?,
            Self::String(value) => write::json(out, value)?,
            Self::Array(items) => {
                out.push(b'[');
                for item in items {
                    item.write(out)?;
                    out.push(b',');
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (name, value) in members {
                    write::json(out, name)?;
                    out.push(b':');
                    value.write(out)?;
                    out.push(b',');
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for CanonicalJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CanonicalVisitor)
    }
}

struct CanonicalVisitor;

impl<'de> Visitor<'de> for CanonicalVisitor {
    type Value = CanonicalJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<CanonicalJson, E> {
        Ok(CanonicalJson::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<CanonicalJson, E> {
        Ok(CanonicalJson::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<CanonicalJson, E> {
        Ok(CanonicalJson::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<CanonicalJson, E> {
        Ok(CanonicalJson::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<CanonicalJson, E> {
        Number::from_f64(value).map(CanonicalJson::Number).ok_or_else(|| E::custom("a number that is none"))
    }

    fn visit_str<E>(self, value: &str) -> Result<CanonicalJson, E> {
        Ok(CanonicalJson::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<CanonicalJson, E> {
        Ok(CanonicalJson::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CanonicalJson, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(CanonicalJson::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CanonicalJson, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, CanonicalJson>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(CanonicalJson::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &str) -> Vec<u8> {
        state_binding("server", None, "tools/call", Some(&Raw::new(params).unwrap())).unwrap()
    }

    /// S4.5
    #[test]
    fn binding_is_equal_for_every_attempt_at_a_request() {
        let first = of(r#"{"name":"t","arguments":{"a":1,"b":["é",null,1.5]},"_meta":{"x":1}}"#);
        let again = of(
            r#"{ "requestState":"s", "inputResponses":{}, "arguments":{"b":["\u00e9", null, 1.5e0],"a":1}, "name":"t" }"#,
        );
        assert_eq!(first, again);
    }

    /// S4.5
    #[test]
    fn binding_differs_for_other_params() {
        let call = r#"{"name":"t","arguments":{"a":[1,2],"b":"x"}}"#;
        let others = [
            r#"{"name":"u","arguments":{"a":[1,2],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":[2,1],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":[[1,2]],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":["1","2"],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":[1,2],"b":"x","_meta":{}}}"#,
            r#"{"name":"t","arguments":{"a":[1,2]}}"#,
            r#"{"name":"t"}"#,
        ];
        for other in others {
            assert_ne!(of(call), of(other), "{other}");
        }
    }

    /// S4.5
    #[test]
    fn binding_differs_by_server_principal_and_method() {
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        let of = |server, principal, method| state_binding(server, principal, method, None).unwrap();
        let all = [
            of("a", Some(&alice), "m"),
            of("a", Some(&bob), "m"),
            of("a", None, "m"),
            of("a", Some(&Principal::new("")), "m"),
            of("a", Some(&alice), "n"),
            of("b", Some(&alice), "m"),
            of("ab", Some(&alice), "m"),
            of("", Some(&alice), "m"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn binding_refuses_duplicate_members() {
        for params in [r#"{"name":"t","name":"u"}"#, r#"{"arguments":{"a":1,"a":2}}"#] {
            assert!(state_binding("s", None, "m", Some(&Raw::new(params).unwrap())).is_err());
        }
    }
}
