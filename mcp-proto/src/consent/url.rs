//! Checks of what a server names by a URL: pages that the user visits, and icons.

use core::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use iri_string::types::UriStr;

use crate::prelude::*;
use crate::schema::{ElicitUrlParams, Icon};
use crate::url::HttpUrl;

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

error_text! { UnsafeUrlError:
    Syntax => "the text is not a valid URL";
    Scheme => "the URL's scheme is neither http: nor https:";
    Host => "the URL has no host";
}

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

display_text! { UrlWarning:
    Unencrypted => "the connection is not encrypted: others can read what you enter there";
    UserInfo => "the URL has a user name before the host, which may look like the host but is not";
    Punycode => "the host is in Punycode: its characters may look like others";
    EncodedHost => "the host is percent-encoded: its real name differs from what you see";
    NumericHost => "the host is a number rather than a name";
}

config! {
    /// Policy of a host for icons: which ones to show, and where to fetch them.
    ///
    /// Call [`source`](Self::source) to check whether an icon may be fetched at all, [`redirect`](Self::redirect) to
    /// check a redirect, and [`image`](Self::image) to check the bytes received. Fetch without credentials (no cookies,
    /// no `Authorization`, no client certificate) and stop reading at [`max_bytes`](Self::max_bytes).
    ///
    /// ```
    /// use mcp_proto::consent::{UnsafeIconError, IconPolicy, IconSource};
    /// use mcp_proto::schema::Icon;
    ///
    /// let policy = IconPolicy::for_server("https://example.com/mcp");
    /// let icon = Icon::new("https://example.com/icon.png");
    /// assert_eq!(policy.source(&icon), Ok(IconSource::Fetch("https://example.com/icon.png")));
    /// assert_eq!(policy.source(&Icon::new("file:///etc/passwd")), Err(UnsafeIconError::Scheme));
    /// assert_eq!(policy.source(&Icon::new("https://tracker.example/i.png")), Err(UnsafeIconError::Origin));
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#icons>
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct IconPolicy {
        /// The URL of the server, from whose origin icons may be fetched. Default: none, as for a child process.
        pub server: Option<String> = None,
        /// Other origins, such as `https://cdn.example.com`, from which icons may be fetched. Default: none.
        pub trusted: Vec<String> = Vec::new(),
        /// The greatest size of an icon in bytes. Default 256 KiB: ten times the size of a good icon.
        pub max_bytes: usize = 256 * 1024,
        /// The image formats that are shown. Default: PNG, JPEG and WebP. SVG can run scripts: add it if the host
        /// renders it safely.
        pub kinds: Vec<ImageKind> = vec![ImageKind::Png, ImageKind::Jpeg, ImageKind::Webp],
    }
}

/// Where the bytes of an icon are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IconSource<'a> {
    /// At this URL: fetch it without credentials, and show it if [`IconPolicy::image`] accepts it.
    Fetch(&'a str),
    /// In the icon itself: an image that has been checked.
    Inline(ImageKind, Vec<u8>),
}

impl IconPolicy {
    /// The default policy for the icons of the server at this URL.
    pub fn for_server(url: impl Into<String>) -> Self {
        Self { server: Some(url.into()), ..Self::default() }
    }

