//! Records of the authorization client, as a token store holds them.

use core::fmt::Write as _;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::auth::TokenKind;
use mcp_proto::auth::client::{AuthConfig, DpopKey, Event, Preregistration, Record, Redirect, RequestAuth};
use mcp_proto::transport::http::Verb;
use serde_json::json;

use crate::fixtures::{check, committed};
use crate::sim::{Host, ISSUER, Issuer, Outcome, REDIRECT, SERVER, UserAction, World};

pub(crate) fn config() -> AuthConfig {
    AuthConfig::new("a host", REDIRECT)
}

pub(crate) fn with_dpop() -> AuthConfig {
    let mut config = config();
    config.dpop = Some(DpopKey::Generated);
    config
}

/// A record in its store, and the host that wrote it.
struct Written {
    world: World,
    host: Host,
    config: AuthConfig,
    fixture: &'static str,
}

fn login(mut world: World, config: AuthConfig, fixture: &'static str) -> Written {
    let mut host = Host::new(config.clone(), 1);
    assert_eq!(host.call(&mut world), Outcome::Answered(2), "{fixture}");
    Written { world, host, config, fixture }
}

/// A public client that registered itself, with a refresh token and scopes.
fn bearer() -> Written {
    let mut world = World::new();
    world.challenge = r#"Bearer scope="files:read files:write""#.into();
    world.issuer().grants_only = Some("files:read".into());
    login(world, config(), "token_record_bearer.json")
}

/// A client whose registration has a secret that expires, and whose user is known.
fn confidential() -> Written {
    let mut world = World::new();
    world.issuer().registers = json!({
        "client_secret": "secret-1", "client_secret_expires_at": 1_785_340_000,
        "token_endpoint_auth_method": "client_secret_post",
    });
    let claims = json!({ "iss": ISSUER, "sub": "248289761001" }).to_string();
    world.issuer().id_token = Some(format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims)));
    login(world, config(), "token_record_confidential.json")
}

/// A client that the application configures for any issuer.
fn configured() -> Written {
    let mut world = World::new();
    world.issuer().clients.insert("known".into(), None);
    let mut config = config();
    config.preregistrations.push(Preregistration::public("known"));
    login(world, config, "token_record_configured.json")
}

/// A token that neither expires nor can be refreshed.
fn endless() -> Written {
    let mut world = World::new();
    world.issuer().lifetime = None;
    world.issuer().gives_refresh = false;
    login(world, config(), "token_record_endless.json")
}

/// A token bound to a key, which is in the record.
fn dpop() -> Written {
    let mut world = World::new();
    world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
    world.challenge = "DPoP".into();
    login(world, with_dpop(), "token_record_dpop.json")
}

/// A server of 2025-03-26, whose authorization server is at its own origin.
fn legacy() -> Written {
    login(World::legacy(), config(), "token_record_legacy.json")
}

/// A server that has moved to another issuer: the client is registered at both.
fn two_issuers() -> Written {
    let mut written = login(World::new(), config(), "token_record_two_issuers.json");
    let other = Issuer::new("https://login.example.net");
    written.world.trusts = other.issuer.clone();
    written.world.add(other);
    written.world.describe(json!({}));
    let mut host = Host::new(config(), 2);
    assert!(matches!(host.call(&mut written.world), Outcome::Answered(_)));
    Written { host, ..written }
}

fn records() -> Vec<Written> {
    vec![bearer(), confidential(), configured(), endless(), dpop(), legacy(), two_issuers()]
}

/// A process that holds the lease while it refreshes the token.
fn lease() -> Written {
    let mut written = login(World::new(), config(), "token_record_lease.json");
    let Written { world, host, .. } = &mut written;
    host.pass(Duration::from_secs(4000));
    host.holds = true;
    assert!(matches!(host.machine.credentials(host.now, Verb::Post, SERVER), RequestAuth::Wait));
    host.drive(world);
    assert_eq!(host.held.len(), 1);
    written
}

/// A registered client whose user has not agreed yet.
fn registered() -> Written {
    let mut world = World::new();
    world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
    let mut host = Host::new(with_dpop(), 1);
    host.user = UserAction::Ignore;
    host.machine.login(host.now);
    host.drive(&mut world);
    assert_eq!(host.pages(), 1);
    Written { world, host, config: with_dpop(), fixture: "token_record_registered.json" }
}

/// A login that another process has finished.
fn finished() -> Written {
    let (mut world, mut first) = (World::new(), Host::new(config(), 1));
    first.machine.begin_login(first.now, None);
    first.drive(&mut world);
    let [Event::LoginBegun(page, login), _] = &first.events[..] else { panic!("{:?}", first.events) };
    let redirect = Redirect::parse(&world.issuer().agree(&page.url));
    let mut host = Host::new(config(), 2);
    host.machine.finish_login(host.now, login, redirect).unwrap();
    host.drive(&mut world);
    Written { world, host, config: config(), fixture: "token_record_finished.json" }
}

