//! What a token is good for.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How many scopes are kept, and how long each may be, in bytes: longer lists than any server has, and URLs as scopes.
const SCOPES: usize = 128;
const SCOPE_BYTES: usize = 256;

/// Scopes, each once, in the order in which they came: at most 128 of at most 256 bytes. What is beyond that, or no scope
/// by RFC 6749 section 3.3, is left out.
///
/// ```
/// use mcp_proto::auth::Scopes;
///
/// let mut scopes = Scopes::parse("files:read  mail files:read");
/// assert_eq!(scopes.to_string(), "files:read mail");
/// scopes = scopes.union(&Scopes::parse("files:write"));
/// assert!(scopes.contains_all(&Scopes::parse("files:write mail")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Of text with spaces between them.
    pub fn parse(text: &str) -> Self {
        text.split_ascii_whitespace().collect()
    }

    /// These, then those of the other that are not among them.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Whether this scope is among them. Scopes are compared as they are written.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether all of the other are among them.
    pub fn contains_all(&self, other: &Self) -> bool {
        other.iter().all(|scope| self.contains(scope))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Each, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// `scope-token` of RFC 6749: visible ASCII but for `"` and `\`.
fn is_scope(text: &str) -> bool {
    let mut bytes = text.bytes();
    (1..=SCOPE_BYTES).contains(&text.len())
        && bytes.all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut known = Self::default();
        for scope in scopes {
            if known.len() == SCOPES {
                break;
            }
            if is_scope(scope) && !known.contains(scope) {
                known.0.push(scope.into());
            }
        }
        known
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope)?;
        }
        Ok(())
    }
}
