//! Fuzzing of the URLs and addresses that metadata may name.

use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::auth::{FetchPolicy, FetchPolicyError, PrivateNetworks, check_page_url};

/// Reads the input as a URL, as the rest of a URL, as a host and as addresses.
pub fn fetch_policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let of = |url, private| FetchPolicy::for_server(url, private).expect("a server that may be visited");
    let policies = [
        of("https://example.com", PrivateNetworks::Refused),
        of("http://localhost", PrivateNetworks::Refused),
        of("https://example.com", PrivateNetworks::Allowed),
    ];
    url(policies, &text);
    url(policies, &format!("https://{text}"));
    url(policies, &format!("http://localhost{text}"));
    host(policies, &text);
    if let Some((bits, _)) = data.split_first_chunk() {
        addresses(policies, u128::from_be_bytes(*bits));
    }
}

/// Checks that a simple reader finds the same host in an accepted URL.
fn url(policies: [FetchPolicy; 3], url: &str) {
    let _ = check_page_url(url);
    if FetchPolicy::for_server(url, PrivateNetworks::Refused).is_ok() {
        assert_eq!(check_page_url(url), Ok(()), "tokens may go where no page may be");
    }
    for policy in policies {
        if policy.check(url).is_err() {
            continue;
        }
        let (scheme, rest) = url.split_once("://").expect("a scheme");
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap();
        let host = match authority.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap(),
            None => authority.split(':').next().unwrap(),
        };
        assert!(
            url.is_ascii() && !authority.contains('@') && !url.contains(['#', '\\', ' ']),
            "a URL with a trap"
        );
        assert!(!host.is_empty() && !host.contains('%'), "a host with a trap");
        let resolved = inet_aton(host).map(IpAddr::V4).or(host.parse().ok());
        assert!(resolved.is_none_or(|address| policy.allows_at(url, address)), "an address gets past");
        let local = resolved.map_or_else(
            || host.trim_end_matches('.').to_ascii_lowercase().ends_with("localhost"),
            |address| !policies[0].allows(address),
        );
        assert!(scheme.eq_ignore_ascii_case("https") || local, "plain HTTP leaves this machine");
    }
}

/// Checks that a host which resolvers take for an address is accepted only as the address itself, in its usual form.
fn host(policies: [FetchPolicy; 3], text: &str) {
    let Some(address) = inet_aton(text) else { return };
    for policy in policies {
        let expected = policy.allows(address.into()) && format!("{address}") == text;
        assert_eq!(policy.check(&format!("https://{text}/")).is_ok(), expected, "{text}");
    }
}

/// The address that `inet_aton` reads from a host: one to four parts, each decimal, octal or hexadecimal, the last one
/// filling the remaining bytes.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts: Option<alloc::vec::Vec<u32>> = text.split('.').map(number).collect();
    let parts = parts?;
    let (last, before) = parts.split_last()?;
    let free = 32u32.checked_sub(8 * u32::try_from(before.len()).ok()?).filter(|free| *free > 0)?;
    if before.iter().any(|part| *part > 255) || (free < 32 && *last >> free != 0) {
        return None;
    }
    let high = before.iter().enumerate().map(|(at, part)| part << (24 - 8 * at)).sum::<u32>();
    Some(Ipv4Addr::from(high | last))
}

fn number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.starts_with('+') { None } else { u32::from_str_radix(digits, radix).ok() }
}

/// The prefixes of the IPv4 ranges without servers on the public internet.
const RESERVED: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

fn is_public(address: Ipv4Addr) -> bool {
    !RESERVED.iter().any(|(prefix, length)| {
        (u32::from(address) ^ u32::from(Ipv4Addr::from(*prefix))).checked_shr(32 - length).unwrap_or(0) == 0
    })
}

/// Checks the addresses of each kind made from these bits, with their embedded addresses.
fn addresses(policies: [FetchPolicy; 3], bits: u128) {
    let v4 = Ipv4Addr::from(bits as u32);
    let embedded = u128::from(bits as u32);
    let six = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits));
    let in_disguise = [
        six(0xFFFF_0000_0000 | embedded),
        six(0x64_FF9B << 96 | embedded),
        six(0x2002 << 112 | embedded << 80 | 1),
        six(0x2A00 << 112 | 0x5EFE << 32 | embedded),
    ];
    let [internet, ..] = policies;
    assert_eq!(internet.allows(v4.into()), is_public(v4), "{v4}");
    for address in in_disguise {
        assert_eq!(internet.allows(address), is_public(v4), "{address}");
    }
    let never = [embedded, 0x2001 << 112 | embedded, 0xFE80 << 112 | bits >> 64, 0xFF << 120 | bits >> 8];
    assert!(!never.map(six).iter().any(|address| internet.allows(*address)));
    for address in in_disguise.into_iter().chain([v4.into(), six(bits)]).chain(never.map(six)) {
        let literal = match address {
            IpAddr::V4(address) => format!("{address}"),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let [internet, local, private] = policies.map(|policy| {
            let allowed = policy.allows(address);
            let checked = policy.check(&format!("https://{literal}:8443/x"));
            assert_eq!(checked.is_ok(), allowed, "{address} is judged in two ways");
            assert_ne!(checked, Err(FetchPolicyError::Syntax));
            allowed
        });
        assert!(!internet || (local && private), "{address}: less is allowed with more options");
    }
}
