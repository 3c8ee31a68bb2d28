//! SHA-256 hashes of names and of JSON values.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes a list of byte strings. Each is preceded by its length, so that `["ab", "c"]` and `["a", "bc"]` differ.
    pub(super) fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(wide(part.len()).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Hashes a JSON text in its canonical form: white space and the order of members do not matter.
    ///
    /// All members of the same name count, in their order. A text that the parser does not read, such as one that is
    /// nested too deeply, is hashed as it is.
    pub(super) fn of_json(text: &str) -> Self {
        let mut canonical = Vec::with_capacity(text.len());
        let mut reader = serde_json::Deserializer::from_str(text);
        match CanonicalForm(&mut canonical).deserialize(&mut reader).and_then(|()| reader.end()) {
            Ok(()) => Self::of_parts(&[b"json", &canonical]),
            Err(_) => Self::of_parts(&[b"text", text.as_bytes()]),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first 64 bits.
    pub(super) fn prefix(&self) -> u64 {
        self.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(64);
        // A string takes any text.
        let _ = write!(text, "{self}");
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| D::Error::custom("64 hexadecimal digits are expected"))
    }
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Appends the canonical form of the value that is read: each kind has its own tag, strings have their lengths, and
/// members are sorted by name.
struct CanonicalForm<'a>(&'a mut Vec<u8>);

impl CanonicalForm<'_> {
    fn push(self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
    }
}

impl<'de> DeserializeSeed<'de> for CanonicalForm<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CanonicalForm<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.push(b'0', &[]);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.push(if value { b't' } else { b'f' }, &[]);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.push(b'u', &value.to_be_bytes());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.push(b'i', &value.to_be_bytes());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.push(b'd', &value.to_bits().to_be_bytes());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.push(b's');
        self.0.extend_from_slice(&wide(value.len()).to_be_bytes());
        self.0.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        while seq.next_element_seed(CanonicalForm(self.0))?.is_some() {}
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let mut value = Vec::new();
            map.next_value_seed(CanonicalForm(&mut value))?;
            members.push((name, value));
        }
        // Stable: members of the same name keep their order.
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.0.push(b'{');
        for (name, value) in members {
            CanonicalForm(self.0).visit_str(&name)?;
            self.0.extend_from_slice(&value);
        }
        self.0.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn json_digest_ignores_white_space_and_the_order_of_members() {
        let one = Digest::of_json(r#"{"a":[1,{"x":null,"y":"é"}],"b":true}"#);
        assert_eq!(one, Digest::of_json("{ \"b\" : true,\n\"a\":[1,{\"y\":\"\\u00e9\",\"x\":null}] }"));
    }

    #[test]
    fn json_digest_differs_for_different_values() {
        let texts = [
            "1",
            "1.5",
            "-1",
            "\"1\"",
            "true",
            "false",
            "null",
            "[]",
            "{}",
            "[[]]",
            "[1,2]",
            "[2,1]",
            "[[1],2]",
            r#"{"a":1}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#"{"a":2}"#,
            r#"{"a":{"b":1}}"#,
            r#"["a",1]"#,
            r#""\ud800""#,
            "not JSON",
        ];
        let mut digests: Vec<_> = texts.iter().map(|text| Digest::of_json(text)).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), texts.len());
    }

    #[test]
    fn json_digest_hashes_the_text_of_values_that_are_nested_too_deeply() {
        let deep = |inner: &str| Digest::of_json(&["[".repeat(500), inner.into(), "]".repeat(500)].concat());
        assert_ne!(deep("1"), deep("2"));
        assert_eq!(deep("1"), deep("1"));
    }

    #[test]
    fn digest_is_read_as_it_was_written() {
        let digest = Digest::of_parts(&[b"a"]);
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(text, alloc::format!("\"{digest}\""));
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        for wrong in ["\"\"", "\"+f\"", &text.to_string().replacen('"', "\"0", 1), "7"] {
            assert!(serde_json::from_str::<Digest>(wrong).is_err(), "{wrong}");
        }
    }
}
