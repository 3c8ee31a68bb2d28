use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcp_proto::auth::{FetchPolicy, FetchPolicyError, PrivateNetworks, check_page_url};
use proptest::prelude::*;

use PrivateNetworks::{Allowed, Refused};

/// On behalf of a server on the internet.
fn internet() -> FetchPolicy {
    FetchPolicy::for_server("https://mcp.example.com/mcp", Refused).unwrap()
}

/// On behalf of a server on this machine.
fn local() -> FetchPolicy {
    FetchPolicy::for_server("http://localhost:8080/mcp", Refused).unwrap()
}

/// With private networks allowed.
fn intranet() -> FetchPolicy {
    FetchPolicy::for_server("https://mcp.example.com/mcp", Allowed).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A URL with this address as its host.
fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("https://{address}/token"),
        IpAddr::V6(address) => format!("https://[{address}]/token"),
    }
}

const PUBLIC: &[&str] = &[
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2001:db7::1",
    "2001:db9::1",
    "2620:fe::fe",
    "3fff:1000::1",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
    "2606::5efe:808:808",
];

const PRIVATE: &[&str] = &[
    "10.0.0.0",
    "10.255.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.168.0.0",
    "192.168.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "fc00::",
    "fd00::1",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "::ffff:10.0.0.1",
    "::ffff:192.168.1.1",
    "::ffff:100.64.0.1",
];

const LOOPBACK: &[&str] =
    &["127.0.0.1", "127.0.0.0", "127.1.2.3", "127.255.255.255", "::1", "::ffff:127.0.0.1"];

const SPECIAL: &[&str] = &[
    // This network, link-local, IETF protocols, documents, relays, benchmarks.
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.255.255",
    "192.0.0.0",
    "192.0.0.192",
    "192.0.0.255",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "198.18.0.0",
    "198.19.255.255",
    // Groups, reserved, broadcast.
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.254",
    "255.255.255.255",
    // Metadata services of clouds.
    "168.63.129.16",
    "100.100.100.200",
    "fd00:ec2::254",
    "fd20:ce::254",
    // Unspecified, compatible, discard, dummy, local NAT64.
    "::",
    "::2",
    "::127.0.0.1",
    "::8.8.8.8",
    "100::1",
    "100:0:0:1::1",
    "64:ff9b:1::808:808",
    "64:ff9b:1:fffe::1",
    // Teredo, benchmarks, ORCHID, documents, segment routing.
    "2001::1",
    "2001:0:808:808::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "3fff::1",
    "3fff:fff::1",
    "5f00::1",
    // Not assigned, link-local, site-local, groups.
    "1::1",
    "4000::1",
    "8000::1",
    "fbff::1",
    "fe00::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ff0e::1",
    // Embedded IPv4 addresses.
    "::ffff:0.0.0.0",
    "::ffff:169.254.169.254",
    "::ffff:255.255.255.255",
    "::ffff:100.100.100.200",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::168.63.129.16",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "2002:a9fe:a9fe::1",
    "2002:c0a8:101::1",
    "2002::1",
    "2606::5efe:127.0.0.1",
    "2606::200:5efe:10.0.0.1",
    "fe80::5efe:10.0.0.1",
];

/// F111, C12.26: the class of an address, resolved or written.
#[test]
fn policy_treats_resolved_and_written_addresses_alike() {
    for (list, in_internet, in_local, in_intranet) in [
        (PUBLIC, true, true, true),
        (PRIVATE, false, false, true),
        (LOOPBACK, false, true, false),
        (SPECIAL, false, false, false),
    ] {
        for text in list {
            let address = address(text);
            for (reach, expected) in
                [(internet(), in_internet), (local(), in_local), (intranet(), in_intranet)]
            {
                assert_eq!(reach.allows(address), expected, "{text} by {reach:?}");
                assert_eq!(reach.check(&literal(address)).is_ok(), expected, "{text} written, by {reach:?}");
            }
        }
    }
}

#[test]
fn error_tells_why_an_address_is_refused() {
    let why = |url| internet().check(url).unwrap_err();
    assert_eq!(why("https://10.1.2.3/"), FetchPolicyError::Private(address("10.1.2.3")));
    assert_eq!(why("https://127.0.0.1/"), FetchPolicyError::Loopback);
    assert_eq!(why("https://[::1]/"), FetchPolicyError::Loopback);
    assert_eq!(why("https://169.254.169.254/"), FetchPolicyError::Special(address("169.254.169.254")));
    assert_eq!(
        why("https://10.1.2.3/").to_string(),
        "10.1.2.3 is in a private network: the policy refuses those"
    );
}

