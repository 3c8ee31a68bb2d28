//! OAuth scopes.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Maximum number of scopes, and maximum bytes of each: enough for the longest real lists, and for URLs as scopes.
const SCOPES: usize = 128;
const SCOPE_BYTES: usize = 256;

/// A set of scopes, in the order of their first occurrence: at most 128 of at most 256 bytes each. Scopes beyond these
/// limits, or invalid by RFC 6749 section 3.3, are left out.
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
    /// Parses a space-separated list.
    pub fn parse(text: &str) -> Self {
        text.split_ascii_whitespace().collect()
    }

    /// These scopes, followed by those that only `other` has.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Whether the set contains this scope. The comparison is exact.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether the set contains all scopes of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        other.iter().all(|scope| self.contains(scope))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of scopes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The scopes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// `scope-token` of RFC 6749: visible ASCII except `"` and `\`.
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
