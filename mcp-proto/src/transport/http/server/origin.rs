//! `Origin` and `Host` checks: protection against web pages that use a browser to reach a server on the same machine.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security--endpoint>

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::prelude::*;
use crate::transport::http::HeaderValues;

/// The `Origin` values that are served. A request without that header is served unless its `Sec-Fetch-Site` says that a
/// page of another site sent it, as an image for example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origins {
    /// Pages of this machine: `http` or `https` at `localhost` or a loopback address, any port.
    #[default]
    Local,
    /// Any origin: for servers behind a component that checks it.
    Any,
    /// Only these origins, such as `https://app.example`, compared case-insensitively.
    Only(Vec<String>),
}

/// The `Host` values that are served. A name rebound to this machine's address (DNS rebinding) is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hosts {
    /// `localhost` and loopback addresses, any port.
    #[default]
    Local,
    /// Any host: behind a proxy, or if no browser can reach the server.
    Any,
    /// Only these hosts, compared case-insensitively: `mcp.example` at any port, `mcp.example:8443` at that port.
    Only(Vec<String>),
}

/// The header that tells how the site of the page that sends a request relates to the server's.
///
/// <https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header>
pub(super) const FETCH_SITE: &str = "sec-fetch-site";

impl Origins {
    pub(super) fn allows(&self, origin: &HeaderValues<'_>, fetch_site: &HeaderValues<'_>) -> bool {
        let allowed = |value: &str| match self {
            Self::Any => true,
            Self::Only(origins) => origins.iter().any(|origin| origin.eq_ignore_ascii_case(value)),
            Self::Local => value
                .split_once("://")
                .filter(|(scheme, _)| {
                    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
                })
                .is_some_and(|(_, authority)| is_local(authority)),
        };
        all_allowed(origin, allowed).unwrap_or_else(|| {
            // Browsers send GET requests without an origin: for images, scripts and navigations.
            let is_own = |site: &str| matches!(site, "same-origin" | "none");
            matches!(self, Self::Any) || all_allowed(fetch_site, is_own).unwrap_or(true)
        })
    }
}

impl Hosts {
    pub(super) fn allows(&self, host: &HeaderValues<'_>) -> bool {
        let allowed = |value: &str| match self {
            Self::Any => true,
            Self::Only(hosts) => hosts.iter().any(|host| {
                host.eq_ignore_ascii_case(value) || host.eq_ignore_ascii_case(without_port(value))
            }),
            Self::Local => is_local(value),
        };
        // A request without `Host` is served only if any host is allowed.
        all_allowed(host, allowed).unwrap_or(matches!(self, Self::Any))
    }
}

/// Writes the error message for a header that is not served; `allowed` names the setting. The user of a client reads it, to
/// whom the names of this library say nothing.
pub(super) fn rejection_message((name, values): (&str, &HeaderValues<'_>), allowed: &str) -> String {
    /// Hosts and origins are rarely longer.
    const SHOWN: usize = 100;
    let value = String::from_utf8_lossy(values.first.unwrap_or_default());
    let value: String = value.chars().take(SHOWN).collect();
    format!(
        "requests with the {name} {value:?} are not served here: it is not among the {allowed} that the server allows"
    )
}

/// Returns whether all values of a header are allowed; `None` if there are none.
fn all_allowed(values: &HeaderValues<'_>, allowed: impl Fn(&str) -> bool) -> Option<bool> {
    let is_allowed = |value| core::str::from_utf8(value).is_ok_and(|value| allowed(value.trim()));
    values.first.map(|_| values.iter().all(is_allowed))
}

fn is_local(authority: &str) -> bool {
    let host = without_port(authority);
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the host of an authority. An authority without a numeric port stays unchanged and matches nothing.
fn without_port(authority: &str) -> &str {
    let colon = memchr::memrchr(b':', authority.as_bytes());
    match colon.and_then(|colon| Some((authority.get(..colon)?, authority.get(colon.saturating_add(1)..)?))) {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::read_headers;

    #[test]
    fn local_hosts_include_every_name_of_this_machine() {
        for host in ["localhost", "LocalHost:80", "127.0.0.1", "127.8.9.1:1", "[::1]", "[::1]:8080"] {
            assert!(is_local(host), "{host}");
        }
        let foreign = [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "::1",
            "[::2]",
            "localhost:x",
            "user@localhost",
            "localhost/..",
            "128.0.0.1",
            "0.0.0.0",
            "[localhost]",
            "::1:80",
        ];
        for host in foreign {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn origin_has_a_scheme_and_an_authority() {
        let allow_all = |origins: &Origins, headers: &[(&str, &str)]| {
            let [origin, fetch_site] = read_headers(&headers, ["origin", FETCH_SITE]);
            origins.allows(&origin, &fetch_site)
        };
        let allow = |origins: &Origins, value: &str| allow_all(origins, &[("Origin", value)]);
        assert!(allow(&Origins::Local, "http://localhost:3000"));
        assert!(allow(&Origins::Local, "HTTPS://127.0.0.1"));
        for refused in
            ["null", "localhost", "file://", "ftp://localhost", "http://evil.example", "http://", ""]
        {
            assert!(!allow(&Origins::Local, refused), "{refused}");
        }
        let only = Origins::Only([String::from("https://app.example")].to_vec());
        assert!(allow(&only, "https://App.example"));
        assert!(!allow(&only, "https://app.example:444"));
        assert!(!allow(&only, "http://localhost"));
        assert!(allow_all(&only, &[]) && allow_all(&Origins::Local, &[]));
        let two = [("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert!(!allow_all(&Origins::Local, &two));
    }

    #[test]
    fn host_without_port_matches_any_port() {
        let allow = |value: &str| {
            Hosts::Only([String::from("a.example"), String::from("b.example:1")].to_vec())
                .allows(&HeaderValues { first: Some(value.as_bytes()), ..HeaderValues::default() })
        };
        assert!(allow("a.example") && allow("A.example:99") && allow("b.example:1"));
        assert!(!allow("b.example") && !allow("b.example:2") && !allow("localhost"));
        let none = HeaderValues::default();
        assert!(!Hosts::Local.allows(&none) && Hosts::Any.allows(&none));
    }
}
