//! Checks of URLs that a server wants the user to visit.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use iri_string::types::UriStr;

use crate::schema::ElicitUrlParams;

/// A page that a server wants the user to visit, with the facts to show before it is opened.
///
/// Rules that the host must follow, because this type cannot enforce them:
///
/// - Fetch nothing before the user has agreed, not even a title or an icon.
/// - Show the whole [`url`](Self::url) with the [`host`](Self::host) emphasised, the [`warnings`](Self::warnings), and
///   which server asks.
/// - Open exactly that URL, in a browser that neither this program nor a model can inspect, and pass it as one argument
///   rather than through a shell.
///
/// [`new`](Self::new) refuses URLs that a user could not judge: schemes other than `http` and `https`, text that is not
/// a URL (with spaces, quotes, backslashes, control characters), and characters beyond ASCII, which look like others
/// and change the direction of text.
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
    /// Checks a URL.
    ///
    /// # Errors
    /// If the URL must be neither shown nor opened.
    pub fn new(url: &str) -> Result<Self, UnsafeUrlError> {
        //= C13.3 "Sanitise URLs from servers (shell metacharacters)"
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
        // The scheme, "://" and the user name stand before the host.
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
            //= C10.6 "whole URL shown"
            url: url.into(),
            host: start..start.saturating_add(host.len()),
            warnings: warnings.into_iter().filter(|(_, holds)| *holds).map(|(warning, _)| warning).collect(),
        })
    }

    /// Checks the URL of an elicitation.
    ///
    /// # Errors
    /// If the URL must be neither shown nor opened: answer the elicitation with the error for invalid parameters.
    pub fn from_params(params: &ElicitUrlParams) -> Result<Self, UnsafeUrlError> {
        Self::new(&params.url)
    }

    /// The whole URL: show and open it unchanged.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The host, which the user interface should emphasise.
    pub fn host(&self) -> &str {
        self.url.get(self.host.clone()).unwrap_or_default()
    }

    /// The URL in three parts: the text before the host, the host, and the text after it.
    pub fn parts(&self) -> [&str; 3] {
        let Range { start, end } = self.host;
        [self.url.get(..start), self.url.get(start..end), self.url.get(end..)].map(Option::unwrap_or_default)
    }

    /// The suspicious features of the URL.
    pub fn warnings(&self) -> &[UrlWarning] {
        &self.warnings
    }

    /// Quotes the URL as one word of a POSIX shell, for hosts that cannot avoid a shell.
    ///
    /// Within single quotes, a shell gives no meaning to any character of a URL except the single quote, which is
    /// percent-encoded. There is no such form for `cmd.exe`.
    pub fn shell_word(&self) -> String {
        let mut word = String::from("'");
        word.push_str(&self.url.replace('\'', "%27"));
        word.push('\'');
        word
    }
}

/// Whether the host is the user's own machine.
fn is_local(host: &str) -> bool {
    let octets: Vec<_> = host.split('.').map(str::parse::<u8>).collect();
    let loopback = octets.len() == 4 && octets.iter().all(Result::is_ok) && octets.first() == Some(&Ok(127));
    let name = host.to_ascii_lowercase();
    loopback || name == "localhost" || name.ends_with(".localhost") || name == "[::1]"
}

fn is_punycode(label: &str) -> bool {
    label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"))
}

/// Whether the host is an address rather than a name; browsers accept addresses in many forms.
fn is_numeric(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    host.starts_with('[')
        || hexadecimal
        || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why a URL must be neither shown nor opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsafeUrlError {
    /// The text is not a URL of RFC 3986, with characters beyond ASCII percent-encoded.
    Syntax,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// The URL has no host.
    Host,
}

impl fmt::Display for UnsafeUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "the text is not a valid URL",
            Self::Scheme => "the URL's scheme is neither http: nor https:",
            Self::Host => "the URL has no host",
        })
    }
}

impl core::error::Error for UnsafeUrlError {}

/// A suspicious feature of a URL. `Display` writes a sentence to show to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlWarning {
    /// The URL is `http`, and its host is not this machine.
    Unencrypted,
    /// A user name stands before the host, and may look like the host.
    UserInfo,
    /// A part of the host is Punycode: characters beyond ASCII, which may look like others.
    Punycode,
    /// The host is partly percent-encoded, and its real name differs from the visible one.
    EncodedHost,
    /// The host is a number rather than a name, and is not this machine.
    NumericHost,
}

impl fmt::Display for UrlWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unencrypted => "the connection is not encrypted: others can read what you enter there",
            Self::UserInfo => {
                "the URL has a user name before the host, which may look like the host but is not"
            }
            Self::Punycode => "the host is in Punycode: its characters may look like others",
            Self::EncodedHost => "the host is percent-encoded: its real name differs from what you see",
            Self::NumericHost => "the host is a number rather than a name",
        })
    }
}