/// F111, C12.26: spellings that `inet_aton`, and with it most resolvers and browsers, accept for 127.0.0.1 and the like.
#[test]
fn policy_refuses_hosts_that_resolvers_take_for_numbers() {
    for host in [
        "2130706433",
        "0x7f000001",
        "0X7F000001",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "0127.0.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f.1",
        "0x7F.0x0.0x0.0x1",
        "127.0.0.0x1",
        "127.0x1",
        "0",
        "00",
        "0x",
        "0x0",
        "1",
        "00000000000000000000000000000177.1",
        "4294967295",
        "4294967296",
        "99999999999999999999",
        "256.256.256.256",
        "1.2.3.4.5",
        "127.0.0.1.",
        "2130706433.",
        "0x7f.1.",
        "08.08.08.08",
        "8.8.8.8.",
        "foo.1",
        "foo.0x1",
        "example.09",
        "a.0x",
        "127.0.0.1.0",
    ] {
        for reach in [internet(), local(), intranet()] {
            assert_eq!(
                reach.check(&format!("https://{host}/")),
                Err(FetchPolicyError::NumericHost),
                "{host}"
            );
            assert!(reach.check(&format!("http://{host}/")).is_err(), "{host}");
        }
        assert!(FetchPolicy::for_server(&format!("http://{host}/"), Allowed).is_err(), "{host}");
        assert!(check_page_url(&format!("http://{host}/")).is_err(), "{host}");
    }
}

#[test]
fn policy_accepts_names_with_digits() {
    for host in [
        "1.example",
        "1a",
        "0x7g",
        "0xg.example",
        "127.0.0.1.example.com",
        "x0x1",
        "a.0x1g",
        "e164.arpa",
        "3com.com",
    ] {
        assert_eq!(internet().check(&format!("https://{host}/")), Ok(()), "{host}");
    }
}

#[test]
fn policy_recognises_localhost_in_every_spelling() {
    for host in [
        "localhost",
        "LOCALHOST",
        "LocalHost.",
        "a.localhost",
        "a.b.LOCALHOST.",
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
    ] {
        for scheme in ["http", "https", "HTTP"] {
            let url = format!("{scheme}://{host}:8080/x");
            assert_eq!(internet().check(&url), Err(FetchPolicyError::Loopback), "{url}");
            assert_eq!(intranet().check(&url), Err(FetchPolicyError::Loopback), "{url}");
            assert_eq!(local().check(&url), Ok(()), "{url}");
            assert_eq!(check_page_url(&url), Ok(()), "{url}");
            assert!(FetchPolicy::for_server(&url, Refused).unwrap().allows(address("127.0.0.1")), "{url}");
        }
    }
    for host in ["localhost.example.com", "localhostx", "xlocalhost", "localhost-x", "localhost.localdomain"]
    {
        assert_eq!(local().check(&format!("https://{host}/")), Ok(()), "{host}");
        assert_eq!(local().check(&format!("http://{host}/")), Err(FetchPolicyError::Unencrypted), "{host}");
    }
}

