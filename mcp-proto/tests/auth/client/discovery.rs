//! Which authorization server a server trusts, and which document says so.

use mcp_proto::auth::client::{
    AuthClient, AuthConfigError, AuthError, Deviation, Event, LegacyDiscovery, RefusedRequest, RetryDecision,
    TrailingSlash,
};
use mcp_proto::auth::{FetchPolicyError, IssuerMatch};
use serde_json::json;

use super::config;
use super::sim::{Answer, Fault, Host, ISSUER, Issuer, Outcome, SERVER, World};

const ROOT: &str = "https://mcp.example.com/.well-known/oauth-protected-resource";
const PATH: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";

/// C12.3: at the URL of the challenge, at the path, at the root.
#[test]
fn client_fetches_resource_metadata_from_the_challenge_url_then_the_path_then_the_root() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let document = world.documents.remove(PATH).unwrap();
    world.documents.insert(ROOT.into(), document.clone());
    world.challenge = r#"Bearer resource_metadata="https://mcp.example.com/about""#.into();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(
        world.log[..3],
        ["GET https://mcp.example.com/about".to_owned(), format!("GET {PATH}"), format!("GET {ROOT}")]
    );
    // The URL of the challenge is enough.
    let mut world = World::new();
    world.documents.clear();
    let issuer = Issuer::new(ISSUER);
    world.publish(&issuer);
    world.documents.insert("https://mcp.example.com/about".into(), document);
    world.challenge =
        r#"Basic realm="a, b", Bearer resource_metadata="https://mcp.example.com/about""#.into();
    assert_eq!(Host::new(config(), 1).call(&mut world), Outcome::Answered(2));
    assert_eq!(world.count("oauth-protected-resource"), 0);
}

/// C12.4.
#[test]
fn client_ignores_metadata_of_another_resource() {
    for other in [
        "https://evil.example.com/mcp",
        "https://mcp.example.com/other",
        "https://mcp.example.com/mcp/x",
        "https://mcp.example.com",
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.describe(json!({ "resource": other }));
        let error = AuthError::ResourceMismatch { resource: other.into() };
        assert_eq!(host.call(&mut world), Outcome::Failed(error));
        assert_eq!((world.count("auth.example.com"), host.pages()), (0, 0));
        // The application configured this name of the server.
        let mut config = config();
        config.resource = Some(other.into());
        host = Host::new(config, 2);
        host.machine.login(host.now);
        host.settle(&mut world);
        assert_eq!(world.issuer().requests[0]["resource"], other);
    }
    for good in ["https://MCP.example.com/mcp", SERVER] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.describe(json!({ "resource": good }));
        host.machine.login(host.now);
        host.settle(&mut world);
        // The token request names the resource as the server does: this is the name that the authorization server
        // knows.
        assert_eq!(world.issuer().requests[0]["resource"], good);
        assert!(!host.events.iter().any(|event| matches!(event, Event::Tolerated(_))));
    }
}

/// C12.4: the operator of the origin publishes the document at its well-known path; a tenant of one path cannot.
#[test]
fn client_accepts_the_origin_as_a_resource_from_the_origins_own_metadata_alone() {
    let origin = "https://mcp.example.com";
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.describe(json!({ "resource": origin }));
    // The same document is served at every well-known path: the client ignores that of the path.
    world.documents.insert(ROOT.into(), world.documents[PATH].clone());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(world.issuer().requests[0]["resource"], origin);
    assert_eq!(world.log[..2], [format!("GET {PATH}"), format!("GET {ROOT}")]);
    // At the URL of a challenge, the document describes the server alone.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.describe(json!({ "resource": origin }));
    let document = world.documents.remove(PATH).unwrap();
    world.documents.insert("https://mcp.example.com/mcp/about".into(), document);
    world.challenge = r#"Bearer resource_metadata="https://mcp.example.com/mcp/about""#.into();
    let error = AuthError::ResourceMismatch { resource: origin.into() };
    assert_eq!(host.call(&mut world), Outcome::Failed(error));
    assert_eq!((world.count("auth.example.com"), host.pages()), (0, 0));
}

/// C12.4: an additional slash is common, and reported.
#[test]
fn client_tolerates_a_trailing_slash_in_the_resource_and_says_so() {
    let named = "https://mcp.example.com/mcp/";
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.describe(json!({ "resource": named }));
    host.machine.login(host.now);
    host.settle(&mut world);
    assert_eq!(world.issuer().requests[0]["resource"], named);
    let told = Event::Tolerated(Deviation::TrailingSlash { resource: named.into() });
    assert!(host.events.contains(&told), "{:?}", host.events);

    let mut strict = config();
    strict.trailing_slash = TrailingSlash::Refused;
    let (mut world, mut host) = (World::new(), Host::new(strict, 1));
    world.describe(json!({ "resource": named }));
    let error = AuthError::ResourceMismatch { resource: named.into() };
    assert_eq!(host.call(&mut world), Outcome::Failed(error));
}

