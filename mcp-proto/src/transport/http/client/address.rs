//! Request targets: requests go only to the origin that the application named.

use alloc::sync::Arc;

use iri_string::types::{UriReferenceStr, UriStr};

use crate::prelude::*;
use crate::redact::url_without_secrets;
use crate::url::{HttpUrl, HttpUrlError};

/// Why a URL is not a valid server address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not a URL: RFC 3986, with everything beyond ASCII percent-encoded.
    Syntax,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// The URL names no host, or one that resolvers read in different ways, such as `127.1`.
    Host,
}

error_text! { UrlError:
    Syntax => "this is not a URL";
    Scheme => "the URL begins with neither http: nor https:";
    Host => "the URL names no host, or one that can be read in more than one way";
}

impl From<HttpUrlError> for UrlError {
    fn from(error: HttpUrlError) -> Self {
        match error {
            HttpUrlError::Syntax => Self::Syntax,
            HttpUrlError::Scheme => Self::Scheme,
            HttpUrlError::Host | HttpUrlError::NumericHost => Self::Host,
        }
    }
}

/// An `http` or `https` URL without a fragment.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address(Arc<str>);

debug_fields! { Address(url) => "{}", url_without_secrets(url) }

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, UrlError> {
        HttpUrl::parse(text)?;
        let url = UriStr::new(text).map_err(|_| UrlError::Syntax)?;
        Ok(Self(Arc::from(url.to_absolute().as_str())))
    }

    pub(super) fn text(&self) -> Arc<str> {
        self.0.clone()
    }

    /// Resolves `reference` against this URL, unless it leads to another origin or has a user name of its own.
    pub(super) fn resolve_same_origin(&self, reference: &str) -> Option<Self> {
        self.resolve(reference, |here, there| here.origin() == there.origin())
    }

    /// Resolves the target of a redirect: like [`resolve_same_origin`](Self::resolve_same_origin), or from `http` to
    /// `https` on the same host, where user and password stay the same.
    pub(super) fn resolve_redirect(&self, location: &str) -> Option<Self> {
        let upgraded = self.resolve(location, |here, there| here.is_upgraded_by(there));
        upgraded.map(|target| target.with_user_of(self)).or_else(|| self.resolve_same_origin(location))
    }

    fn resolve(
        &self,
        reference: &str,
        allows: impl FnOnce(&HttpUrl<'_>, &HttpUrl<'_>) -> bool,
    ) -> Option<Self> {
        let base = UriStr::new(&self.0).ok()?;
        let resolved = UriReferenceStr::new(reference).ok()?.resolve_against(base.to_absolute()).to_string();
        let (here, there) = (HttpUrl::parse(&self.0).ok()?, HttpUrl::parse(&resolved).ok()?);
        let same = allows(&here, &there) && (there.user.is_none() || there.user == here.user);
        same.then(|| Self(Arc::from(UriStr::new(&resolved).unwrap_or(base).to_absolute().as_str())))
    }

    fn with_user_of(self, other: &Self) -> Self {
        let user = HttpUrl::parse(&other.0).ok().and_then(|url| url.user);
        match (user, self.0.split_once("://")) {
            (Some(user), Some((scheme, rest))) if !rest.starts_with(&format!("{user}@")) => {
                Self(Arc::from(format!("{scheme}://{user}@{rest}")))
            }
            _ => self,
        }
    }

    /// Whether requests to this URL are not encrypted.
    pub(super) fn is_plain(&self) -> bool {
        self.0.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"))
    }

    /// This URL at the origin of `server`, if only requests to that one are encrypted.
    pub(super) fn secured_by(self, server: &Self) -> Self {
        if Arc::ptr_eq(&self.0, &server.0) || !self.is_plain() || server.is_plain() {
            return self;
        }
        let (Ok(url), Ok(server)) = (UriStr::new(&self.0), UriStr::new(&server.0)) else { return self };
        let authority = server.authority_str().unwrap_or_default();
        let (path, query) = (url.path_str(), url.query_str().map(|query| format!("?{query}")));
        Self(Arc::from(format!("https://{authority}{path}{}", query.unwrap_or_default())))
    }
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
            ("http://127.1/mcp", UrlError::Host),
            ("http://ex%61mple.com/mcp", UrlError::Host),
        ] {
            assert_eq!(Address::parse(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn client_follows_a_reference_only_within_the_origin() {
        let base = Address::parse("http://Example.com/sse?key=1").unwrap();
        let follow =
            |reference| base.resolve_same_origin(reference).map(|address| address.text().to_string());
        assert_eq!(follow("/messages?id=7#x").as_deref(), Some("http://Example.com/messages?id=7"));
        assert_eq!(follow("post").as_deref(), Some("http://Example.com/post"));
        assert_eq!(follow("http://example.com:80/a").as_deref(), Some("http://example.com:80/a"));
        assert_eq!(follow("https://example.com/a"), None);
        assert_eq!(follow("http://example.com:8080/a"), None);
        assert_eq!(follow("//evil.example/a"), None);
        assert_eq!(follow("http://example.com@evil.example/a"), None);
    }

    #[test]
    fn redirect_may_lead_from_http_to_https_on_the_same_host() {
        let follow = |base: &str, location: &str| {
            let target = Address::parse(base).unwrap().resolve_redirect(location);
            target.map(|address| address.text().to_string())
        };
        let plain = "http://example.com/mcp?key=1";
        for location in
            ["https://example.com/mcp", "https://Example.com:443/mcp", "https://example.com:80/mcp"]
        {
            assert_eq!(follow(plain, location).as_deref(), Some(location));
        }
        assert_eq!(
            follow("http://[::1]:3000/", "https://[0:0::1]:3000/").as_deref(),
            Some("https://[0:0::1]:3000/")
        );
        let (with_user, target) = ("http://me:pw@example.com/", "https://me:pw@example.com/mcp");
        assert_eq!(follow(with_user, "https://example.com/mcp").as_deref(), Some(target));
        assert_eq!(follow(with_user, target).as_deref(), Some(target));
        for refused in ["https://example.com:8443/", "https://www.example.com/", "https://you@example.com/"] {
            assert_eq!(follow(plain, refused), None, "{refused}");
        }
        assert_eq!(follow("https://example.com/mcp", plain), None, "never back");
        assert_eq!(follow("http://example.com:8080/", "https://example.com/"), None);
    }

    #[test]
    fn later_requests_go_to_the_encrypted_origin() {
        let server = Address::parse("https://me@example.com:3000/mcp").unwrap();
        let secured = |url: &str| Address::parse(url).unwrap().secured_by(&server).text().to_string();
        assert_eq!(secured("http://example.com:3000/post?id=7"), "https://me@example.com:3000/post?id=7");
        assert_eq!(secured("https://example.com:3000/post"), "https://example.com:3000/post");
    }

    #[test]
    fn client_recognises_one_origin_in_any_spelling() {
        let follow = |base: &str, reference: &str| {
            Address::parse(base).unwrap().resolve_same_origin(reference).is_some()
        };
        assert!(follow("http://[::1]/sse", "http://[0:0:0:0:0:0:0:1]:80/post"));
        assert!(follow("http://me:pw@example.com/sse", "/post"));
        assert!(follow("http://me:pw@example.com/sse", "http://example.com/post"));
        for refused in ["http://you@example.com/post", "http://example.com./post", "http://127.1/post"] {
            assert!(!follow("http://me:pw@example.com/sse", refused), "{refused}");
            assert!(!follow("http://example.com/sse", refused), "{refused}");
        }
    }

    use alloc::string::ToString;
}
