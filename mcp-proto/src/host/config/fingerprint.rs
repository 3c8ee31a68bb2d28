//! Identities and fingerprints of servers: SHA-256 over length-prefixed fields.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;

use sha2::{Digest, Sha256};

/// Identifies a configured server: a user's by its name, a project's by the path of the file and its name.
///
/// It stays the same when the entry changes, across reloads and restarts, and no project can choose the id of a user's
/// server. `Display` writes 32 hexadecimal digits, fit for file names and keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId([u8; 16]);

impl ServerId {
    /// The id of the user's server of this name.
    pub fn user(name: &str) -> Self {
        let mut digester = Digester::new("user server");
        digester.text(name);
        Self::from_digest(digester)
    }

    /// The id of the server of this name in the project file at this path.
    pub fn project(path: &str, name: &str) -> Self {
        let mut digester = Digester::new("project server");
        digester.text(path);
        digester.text(name);
        Self::from_digest(digester)
    }

    fn from_digest(digester: Digester) -> Self {
        let digest = digester.finish();
        let mut id = [0; 16];
        id.iter_mut().zip(digest).for_each(|(byte, digest)| *byte = digest);
        Self(id)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {self}")
    }
}

/// A hash of what an entry means, equal exactly if the meaning is equal. `Display` writes 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(in crate::host) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fingerprint {self}")
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Hashes fields one after the other, so that different fields never give the same bytes.
pub(in crate::host) struct Digester(Sha256);

impl Digester {
    /// Starts a hash for one purpose; hashes for different purposes differ.
    pub(in crate::host) fn new(purpose: &str) -> Self {
        let mut digester = Self(Sha256::new());
        digester.text("mcp-proto host 1");
        digester.text(purpose);
        digester
    }

    pub(in crate::host) fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    pub(in crate::host) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(in crate::host) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(in crate::host) fn flag(&mut self, flag: bool) {
        self.number(flag.into());
    }

    /// An optional field: whether it is present, then the field.
    pub(in crate::host) fn option<T>(&mut self, field: Option<T>, add: impl FnOnce(&mut Self, T)) {
        self.flag(field.is_some());
        if let Some(field) = field {
            add(self, field);
        }
    }

    /// A list: its length, then its items.
    pub(in crate::host) fn list<T>(&mut self, items: &[T], mut add: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| add(self, item));
    }

    /// Texts whose order and repetitions mean nothing.
    pub(in crate::host) fn set(&mut self, texts: &[String]) {
        let texts: BTreeSet<_> = texts.iter().collect();
        self.number(texts.len() as u64);
        texts.into_iter().for_each(|text| self.text(text));
    }

    pub(in crate::host) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    pub(super) fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.finish())
    }
}
