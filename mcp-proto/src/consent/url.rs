//! Pages that people are asked to visit.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use iri_string::types::UriStr;

use crate::schema::ElicitUrlParams;

/// A page that a server wants a person to visit: what to show before it is opened.
///
/// The rules for a host, of which none can be kept from here:
///
/// - Nothing is fetched before the person has agreed, not even a title or an icon.
/// - The person sees [`url`](Self::url) whole, with [`host`](Self::host) made to stand out, the
///   [`warnings`](Self::warnings), and which server asks.
/// - Exactly that URL is opened, in a browser that neither this program nor a model can look into, and handed over as
///   one argument rather than through a shell.
///
/// What no person could judge is refused at once: schemes other than `http` and `https`, text that is no URL (with
/// spaces, quotes, backslashes, control characters), and characters beyond ASCII, which look like others and turn text
/// around.
///
/// ```
/// use mcp_proto::consent::{UrlConsent, UnsafeUrlError, UrlWarning};
///
/// let page = UrlConsent::new("https://example.com@xn--pple-43d.example/login")?;
/// assert_eq!(page.host(), "xn--pple-43d.example");
/// assert_eq!(page.warnings(), [UrlWarning::UserInfo, UrlWarning::Punycode]);
/// assert_eq!(UrlConsent::new("javascript:alert(1)"), Err(UnsafeUrlError::Scheme));
/// # Ok::<(), UnsafeUrlError>(())
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlConsent {
    url: String,
    host: Range<usize>,
    warnings: Vec<UrlWarning>,
}

impl UrlConsent {
    /// Looks at a URL.
    ///
    /// # Errors
    /// If it is not to be shown, let alone opened.
    pub fn new(url: &str) -> Result<Self, UnsafeUrlError> {
        let parsed = UriStr::new(url).map_err(|_| UnsafeUrlError::Syntax)?;
        let secure = parsed.scheme_str().eq_ignore_ascii_case("https");
        if !secure && !parsed.scheme_str().eq_ignore_ascii_case("http") {
            return Err(UnsafeUrlError::Scheme);
        }
        let authority = parsed.authority_components().ok_or(UnsafeUrlError::Host)?;
        let host = authority.host();
        if host.is_empty() {
            return Err(UnsafeUrlError::Host);
        }
        // "//" comes first in what has an authority, then the user.
        let before = parsed.scheme_str().len().saturating_add("://".len());
        let user = authority.userinfo().map_or(0, |user| user.len().saturating_add("@".len()));
        let start = before.saturating_add(user);
        let local = is_local(host);
        let warnings = [
            (UrlWarning::Unencrypted, !secure && !local),
            (UrlWarning::UserInfo, authority.userinfo().is_some()),
            (UrlWarning::Punycode, host.split('.').any(is_punycode)),
            (UrlWarning::EncodedHost, host.contains('%')),
            (UrlWarning::NumericHost, !local && is_numeric(host)),
        ];
        Ok(Self {
            url: url.into(),
            host: start..start.saturating_add(host.len()),
            warnings: warnings.into_iter().filter(|(_, holds)| *holds).map(|(warning, _)| warning).collect(),
        })
    }

    /// Looks at the page that an elicitation is about.
    ///
    /// # Errors
    /// If it is not to be shown, let alone opened: answer such an elicitation with invalid parameters.
    pub fn of(params: &ElicitUrlParams) -> Result<Self, UnsafeUrlError> {
        Self::new(&params.url)
    }

    /// The whole URL, to be shown as it is and opened as it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The host: what to make stand out.
    pub fn host(&self) -> &str {
        self.url.get(self.host.clone()).unwrap_or_default()
    }

    /// The URL in three parts: what stands before the host, the host, and what stands after it.
    pub fn parts(&self) -> [&str; 3] {
        let Range { start, end } = self.host;
        [self.url.get(..start), self.url.get(start..end), self.url.get(end..)].map(Option::unwrap_or_default)
    }

    /// What is suspicious about it.
    pub fn warnings(&self) -> &[UrlWarning] {
        &self.warnings
    }

    /// The URL as one word of a POSIX shell, for those who can not do without one.
    ///
    /// Everything that may stand in a URL means nothing to a shell between single quotes, and a single quote, which may
    /// stand there, is percent-encoded. There is no such form for `cmd.exe`.
    pub fn shell_word(&self) -> String {
        let mut word = String::from("'");
        word.push_str(&self.url.replace('\'', "%27"));
        word.push('\'');
        word
    }
}

/// Whether nothing leaves the machine on the way there.
fn is_local(host: &str) -> bool {
    let octets: Vec<_> = host.split('.').map(str::parse::<u8>).collect();
    let loopback = octets.len() == 4 && octets.iter().all(Result::is_ok) && octets.first() == Some(&Ok(127));
    let name = host.to_ascii_lowercase();
    loopback || name == "localhost" || name.ends_with(".localhost") || name == "[::1]"
}

fn is_punycode(label: &str) -> bool {
    label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"))
}

/// An address rather than a name; browsers take numbers of many forms for one.
fn is_numeric(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    host.starts_with('[')
        || hexadecimal
        || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why a URL is not to be shown, let alone opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsafeUrlError {
    /// It is not a URL: RFC 3986, with everything beyond ASCII percent-encoded.
    Syntax,
    /// Its scheme is neither `http` nor `https`.
    Scheme,
    /// It names no host.
    Host,
}

impl fmt::Display for UnsafeUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "this is not a URL",
            Self::Scheme => "only pages at http: and https: can be visited",
            Self::Host => "the URL names no host",
        })
    }
}

impl core::error::Error for UnsafeUrlError {}

/// What is suspicious about a URL. Each reads as a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlWarning {
    /// It is `http`, and not on this machine.
    Unencrypted,
    /// A user name stands before the host, and may look like the host.
    UserInfo,
    /// A part of the host is Punycode: characters beyond ASCII, which may look like others.
    Punycode,
    /// The host is percent-encoded in part, and is another than it looks.
    EncodedHost,
    /// The host is a number rather than a name, and not on this machine.
    NumericHost,
}

impl fmt::Display for UrlWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unencrypted => "what you enter there travels unencrypted",
            Self::UserInfo => "a name stands before the host, and is not where the page is",
            Self::Punycode => "the host is in Punycode: its characters may look like others",
            Self::EncodedHost => "the host is written in code",
            Self::NumericHost => "the host is a number rather than a name",
        })
    }
}