#[test]
fn policy_refuses_ambiguous_hosts() {
    for (url, expected) in [
        ("https://", FetchPolicyError::Host),
        ("https:///x", FetchPolicyError::Host),
        ("https:x", FetchPolicyError::Host),
        ("https:/example.com", FetchPolicyError::Host),
        ("https://.", FetchPolicyError::Host),
        ("https://.example.com", FetchPolicyError::Host),
        ("https://example..com", FetchPolicyError::Host),
        ("https://example.com..", FetchPolicyError::Host),
        ("https://localhost..", FetchPolicyError::Host),
        ("https://%6c%6f%63alhost", FetchPolicyError::Host),
        ("https://127.0.0.%31", FetchPolicyError::Host),
        ("https://example.com%00.evil.example", FetchPolicyError::Host),
        ("https://a,b.example", FetchPolicyError::Host),
        ("https://a'b.example", FetchPolicyError::Host),
        ("https://a;b.example", FetchPolicyError::Host),
        ("https://a!b.example", FetchPolicyError::Host),
        ("https://[v1.x]", FetchPolicyError::Host),
        ("https://[fe80::1%25eth0]/", FetchPolicyError::Syntax),
        ("https://[fe80::1%eth0]/", FetchPolicyError::Syntax),
        ("https://[::1", FetchPolicyError::Syntax),
        ("https://::1/", FetchPolicyError::Syntax),
        ("https://[127.0.0.1]/", FetchPolicyError::Syntax),
        ("https://[::ffff:127.1]/", FetchPolicyError::Syntax),
        ("https://[]/", FetchPolicyError::Syntax),
        ("https://example.com:99999/", FetchPolicyError::Syntax),
        ("https://example.com:x/", FetchPolicyError::Syntax),
        ("https://example.com:-1/", FetchPolicyError::Syntax),
        ("https://example.com\\@evil.example/", FetchPolicyError::Syntax),
        ("https:\\\\example.com", FetchPolicyError::Syntax),
        ("\\\\example.com", FetchPolicyError::Syntax),
        ("https://exam ple.com", FetchPolicyError::Syntax),
        ("https://exam\tple.com", FetchPolicyError::Syntax),
        ("https://example.com/\r\nHost: x", FetchPolicyError::Syntax),
        (" https://example.com", FetchPolicyError::Syntax),
        ("https://example.com ", FetchPolicyError::Syntax),
        ("https://ex\0ample.com", FetchPolicyError::Syntax),
        // Beyond ASCII: letters that map to others, and digits and dots that map to those of an address.
        ("https://ex\u{E4}mple.com", FetchPolicyError::Syntax),
        ("https://\u{FF11}\u{FF12}\u{FF17}.0.0.1", FetchPolicyError::Syntax),
        ("https://\u{2460}\u{2461}\u{2466}.0.0.1", FetchPolicyError::Syntax),
        ("https://127\u{3002}0\u{3002}0\u{3002}1", FetchPolicyError::Syntax),
        ("https://\u{24D1}ocalhost", FetchPolicyError::Syntax),
        ("//example.com/", FetchPolicyError::Syntax),
        ("/token", FetchPolicyError::Syntax),
        ("", FetchPolicyError::Syntax),
    ] {
        assert_eq!(internet().check(url), Err(expected), "{url}");
        assert_eq!(check_page_url(url), Err(expected), "{url}");
        assert_eq!(FetchPolicy::for_server(url, Allowed), Err(expected), "{url}");
    }
    let label = "a".repeat(64);
    assert_eq!(internet().check(&format!("https://{label}.example/")), Err(FetchPolicyError::Host));
    let name = format!("{}.example", vec!["abc"; 63].join("."));
    assert_eq!(internet().check(&format!("https://{name}/")), Err(FetchPolicyError::Host));
    assert_eq!(
        internet().check(&format!("https://example.com/{}", "x".repeat(9000))),
        Err(FetchPolicyError::TooLong)
    );
}

#[test]
fn policy_accepts_unusual_but_unambiguous_urls() {
    for url in [
        "HTTPS://Auth.Example.COM/Token",
        "https://example.com.:8443/",
        "https://example.com:/",
        "https://xn--bcher-kva.example/",
        "https://under_score.example/",
        "https://intranet/",
        "https://example.com?x=//localhost/",
        "https://example.com/@localhost/%2e%2e/http://127.0.0.1",
        "https://8.8.8.8:443/",
        "https://[2606:4700:4700::1111]:8443/",
    ] {
        assert_eq!(internet().check(url), Ok(()), "{url}");
        assert!(FetchPolicy::for_server(url, Refused).is_ok(), "{url}");
    }
}

#[test]
fn policy_refuses_user_info_and_fragments() {
    for (url, expected) in [
        ("https://me@example.com/", FetchPolicyError::UserInfo),
        ("https://@example.com/", FetchPolicyError::UserInfo),
        ("https://example.com:80@evil.example/", FetchPolicyError::UserInfo),
        ("https://localhost@example.com/", FetchPolicyError::UserInfo),
        ("https://example.com/#x", FetchPolicyError::Fragment),
        ("https://example.com#@localhost/", FetchPolicyError::Fragment),
        ("https://example.com/#", FetchPolicyError::Fragment),
    ] {
        assert_eq!(internet().check(url), Err(expected), "{url}");
        assert_eq!(check_page_url(url), Err(expected), "{url}");
        assert_eq!(FetchPolicy::for_server(url, Refused), Err(expected), "{url}");
    }
}

