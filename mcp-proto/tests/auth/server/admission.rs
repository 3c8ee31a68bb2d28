//! Requirements on the heads of requests, and permissions of tokens.

use core::time::Duration;

use mcp_proto::auth::server::{Access, AccessDecision, Protection, ProtectionError, VerifyError};
use mcp_proto::auth::{ResourceIdentity, ResourceMetadata, Scopes};
use mcp_proto::peer::Principal;
use serde_json::{Value, json};

use super::{
    ISSUER, METADATA, RESOURCE, access, admit, answer, at, check_bearer, demand, header, present, protection,
    settle,
};

fn document(protection: &Protection) -> Value {
    serde_json::from_slice(&protection.metadata()).unwrap()
}

// --- Metadata ---

/// S10.1
#[test]
fn metadata_names_the_resource_and_its_issuers() {
    let protection = protection()
        .issuer("https://other.example/tenant")
        .unwrap()
        .supported(["files:read"])
        .unwrap()
        .name("Files")
        .documentation("https://docs.example");
    assert_eq!(protection.metadata_url(), METADATA);
    assert_eq!(
        document(&protection),
        json!({
            "resource": RESOURCE,
            "authorization_servers": [ISSUER, "https://other.example/tenant"],
            "scopes_supported": ["files:read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Files",
            "resource_documentation": "https://docs.example",
        })
    );
    let read = ResourceMetadata::parse(&protection.metadata()).unwrap();
    assert_eq!(read.identity(RESOURCE, METADATA), ResourceIdentity::Exact);
    assert_eq!(read.authorization_servers.len(), 2);
}

/// S10.1
#[test]
fn metadata_is_public_for_web_pages_too() {
    let path = "/.well-known/oauth-protected-resource/mcp";
    let AccessDecision::Answer(answer) = admit(&protection(), "GET", path, &[]) else { panic!() };
    assert_eq!(answer.status, 200);
    assert_eq!(header(&answer, "access-control-allow-origin"), ["*"]);
    assert_eq!(header(&answer, "content-type"), ["application/json"]);
    assert_eq!(answer.body, protection().metadata());
    let AccessDecision::Answer(answer) = admit(&protection(), "OPTIONS", path, &[]) else { panic!() };
    assert_eq!((answer.status, header(&answer, "access-control-allow-methods")), (204, ["GET"].into()));
    let AccessDecision::Answer(answer) = admit(&protection(), "POST", path, &[]) else { panic!() };
    assert_eq!(answer.status, 405);
}

#[test]
fn resource_without_a_path_has_its_metadata_at_the_root() {
    let protection = Protection::new("https://MCP.example:443/", ISSUER).unwrap();
    assert_eq!(protection.resource(), "https://mcp.example");
    let path = "/.well-known/oauth-protected-resource";
    let AccessDecision::Answer(answer) = admit(&protection, "GET", path, &[]) else { panic!() };
    assert_eq!(answer.status, 200);
}

/// S10.6
#[test]
fn server_never_requires_offline_access() {
    let protection = protection()
        .required(["offline_access", "mcp"])
        .unwrap()
        .supported(["mcp", "offline_access", "extra"])
        .unwrap();
    assert_eq!(document(&protection)["scopes_supported"], json!(["mcp", "extra"]));
    assert_eq!(demand(&answer(&protection, &[])).scope, Some(Scopes::parse("mcp")));
    let authorized = settle(&protection, access("mcp")).unwrap();
    assert!(!authorized.challenge(&Scopes::parse("offline_access more")).contains("offline_access"));
}

/// R3
#[test]
fn clients_of_2025_03_26_find_the_issuer_at_the_origin() {
    let path = "/.well-known/oauth-authorization-server";
    let AccessDecision::Answer(answer) = admit(&protection(), "GET", path, &[]) else { panic!() };
    assert_eq!(answer.status, 401, "there is no issuer metadata by default");
    let protection = protection().issuer_metadata(r#"{"issuer":"https://login.example"}"#);
    let AccessDecision::Answer(answer) = admit(&protection, "GET", path, &[]) else { panic!() };
    assert_eq!((answer.status, &answer.body[..]), (200, &br#"{"issuer":"https://login.example"}"#[..]));
}

#[test]
fn configuration_refuses_a_resource_without_a_secure_url() {
    for url in ["http://mcp.example/mcp", "ftp://mcp.example", "mcp.example", "https://u:p@mcp.example/"] {
        assert!(matches!(Protection::new(url, ISSUER), Err(ProtectionError::Resource(_))), "{url}");
    }
    assert!(matches!(Protection::new("https://mcp.example/?a=b", ISSUER), Err(ProtectionError::Query)));
    assert!(matches!(Protection::new(RESOURCE, "http://login.example"), Err(ProtectionError::Issuer(_))));
    let _ = Protection::new("http://127.0.0.1:8080/mcp", "http://localhost:9000").unwrap();
}

/// A mistyped scope must be an error, as no token could have it.
#[test]
fn configuration_refuses_an_invalid_scope() {
    for odd in ["", "a b", "\"", "ä"] {
        assert_eq!(protection().required([odd]).unwrap_err(), ProtectionError::Scope(odd.into()));
        assert!(protection().supported([odd]).is_err());
    }
}

// --- Credentials ---

/// S10.3, S10.4
#[test]
fn request_without_token_is_401_and_names_the_metadata() {
    let protection = protection().required(["mcp", "files:read"]).unwrap();
    for fields in [&[][..], &[("authorization", "Basic YTpi")], &[("authorization", "DPoP abc")]] {
        let answer = answer(&protection, fields);
        assert_eq!(answer.status, 401, "{fields:?}");
        let demand = demand(&answer);
        assert_eq!(demand.resource_metadata.as_deref(), Some(METADATA));
        assert_eq!(demand.scope, Some(Scopes::parse("mcp files:read")));
        // RFC 6750, section 3.1: a request without a token gets no error details.
        assert_eq!(demand.error, None);
        assert!(!demand.wants_dpop);
    }
}

/// S10.3
#[test]
fn malformed_credentials_are_400() {
    let several = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
    for fields in [
        &[("authorization", "Bearer")][..],
        &[("authorization", "Bearer ")],
        &[("authorization", "Bearer a b")],
        &[("authorization", "Bearer a,b")],
        &[("authorization", "Bearer ====")],
        &several,
    ] {
        let answer = answer(&protection(), fields);
        assert_eq!(answer.status, 400, "{fields:?}");
        assert_eq!(demand(&answer).error.as_deref(), Some("invalid_request"));
    }
}

/// S10.3. A token in the URL ends up in logs.
#[test]
fn server_refuses_a_token_in_the_url_even_with_one_in_the_header() {
    for path in ["/mcp?access_token=abc", "/mcp?x=1&access%5Ftoken=abc"] {
        let fields = [("authorization", "Bearer abc")];
        let AccessDecision::Answer(answer) = admit(&protection(), "POST", path, &fields) else {
            panic!("{path}")
        };
        assert_eq!(answer.status, 400);
        assert!(!format!("{answer:?}").contains("abc"));
    }
}

#[test]
fn server_ignores_the_case_of_schemes() {
    let presented = present(&protection(), &[("authorization", "bEARER  a.b-c_d~e+f/g==")]);
    assert_eq!(presented.token.expose(), "a.b-c_d~e+f/g==");
    assert_eq!((presented.method.as_str(), presented.path.as_str()), ("POST", "/mcp"));
}

#[test]
fn debug_output_hides_a_token() {
    let presented = present(&protection(), &[("authorization", "Bearer s3cret"), ("dpop", "s3cret")]);
    assert!(!format!("{presented:?}").contains("s3cret"));
}

/// The id of the error follows the revision.
#[test]
fn body_of_a_refusal_is_an_error_without_request_id() {
    for (version, id) in [("2026-07-28", None), ("2025-06-18", Some(Value::Null))] {
        let answer = answer(&protection(), &[("mcp-protocol-version", version)]);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((body.get("id"), &body["error"]["code"]), (id.as_ref(), &json!(-32600)));
    }
}

// --- Permissions of tokens ---

/// S10.2, S10.7
#[test]
fn server_refuses_a_token_for_another_audience() {
    let other = |audience: &str| Access::new(Principal::new("ada"), audience);
    for audience in
        ["https://mcp.example", "https://mcp.example/mcp2", "https://other.example/mcp", "mcp", ""]
    {
        let answer = settle(&protection(), other(audience)).unwrap_err();
        assert_eq!(answer.status, 401, "{audience}");
        assert_eq!(demand(&answer).error.as_deref(), Some("invalid_token"));
    }
    let mut nobody = other(RESOURCE);
    nobody.audiences.clear();
    assert_eq!(settle(&protection(), nobody).unwrap_err().status, 401);
}

/// S10.2
#[test]
fn audience_may_have_any_spelling_of_the_resource() {
    let named = |audience: &str| Access::new(Principal::new("ada"), audience);
    for audience in [RESOURCE, "HTTPS://MCP.Example:443/mcp"] {
        settle(&protection(), named(audience)).unwrap();
    }
    settle(&protection().audience("api://mcp"), named("api://mcp")).unwrap();
    let mut several = named("https://other.example");
    several.audiences.push(RESOURCE.into());
    settle(&protection(), several).unwrap();
}

/// S10.2
#[test]
fn server_refuses_an_expired_token() {
    let mut expired = access("");
    expired.expires = Some(at(0).unix);
    assert_eq!(settle(&protection(), expired.clone()).unwrap_err().status, 401);
    expired.expires = Some(at(0).unix + Duration::from_secs(1));
    settle(&protection(), expired).unwrap();
}

/// S10.3, S10.4
#[test]
fn missing_scopes_are_403_and_the_challenge_names_all_of_them() {
    let protection = protection().required(["mcp", "files:read"]).unwrap();
    let answer = settle(&protection, access("mcp")).unwrap_err();
    assert_eq!(answer.status, 403);
    let demand = demand(&answer);
    assert!(demand.is_insufficient_scope());
    assert_eq!(demand.scope, Some(Scopes::parse("mcp files:read")));
    assert_eq!(demand.resource_metadata.as_deref(), Some(METADATA));
    settle(&protection, access("files:read other mcp")).unwrap();
}

/// S10.5
#[test]
fn broader_scopes_include_narrower_ones() {
    let protection =
        protection().required(["files:read"]).unwrap().implies(|granted, needed| match granted {
            "files" => needed.starts_with("files:"),
            "admin" => true,
            _ => false,
        });
    for good in ["files:read", "files", "admin", "x files"] {
        let authorized = settle(&protection, access(good)).unwrap();
        assert!(authorized.grants(&Scopes::parse("files:read")));
        assert_eq!(authorized.grants(&Scopes::parse("mail")), good == "admin");
    }
    for bad in ["", "files:write", "FILES"] {
        assert_eq!(settle(&protection, access(bad)).unwrap_err().status, 403, "{bad}");
    }
}

#[test]
fn unavailable_verifier_is_503_without_details() {
    let presented = present(&protection(), &[("authorization", "Bearer abc")]);
    let down = Err(VerifyError::unavailable("the database at 10.0.0.7 is down"));
    let answer = check_bearer(&protection(), &presented, down).unwrap_err();
    assert_eq!(answer.status, 503);
    assert!(header(&answer, "www-authenticate").is_empty());
    assert_eq!(header(&answer, "retry-after").len(), 1);
    assert!(!String::from_utf8_lossy(&answer.body).contains("10.0.0.7"));
}

/// What a verifier says cannot break out of the header.
#[test]
fn descriptions_stay_within_their_quotes() {
    let presented = present(&protection(), &[("authorization", "Bearer abc")]);
    let why = format!("\", realm=\"x\r\nset-cookie: a\\{}", "ä".repeat(1000));
    let answer = check_bearer(&protection(), &presented, Err(VerifyError::invalid(why))).unwrap_err();
    let [challenge] = *header(&answer, "www-authenticate") else { panic!() };
    assert!(challenge.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && challenge.len() < 500);
    let demand = demand(&answer);
    assert_eq!(demand.error.as_deref(), Some("invalid_token"));
    assert_eq!(demand.resource_metadata.as_deref(), Some(METADATA));
}

/// S10.7: handlers receive no token that they could pass on.
#[test]
fn access_does_not_contain_the_token() {
    let presented = present(&protection(), &[("authorization", "Bearer s3cret")]);
    let authorized = check_bearer(&protection(), &presented, Ok(access("a"))).unwrap();
    let shown = format!("{authorized:?} {:?}", authorized.access());
    assert!(!shown.contains("s3cret") && !shown.contains("ada"), "{shown}");
}