/// C12.11: the application may configure the resource.
#[test]
fn application_can_configure_the_resource_of_tokens() {
    let mut config = config();
    config.resource = Some("https://mcp.example.com".into());
    let (mut world, mut host) = (World::new(), Host::new(config, 1));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(world.issuer().pages[0]["resource"], "https://mcp.example.com");
}

/// C12.11: a server that does not name itself is named by the canonical form of its URL, with its whole path.
#[test]
fn client_names_the_server_by_its_canonical_url() {
    for (url, resource) in [
        ("HTTPS://MCP.Example.com:443/mcp", SERVER),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("https://mcp.example.com/mcp/files", "https://mcp.example.com/mcp/files"),
    ] {
        let (mut world, mut host) = (World::legacy(), Host::new(config(), 1));
        host.machine = AuthClient::new(config(), url, [1; 32]).unwrap();
        host.machine.login(host.now);
        host.settle(&mut world);
        let issuer = world.issuer();
        assert_eq!(issuer.pages[0]["resource"], resource, "{url}");
        assert_eq!(issuer.requests[0]["resource"], resource, "{url}");
    }
}

/// C12.11: a resource has no fragment.
#[test]
fn configuration_refuses_a_resource_with_a_fragment() {
    let mut config = config();
    config.resource = Some("https://mcp.example.com/mcp#part".into());
    assert_eq!(AuthClient::new(config, SERVER, [1; 32]).err(), Some(AuthConfigError::Resource));
}

/// C12.5, F108: the three places of an issuer with a path, and the two of one without.
#[test]
fn client_looks_for_the_authorization_server_at_every_well_known_place() {
    for (issuer, place, tries) in [
        (
            "https://auth.example.com/a",
            "https://auth.example.com/.well-known/oauth-authorization-server/a",
            1,
        ),
        ("https://auth.example.com/a", "https://auth.example.com/.well-known/openid-configuration/a", 2),
        ("https://auth.example.com/a", "https://auth.example.com/a/.well-known/openid-configuration", 3),
        ("https://auth.example.com", "https://auth.example.com/.well-known/openid-configuration", 2),
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        let served = Issuer::new(issuer);
        world.documents.clear();
        world.documents.insert(place.into(), Answer::json(200, &served.metadata));
        world.issuers.clear();
        world.issuers.insert(issuer.into(), served);
        world.trusts = issuer.into();
        world.describe(json!({}));
        assert_eq!(host.call(&mut world), Outcome::Answered(2), "{place}");
        assert_eq!(world.count("/.well-known/o") - 1, tries, "{:?}", world.log);
    }
}

/// C12.6.
#[test]
fn client_ignores_metadata_of_another_issuer() {
    for other in ["https://honest.example", "https://auth.example.com/", "https://AUTH.example.com"] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.metadata(json!({ "issuer": other }));
        let error = AuthError::IssuerMismatch { expected: ISSUER.into() };
        assert_eq!(host.call(&mut world), Outcome::Failed(error), "{other}");
        assert_eq!((world.count("/register"), host.pages()), (0, 0));
    }
}

/// K23: many servers are inconsistent about the slash after their host; an option makes the client ignore it.
#[test]
fn client_can_ignore_a_trailing_slash_of_the_issuer() {
    let mut config = config();
    config.issuer_match = IssuerMatch::RootSlash;
    let (mut world, mut host) = (World::new(), Host::new(config, 1));
    world.metadata(json!({ "issuer": "https://auth.example.com/" }));
    world.issuer().iss = Some("https://auth.example.com/".into());
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
}

/// C12.21, C12.20, K21: each has its own registration, and keeps it.
#[test]
fn client_registers_separately_with_each_listed_authorization_server() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let other = "https://other.example.com";
    world.add(Issuer::new(other));
    for (trusted, listed, registrations) in [
        (ISSUER, json!([ISSUER, other]), [1, 0]),
        (other, json!([other]), [1, 1]),
        // Both know the client now.
        (ISSUER, json!([ISSUER, other]), [1, 1]),
        (other, json!([other, ISSUER]), [1, 1]),
    ] {
        world.end_tokens();
        world.issuer().refresh.clear();
        world.trusts = trusted.into();
        world.describe(json!({ "authorization_servers": listed }));
        assert_eq!(host.call(&mut world), Outcome::Answered(2), "{trusted}");
        assert_eq!(host.machine.status().unwrap().issuer, trusted);
        assert_eq!([ISSUER, other].map(|issuer| world.issuers[issuer].registrations.len()), registrations);
        let name = format!("client-1-of-{}", &trusted["https://".len()..]);
        assert!(world.issuers[trusted].pages.iter().all(|page| page["client_id"] == *name));
        assert!(world.issuers[trusted].requests.iter().all(|request| request["client_id"] == *name));
    }
}