/// C12.23
#[test]
fn policy_allows_plain_http_only_on_this_machine() {
    for reach in [internet(), intranet(), local()] {
        for host in ["example.com", "8.8.8.8", "10.0.0.1", "[fd00::1]", "intranet"] {
            assert_eq!(reach.check(&format!("http://{host}/")), Err(FetchPolicyError::Unencrypted), "{host}");
        }
    }
    assert_eq!(
        FetchPolicy::for_server("http://example.com/mcp", Allowed),
        Err(FetchPolicyError::Unencrypted)
    );
    assert_eq!(
        FetchPolicy::for_server("http://192.168.1.5/mcp", Allowed),
        Err(FetchPolicyError::Unencrypted)
    );
    for url in [
        "ftp://example.com",
        "ws://localhost",
        "file:///etc/passwd",
        "gopher://example.com",
        "httpss://a.example",
    ] {
        assert_eq!(local().check(url), Err(FetchPolicyError::Scheme), "{url}");
    }
}

/// Even if a resolver maps `localhost` to another address.
#[test]
fn policy_allows_plain_http_only_to_resolved_loopback_addresses() {
    let reach = local();
    assert!(reach.allows_at("http://localhost/token", address("127.0.0.1")));
    assert!(reach.allows_at("http://localhost/token", address("::1")));
    assert!(!reach.allows_at("http://localhost/token", address("8.8.8.8")));
    assert!(reach.allows_at("https://auth.example.com/token", address("8.8.8.8")));
    assert!(!reach.allows_at("https://auth.example.com/token", address("10.0.0.1")));
    assert!(!reach.allows_at("no url", address("8.8.8.8")));
    assert!(!internet().allows_at("http://localhost/token", address("127.0.0.1")));
}

#[test]
fn server_in_a_private_network_needs_the_option() {
    let url = "https://192.168.1.5:8443/mcp";
    assert_eq!(FetchPolicy::for_server(url, Refused), Err(FetchPolicyError::Private(address("192.168.1.5"))));
    let reach = FetchPolicy::for_server(url, Allowed).unwrap();
    assert!(reach.allows(address("192.168.1.9")) && !reach.allows(address("127.0.0.1")));
    assert_eq!(
        FetchPolicy::for_server("https://169.254.169.254/mcp", Allowed),
        Err(FetchPolicyError::Special(address("169.254.169.254")))
    );
}

/// C12.25
#[test]
fn page_url_uses_https_or_this_machine() {
    for url in [
        "https://auth.example.com/authorize?a=b",
        "http://localhost:3000/authorize",
        "https://10.0.0.1/authorize",
    ] {
        assert_eq!(check_page_url(url), Ok(()), "{url}");
    }
    assert_eq!(check_page_url("http://auth.example.com/authorize"), Err(FetchPolicyError::Unencrypted));
    for url in [
        "javascript:alert(1)",
        "JavaScript://example.com/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "ms-settings:",
        "about:blank",
        "view-source:https://example.com",
        "blob:https://example.com/x",
    ] {
        assert_eq!(check_page_url(url), Err(FetchPolicyError::Scheme), "{url}");
    }
    for url in ["https://example.com/$(calc)|x", "https://example.com/\"&calc", "https://example.com/`id`"] {
        assert_eq!(check_page_url(url), Err(FetchPolicyError::Syntax), "{url}");
    }
}

proptest! {
    #[test]
    fn any_written_address_is_treated_like_a_resolved_one(bits in any::<u128>(), high in any::<u16>()) {
        // Prefixes near the special ones more often.
        let near = (u128::from(high % 0x3000) << 112) | (bits & 0xFFFF_FFFF_FFFF);
        let v4 = Ipv4Addr::from(bits as u32);
        for address in [v4.into(), v4.to_ipv6_mapped().into(), Ipv6Addr::from(bits).into(), Ipv6Addr::from(near).into()] {
            for reach in [internet(), local(), intranet()] {
                prop_assert_eq!(reach.check(&literal(address)).is_ok(), reach.allows(address), "{}", address);
            }
            prop_assert!(!internet().allows(address) || intranet().allows(address));
            prop_assert!(!internet().allows(address) || local().allows(address));
        }
        prop_assert_eq!(internet().allows(v4.into()), internet().allows(v4.to_ipv6_mapped().into()));
    }

    #[test]
    fn policy_accepts_any_text_without_panic(text in any::<String>()) {
        let _ = (internet().check(&text), check_page_url(&text));
    }
}
