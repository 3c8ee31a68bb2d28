use mcp_proto::auth::{
    FetchPolicyError, IssuerMatch, MetadataError, ResourceIdentity, ResourceMetadata, ServerMetadata,
    canonical_resource,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn resource(body: impl ToString) -> Result<ResourceMetadata, MetadataError> {
    ResourceMetadata::parse(body.to_string().as_bytes())
}

fn server(body: impl ToString) -> Result<ServerMetadata, MetadataError> {
    ServerMetadata::parse(body.to_string().as_bytes())
}

/// C12.11, C12.30
#[test]
fn resource_has_one_canonical_form() {
    for (url, canonical) in [
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("HTTPS://MCP.Example.COM/Mcp", "https://mcp.example.com/Mcp"),
        ("https://mcp.example.com:443/mcp", "https://mcp.example.com/mcp"),
        ("https://mcp.example.com:/mcp", "https://mcp.example.com/mcp"),
        ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
        ("http://localhost:80/mcp#part", "http://localhost/mcp"),
        ("http://localhost:443/mcp", "http://localhost:443/mcp"),
        ("https://example.com/mcp/", "https://example.com/mcp/"),
        ("https://example.com/?tenant=A", "https://example.com/?tenant=A"),
        ("https://example.com?tenant=A", "https://example.com?tenant=A"),
        ("https://[2606:4700:0:0::1]/mcp", "https://[2606:4700::1]/mcp"),
    ] {
        assert_eq!(canonical_resource(url).as_deref(), Ok(canonical), "{url}");
        assert_eq!(canonical_resource(canonical).as_deref(), Ok(canonical), "{url}");
    }
    assert_eq!(canonical_resource("mcp.example.com"), Err(FetchPolicyError::Syntax));
    assert_eq!(canonical_resource("https://me@example.com"), Err(FetchPolicyError::UserInfo));
    assert_eq!(canonical_resource("file:///mcp"), Err(FetchPolicyError::Scheme));
}

/// C12.3
#[test]
fn metadata_of_a_resource_is_at_its_path_or_at_the_root() {
    let root = "https://example.com/.well-known/oauth-protected-resource";
    let at = |path: &str| format!("{root}{path}");
    for (url, places) in [
        ("https://example.com", vec![at("")]),
        ("https://example.com/", vec![at("")]),
        ("https://Example.com:443/public/mcp", vec![at("/public/mcp"), at("")]),
        ("https://example.com/mcp?a=b#c", vec![at("/mcp?a=b"), at("/mcp"), at("")]),
        ("https://example.com/mcp/", vec![at("/mcp/"), at("/mcp"), at("")]),
        ("https://example.com/?a", vec![at("?a"), at("")]),
    ] {
        assert_eq!(ResourceMetadata::well_known_urls(url), places, "{url}");
    }
    assert!(ResourceMetadata::well_known_urls("not a url").is_empty());
}

/// C12.5
#[test]
fn metadata_of_a_server_is_at_three_places_or_two() {
    let insert = [
        "https://auth.example.com/.well-known/oauth-authorization-server/tenant1/x",
        "https://auth.example.com/.well-known/openid-configuration/tenant1/x",
        "https://auth.example.com/tenant1/x/.well-known/openid-configuration",
    ];
    assert_eq!(ServerMetadata::well_known_urls("https://auth.example.com/tenant1/x"), insert);
    assert_eq!(ServerMetadata::well_known_urls("https://auth.example.com/tenant1/x/"), insert);
    let root = [
        "http://localhost:3000/.well-known/oauth-authorization-server",
        "http://localhost:3000/.well-known/openid-configuration",
    ];
    assert_eq!(ServerMetadata::well_known_urls("http://localhost:3000"), root);
    assert_eq!(ServerMetadata::well_known_urls("http://localhost:3000/"), root);
    for none in [
        "",
        "auth.example.com",
        "https://a.example/?b",
        "https://a.example#b",
        "https://u@a.example",
        "urn:x",
    ] {
        assert!(ServerMetadata::well_known_urls(none).is_empty(), "{none}");
    }
}

#[test]
fn parser_reads_resource_metadata() {
    let metadata = resource(json!({
        "resource": "https://example.com/mcp", "authorization_servers": ["https://a.example", "https://b.example"],
        "scopes_supported": ["read", "write", "read", "not one"], "dpop_bound_access_tokens_required": true,
        "resource_name": "Files\u{7} of \u{202E}example", "bearer_methods_supported": ["header"], "x": {"resource": 5},
    }))
    .unwrap();
    assert_eq!(metadata.resource, "https://example.com/mcp");
    assert_eq!(metadata.authorization_servers, ["https://a.example", "https://b.example"]);
    assert_eq!(metadata.scopes_supported.unwrap().to_string(), "read write");
    assert_eq!(metadata.name.as_deref(), Some("Files of example"));
    assert!(metadata.dpop_bound);

    let least = resource(json!({"resource": "https://example.com", "scopes_supported": null})).unwrap();
    assert!(least.authorization_servers.is_empty() && !least.dpop_bound);
    // C12.15: the scopes are unknown, rather than empty.
    assert_eq!(least.scopes_supported, None);
}

#[test]
fn error_names_a_member_of_the_wrong_type() {
    for name in ["resource", "authorization_servers", "scopes_supported", "dpop_bound_access_tokens_required"]
    {
        for value in [json!(5), json!({}), json!([5]), json!(["a", null])] {
            let mut body = json!({"resource": "https://example.com"});
            body[name] = value;
            assert_eq!(resource(&body), Err(MetadataError::InvalidMember(name)), "{body}");
        }
    }
    for name in
        ["issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "code_challenge_methods_supported"]
    {
        for value in [json!(true), json!(5), json!({}), json!([["S256"]])] {
            let mut body = json!({"issuer": "https://a.example", "token_endpoint": "https://a.example/t"});
            body[name] = value;
            assert_eq!(server(&body), Err(MetadataError::InvalidMember(name)), "{body}");
        }
    }
    let text = json!({"issuer": "https://a.example", "token_endpoint": "t", "scopes_supported": "a b"});
    assert_eq!(server(text), Err(MetadataError::InvalidMember("scopes_supported")));
    let flag = json!({
        "issuer": "https://a.example", "token_endpoint": "t", "authorization_response_iss_parameter_supported": "true",
    });
    assert_eq!(
        server(flag),
        Err(MetadataError::InvalidMember("authorization_response_iss_parameter_supported"))
    );
}

#[test]
fn error_names_a_missing_member() {
    assert_eq!(resource("{}"), Err(MetadataError::Missing("resource")));
    assert_eq!(resource(r#"{"resource":""}"#), Err(MetadataError::Missing("resource")));
    assert_eq!(server(r#"{"token_endpoint":"t"}"#), Err(MetadataError::Missing("issuer")));
    assert_eq!(
        server(r#"{"issuer":"i","token_endpoint":null}"#),
        Err(MetadataError::Missing("token_endpoint"))
    );
}

/// Of two issuers one reader would believe the first and another the second.
#[test]
fn parser_refuses_duplicate_members() {
    let twice = r#"{"issuer":"https://a.example","token_endpoint":"t","issuer":"https://b.example"}"#;
    assert_eq!(server(twice), Err(MetadataError::Duplicate("issuer")));
    let escaped = r#"{"issuer":"https://a.example","token_endpoint":"t","iss\u0075er":"https://b.example"}"#;
    assert_eq!(server(escaped), Err(MetadataError::Duplicate("issuer")));
    assert!(server(r#"{"issuer":"https://a.example","token_endpoint":"t","x":1,"x":2}"#).is_ok());
}

#[test]
fn parser_refuses_invalid_documents() {
    for body in [
        "",
        "null",
        "[]",
        "5",
        "\"{}\"",
        "{",
        "{}{}",
        "{\"issuer\":}",
        "<html>",
        "{'issuer':'x'}",
        "\u{FEFF}\u{FEFF}{}",
    ] {
        assert_eq!(server(body), Err(MetadataError::Json), "{body}");
        assert_eq!(resource(body), Err(MetadataError::Json), "{body}");
    }
    assert_eq!(ServerMetadata::parse(b"{\"issuer\":\"\xFF\"}"), Err(MetadataError::Json));
    assert_eq!(ServerMetadata::parse(b"{\"x\":\"\xFF\"}"), Err(MetadataError::Json));
    assert_eq!(
        server(r#"{"issuer":"\ud800","token_endpoint":"t"}"#),
        Err(MetadataError::InvalidMember("issuer"))
    );
    assert_eq!(server(format!("{{\"x\":{}", "[".repeat(100_000))), Err(MetadataError::Json));
}

/// RFC 8259, section 8.1
#[test]
fn parser_ignores_a_byte_order_mark() {
    let body = json!({"issuer": "https://a.example", "token_endpoint": "t", "resource": "https://b.example"});
    assert_eq!(server(format!("\u{FEFF}{body}")), server(&body));
    assert_eq!(resource(format!("\u{FEFF}{body}")), resource(&body));
}

#[test]
fn parser_bounds_documents_lists_and_urls() {
    let long = format!(r#"{{"resource":"https://example.com","x":"{}"}}"#, "y".repeat(256 * 1024));
    assert_eq!(resource(long), Err(MetadataError::TooLong));
    let url = format!("https://example.com/{}", "x".repeat(8192));
    assert_eq!(resource(json!({"resource": url})), Err(MetadataError::InvalidMember("resource")));

    let servers: Vec<_> = (0..5000).map(|number| format!("https://{number}.example")).collect();
    let many =
        resource(json!({"resource": "https://example.com", "authorization_servers": servers})).unwrap();
    assert_eq!(many.authorization_servers, servers[..16]);
    let mixed = resource(
        json!({"resource": "https://example.com", "authorization_servers": [url, "https://a.example"]}),
    );
    assert_eq!(mixed.unwrap().authorization_servers, ["https://a.example"]);

    let numbers: Vec<_> = (0..10_000).map(|number| number.to_string()).collect();
    let many = server(json!({
        "issuer": "https://a.example", "token_endpoint": "t", "scopes_supported": numbers,
        "code_challenge_methods_supported": numbers,
    }))
    .unwrap();
    assert_eq!(many.scopes_supported.unwrap().len(), 128);
    assert_eq!(many.code_challenge_methods.unwrap().len(), 64);
    // Elements beyond the limit are not validated.
    let mut list = vec![json!("https://a.example"); 5000];
    list.push(Value::Null);
    assert!(resource(json!({"resource": "https://example.com", "authorization_servers": list})).is_ok());
}

/// C12.4: RFC 9728, section 3.3.
#[test]
fn metadata_identifies_exactly_the_server_or_from_its_own_well_known_path_the_origin() {
    use ResourceIdentity::{Exact, Origin, Other, TrailingSlash};

    const ROOT: &str = "https://example.com/.well-known/oauth-protected-resource";
    const PATH: &str = "https://example.com/.well-known/oauth-protected-resource/mcp";
    for (resource, url, expected) in [
        ("https://example.com/mcp", "https://example.com/mcp", Exact),
        ("HTTPS://EXAMPLE.com:443/mcp", "https://example.com/mcp", Exact),
        ("https://example.com/mcp", "https://example.com/mcp#part", Exact),
        ("https://example.com/", "https://example.com", Exact),
        ("https://example.com/a?b=c", "https://example.com/a?b=c", Exact),
        ("https://example.com/mcp/", "https://example.com/mcp", TrailingSlash),
        ("https://example.com/mcp", "https://example.com/mcp/", TrailingSlash),
        ("https://example.com/a/?b", "https://example.com/a?b", TrailingSlash),
        ("https://example.com/mcp//", "https://example.com/mcp", Other),
        ("https://example.com/a", "https://example.com/a/mcp", Other),
        ("https://example.com/a", "https://example.com/a?b=c", Other),
        ("https://example.com/a?b=c", "https://example.com/a?b=d", Other),
        ("https://example.com/a?b=c", "https://example.com/a/d?b=c", Other),
        ("https://example.com/a", "https://example.com/ab", Other),
        ("https://example.com/a/mcp", "https://example.com/a", Other),
        ("https://example.com/A", "https://example.com/a", Other),
        ("https://example.com/other", "https://example.com/mcp", Other),
        ("https://evil.example/mcp", "https://example.com/mcp", Other),
        ("https://example.com.evil.example", "https://example.com/mcp", Other),
        ("https://example.com:8443/mcp", "https://example.com/mcp", Other),
        ("http://example.com/mcp", "https://example.com/mcp", Other),
        ("https://me@example.com/mcp", "https://example.com/mcp", Other),
        ("https://example.com/mcp#a", "https://example.com/mcp", Other),
        ("https://sub.example.com", "https://example.com/mcp", Other),
        ("https://example.com./mcp", "https://example.com/mcp", Other),
        ("mcp", "https://example.com/mcp", Other),
        ("", "https://example.com/mcp", Other),
    ] {
        let mut metadata = ResourceMetadata::default();
        metadata.resource = resource.into();
        for place in [ROOT, PATH] {
            assert_eq!(metadata.identity(url, place), expected, "{resource} for {url}");
        }
    }
    for (resource, place, expected) in [
        ("https://example.com", ROOT, Origin),
        ("https://example.com/", "HTTPS://Example.com:443/.well-known/oauth-protected-resource", Origin),
        ("https://example.com", PATH, Other),
        ("https://example.com", "https://example.com/.well-known/oauth-protected-resource/", Other),
        ("https://example.com", "https://example.com/.well-known/oauth-protected-resource?x", Other),
        ("https://example.com", "https://evil.example/.well-known/oauth-protected-resource", Other),
        ("https://example.com", "https://example.com/mcp/.well-known/oauth-protected-resource", Other),
        ("https://example.com", "", Other),
        ("https://evil.example", "https://evil.example/.well-known/oauth-protected-resource", Other),
    ] {
        let mut metadata = ResourceMetadata::default();
        metadata.resource = resource.into();
        assert_eq!(metadata.identity("https://example.com/mcp", place), expected, "{resource} at {place}");
    }
}

#[test]
fn parser_reads_authorization_server_metadata() {
    let metadata = server(json!({
        "issuer": "https://a.example", "authorization_endpoint": "https://a.example/auth",
        "token_endpoint": "https://a.example/token", "registration_endpoint": "https://a.example/reg",
        "revocation_endpoint": "https://a.example/rev", "introspection_endpoint": "https://a.example/int",
        "jwks_uri": "https://a.example/keys", "scopes_supported": ["openid", "offline_access"],
        "code_challenge_methods_supported": ["plain", "S256"],
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
        "client_id_metadata_document_supported": true, "authorization_response_iss_parameter_supported": true,
        "dpop_signing_alg_values_supported": ["ES256", "EdDSA"], "grant_types_supported": ["authorization_code"],
        "response_types_supported": ["code"], "mtls_endpoint_aliases": {"token_endpoint": "https://mtls.example"},
    }))
    .unwrap();
    assert_eq!(metadata.issuer, "https://a.example");
    assert_eq!(metadata.authorization_endpoint.as_deref(), Some("https://a.example/auth"));
    assert_eq!(metadata.token_endpoint, "https://a.example/token");
    assert_eq!(metadata.registration_endpoint.as_deref(), Some("https://a.example/reg"));
    assert_eq!(metadata.revocation_endpoint.as_deref(), Some("https://a.example/rev"));
    assert_eq!(metadata.introspection_endpoint.as_deref(), Some("https://a.example/int"));
    assert_eq!(metadata.jwks_uri.as_deref(), Some("https://a.example/keys"));
    assert!(metadata.scopes_supported.as_ref().unwrap().contains("offline_access"));
    assert_eq!(metadata.token_auth_methods.as_ref().unwrap(), &["none", "private_key_jwt"]);
    assert_eq!(metadata.token_auth_algorithms.as_ref().unwrap(), &["ES256"]);
    assert_eq!(metadata.dpop_algorithms.as_ref().unwrap(), &["ES256", "EdDSA"]);
    assert_eq!(metadata.grant_types.as_ref().unwrap(), &["authorization_code"]);
    assert!(metadata.client_id_documents && metadata.iss_in_answers && metadata.offers_s256());
}

/// C12.7
#[test]
fn server_offers_s256_only_if_it_lists_it() {
    let offers = |methods: Value| {
        let body = json!({
            "issuer": "https://a.example", "token_endpoint": "t", "code_challenge_methods_supported": methods,
        });
        server(body).unwrap().offers_s256()
    };
    assert!(offers(json!(["S256"])) && offers(json!(["plain", "S256"])));
    assert!(
        !offers(json!(null)) && !offers(json!([])) && !offers(json!(["plain"])) && !offers(json!(["s256"]))
    );
}

/// C12.6, K23
#[test]
fn issuers_are_compared_character_by_character() {
    let of = |issuer: &str| {
        let mut metadata = ServerMetadata::default();
        metadata.issuer = issuer.into();
        metadata
    };
    for (named, looked_for, root_slash) in [
        ("https://honest.example", "https://attacker.example", false),
        ("https://A.example", "https://a.example", false),
        ("https://a.example:443", "https://a.example", false),
        ("https://a.example/x/", "https://a.example/x", false),
        ("https://a.example/%41", "https://a.example/A", false),
        ("http://a.example", "https://a.example", false),
        ("https://a.example//", "https://a.example", false),
        ("https://a.example/?", "https://a.example/", false),
        ("https://a.example?x/", "https://a.example?x", false),
        ("https://a.example#x/", "https://a.example#x", false),
        ("https://", "https:", false),
        ("/", "", false),
        ("https://a.example/", "https://a.example", true),
        ("https://a.example", "https://a.example/", true),
        ("http://localhost:3000/", "http://localhost:3000", true),
    ] {
        assert!(!of(named).matches_issuer(looked_for, IssuerMatch::Exact), "{named} {looked_for}");
        assert_eq!(
            of(named).matches_issuer(looked_for, IssuerMatch::RootSlash),
            root_slash,
            "{named} {looked_for}"
        );
        assert!(
            of(named).matches_issuer(named, IssuerMatch::Exact)
                && of(named).matches_issuer(named, IssuerMatch::RootSlash)
        );
    }
    assert_eq!(IssuerMatch::default(), IssuerMatch::Exact);
}

#[test]
fn server_of_2025_03_26_without_metadata_is_its_own_authorization_server() {
    let metadata = ServerMetadata::at_origin("https://API.example.com/v1/mcp?x").unwrap();
    assert_eq!(metadata.issuer, "https://api.example.com");
    assert_eq!(metadata.authorization_endpoint.as_deref(), Some("https://api.example.com/authorize"));
    assert_eq!(metadata.token_endpoint, "https://api.example.com/token");
    assert_eq!(metadata.registration_endpoint.as_deref(), Some("https://api.example.com/register"));
    assert_eq!((metadata.code_challenge_methods, metadata.grant_types), (None, None));
    assert_eq!(ServerMetadata::at_origin("x"), Err(MetadataError::Url(FetchPolicyError::Syntax)));
}

proptest! {
    #[test]
    fn parser_accepts_any_document_without_panic(body in any::<Vec<u8>>()) {
        let _ = (ResourceMetadata::parse(&body), ServerMetadata::parse(&body));
    }

    #[test]
    fn any_url_has_metadata_places(url in "https?://[a-z0-9.:@\\[\\]-]{0,20}(/[a-z./?#%-]{0,20})?") {
        for place in ResourceMetadata::well_known_urls(&url).into_iter().chain(ServerMetadata::well_known_urls(&url)) {
            prop_assert!(canonical_resource(&place).is_ok());
            prop_assert!(place.contains("/.well-known/"));
        }
        if let Ok(canonical) = canonical_resource(&url) {
            let mut metadata = ResourceMetadata::default();
            metadata.resource.clone_from(&canonical);
            prop_assert_eq!(metadata.identity(&url, ""), ResourceIdentity::Exact);
            prop_assert_eq!(canonical_resource(&canonical), Ok(canonical));
        }
    }
}
