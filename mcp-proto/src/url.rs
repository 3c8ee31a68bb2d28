//! URLs of HTTP, taken apart so that nothing in them can be read in two ways.
//!
//! Every comparison of origins in this crate goes through [`HttpUrl::origin`]: what one place takes for the same server
//! and another for a different one would let credentials cross between them.

use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iri_string::types::UriStr;

/// An absolute `http` or `https` URL.
#[derive(Clone, Copy)]
pub(crate) struct HttpUrl<'a> {
    pub(crate) secure: bool,
    /// User name and password, as they stand before the host.
    pub(crate) user: Option<&'a str>,
    /// The host as it is written.
    written: &'a str,
    pub(crate) host: Host<'a>,
    /// The port, if it is another than the scheme's own.
    port: Option<u16>,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) has_fragment: bool,
}

/// A host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host<'a> {
    /// A name, without the dot that may end it.
    Name(&'a str),
    /// An address.
    Address(IpAddr),
}

/// Why text is not the URL of an HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpUrlError {
    /// It is no URL by RFC 3986, or its port is no port.
    Syntax,
    /// Its scheme is neither `http` nor `https`.
    Scheme,
    /// It names no host, or one that resolvers read in different ways.
    Host,
    /// Its host is a number, but not an address in its usual form.
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
        let own = if secure { 443 } else { 80 };
        Ok(Self {
            secure,
            user: authority.userinfo(),
            written: authority.host(),
            host: host(authority.host())?,
            port: port.filter(|port| *port != own),
            path: parsed.path_str(),
            query: parsed.query_str(),
            has_fragment: parsed.fragment().is_some(),
        })
    }

    /// The origin in its only form: scheme and host in lower case, an IPv6 address as RFC 5952 writes it, no default port.
    /// A dot at the end of a name stays: `example.com.` is another origin than `example.com`, as it is to browsers.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let host = match self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.written.to_ascii_lowercase(),
        };
        match self.port {
            None => format!("{scheme}://{host}"),
            Some(port) => format!("{scheme}://{host}:{port}"),
        }
    }
}

fn host(written: &str) -> Result<Host<'_>, HttpUrlError> {
    if let Some(inner) = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        // No zones, no forms to come: they name nothing that is reached from everywhere.
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

/// A label of a host name, or of those that are in use though they are none. Percent-encoding and what else may stand in
/// a URI mean different things to different resolvers.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Whether resolvers take a host with this last label for an address: decimal, octal or hexadecimal, of one to four
/// parts, as `inet_aton` has it.
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
    fn origins_are_equal_however_they_are_spelt() {
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
    fn hosts_that_resolvers_read_differently_are_refused() {
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