    /// Where to get an icon.
    ///
    /// # Errors
    /// If the policy does not allow the icon to be fetched or shown.
    pub fn source<'a>(&self, icon: &'a Icon) -> Result<IconSource<'a>, UnsafeIconError> {
        let url = UriStr::new(&icon.src).map_err(|_| UnsafeIconError::Syntax)?;
        if url.scheme_str().eq_ignore_ascii_case("data") {
            let bytes = self.decode(url.path_str())?;
            let (head, _) = url.path_str().split_once(',').unwrap_or_default();
            let declared = head.split(';').next().filter(|declared| !declared.is_empty());
            return Ok(IconSource::Inline(self.image(declared, &bytes)?, bytes));
        }
        //= C9.16 "Icons: https or data: only"
        if !url.scheme_str().eq_ignore_ascii_case("https") {
            return Err(UnsafeIconError::Scheme);
        }
        let url = HttpUrl::parse(&icon.src).map_err(|_| UnsafeIconError::Syntax)?;
        let origin = url.origin();
        let mut allowed = self.server.iter().chain(&self.trusted).filter_map(|url| HttpUrl::parse(url).ok());
        //= C9.16 "same/trusted origin"
        let known = url.user.is_none() && allowed.any(|url| url.origin() == origin);
        if known { Ok(IconSource::Fetch(&icon.src)) } else { Err(UnsafeIconError::Origin) }
    }

    /// Checks whether a redirect between two absolute URLs may be followed: only within one origin.
    ///
    /// # Errors
    /// If it may not be followed.
    pub fn redirect(&self, from: &str, to: &str) -> Result<(), UnsafeIconError> {
        let target = UriStr::new(to).map_err(|_| UnsafeIconError::Syntax)?;
        if !target.scheme_str().eq_ignore_ascii_case("https") {
            return Err(UnsafeIconError::Scheme);
        }
        if anonymous_origin(from).is_some_and(|origin| Some(origin) == anonymous_origin(to)) {
            Ok(())
        } else {
            Err(UnsafeIconError::Origin)
        }
    }

    /// Detects the format of an image by its first bytes.
    ///
    /// `declared` is the media type from the icon or the HTTP response; if it is an image type, it must match the
    /// bytes.
    ///
    /// # Errors
    /// If the bytes are not an image that the policy allows to be shown.
    pub fn image(&self, declared: Option<&str>, bytes: &[u8]) -> Result<ImageKind, UnsafeIconError> {
        //= C9.16 "size limits"
        if bytes.len() > self.max_bytes {
            return Err(UnsafeIconError::TooLong { limit: self.max_bytes });
        }
        let kind =
            //= C9.16 "magic bytes checked"
            ImageKind::detect(bytes).filter(|kind| self.kinds.contains(kind)).ok_or(UnsafeIconError::Kind)?;
        let declared = declared.map(|declared| declared.split(';').next().unwrap_or_default().trim());
        match declared {
            Some(declared)
                if declared.to_ascii_lowercase().starts_with("image/") && !kind.has_media_type(declared) =>
            {
                Err(UnsafeIconError::Mismatch)
            }
            _ => Ok(kind),
        }
    }

    /// Decodes the bytes of a `data:` URI, unless its base64 is too long for the limit.
    fn decode(&self, path: &str) -> Result<Vec<u8>, UnsafeIconError> {
        let (head, data) = path.split_once(',').ok_or(UnsafeIconError::Syntax)?;
        if !head.to_ascii_lowercase().ends_with(";base64") {
            return Err(UnsafeIconError::Syntax);
        }
        if data.len() / 4 > (self.max_bytes / 3).saturating_add(1) {
            return Err(UnsafeIconError::TooLong { limit: self.max_bytes });
        }
        STANDARD.decode(data).map_err(|_| UnsafeIconError::Syntax)
    }
}

/// The origin of a URL; `None` if the URL has a user name.
fn anonymous_origin(url: &str) -> Option<String> {
    HttpUrl::parse(url).ok().filter(|url| url.user.is_none()).map(|url| url.origin())
}

/// An image format, detected by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageKind {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/webp`
    Webp,
    /// `image/svg+xml`: text, and possibly scripts.
    Svg,
}

impl ImageKind {
    /// Detects the format of `bytes`, if it is a known one.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some(Self::Png),
            [0xFF, 0xD8, 0xFF, ..] => Some(Self::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => is_svg(bytes).then_some(Self::Svg),
        }
    }

    /// The media type of the format.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Svg => "image/svg+xml",
        }
    }

    fn has_media_type(self, media_type: &str) -> bool {
        let alias = self == Self::Jpeg && media_type.eq_ignore_ascii_case("image/jpg");
        alias || media_type.eq_ignore_ascii_case(self.media_type())
    }
}

/// Whether the bytes are XML whose first element is `svg`, after a declaration, comments and a document type.
fn is_svg(bytes: &[u8]) -> bool {
    let Ok(mut rest) = core::str::from_utf8(bytes) else { return false };
    rest = rest.trim_start_matches('\u{FEFF}').trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<!") => ">",
            _ => break,
        };
        let Some((_, after)) = rest.split_once(end) else { return false };
        rest = after.trim_start();
    }
    let after = rest.strip_prefix("<svg");
    after.is_some_and(|after| after.starts_with(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/'))
}

/// Why an icon is not fetched, or not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsafeIconError {
    /// The icon's `src` is not a URL, or its `data:` URI is not valid base64.
    Syntax,
    /// The URL's scheme is neither `https` nor `data`.
    Scheme,
    /// The URL's origin is neither the server's nor trusted.
    Origin,
    /// The icon is larger than the limit.
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The bytes are not an image, or of a format that the policy does not show.
    Kind,
    /// The bytes are of another format than the declared media type.
    Mismatch,
}

error_text! { UnsafeIconError:
    Syntax => "the icon's source is not a valid URL or base64 text";
    Scheme => "an icon's URL must be https: or data:";
    Origin => "the icon's origin is neither the server's nor trusted";
    TooLong { limit } => "the icon is larger than {limit} bytes";
    Kind => "the icon is not an image of an accepted format";
    Mismatch => "the icon's format differs from its declared media type";
}
