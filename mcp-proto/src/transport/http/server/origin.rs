//! `Origin` and `Host` checks: protection against web pages that use a browser to reach a server on the same machine.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security--endpoint>

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use crate::prelude::*;
use crate::transport::http::{Fields, HeaderValues, IpNetwork, read_headers};

/// The `Origin` values that are served. A request without that header is served unless its `Sec-Fetch-Site` says that a
/// page of another site sent it, as an image for example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
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
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
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

// Client addresses behind trusted proxies.

/// The proxies that the server trusts to report a client's address.
///
/// The headers `X-Forwarded-For` and `Forwarded` (RFC 7239) are read only in requests whose immediate peer is one of
/// these. They are read from the right, where the last proxy appends: the client is the first address that is not a
/// trusted proxy itself. Default: none, so that the peer is the client.
///
/// If both headers are present and name different clients, neither is used: a proxy that writes one of them may pass on
/// the other as the client wrote it. A trusted proxy that writes neither must remove both.
///
/// ```
/// use core::net::IpAddr;
/// use mcp_proto::transport::http::server::{TrustedProxies, TrustedProxy};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let proxies: TrustedProxies = ["10.0.0.0/8".parse::<TrustedProxy>()?].into_iter().collect();
/// let headers = [("x-forwarded-for", "203.0.113.9, 198.51.100.7, 10.0.0.2")];
/// let (proxy, client): (IpAddr, IpAddr) = ("10.0.0.1".parse()?, "198.51.100.7".parse()?);
/// assert_eq!(proxies.client(Some(proxy), &headers), Some(client));
/// // From elsewhere the header proves nothing.
/// assert_eq!(proxies.client(Some(client), &headers), Some(client));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<TrustedProxy>);

/// A trusted proxy or network.
///
/// It is parsed from `10.0.0.1`, `10.0.0.0/8`, `2001:db8::/32`, or `unix` for peers without an address, as on a Unix
/// domain socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedProxy(ProxyMatch);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyMatch {
    Network(IpNetwork),
    Local,
}

/// The text is neither an address nor a network nor `unix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyAddressError(String);

error_text! { ProxyAddressError(inner) =>
    "{:?} is no proxy: give an address, a network such as 10.0.0.0/8, or `unix`", inner
}

impl TrustedProxy {
    /// Peers without an address, as on a Unix domain socket.
    pub const UNIX: Self = Self(ProxyMatch::Local);

    fn includes(self, peer: Option<IpAddr>) -> bool {
        match (self.0, peer) {
            (ProxyMatch::Local, None) => true,
            (ProxyMatch::Network(network), Some(address)) => network.contains(address),
            _ => false,
        }
    }
}

impl From<IpAddr> for TrustedProxy {
    fn from(address: IpAddr) -> Self {
        Self(ProxyMatch::Network(address.into()))
    }
}

impl FromStr for TrustedProxy {
    type Err = ProxyAddressError;

    fn from_str(text: &str) -> Result<Self, ProxyAddressError> {
        if text.eq_ignore_ascii_case("unix") {
            return Ok(Self::UNIX);
        }
        let network = text.parse().map_err(|_| ProxyAddressError(text.into()))?;
        Ok(Self(ProxyMatch::Network(network)))
    }
}

impl FromIterator<TrustedProxy> for TrustedProxies {
    fn from_iter<I: IntoIterator<Item = TrustedProxy>>(proxies: I) -> Self {
        Self(proxies.into_iter().collect())
    }
}

impl TrustedProxies {
    /// Returns the address of the client that made a request. `peer` is the address of the connection, if it has one.
    #[must_use]
    pub fn client(&self, peer: Option<IpAddr>, fields: &dyn Fields) -> Option<IpAddr> {
        if !self.trusts(peer) {
            return peer;
        }
        let [plain, standard] = read_headers(fields, ["x-forwarded-for", "forwarded"]);
        let plain = plain.first.map(|_| self.client_by_header(peer, &plain, parse_plain_hop));
        let standard = standard.first.map(|_| self.client_by_header(peer, &standard, parse_forwarded_hop));
        match (plain, standard) {
            (Some(plain), Some(standard)) if plain != standard => peer,
            (Some(client), _) | (None, Some(client)) => client,
            (None, None) => peer,
        }
    }

    /// Returns whether the peer with this address is such a proxy. [`client`](Self::client) returns the address of any
    /// other peer itself.
    #[must_use]
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        self.0.iter().any(|proxy| proxy.includes(peer))
    }

    /// Returns the client that one header names.
    fn client_by_header(
        &self,
        peer: Option<IpAddr>,
        values: &HeaderValues<'_>,
        read: fn(&str) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        // A hop that cannot be parsed was written by the proxy to its right; the address of that proxy is the last
        // known one.
        let mut client = peer;
        for value in values.iter().rev() {
            for hop in value.rsplit(|byte| *byte == b',') {
                let hop = core::str::from_utf8(hop).map_or("", str::trim);
                if hop.is_empty() {
                    continue;
                }
                let Some(address) = read(hop) else { return client };
                client = Some(address);
                if !self.trusts(client) {
                    return client;
                }
            }
        }
        client
    }
}

