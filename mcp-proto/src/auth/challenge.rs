//! Challenges in the `WWW-Authenticate` header, and the scopes that they name.

use core::fmt;

use super::URL_BYTES;
use super::sanitize;
use crate::prelude::*;

/// Maximum bytes of a header that are parsed: the header limit of most HTTP implementations.
const HEADER_BYTES: usize = 16 * 1024;

/// Maximum number of challenges, and of parameters of each.
const CHALLENGES: usize = 16;
const PARAMETERS: usize = 32;

/// A challenge of a `WWW-Authenticate` header (RFC 9110 section 11.6.1). [`Display`](fmt::Display) formats it for a
/// header.
///
/// ```
/// use mcp_proto::auth::Challenge;
///
/// let challenges = Challenge::parse_all(r#"Basic YWJj, bearer realm="a, \"b\"", Scope=mail"#);
/// assert!(challenges[0].is_scheme("basic") && challenges[1].is_scheme("Bearer"));
/// assert_eq!(challenges[1].get("realm"), Some(r#"a, "b""#));
/// assert_eq!(challenges[1].get("scope"), Some("mail"));
///
/// let mine = Challenge::new("Bearer").with("error", "invalid_token");
/// assert_eq!(mine.to_string(), r#"Bearer error="invalid_token""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The scheme as received: compare it with [`is_scheme`](Self::is_scheme).
    pub scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// A challenge without parameters.
    pub fn new(scheme: impl Into<String>) -> Self {
        Self { scheme: scheme.into(), parameters: Vec::new() }
    }

    /// Adds a parameter. Characters that are invalid in headers are removed.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let value = value.chars().filter(|&letter| letter == '\t' || !letter.is_control()).collect();
        self.parameters.push((name.into(), value));
        self
    }

    /// Parses all challenges of a header, or of several that are joined by commas: the first 16, with the first 32
    /// parameters of each, in the first 16 KiB. Invalid text is skipped up to the next comma outside quotes. The parser
    /// tolerates values that should have been quoted, and parameters separated by spaces rather than commas.
    pub fn parse_all(header: &str) -> Vec<Self> {
        let header = header.get(..header.floor_char_boundary(HEADER_BYTES)).unwrap_or_default();
        let mut reader = Reader(header);
        let mut challenges: Vec<Self> = Vec::new();
        // Parameters of a skipped challenge do not belong to the previous one.
        let mut kept = true;
        // A challenge can begin only at the start and after a comma.
        let mut separated = true;
        loop {
            //= C12.2 "Parse `WWW-Authenticate` (multiple challenges, quoted strings)"
            separated |= reader.take(|byte| is_blank(byte) || byte == b',').contains(',');
            if reader.0.is_empty() {
                break;
            }
            let name = reader.take(is_token);
            let spaced = !reader.take(is_blank).is_empty();
            if !name.is_empty() && reader.eat('=') {
                let value = reader.value();
                if let (Some(challenge), Some(value), true) = (challenges.last_mut(), value, kept) {
                    challenge.add(name, value);
                }
            } else if !name.is_empty() && separated && (spaced || reader.is_at_end()) {
                kept = challenges.len() < CHALLENGES;
                if kept {
                    challenges.push(Self::new(name));
                }
                reader.token68();
            } else {
                reader.skip();
            }
            separated = false;
        }
        challenges
    }

    /// Adds a parameter, unless the challenge has one of this name.
    fn add(&mut self, name: &str, value: String) {
        if self.parameters.len() < PARAMETERS && self.get(name).is_none() {
            self.parameters.push((name.into(), value));
        }
    }

    /// Whether the challenge has this scheme. The comparison ignores case.
    pub fn is_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The value of a parameter. The comparison of names ignores case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The names and values of all parameters, as received.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        for (at, (name, value)) in self.parameters.iter().enumerate() {
            write!(f, "{} {name}=\"", if at > 0 { "," } else { "" })?;
            for letter in value.chars() {
                if matches!(letter, '"' | '\\') {
                    f.write_str("\\")?;
                }
                write!(f, "{letter}")?;
            }
            f.write_str("\"")?;
        }
        Ok(())
    }
}

