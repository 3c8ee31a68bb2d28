//! Client addresses behind trusted proxies.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use crate::prelude::*;
use crate::transport::http::{Fields, HeaderValues, IpNetwork, read_headers};

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
mod tests {
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
