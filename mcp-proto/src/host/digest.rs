//! SHA-256: identities and fingerprints of servers, and hashes of what they offer.

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::ordered_set::OrderedSet;
use crate::prelude::*;

/// Bytes that are written as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Hex<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Hex<N> {
    fn read(text: &str) -> Option<Self> {
        let mut digits = text.chars().map(|digit| digit.to_digit(16));
        let mut bytes = [0; N];
        for byte in &mut bytes {
            let (high, low) = (digits.next()??, digits.next()??);
            *byte = u8::try_from((high << 4) | low).ok()?;
        }
        digits.next().is_none().then_some(Self(bytes))
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).ok_or_else(|| {
            D::Error::custom(format_args!("{} hexadecimal digits are expected", N.saturating_mul(2)))
        })
    }
}

/// Identifies a configured server: a user's by its name, a project's by the path of the file and its name.
///
/// It stays the same when the entry changes, across reloads and restarts, and no project can choose the id of a user's
/// server. `Display` writes 32 hexadecimal digits, fit for file names and keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Hex<16>);

impl ServerId {
    /// The id of the user's server of this name.
    pub fn user(name: &str) -> Self {
        Self::of_texts("user server", &[name])
    }

    /// The id of the server of this name in the project file at this path.
    pub fn project(path: &str, name: &str) -> Self {
        Self::of_texts("project server", &[path, name])
    }

    fn of_texts(purpose: &str, texts: &[&str]) -> Self {
        let mut digester = Digester::new(purpose);
        texts.iter().for_each(|text| digester.text(text));
        let mut id = [0; 16];
        id.iter_mut().zip(digester.finish().0).for_each(|(byte, digest)| *byte = digest);
        Self(Hex(id))
    }
}

display_text! { ServerId(hex) => "{hex}" }

debug_fields! { ServerId(hex) => "server {hex}" }

/// A hash of what an entry means, equal exactly if the meaning is equal. `Display` writes 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub(super) Hex<32>);

display_text! { Fingerprint(hex) => "{hex}" }

debug_fields! { Fingerprint(hex) => "fingerprint {hex}" }

/// Hashes fields one after the other, so that different fields never give the same bytes.
pub(super) struct Digester(Sha256);

impl Digester {
    /// Starts a hash for one purpose; hashes for different purposes differ.
    pub(super) fn new(purpose: &str) -> Self {
        let mut digester = Self(Sha256::new());
        digester.text("mcp-proto host 1");
        digester.text(purpose);
        digester
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.number(flag.into());
    }

    /// An optional field: whether it is present, then the field.
    pub(super) fn option<T>(&mut self, field: Option<T>, add: impl FnOnce(&mut Self, T)) {
        self.flag(field.is_some());
        if let Some(field) = field {
            add(self, field);
        }
    }

    /// A list: its length, then its items.
    pub(super) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut add: impl FnMut(&mut Self, T),
    ) {
        self.number(items.len() as u64);
        items.for_each(|item| add(self, item));
    }

    /// Texts whose order and repetitions mean nothing.
    pub(super) fn set(&mut self, texts: &[String]) {
        let texts: OrderedSet<&String> = texts.iter().collect();
        self.number(texts.len() as u64);
        texts.into_iter().for_each(|text| self.text(text));
    }

    pub(super) fn finish(self) -> Hex<32> {
        Hex(self.0.finalize().into())
    }
}

/// A SHA-256 hash, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(Hex<32>);

impl Digest {
    /// Hashes a list of byte strings. Each is preceded by its length, so that `["ab", "c"]` and `["a", "bc"]` differ.
    pub(super) fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(Hex(hash.finalize().into()))
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
        &self.0.0
    }

    /// The first 64 bits.
    pub(super) fn prefix(&self) -> u64 {
        self.0.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }
}

display_text! { Digest(hex) => "{hex}" }

debug_fields! { Digest(hex) => "{hex}" }

/// Appends the canonical form of the value that is read: each kind has its own tag, strings have their lengths, and
/// members are sorted by name.
struct CanonicalForm<'a>(&'a mut Vec<u8>);

impl CanonicalForm<'_> {
    fn push<E>(self, tag: u8, bytes: &[u8]) -> Result<(), E> {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
        Ok(())
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
        self.push(b'0', &[])
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.push(if value { b't' } else { b'f' }, &[])
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.push(b'u', &value.to_be_bytes())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.push(b'i', &value.to_be_bytes())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.push(b'd', &value.to_bits().to_be_bytes())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        CanonicalForm(self.0).push(b's', &(value.len() as u64).to_be_bytes())?;
        self.0.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        while seq.next_element_seed(CanonicalForm(self.0))?.is_some() {}
        self.push(b']', &[])
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
        self.push(b'}', &[])
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