/// A parser over the rest of a header. It reads nothing more than twice.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    /// Takes the longest prefix of matching bytes, which must be ASCII.
    fn take(&mut self, of: impl Fn(u8) -> bool) -> &'a str {
        let length = self.0.bytes().position(|byte| !of(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at_checked(length).unwrap_or((self.0, ""));
        self.0 = rest;
        taken
    }

    fn eat(&mut self, byte: char) -> bool {
        let rest = self.0.strip_prefix(byte);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Whether the parser is at a comma or at the end.
    fn is_at_end(&self) -> bool {
        self.0.is_empty() || self.0.starts_with(',')
    }

    /// Skips a `token68` that ends at the next comma, if there is one.
    fn token68(&mut self) {
        let mut ahead = Reader(self.0);
        let text = ahead.take(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
        ahead.take(|byte| byte == b'=');
        ahead.take(is_blank);
        if !text.is_empty() && ahead.is_at_end() {
            *self = ahead;
        }
    }

    /// Parses the value of a parameter.
    fn value(&mut self) -> Option<String> {
        self.take(is_blank);
        if self.eat('"') {
            return self.quoted();
        }
        let value = self.take(|byte| byte.is_ascii_graphic() && byte != b',' && byte != b'"');
        (!value.is_empty()).then(|| value.into())
    }

    /// Parses the rest of a quoted string. `None` if it is not terminated, or has characters that are invalid in
    /// headers.
    fn quoted(&mut self) -> Option<String> {
        let mut value = String::new();
        let mut letters = self.0.chars();
        let ended = loop {
            match letters.next() {
                Some('"') => break true,
                Some('\\') => value.extend(letters.next()),
                Some(letter) => value.push(letter),
                None => break false,
            }
        };
        self.0 = letters.as_str();
        let clean = !value.chars().any(|letter| letter.is_control() && letter != '\t');
        (ended && clean).then_some(value)
    }

    /// Skips to the next comma outside quotes.
    fn skip(&mut self) {
        loop {
            self.0 = self.0.trim_start_matches(|letter| letter != ',' && letter != '"');
            if !self.eat('"') {
                return;
            }
            self.quoted();
        }
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `tchar` of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What a resource server requires, according to its challenges. The `Bearer` challenge takes precedence; the `DPoP`
/// challenge supplies the parameters that it lacks.
///
/// RFC 6750 section 3, RFC 9728 section 5.1, RFC 9449 section 7.1.
///
/// ```
/// use mcp_proto::auth::Requirement;
///
/// let requirement = Requirement::parse(r#"Bearer error="insufficient_scope", scope="files:write""#).unwrap();
/// assert!(requirement.is_insufficient_scope());
/// assert_eq!(requirement.scope.unwrap().to_string(), "files:write");
/// assert_eq!(Requirement::parse("Basic realm=\"x\""), None);
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirement {
    /// URL of the resource's metadata. It has not been [checked](super::FetchPolicy::check).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scope: Option<Scopes>,
    /// The error code for the token, sanitized for display.
    pub error: Option<String>,
    /// The description of the error, sanitized for display.
    pub error_description: Option<String>,
    /// Whether there is a `DPoP` challenge: the server accepts tokens that are bound to a key.
    pub wants_dpop: bool,
    /// Whether there is no `Bearer` challenge: the server accepts no other tokens.
    pub requires_dpop: bool,
}

impl Requirement {
    /// Parses a `WWW-Authenticate` header, or several that are joined by commas. `None` if there is neither a `Bearer`
    /// nor a `DPoP` challenge.
    pub fn parse(header: &str) -> Option<Self> {
        let challenges = Challenge::parse_all(header);
        let of = |scheme| challenges.iter().filter(move |challenge| challenge.is_scheme(scheme));
        let ranked = || of("Bearer").chain(of("DPoP"));
        ranked().next()?;
        let say = |name| ranked().find_map(|challenge| challenge.get(name)).filter(|value| !value.is_empty());
        let nonce = of("DPoP").filter_map(|challenge| challenge.get("error")).find(|error| *error == NONCE);
        Some(Self {
            resource_metadata: say("resource_metadata")
                .filter(|url| url.len() <= URL_BYTES)
                .map(String::from),
            scope: say("scope").map(Scopes::parse).filter(|scopes| !scopes.is_empty()),
            // The nonce error takes precedence: it must be resolved before any other can be.
            error: nonce.or_else(|| say("error")).and_then(sanitize),
            error_description: say("error_description").and_then(sanitize),
            wants_dpop: of("DPoP").next().is_some(),
            requires_dpop: of("Bearer").next().is_none(),
        })
    }

    /// Whether the token is valid, but lacks scopes for the request.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether the server asks for the same request with the nonce of its response.
    pub fn is_use_dpop_nonce(&self) -> bool {
        self.error.as_deref() == Some(NONCE)
    }
}

/// The error code with which a server asks for a proof with its nonce (RFC 9449).
const NONCE: &str = "use_dpop_nonce";

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

/// Whether a text has from one to `most` `NQCHAR`s of RFC 6749: visible ASCII except `"` and `\`.
pub(super) fn is_nqchars(text: &str, most: usize) -> bool {
    let mut bytes = text.bytes();
    (1..=most).contains(&text.len())
        && bytes.all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut known = Self::default();
        for scope in scopes {
            if known.len() == SCOPES {
                break;
            }
            if is_nqchars(scope, SCOPE_BYTES) && !known.contains(scope) {
                known.0.push(scope.into());
            }
        }
        known
    }
}

display_text! { Scopes(scopes) => "{}", scopes.join(" ") }
