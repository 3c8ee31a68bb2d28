//! Fuzzing of OAuth: challenges, metadata, answers with tokens, and the addresses that may be fetched.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use serde_json::{Value, json};

use crate::auth::{
    Challenge, FetchPolicy, FetchPolicyError, IssuerMatch, PrivateNetworks, Requirement, ResourceIdentity,
    ResourceMetadata, Scopes, Secret, ServerMetadata, TokenEndpointError, TokenKind, TokenResponse,
    URL_BYTES, canonical_resource, check_page_url, parse_token_response,
};
use crate::prelude::*;

/// Reads the input as a `WWW-Authenticate` header.
pub fn challenge(data: &[u8]) {
    let header = String::from_utf8_lossy(data);
    let challenges = Challenge::parse_all(&header);
    assert!(challenges.len() <= 16, "more is kept than may be");
    for challenge in &challenges {
        assert!(!challenge.scheme.is_empty() && header.contains(&challenge.scheme), "a scheme from nowhere");
        assert!(challenge.iter().count() <= 32, "more is kept than may be");
        for (name, value) in challenge.iter() {
            assert!(header.contains(name) && value.len() <= header.len(), "a parameter from nowhere");
            assert!(!value.contains(|letter: char| letter.is_control() && letter != '\t'));
            assert_eq!(challenge.get(&name.to_ascii_uppercase()), Some(value), "a parameter is there twice");
        }
    }
    let written: Vec<_> = challenges.iter().map(ToString::to_string).collect();
    let written = written.join(", ");
    // Quoting adds characters; anything beyond the limit is cut off.
    if written.len() <= 16 * 1024 {
        assert_eq!(Challenge::parse_all(&written), challenges, "others are read again");
    }
    let behind = Challenge::parse_all(&format!("First zq=1, {header}"));
    assert!(behind.first().is_some_and(|first| first.is_scheme("first") && first.get("zq") == Some("1")));
    check_requirement(&header, &challenges);
}

fn check_requirement(header: &str, challenges: &[Challenge]) {
    let asked =
        challenges.iter().any(|challenge| challenge.is_scheme("bearer") || challenge.is_scheme("dpop"));
    let demand = Requirement::parse(header);
    assert_eq!(demand.is_some(), asked);
    let Some(demand) = demand else { return };
    assert_eq!(demand.wants_dpop, challenges.iter().any(|challenge| challenge.is_scheme("dpop")));
    assert!(demand.resource_metadata.is_none_or(|url| url.len() <= URL_BYTES));
    for text in [demand.error, demand.error_description].into_iter().flatten() {
        assert!(!text.is_empty() && text.chars().count() <= 500 && !text.contains(char::is_control));
    }
    if let Some(scopes) = demand.scope {
        assert!(!scopes.is_empty() && scopes.len() <= 128);
        assert_eq!(Scopes::parse(&scopes.to_string()), scopes, "other scopes are read again");
    }
}

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
    let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
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

/// Reads the input as both kinds of metadata, and as a URL.
pub fn metadata(data: &[u8]) {
    if let Ok(metadata) = ResourceMetadata::parse(data) {
        resource(data, &metadata);
    }
    if let Ok(metadata) = ServerMetadata::parse(data) {
        server(data, &metadata);
    }
    check_url(&String::from_utf8_lossy(data));
}

/// A member as an independent JSON reader sees it. That reader rejects some members that are never used.
fn member(data: &[u8], name: &str) -> Option<Value> {
    serde_json::from_slice::<Value>(data).ok().map(|document| document[name].clone())
}

fn names(scopes: &Option<Scopes>) -> Option<Vec<&str>> {
    scopes.as_ref().map(|scopes| scopes.iter().collect())
}

fn resource(data: &[u8], metadata: &ResourceMetadata) {
    assert!((1..=URL_BYTES).contains(&metadata.resource.len()) && metadata.authorization_servers.len() <= 16);
    assert!(metadata.authorization_servers.iter().all(|issuer| issuer.len() <= URL_BYTES));
    assert!(member(data, "resource").is_none_or(|resource| resource == metadata.resource.as_str()));
    let written = json!({
        "resource": metadata.resource,
        "authorization_servers": metadata.authorization_servers,
        "scopes_supported": names(&metadata.scopes_supported),
        "dpop_bound_access_tokens_required": metadata.dpop_bound,
        "resource_name": metadata.name,
    });
    let again = ResourceMetadata::parse(format!("{written}").as_bytes());
    assert_eq!(again.as_ref(), Ok(metadata), "other metadata is read again");
}

