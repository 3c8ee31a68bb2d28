//! What an approval says of a file of environment variables.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use super::Digester;
use crate::Secret;
use crate::consent::is_harmless_variable;

/// The names in a file of environment variables, and the values of those that are not harmless, as a hash with a key: no
/// value can be read from it, and equal values of two approvals differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::host) struct EnvFileBinding {
    key: [u8; 16],
    digest: [u8; 32],
}

impl EnvFileBinding {
    pub(in crate::host) fn new(variables: &BTreeMap<String, Secret>, key: [u8; 16]) -> Self {
        let mut digester = Digester::new("file of variables");
        digester.bytes(&key);
        digester.number(variables.len() as u64);
        for (name, value) in variables {
            digester.text(name);
            let value = Some(value).filter(|_| !is_harmless_variable(name));
            digester.option(value, |digester, value| digester.text(value.expose()));
        }
        Self { key, digest: digester.finish() }
    }

    /// A binding that was stored.
    pub(in crate::host) const fn from_parts(key: [u8; 16], digest: [u8; 32]) -> Self {
        Self { key, digest }
    }

    pub(in crate::host) const fn key(&self) -> &[u8; 16] {
        &self.key
    }

    pub(in crate::host) const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    pub(in crate::host) fn matches(&self, variables: &BTreeMap<String, Secret>) -> bool {
        Self::new(variables, self.key) == *self
    }
}

impl fmt::Debug for EnvFileBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvFileBinding")
    }
}