/// C12.21: the client uses the first that is reachable.
#[test]
fn client_tries_another_authorization_server_if_the_first_is_unreachable() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let other = "https://other.example.com";
    world.add(Issuer::new(other));
    world.describe(json!({ "authorization_servers": ["https://gone.example.com", other, ISSUER] }));
    world.trusts = other.into();
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!(host.machine.status().unwrap().issuer, other);
    // From then on the client starts with it.
    world.end_tokens();
    world.issuer().refresh.clear();
    let before = world.count("gone");
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert_eq!((world.count("gone"), world.issuer().registrations.len()), (before, 1));
}

#[test]
fn error_distinguishes_a_resource_without_authorization_servers_from_one_without_metadata() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.describe(json!({ "authorization_servers": [] }));
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::NoAuthorizationServer));
    let mut strict = config();
    strict.legacy_discovery = LegacyDiscovery::Refused;
    let (mut world, mut host) = (World::legacy(), Host::new(strict, 1));
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::NoResourceMetadata));
}

/// R3: metadata at the origin, and its endpoints rather than the default ones.
#[test]
fn client_finds_the_metadata_of_a_2025_03_26_server_at_its_origin() {
    let (mut world, mut host) = (World::legacy(), Host::new(config(), 1));
    let endpoint = |name: &str| format!("https://mcp.example.com/oauth/{name}");
    world.metadata(json!({
        "authorization_endpoint": endpoint("authorize"), "token_endpoint": endpoint("token"),
        "registration_endpoint": endpoint("register"),
    }));
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert!(host.shown_page().starts_with(&endpoint("authorize")));
    let last: Vec<_> = world.log.iter().skip_while(|line| !line.contains("authorization-server")).collect();
    assert_eq!(
        last,
        [
            "GET https://mcp.example.com/.well-known/oauth-authorization-server",
            "POST https://mcp.example.com/oauth/register",
            "POST https://mcp.example.com/oauth/token"
        ]
    );
}

/// R3: without metadata there are default endpoints.
#[test]
fn client_uses_default_endpoints_of_a_2025_03_26_server_without_metadata() {
    let (mut world, mut host) = (World::legacy(), Host::new(config(), 1));
    world.documents.clear();
    world.issuer().iss = None;
    world.issuer().registers = json!({ "client_secret": "secret-of-legacy" });
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    assert!(world.issuer().authorizations[0].as_ref().unwrap().starts_with("Basic "));
    assert!(host.shown_page().starts_with("https://mcp.example.com/authorize?"));
    let posts: Vec<_> = world.log.iter().filter(|line| line.starts_with("POST ")).collect();
    assert_eq!(posts, ["POST https://mcp.example.com/register", "POST https://mcp.example.com/token"]);
    // The stored record leads there again, without another discovery.
    let before = world.count("protected-resource");
    let later = host.machine.status().unwrap().expires.unwrap();
    host.now.unix = later;
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
    assert_eq!((world.issuer().renewals, world.count("protected-resource")), (1, before));
}

/// A server that is unreachable is not taken for a 2025-03-26 one: its origin would get credentials.
#[test]
fn client_does_not_take_a_failing_server_for_a_2025_03_26_one() {
    for fault in [Fault::Status(503), Fault::Network, Fault::Silence, Fault::Status(429)] {
        let (mut world, mut host) = (World::legacy(), Host::new(config(), 1));
        world.faulty = Some(("oauth-protected-resource".into(), fault.clone()));
        let Outcome::Failed(error) = host.call(&mut world) else { panic!("{fault:?}") };
        assert!(error.is_transient(), "{error:?}");
        assert_eq!((host.pages(), world.count("POST")), (0, 0));
        let (mut world, mut host) = (World::legacy(), Host::new(config(), 1));
        world.faulty = Some(("oauth-authorization-server".into(), fault.clone()));
        assert!(matches!(host.call(&mut world), Outcome::Failed(error) if error.is_transient()));
        assert_eq!((host.pages(), world.count("POST")), (0, 0));
    }
    // A server that names a metadata URL is no 2025-03-26 server either.
    let (mut world, mut host) = (World::legacy(), Host::new(config(), 1));
    world.challenge = r#"Bearer resource_metadata="https://mcp.example.com/about""#.into();
    assert_eq!(host.call(&mut world), Outcome::Failed(AuthError::NoResourceMetadata));
}