fn server(data: &[u8], metadata: &ServerMetadata) {
    assert!((1..=URL_BYTES).contains(&metadata.issuer.len()));
    assert!(member(data, "issuer").is_none_or(|issuer| issuer == metadata.issuer.as_str()));
    assert!(metadata.matches_issuer(&metadata.issuer, IssuerMatch::Exact));
    assert!(metadata.matches_issuer(&metadata.issuer, IssuerMatch::RootSlash));
    let written = json!({
        "issuer": metadata.issuer,
        "authorization_endpoint": metadata.authorization_endpoint,
        "token_endpoint": metadata.token_endpoint,
        "registration_endpoint": metadata.registration_endpoint,
        "revocation_endpoint": metadata.revocation_endpoint,
        "introspection_endpoint": metadata.introspection_endpoint,
        "jwks_uri": metadata.jwks_uri,
        "scopes_supported": names(&metadata.scopes_supported),
        "code_challenge_methods_supported": metadata.code_challenge_methods,
        "token_endpoint_auth_methods_supported": metadata.token_auth_methods,
        "token_endpoint_auth_signing_alg_values_supported": metadata.token_auth_algorithms,
        "client_id_metadata_document_supported": metadata.client_id_documents,
        "authorization_response_iss_parameter_supported": metadata.iss_in_answers,
        "dpop_signing_alg_values_supported": metadata.dpop_algorithms,
        "grant_types_supported": metadata.grant_types,
    });
    let again = ServerMetadata::parse(format!("{written}").as_bytes());
    assert_eq!(again.as_ref(), Ok(metadata), "other metadata is read again");
}

/// Checks a URL that a document may contain: the locations of its metadata, and the resource that each of them
/// describes.
fn check_url(url: &str) {
    let Ok(canonical) = canonical_resource(url) else { return };
    assert_eq!(canonical_resource(&canonical).as_ref(), Ok(&canonical), "the one form is two");
    let origin: String = canonical.split('/').take(3).collect::<Vec<_>>().join("/");
    let origin = origin.split('?').next().unwrap();
    for place in
        ResourceMetadata::well_known_urls(url).into_iter().chain(ServerMetadata::well_known_urls(url))
    {
        let rest = place.strip_prefix(origin).expect("another server is asked");
        assert!(rest.starts_with('/') && rest.contains("/.well-known/"));
    }
    let identity = |resource: &str, place: &str| {
        let metadata = ResourceMetadata { resource: resource.into(), ..ResourceMetadata::default() };
        metadata.identity(url, place)
    };
    let root = format!("{origin}/.well-known/oauth-protected-resource");
    assert_eq!(identity(&canonical, ""), ResourceIdentity::Exact, "a URL does not identify itself");
    assert_ne!(identity(origin, &root), ResourceIdentity::Other, "an origin does not speak for its paths");
    let evil = format!("{origin}.evil.example");
    assert_eq!(identity(&evil, &root), ResourceIdentity::Other, "another origin is accepted");
}

/// Reads the input as the status and the body of an answer.
pub fn token_answer(data: &[u8]) {
    let Some(([high, low], body)) = data.split_first_chunk() else { return };
    let status = u16::from_be_bytes([*high, *low]) % 600;
    match parse_token_response(status, body) {
        Ok(granted) => {
            assert!((200..300).contains(&status), "a token is granted with status {status}");
            check_grant(&granted);
        }
        Err(refusal) => check_error(status, &refusal),
    }
    // With the status replaced by success.
    if let Ok(granted) = parse_token_response(200, body) {
        check_grant(&granted);
    }
    check_error(400, &parse_token_response(400, body).unwrap_err());
    check_error(503, &parse_token_response(503, body).unwrap_err());
}

fn check_grant(granted: &TokenResponse) {
    let sound = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(sound(granted.access.expose()), "a token that no header may have");
    assert!(granted.lifetime.is_none_or(|lifetime| lifetime <= Duration::from_secs(315_360_000)));
    let written = json!({
        "access_token": granted.access.expose(),
        "token_type": match granted.kind {
            TokenKind::Bearer => "Bearer",
            TokenKind::Dpop => "DPoP",
            TokenKind::Assertion => "N_A",
        },
        "refresh_token": granted.refresh.as_ref().map(Secret::expose),
        "expires_in": granted.lifetime.map(|lifetime| lifetime.as_secs()),
        "scope": granted.scope.as_ref().map(ToString::to_string),
        "issued_token_type": granted.issued_type,
        "id_token": granted.id_token.as_ref().map(Secret::expose),
    });
    let again = parse_token_response(200, format!("{written}").as_bytes());
    assert_eq!(again.as_ref(), Ok(granted), "another token is read again");
}

fn check_error(status: u16, refusal: &TokenEndpointError) {
    let shown = refusal.to_string();
    assert!(!shown.contains(char::is_control) && shown.chars().count() < 1000, "not for showing");
    let said = (200..300).contains(&status) || ((400..500).contains(&status) && status != 429);
    assert!(said || *refusal == TokenEndpointError::Status(status), "a broken server is believed");
    assert!(!refusal.is_definitive() || matches!(refusal, TokenEndpointError::Refused { .. }));
    assert!(!(refusal.is_definitive() && refusal.is_use_dpop_nonce()));
    if let TokenEndpointError::Refused { error, description } = refusal {
        let body = json!({"error": error, "error_description": description});
        let again: Result<TokenResponse, _> = parse_token_response(400, format!("{body}").as_bytes());
        assert_eq!(again.as_ref(), Err(refusal), "another refusal is read again");
    }
}
