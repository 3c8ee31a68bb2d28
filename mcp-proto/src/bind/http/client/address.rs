//! Where requests go: only ever to the origin that the application named.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use iri_string::types::{UriReferenceStr, UriStr};

/// A URL that is no address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// It is not a URL: RFC 3986, with everything beyond ASCII percent-encoded.
    Syntax,
    /// Its scheme is neither `http` nor `https`.
    Scheme,
    /// It names no host.
    Host,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "this is not a URL",
            Self::Scheme => "the URL begins with neither http: nor https:",
            Self::Host => "the URL names no host",
        })
    }
}

impl core::error::Error for UrlError {}

/// An `http` or `https` URL without a fragment.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address(Arc<str>);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

/// A URL as it is shown: without user, password and query, which may be secret. The query may even be a session.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = UriStr::new(self.0).ok();
        let Some((url, authority)) = url.and_then(|url| Some((url, url.authority_components()?))) else {
            return f.write_str("(no URL)");
        };
        write!(f, "{}://{}", url.scheme_str(), authority.host())?;
        if let Some(port) = authority.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(url.path_str())
    }
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, UrlError> {
        let url = UriStr::new(text).map_err(|_| UrlError::Syntax)?;
        origin(url).map(|_| Self(Arc::from(url.to_absolute().as_str())))
    }

    pub(super) fn text(&self) -> Arc<str> {
        self.0.clone()
    }

    /// What `reference` stands for here, unless it leads to another origin.
    pub(super) fn follow(&self, reference: &str) -> Option<Self> {
        let base = UriStr::new(&self.0).ok()?;
        let resolved = UriReferenceStr::new(reference).ok()?.resolve_against(base.to_absolute()).to_string();
        let target = UriStr::new(&resolved).ok()?;
        (origin(target) == origin(base)).then(|| Self(Arc::from(target.to_absolute().as_str())))
    }
}

/// Scheme, host in lower case and port.
fn origin(url: &UriStr) -> Result<(bool, String, u16), UrlError> {
    let secure = url.scheme_str().eq_ignore_ascii_case("https");
    if !secure && !url.scheme_str().eq_ignore_ascii_case("http") {
        return Err(UrlError::Scheme);
    }
    let authority = url.authority_components().ok_or(UrlError::Host)?;
    if authority.host().is_empty() {
        return Err(UrlError::Host);
    }
    let port = match authority.port() {
        None | Some("") => {
            if secure {
                443
            } else {
                80
            }
        }
        Some(port) => port.parse().map_err(|_| UrlError::Syntax)?,
    };
    Ok((secure, authority.host().to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::{Address, UrlError};

    #[test]
    fn only_http_urls_with_a_host_are_addresses() {
        for good in ["http://localhost:8080/mcp", "https://example.com", "HTTP://[::1]/mcp?x=1#part"] {
            assert!(Address::parse(good).is_ok(), "{good}");
        }
        for (bad, error) in [
            ("localhost:8080/mcp", UrlError::Scheme),
            ("ftp://example.com/", UrlError::Scheme),
            ("http:/mcp", UrlError::Host),
            ("http:///mcp", UrlError::Host),
            ("http://example.com:99999/", UrlError::Syntax),
            ("http://exa mple.com/", UrlError::Syntax),
            ("/mcp", UrlError::Syntax),
        ] {
            assert_eq!(Address::parse(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn a_reference_is_followed_within_the_origin_alone() {
        let base = Address::parse("http://Example.com/sse?key=1").unwrap();
        let follow = |reference| base.follow(reference).map(|address| address.text().to_string());
        assert_eq!(follow("/messages?id=7#x").as_deref(), Some("http://Example.com/messages?id=7"));
        assert_eq!(follow("post").as_deref(), Some("http://Example.com/post"));
        assert_eq!(follow("http://example.com:80/a").as_deref(), Some("http://example.com:80/a"));
        assert_eq!(follow("https://example.com/a"), None);
        assert_eq!(follow("http://example.com:8080/a"), None);
        assert_eq!(follow("//evil.example/a"), None);
        assert_eq!(follow("http://example.com@evil.example/a"), None);
    }

    use alloc::string::ToString;
}