#[test]
fn authorization_client_writes_the_recorded_token_records() {
    for written in records().iter().chain([&lease(), &registered(), &finished()]) {
        check(written.fixture, &written.world.store.text());
    }
}

#[test]
fn token_record_reads_back_what_an_older_version_wrote() {
    for written in records().iter().chain([&lease(), &registered(), &finished()]) {
        let text = committed(written.fixture, &written.world.store.text());
        let record = Record::from_json(text.as_bytes()).expect(written.fixture);
        assert_eq!(record.to_json().expose(), text, "{}", written.fixture);
        assert!(!record.is_empty());
    }
}

/// The client acts on the record: the owner of the token, its lifetime, and how it is sent.
#[test]
fn authorization_client_understands_the_recorded_token_records() {
    let mut out = String::new();
    for mut written in records() {
        let text = committed(written.fixture, &written.world.store.text());
        written.world.store.clear();
        let record = Record::from_json(text.as_bytes()).unwrap();
        written.world.store.store(Some(record), None).unwrap();
        let mut host = Host::new(written.config, 9);
        // Without another login: the server accepts the token of the record.
        assert_eq!(host.call(&mut written.world), Outcome::Answered(1), "{}", written.fixture);
        assert_eq!(host.pages(), 0);
        writeln!(out, "{}", written.fixture).unwrap();
        let status = host.machine.status().unwrap();
        writeln!(out, "  issuer: {}", status.issuer).unwrap();
        writeln!(out, "  client: {}", status.client_id).unwrap();
        writeln!(out, "  resource: {}", status.resource).unwrap();
        writeln!(out, "  scopes: {}", status.scopes.map_or("-".into(), |scopes| scopes.to_string())).unwrap();
        let expires = status.expires.map(|time| time.since_epoch().as_secs().to_string());
        writeln!(out, "  expires: {}", expires.unwrap_or("-".into())).unwrap();
        writeln!(out, "  refreshes: {}", status.has_refresh).unwrap();
        writeln!(out, "  bound to a key: {}", status.kind == TokenKind::Dpop).unwrap();
        let admission = host.machine.credentials(host.now, Verb::Post, SERVER);
        let RequestAuth::Ready { headers, .. } = admission else { panic!("{admission:?}") };
        for (name, value) in headers {
            writeln!(out, "  {name}: {}", value.expose()).unwrap();
        }
        // The client uses the refresh token and its own credentials for the next token.
        let before = written.world.issuer().requests.len();
        host.pass(Duration::from_secs(4000));
        assert_eq!(host.call(&mut written.world), Outcome::Answered(1), "{}", written.fixture);
        for form in &written.world.issuer().requests[before..] {
            writeln!(out, "  refreshes by: {form:?}").unwrap();
        }
    }
    check("token_record_meanings.txt", &out);
}

/// Another process waits until the lease of the record has expired, and refreshes the token then.
#[test]
fn authorization_client_waits_for_the_recorded_lease() {
    let mut written = lease();
    let text = committed(written.fixture, &written.world.store.text());
    written.world.store.clear();
    written.world.store.store(Some(Record::from_json(text.as_bytes()).unwrap()), None).unwrap();
    let mut other = Host::new(config(), 2);
    let start = other.now.instant;
    other.pass(Duration::from_secs(4000));
    assert_eq!(other.call(&mut written.world), Outcome::Answered(1));
    assert_eq!((written.world.issuer().renewals, other.pages()), (1, 0));
    let waited = other.now.instant.saturating_since(start).as_millis();
    check("token_record_lease_waits.txt", &format!("{waited} ms after the token was issued\n"));
}

/// Older versions omit members; newer ones may add some.
#[test]
fn token_record_reads_without_optional_members_and_with_unknown_ones() {
    let least = r#"{"version":1,"tokens":{"issuer":"https://auth.example.com","client_id":"known",
        "resource":"https://mcp.example.com/mcp","access":"a","kind":"Bearer","issued":1785240000},
        "clients":{"https://auth.example.com":{"id":"known","unheard-of":1}},"unheard-of":[]}"#;
    let written = Record::from_json(least.as_bytes()).unwrap();
    check("token_record_least.json", written.to_json().expose());
    let empty = Record::from_json(br#"{"version":1}"#).unwrap();
    assert!(empty.is_empty());
    assert_eq!(empty.to_json().expose(), r#"{"version":1}"#);
    assert!(Record::from_json(br#"{"version":2}"#).is_err());
}
