//! Fuzzing of the metadata of resources and of authorization servers.

use alloc::string::String;

use serde_json::{Value, json};

use crate::auth::{
    IssuerMatch, ResourceIdentity, ResourceMetadata, ServerMetadata, URL_BYTES, canonical_resource,
};

/// Reads the input as both kinds of metadata, and as a URL.
pub fn metadata(data: &[u8]) {
    if let Ok(metadata) = ResourceMetadata::parse(data) {
        resource(data, &metadata);
    }
    if let Ok(metadata) = ServerMetadata::parse(data) {
        server(data, &metadata);
    }
    url(&String::from_utf8_lossy(data));
}

/// A member as an independent JSON reader sees it. That reader rejects some members that are never used.
fn member(data: &[u8], name: &str) -> Option<Value> {
    serde_json::from_slice::<Value>(data).ok().map(|document| document[name].clone())
}

fn resource(data: &[u8], metadata: &ResourceMetadata) {
    assert!((1..=URL_BYTES).contains(&metadata.resource.len()) && metadata.authorization_servers.len() <= 16);
    assert!(metadata.authorization_servers.iter().all(|issuer| issuer.len() <= URL_BYTES));
    assert!(member(data, "resource").is_none_or(|resource| resource == metadata.resource.as_str()));
    let written = json!({
        "resource": metadata.resource,
        "authorization_servers": metadata.authorization_servers,
        "scopes_supported": metadata.scopes_supported.as_ref().map(|scopes| scopes.iter().collect::<alloc::vec::Vec<_>>()),
        "dpop_bound_access_tokens_required": metadata.dpop_bound,
        "resource_name": metadata.name,
    });
    let again = ResourceMetadata::parse(alloc::format!("{written}").as_bytes());
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
        "scopes_supported": metadata.scopes_supported.as_ref().map(|scopes| scopes.iter().collect::<alloc::vec::Vec<_>>()),
        "code_challenge_methods_supported": metadata.code_challenge_methods,
        "token_endpoint_auth_methods_supported": metadata.token_auth_methods,
        "token_endpoint_auth_signing_alg_values_supported": metadata.token_auth_algorithms,
        "client_id_metadata_document_supported": metadata.client_id_documents,
        "authorization_response_iss_parameter_supported": metadata.iss_in_answers,
        "dpop_signing_alg_values_supported": metadata.dpop_algorithms,
        "grant_types_supported": metadata.grant_types,
    });
    let again = ServerMetadata::parse(alloc::format!("{written}").as_bytes());
    assert_eq!(again.as_ref(), Ok(metadata), "other metadata is read again");
}

/// Checks a URL that a document may contain: the locations of its metadata, and the resource that each of them
/// describes.
fn url(url: &str) {
    let Ok(canonical) = canonical_resource(url) else { return };
    assert_eq!(canonical_resource(&canonical).as_ref(), Ok(&canonical), "the one form is two");
    let origin: String = canonical.split('/').take(3).collect::<alloc::vec::Vec<_>>().join("/");
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
    let root = alloc::format!("{origin}/.well-known/oauth-protected-resource");
    assert_eq!(identity(&canonical, ""), ResourceIdentity::Exact, "a URL does not identify itself");
    assert_ne!(identity(origin, &root), ResourceIdentity::Other, "an origin does not speak for its paths");
    let evil = alloc::format!("{origin}.evil.example");
    assert_eq!(identity(&evil, &root), ResourceIdentity::Other, "another origin is accepted");
}
