//! Request targets: parsed URLs and their origins.

use std::net::Ipv6Addr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Uri};

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// An origin: scheme, host and port, which all URLs that a connection can serve have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) scheme: Scheme,
    /// In lower case; an IPv6 address without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    /// The value of the `host` header: without the scheme's default port.
    pub(super) fn authority(&self) -> String {
        if self.port == self.scheme.default_port() { self.bracketed() } else { self.with_port() }
    }

    /// The origin as a URL.
    pub(super) fn url(&self) -> String {
        format!("{}://{}/", self.scheme.as_str(), self.authority())
    }

    /// Host and port, as CONNECT requires.
    pub(super) fn with_port(&self) -> String {
        format!("{}:{}", self.bracketed(), self.port)
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// A parsed URL.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) origin: Arc<Origin>,
    /// The value of the `host` header.
    pub(super) host: HeaderValue,
    pub(super) path: PathAndQuery,
    /// User and password of the URL, as a value of `authorization`.
    pub(super) credentials: Option<HeaderValue>,
}

// Leaves out query and credentials, which may be secret.
debug_fields! { Target(self) { origin, path = self.path.path() } }

impl Target {
    /// Parses a URL; `None` if it is not an absolute HTTP URL.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let uri = Uri::try_from(url).ok()?;
        let scheme = match uri.scheme_str()? {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let authority = uri.authority()?;
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return None;
        }
        // One spelling per address, as `mcp_proto` compares origins.
        let host = match host.parse::<Ipv6Addr>() {
            Ok(address) => address.to_string(),
            Err(_) => host.to_ascii_lowercase(),
        };
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None => scheme.default_port(),
        };
        let origin = Origin { scheme, host, port };
        Some(Self {
            host: HeaderValue::try_from(origin.authority()).ok()?,
            origin: Arc::new(origin),
            path: uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")),
            credentials: credentials(authority),
        })
    }

    /// The path and query, as in a request to the server itself.
    pub(super) fn origin_form(&self) -> Uri {
        Uri::from(self.path.clone())
    }

    /// The whole URL, as in a request to a proxy, and with HTTP/2.
    pub(super) fn absolute_form(&self) -> Uri {
        let uri = Uri::builder()
            .scheme(self.origin.scheme.as_str())
            .authority(self.origin.authority())
            .path_and_query(self.path.clone());
        uri.build().unwrap_or_else(|_| self.origin_form())
    }
}

/// Encodes `user:password@` as a value of `authorization` or `proxy-authorization`.
pub(super) fn credentials(authority: &Authority) -> Option<HeaderValue> {
    let (user_info, _) = authority.as_str().rsplit_once('@')?;
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut plain = percent_decoded(user);
    plain.push(b':');
    plain.extend(percent_decoded(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64.encode(plain))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(first));
        rest = if decoded.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    #[test]
    fn parser_splits_a_url_into_origin_path_and_credentials() {
        let target = target("HTTPS://User:p%40ss@Example.COM/mcp?key=1");
        assert_eq!(target.origin.with_port(), "example.com:443");
        assert_eq!(target.origin.authority(), "example.com");
        assert_eq!(target.origin_form(), "/mcp?key=1");
        assert_eq!(target.absolute_form(), "https://example.com/mcp?key=1");
        let credentials = target.credentials.unwrap();
        assert_eq!(credentials, format!("Basic {}", BASE64.encode("User:p@ss")));
        assert!(credentials.is_sensitive());
    }

    #[test]
    fn parser_keeps_the_form_of_ports_and_addresses() {
        let v6 = target("http://[::1]:8080");
        assert_eq!((v6.origin.host.as_str(), v6.origin.port), ("::1", 8080));
        assert_eq!(v6.origin.authority(), "[::1]:8080");
        assert_eq!(v6.origin_form(), "/");
        assert_eq!(target("http://a:80/").origin, target("http://A/").origin);
        assert_eq!(target("http://[::1]:80/").origin, target("http://[0:0:0:0:0:0:0:1]/").origin);
        assert_ne!(target("http://a/").origin, target("https://a/").origin);
        assert!(target("http://a/").credentials.is_none());
    }

    #[test]
    fn parser_refuses_other_urls() {
        for url in ["/mcp", "ftp://a/", "a:80", "http:///x", "http://a b/", "http://:80/"] {
            assert!(Target::parse(url).is_none(), "{url}");
        }
    }

    #[test]
    fn debug_output_hides_secrets_of_a_target() {
        let shown = format!("{:?}", target("https://marker:marker@example.com/mcp?key=marker"));
        assert!(!shown.contains("marker") && shown.contains("/mcp"), "{shown}");
    }

    #[test]
    fn malformed_percent_sign_stands_for_itself() {
        assert_eq!(percent_decoded("%41%4"), b"A%4");
        assert_eq!(percent_decoded("%zz%"), b"%zz%");
    }
}
