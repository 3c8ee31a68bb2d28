//! Servers that are reached without a proxy.

use std::net::IpAddr;

use mcp_proto::transport::http::IpNetwork;

/// A list of exceptions.
#[derive(Clone, Debug, Default)]
pub(super) struct Exceptions(Vec<Exception>);

#[derive(Clone, Debug)]
struct Exception {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Hosts {
    All,
    /// A name and its subdomains, in lower case.
    Name(String),
    Network(IpNetwork),
}

impl Exceptions {
    pub(super) fn add(&mut self, list: &str) {
        let entries = list.split(|c: char| c == ',' || c.is_ascii_whitespace());
        self.0.extend(entries.filter(|entry| !entry.is_empty()).map(Exception::parse));
    }

    pub(super) fn contain(&self, host: &str, port: u16) -> bool {
        let address = host.parse().ok();
        self.0.iter().any(|exception| {
            exception.port.is_none_or(|only| only == port) && exception.hosts.contain(host, address)
        })
    }
}

impl Exception {
    fn parse(entry: &str) -> Self {
        if let Some(hosts) = Hosts::network(entry) {
            return Self { hosts, port: None };
        }
        if let Some((host, port)) = entry.rsplit_once(':')
            && let Ok(port) = port.parse()
        {
            let hosts = Hosts::network(host).unwrap_or_else(|| Hosts::name(host));
            return Self { hosts, port: Some(port) };
        }
        Self { hosts: Hosts::name(entry), port: None }
    }
}

impl Hosts {
    fn name(text: &str) -> Self {
        let name = text.strip_prefix('*').unwrap_or(text);
        let name = name.strip_prefix('.').unwrap_or(name).trim_end_matches('.');
        if name.is_empty() { Self::All } else { Self::Name(name.to_ascii_lowercase()) }
    }

    fn network(text: &str) -> Option<Self> {
        let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        text.parse().ok().map(Self::Network)
    }

    fn contain(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Name(name), _) => is_below(host.trim_end_matches('.'), name),
            (Self::Network(network), Some(address)) => network.contains(address),
            (Self::Network(..), _) => false,
        }
    }
}

/// Whether `host` is `name` or one of its subdomains.
fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether the host is this machine, by name or by address.
pub(super) fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => is_below(host.trim_end_matches('.'), "localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(list: &str, host: &str, port: u16) -> bool {
        let mut exceptions = Exceptions::default();
        exceptions.add(list);
        exceptions.contain(host, port)
    }

    #[test]
    fn name_matches_itself_and_its_subdomains() {
        for list in ["Example.com", ".example.com", "*.example.com", "a, example.com.", " b example.com"] {
            assert!(contains(list, "example.com", 80), "{list}");
            assert!(contains(list, "a.b.example.com", 80), "{list}");
            assert!(!contains(list, "notexample.com", 80), "{list}");
            assert!(!contains(list, "example.com.evil.org", 80), "{list}");
        }
    }

    #[test]
    fn port_narrows_an_exception() {
        assert!(contains("example.com:8080", "example.com", 8080));
        assert!(!contains("example.com:8080", "example.com", 80));
        assert!(contains("10.1.2.3:90", "10.1.2.3", 90));
        assert!(contains("[2001:db8::1]:90", "2001:db8::1", 90));
        assert!(!contains("[2001:db8::1]:90", "2001:db8::1", 80));
    }

    #[test]
    fn network_matches_addresses_by_their_first_bits() {
        assert!(contains("192.168.0.0/16", "192.168.9.9", 80));
        assert!(!contains("192.168.0.0/16", "192.169.0.1", 80));
        assert!(contains("0.0.0.0/0", "8.8.8.8", 80));
        assert!(contains("2001:db8::/32", "2001:db8:1::1", 80));
        assert!(!contains("2001:db8::/32", "2001:db9::1", 80));
        assert!(!contains("10.0.0.0/8", "10.example.com", 80));
        assert!(!contains("10.0.0.0/33", "10.0.0.0", 80));
        assert!(contains("::1", "::1", 80));
    }

    #[test]
    fn star_matches_every_host_and_an_empty_list_none() {
        assert!(contains("*", "example.com", 80));
        assert!(contains("*", "::1", 80));
        assert!(!contains("", "example.com", 80));
        assert!(!contains(" , ,", "example.com", 80));
    }

    #[test]
    fn this_machine_has_many_names() {
        for host in
            ["localhost", "a.localhost", "localhost.", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.com", "mylocalhost", "128.0.0.1", "::2"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
