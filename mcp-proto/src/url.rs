//! Parser of HTTP URLs that refuses ambiguous ones.
//!
//! Every comparison of origins in this crate uses [`HttpUrl::origin`]: two notions of the same server would let
//! credentials cross between different servers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iri_string::types::UriStr;

use crate::prelude::*;

/// An absolute `http` or `https` URL.
#[derive(Clone, Copy)]
pub(crate) struct HttpUrl<'a> {
    pub(crate) secure: bool,
    /// User name and password, as written before the host.
    pub(crate) user: Option<&'a str>,
    /// The host as written.
    written: &'a str,
    pub(crate) host: Host<'a>,
    /// The port, unless it is the scheme's default.
    port: Option<u16>,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) has_fragment: bool,
}

/// A host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host<'a> {
    /// A name, without a trailing dot.
    Name(&'a str),
    /// An address.
    Address(IpAddr),
}

#[cfg(feature = "auth")]
impl Host<'_> {
    /// Whether both are the same: names in any case, addresses however they are written.
    pub(crate) fn is_same(self, other: Host<'_>) -> bool {
        match (self, other) {
            (Self::Name(name), Host::Name(other)) => name.eq_ignore_ascii_case(other),
            (Self::Address(address), Host::Address(other)) => address == other,
            _ => false,
        }
    }
}

/// Why a text is not the URL of an HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpUrlError {
    /// The text is not a URL of RFC 3986, or its port is not a number of 16 bits.
    Syntax,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// The URL has no host, or one that resolvers read in different ways.
    Host,
    /// The host is a number, but not an address in its usual form.
    NumericHost,
}

impl<'a> HttpUrl<'a> {
    pub(crate) fn parse(url: &'a str) -> Result<Self, HttpUrlError> {
        let parsed = UriStr::new(url).map_err(|_| HttpUrlError::Syntax)?;
        let secure = parsed.scheme_str().eq_ignore_ascii_case("https");
        if !secure && !parsed.scheme_str().eq_ignore_ascii_case("http") {
            return Err(HttpUrlError::Scheme);
        }
        let authority = parsed.authority_components().ok_or(HttpUrlError::Host)?;
        let port = match authority.port() {
            None | Some("") => None,
            Some(digits) => Some(digits.parse::<u16>().map_err(|_| HttpUrlError::Syntax)?),
        };
        let default_port = if secure { 443 } else { 80 };
        Ok(Self {
            secure,
            user: authority.userinfo(),
            written: authority.host(),
            host: parse_host(authority.host())?,
            port: port.filter(|port| *port != default_port),
            path: parsed.path_str(),
            query: parsed.query_str(),
            has_fragment: parsed.fragment().is_some(),
        })
    }

    /// The canonical origin: scheme and host in lower case, an IPv6 address in the form of RFC 5952, no default port.
    /// A trailing dot is kept: `example.com.` and `example.com` are different origins, as in browsers.
    //= C12.30 "Upper-case schemes and hosts in the URI of a server are accepted; the canonical form is in lower case"
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let host = self.canonical_host();
        match self.port {
            None => format!("{scheme}://{host}"),
            Some(port) => format!("{scheme}://{host}:{port}"),
        }
    }

    /// Whether `other` reaches this `http` URL's host by `https`: at the same port, or each at its scheme's default.
    pub(crate) fn is_upgraded_by(&self, other: &HttpUrl<'_>) -> bool {
        let port = |url: &HttpUrl<'_>| url.port.unwrap_or(if url.secure { 443 } else { 80 });
        let both_default = self.port.is_none() && other.port.is_none();
        !self.secure
            && other.secure
            && self.canonical_host() == other.canonical_host()
            && (both_default || port(self) == port(other))
    }

    fn canonical_host(&self) -> String {
        match self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.written.to_ascii_lowercase(),
        }
    }
}

/// Parses a host as it is written in a URL.
pub(crate) fn parse_host(written: &str) -> Result<Host<'_>, HttpUrlError> {
    if let Some(inner) = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        // Neither zones nor the formats of future IP versions: such a host cannot be reached from everywhere.
        return inner
            .parse::<Ipv6Addr>()
            .map(|address| Host::Address(address.into()))
            .map_err(|_| HttpUrlError::Host);
    }
    if let Ok(address) = written.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let name = written.strip_suffix('.').unwrap_or(written);
    let mut labels = name.split('.');
    if name.len() > 253 || !labels.all(is_label) {
        return Err(HttpUrlError::Host);
    }
    if is_number(name.rsplit('.').next().unwrap_or_default()) {
        return Err(HttpUrlError::NumericHost);
    }
    Ok(Host::Name(name))
}

/// Whether `label` is a label of a host name; underscores are accepted because real names have them. Resolvers disagree
/// on percent-encoding and the other characters that a URI allows.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Whether resolvers take a host with this last label for an address: decimal, octal or hexadecimal, of one to four
/// parts, as `inet_aton` does.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpUrl, HttpUrlError};

    fn origin(url: &str) -> alloc::string::String {
        HttpUrl::parse(url).unwrap().origin()
    }

    #[test]
    fn equal_origins_have_one_spelling() {
        for (one, other) in [
            ("http://[::1]/a", "http://[0:0:0:0:0:0:0:1]:80/b"),
            ("http://[2001:DB8::0:1]/", "http://[2001:db8:0:0:0:0:0:1]/"),
            ("https://Example.COM/", "HTTPS://example.com:443"),
            ("http://example.com:080/", "http://example.com:/"),
            ("https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/"),
            ("https://me@example.com/", "https://example.com/"),
        ] {
            assert_eq!(origin(one), origin(other));
        }
        for (one, other) in [
            ("http://example.com/", "https://example.com/"),
            ("http://example.com/", "http://example.com:8080/"),
            ("http://example.com/", "http://example.com./"),
            ("http://[::1]/", "http://127.0.0.1/"),
            ("http://[::ffff:127.0.0.1]/", "http://127.0.0.1/"),
            ("http://example.com/", "http://example.com@evil.example/"),
        ] {
            assert_ne!(origin(one), origin(other));
        }
    }

    #[test]
    fn parser_refuses_hosts_that_resolvers_read_differently() {
        for (url, error) in [
            ("http://example..com/", HttpUrlError::Host),
            ("http://example.com../", HttpUrlError::Host),
            ("http://ex%61mple.com/", HttpUrlError::Host),
            ("http://[fe80::1%25eth0]/", HttpUrlError::Syntax),
            ("http://[v1.x]/", HttpUrlError::Host),
            ("http:///x", HttpUrlError::Host),
            ("http://127.1/", HttpUrlError::NumericHost),
            ("http://0x7f000001/", HttpUrlError::NumericHost),
            ("http://2130706433/", HttpUrlError::NumericHost),
            ("http://example.com:99999/", HttpUrlError::Syntax),
            ("http://example.com\\@evil.example/", HttpUrlError::Syntax),
            ("ftp://example.com/", HttpUrlError::Scheme),
        ] {
            assert_eq!(HttpUrl::parse(url).err(), Some(error), "{url}");
        }
    }
}
