//! Request states: their sealing by a router, and their binding to one request of one principal.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::front::clock::Entropy;
use crate::ordered_map::OrderedMap;
use crate::peer::Principal;
use crate::peer::server::{SealKey, Sealer};
use crate::prelude::*;
use crate::rpc::write;
use crate::single_use::SingleUse;

/// The default lifetime of a request state: long enough for a user to read, think and type, short enough that old
/// states soon expire.
const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Sealing {
    /// The server's name: another server rejects its states even if it has the same keys.
    pub(crate) server: String,
    /// The application's sealer, or one with a random key, created at first use.
    sealer: OnceLock<Sealer>,
    pub(crate) single_use: Option<Arc<dyn SingleUse>>,
    pub(crate) lifetime: Duration,
}

impl Sealing {
    pub(crate) fn new(server: String) -> Self {
        Self { server, sealer: OnceLock::new(), single_use: None, lifetime: LIFETIME }
    }

    pub(crate) fn set_sealer(&mut self, sealer: Sealer) {
        self.sealer = sealer.into();
    }

    /// The sealer of request states; without keys of the application, one with a random key.
    pub(crate) fn sealer(&self, entropy: &dyn Entropy) -> &Sealer {
        self.sealer.get_or_init(|| {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            Sealer::new(SealKey::new(bytes), [])
        })
    }
}

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
    params: Option<&str>,
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
        let params = &mut serde_json::Deserializer::from_str(params);
        out.append(&mut CanonicalJson { omitted: &PER_ATTEMPT_PARAMS }.deserialize(params)?);
    }
    Ok(out)
}

/// Reads a JSON value as its canonical bytes, without the `omitted` members.
struct CanonicalJson {
    omitted: &'static [&'static str],
}

/// The canonical bytes of a value without parts.
fn scalar<E: Error>(value: impl Serialize) -> Result<Vec<u8>, E> {
    let mut out = Vec::new();
    write::json(&mut out, &value).map_err(E::custom)?;
    Ok(out)
}

impl<'de> DeserializeSeed<'de> for CanonicalJson {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CanonicalJson {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<u8>, E> {
        scalar(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
        let mut out = vec![b'['];
        while let Some(mut item) = seq.next_element_seed(Self { omitted: &[] })? {
            out.append(&mut item);
            out.push(b',');
        }
        out.push(b']');
        Ok(out)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let mut members = OrderedMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.insert(name, map.next_value_seed(Self { omitted: &[] })?).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        let mut out = vec![b'{'];
        for (name, mut value) in
            members.into_iter().filter(|(name, _)| !self.omitted.contains(&name.as_str()))
        {
            out.append(&mut scalar(&name)?);
            out.push(b':');
            out.append(&mut value);
            out.push(b',');
        }
        out.push(b'}');
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &str) -> Vec<u8> {
        state_binding("server", None, "tools/call", Some(params)).unwrap()
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
            assert!(state_binding("s", None, "m", Some(params)).is_err());
        }
    }
}