/// Many servers answer every path with an HTML page.
#[test]
fn client_does_not_take_an_html_page_for_metadata() {
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let document = world.documents.remove(PATH).unwrap();
    let page = Answer { status: 200, fields: Vec::new(), body: b"<!doctype html>".to_vec() };
    world.documents.insert(PATH.into(), page);
    world.documents.insert(ROOT.into(), document);
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
}

/// C12.23, C12.26: every URL is checked before it is fetched, whichever document names it.
#[test]
fn client_fetches_no_url_of_private_networks() {
    for url in [
        "https://127.0.0.1/about",
        "https://localhost/about",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/about",
        "https://2130706433/about",
        "https://0x7f.1/about",
        "https://[::ffff:10.0.0.1]/about",
        "https://[fd00::1]/about",
        "http://elsewhere.example/about",
        "file:///etc/passwd",
    ] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.challenge = format!(r#"Bearer resource_metadata="{url}""#);
        assert_eq!(host.call(&mut world), Outcome::Answered(2), "{url}");
        assert_eq!(world.count(url), 0);
        for member in ["token_endpoint", "registration_endpoint"] {
            let (mut world, mut host) = (World::new(), Host::new(config(), 1));
            world.metadata(json!({ member: url }));
            assert!(matches!(host.call(&mut world), Outcome::Failed(_)), "{url}");
            assert_eq!(world.count(url), 0);
        }
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.describe(json!({ "authorization_servers": [url] }));
        assert!(matches!(host.call(&mut world), Outcome::Failed(_)), "{url}");
        assert_eq!((world.count(url), host.pages()), (0, 0));
    }
}

/// C12.26, K21: each hop is checked.
#[test]
fn client_checks_and_limits_redirects_hop_by_hop() {
    let moved = |to: &str| Answer::status(302).with("Location", to);
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    let document = world.documents.remove(PATH).unwrap();
    world.documents.insert(PATH.into(), moved("/one"));
    world.documents.insert("https://mcp.example.com/one".into(), moved("https://docs.example.com/two"));
    world.documents.insert("https://docs.example.com/two".into(), moved("three"));
    world.documents.insert("https://docs.example.com/three".into(), document);
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    for to in ["https://10.0.0.1/x", "http://docs.example.com/x", "https://localhost/x"] {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        world.documents.insert(PATH.into(), moved(to));
        assert!(matches!(host.call(&mut world), Outcome::Failed(_)));
        assert_eq!(world.count(to), 0);
    }
    // A redirect loop.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world.documents.insert(PATH.into(), moved(PATH));
    assert!(matches!(host.call(&mut world), Outcome::Failed(_)));
    assert_eq!(world.count(PATH), 4);
    // A POST is not repeated after a redirect.
    let (mut world, mut host) = (World::new(), Host::new(config(), 1));
    world
        .documents
        .insert(format!("{ISSUER}/token"), Answer::status(307).with("Location", "https://evil.example/"));
    assert!(matches!(host.call(&mut world), Outcome::Failed(_)));
    assert_eq!(world.count("evil"), 0);
}

/// C12.2: any header has a bounded response, and causes no panic.
#[test]
fn client_takes_a_malformed_challenge_as_one_without_parameters() {
    for header in
        ["", ",,,", "Bearer", "Bearer resource_metadata=\"", "\u{0}\u{7f}", "Bearer scope=\"\u{202e}\""]
    {
        let (mut world, mut host) = (World::new(), Host::new(config(), 1));
        let refused = RefusedRequest {
            status: 401,
            www_authenticate: Some(header),
            generation: None,
            attempt: 0,
            nonce: None,
        };
        assert_eq!(host.machine.handle_challenge(host.now, &refused), RetryDecision::Wait);
        host.settle(&mut world);
        assert_eq!(host.pages(), 1, "{header:?}");
    }
}

#[test]
fn client_refuses_a_document_beyond_the_limit() {
    let mut small = config();
    small.document_bytes = 100;
    let (mut world, mut host) = (World::new(), Host::new(small, 1));
    assert!(matches!(host.call(&mut world), Outcome::Failed(AuthError::Unreachable { .. })));
}

#[test]
fn only_servers_on_loopback_lead_to_loopback() {
    let reach = |server| {
        let client = mcp_proto::auth::client::AuthClient::new(config(), server, [1; 32]).unwrap();
        client.fetch_policy().check("http://127.0.0.1:9/token")
    };
    assert_eq!(reach("http://localhost:8080/mcp"), Ok(()));
    assert_eq!(reach(SERVER), Err(FetchPolicyError::Loopback));
}