/// Parses a hop of `X-Forwarded-For`: an address, optionally with a port.
fn parse_plain_hop(hop: &str) -> Option<IpAddr> {
    let address = hop.parse().or_else(|_| hop.parse::<SocketAddr>().map(|socket| socket.ip()));
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    address.ok().or_else(bracketed).map(|address| address.to_canonical())
}

/// Parses a hop of `Forwarded`: the parameter `for`.
fn parse_forwarded_hop(hop: &str) -> Option<IpAddr> {
    let value = hop.split(';').find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    })?;
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    parse_plain_hop(quoted.unwrap_or(value))
}

#[cfg(test)]
mod forwarded_tests {
    use super::*;

    fn proxies(list: &[&str]) -> TrustedProxies {
        list.iter().map(|proxy| proxy.parse::<TrustedProxy>().unwrap()).collect()
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    const BALANCER: &str = "10.1.2.3";

    #[test]
    fn server_ignores_forwarded_addresses_from_unknown_peers() {
        let headers = [("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")];
        for trusted in [&[][..], &["10.1.2.4"], &["unix"], &["10.1.2.0/31"]] {
            assert_eq!(proxies(trusted).client(address(BALANCER), &headers), address(BALANCER));
        }
        assert_eq!(proxies(&[BALANCER]).client(None, &headers), None);
    }

    #[test]
    fn server_walks_forwarded_addresses_from_the_right() {
        let trusted = proxies(&["10.0.0.0/8", "2001:db8::/32"]);
        let client = |value: &str| trusted.client(address(BALANCER), &[("X-Forwarded-For", value)]);
        assert_eq!(client("192.0.2.66, 192.0.2.1"), address("192.0.2.1"));
        assert_eq!(client("192.0.2.1 , 10.9.9.9,2001:db8::5"), address("192.0.2.1"));
        assert_eq!(client("192.0.2.1:4711"), address("192.0.2.1"));
        assert_eq!(client("[2001:db9::1]:80"), address("2001:db9::1"));
        assert_eq!(client("[2001:db9::1]"), address("2001:db9::1"));
        assert_eq!(client("::ffff:192.0.2.1"), address("192.0.2.1"));
        // All of them are proxies: the leftmost made the request.
        assert_eq!(client("10.0.0.1, 10.0.0.2"), address("10.0.0.1"));
    }

    #[test]
    fn server_stops_at_a_hop_that_it_cannot_read() {
        let trusted = proxies(&["10.0.0.0/8"]);
        let client = |value: &str| trusted.client(address(BALANCER), &[("x-forwarded-for", value)]);
        assert_eq!(client("192.0.2.1, unknown"), address(BALANCER));
        assert_eq!(client("192.0.2.1, _hidden, 10.0.0.2"), address("10.0.0.2"));
        assert_eq!(client(""), address(BALANCER));
    }

    #[test]
    fn server_reads_repeated_headers_as_one_list() {
        let headers = [("x-forwarded-for", "192.0.2.66"), ("x-forwarded-for", "192.0.2.1, 10.0.0.9")];
        assert_eq!(proxies(&["10.0.0.0/8"]).client(address(BALANCER), &headers), address("192.0.2.1"));
    }

    #[test]
    fn server_reads_the_standard_header() {
        let trusted = proxies(&["10.0.0.0/8", "unix"]);
        let client = |value: &str| trusted.client(None, &[("forwarded", value)]);
        assert_eq!(client("for=192.0.2.1;proto=https"), address("192.0.2.1"));
        assert_eq!(client(r#"for=192.0.2.66, By=x; For="[2001:db8::1]:4711""#), address("2001:db8::1"));
        assert_eq!(client("proto=https"), None);
        assert_eq!(client("for=unknown"), None);
    }

    #[test]
    fn server_believes_neither_header_if_they_disagree() {
        let trusted = proxies(&["10.0.0.0/8"]);
        let client = |plain, standard| {
            trusted.client(address(BALANCER), &[("x-forwarded-for", plain), ("forwarded", standard)])
        };
        assert_eq!(client("192.0.2.1", "for=192.0.2.1"), address("192.0.2.1"));
        assert_eq!(client("192.0.2.1", "for=192.0.2.66"), address(BALANCER));
    }

    #[test]
    fn trusted_proxy_is_an_address_a_network_or_a_socket_without_address() {
        let trusts = |proxy: &str, peer| proxies(&[proxy]).trusts(peer);
        assert!(trusts("0.0.0.0/0", address("192.0.2.1")) && !trusts("0.0.0.0/0", address("::1")));
        assert!(trusts("::/0", address("192.0.2.1")));
        assert!(trusts("10.0.0.1", address("::ffff:10.0.0.1")) && !trusts("10.0.0.1", address("10.0.0.2")));
        assert!(trusts("2001:db8::/33", address("2001:db8:7fff::")));
        assert!(!trusts("2001:db8::/33", address("2001:db8:8000::")));
        assert!(trusts("UNIX", None) && !trusts("unix", address("127.0.0.1")));
        for bad in ["", "10.0.0.0/33", "10.0.0.0/", "::/129", "proxy.example", "10.0.0.1:80"] {
            assert!(bad.parse::<TrustedProxy>().is_err(), "{bad}");
        }
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
