//! Logins that one process begins and another finishes. Row F109.

use core::time::Duration;

use mcp_proto::auth::client::{
    AuthClient, AuthConfig, AuthError, AuthorizationPage, DpopKey, Event, FinishError, LoginMode,
    PendingLogin, Redirect,
};
use mcp_proto::auth::{Scopes, SealKey, Sealer};
use serde_json::json;

use super::config;
use super::sim::{Host, ISSUER, Issuer, Outcome, SERVER, UserAction, World};

const SESSION: &[u8] = b"the user's web session";

/// The keys that all instances share.
fn keys() -> Sealer {
    Sealer::new(SealKey::new([7; 32]), [])
}

/// A login that a process began and stored before it ended.
struct Stored {
    page: AuthorizationPage,
    sealed: String,
}

impl Stored {
    fn begin(world: &mut World, config: AuthConfig, seed: u8) -> Self {
        Self::begin_with_scopes(world, config, seed, None)
    }

    fn begin_with_scopes(
        world: &mut World,
        mut config: AuthConfig,
        seed: u8,
        scopes: Option<Scopes>,
    ) -> Self {
        // No request may wait for a page that only the next request of the browser can finish.
        config.login_mode = LoginMode::NonInteractive;
        let mut host = Host::new(config, seed);
        host.machine.begin_login(host.now, scopes);
        host.drive(world);
        let [Event::LoginBegun(page, login), Event::Failed(AuthError::LoginRequired { .. })] =
            &host.events[..]
        else {
            panic!("{:?}", host.events)
        };
        assert!(!host.machine.is_busy() && host.machine.poll_timeout().is_none());
        host.keeps_secrets(world);
        Self { page: page.clone(), sealed: login.seal(&keys(), SESSION) }
    }

    /// The user agrees: returns where the page leads.
    fn agree(&self, world: &mut World) -> Redirect {
        Redirect::parse(&world.issuer().agree(&self.page.url))
    }

    fn open(&self, host: &Host) -> Result<PendingLogin, FinishError> {
        PendingLogin::open(&keys(), host.now.unix, SESSION, &self.sealed)
    }

    /// A process that has just started finishes the login.
    fn finish(&self, world: &mut World, config: AuthConfig, seed: u8, redirect: &Redirect) -> Host {
        let mut host = Host::new(config, seed);
        self.finish_in(world, &mut host, redirect).unwrap();
        host
    }

    fn finish_in(&self, world: &mut World, host: &mut Host, redirect: &Redirect) -> Result<(), FinishError> {
        let login = self.open(host)?;
        host.machine.finish_login(host.now, &login, redirect.clone())?;
        host.drive(world);
        Ok(())
    }
}

/// The error with which the last operation ended.
fn failure(host: &Host) -> &AuthError {
    match host.events.last() {
        Some(Event::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// F109: the process that began is gone; another one finishes with the same keys, once.
#[test]
fn another_process_finishes_a_stored_login_once() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    assert!(stored.sealed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
    assert!(stored.sealed.len() < 2048, "{}", stored.sealed.len());
    let redirect = stored.agree(&mut world);
    let mut second = stored.finish(&mut world, config(), 2, &redirect);
    assert!(matches!(second.events[..], [Event::Ready(_)]), "{:?}", second.events);
    assert_eq!((second.call(&mut world), second.pages()), (Outcome::Answered(1), 0));
    let third = stored.finish(&mut world, config(), 3, &redirect);
    assert_eq!(*failure(&third), AuthError::LoginUsed);
    assert_eq!(world.count("/token"), 1, "a used login reaches no authorization server");
    let with_new_code = stored.agree(&mut world);
    assert_eq!(*failure(&stored.finish(&mut world, config(), 4, &with_new_code)), AuthError::LoginUsed);
    second.keeps_secrets(&world);
    third.keeps_secrets(&world);
}

/// F109: two callbacks at the same time, in any order of steps.
#[test]
fn one_of_two_processes_finishes_a_stored_login() {
    for first_steps in 0..12 {
        let mut world = World::new();
        let stored = Stored::begin(&mut world, config(), 1);
        let redirect = stored.agree(&mut world);
        let mut hosts = [Host::new(config(), 2), Host::new(config(), 3)];
        for host in &mut hosts {
            let login = stored.open(host).unwrap();
            host.machine.finish_login(host.now, &login, redirect.clone()).unwrap();
        }
        for _ in 0..first_steps {
            hosts[0].step(&mut world);
        }
        hosts[1].drive(&mut world);
        hosts[0].drive(&mut world);
        let ends: Vec<_> =
            hosts.iter().map(|host| matches!(host.events.last(), Some(Event::Ready(_)))).collect();
        assert_eq!(ends.iter().filter(|ready| **ready).count(), 1, "after {first_steps} steps");
        let loser = hosts.iter().zip(&ends).find(|(_, ready)| !**ready).unwrap().0;
        assert_eq!((failure(loser), world.count("/token")), (&AuthError::LoginUsed, 1));
    }
}

/// F109: a foreign session, other keys, a changed text, another server and another resource.
#[test]
fn stored_login_opens_only_for_its_session_and_server() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let now = Host::new(config(), 2).now;
    let open = |keys: &Sealer, session: &[u8], text: &str| PendingLogin::open(keys, now.unix, session, text);
    let other_keys = Sealer::new(SealKey::new([8; 32]), []);
    assert!(open(&keys(), SESSION, &stored.sealed).is_ok());
    assert!(
        open(&Sealer::new(SealKey::new([8; 32]), [SealKey::new([7; 32])]), SESSION, &stored.sealed).is_ok()
    );
    for (keys, session, text) in [
        (&keys(), &b"another session"[..], &*stored.sealed),
        (&keys(), b"", &stored.sealed),
        (&other_keys, SESSION, &stored.sealed),
        (&keys(), SESSION, &stored.sealed[..stored.sealed.len() - 1]),
        (&keys(), SESSION, ""),
        // A request state that a server sealed with the same key.
        (&keys(), SESSION, &keys().seal([1; 12], SESSION, now.unix + Duration::from_secs(60), b"{}")),
    ] {
        assert_eq!(open(keys, session, text).unwrap_err(), FinishError::OtherLogin, "{text}");
    }
    assert!(keys().open(now.unix, SESSION, &stored.sealed).is_err(), "nor is it a request state");
    let login = open(&keys(), SESSION, &stored.sealed).unwrap();
    assert_eq!(format!("{login:?}"), "PendingLogin(..)");
    let redirect = stored.agree(&mut world);
    let mut other_resource = config();
    other_resource.resource = Some("https://mcp.example.com".into());
    for mut client in [
        AuthClient::new(config(), "https://mcp.example.com/other", [1; 32]).unwrap(),
        AuthClient::new(other_resource, SERVER, [1; 32]).unwrap(),
    ] {
        assert_eq!(client.finish_login(now, &login, redirect.clone()), Err(FinishError::OtherLogin));
        assert!(client.poll_action().is_none());
    }
}

/// F109
#[test]
fn stored_login_expires_after_ten_minutes() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    let mut host = Host::new(config(), 2);
    let login = stored.open(&host).unwrap();
    assert_eq!(login.expires(), host.now.unix + stored.page.lifetime);
    host.pass(stored.page.lifetime);
    assert_eq!(stored.open(&host).unwrap_err(), FinishError::Expired);
    assert_eq!(host.machine.finish_login(host.now, &login, redirect), Err(FinishError::Expired));
    assert!(host.machine.poll_action().is_none());
}

/// F109, C12.8, C12.9: a refused redirect neither reaches an authorization server nor uses the login up.
#[test]
fn stored_login_is_finished_only_by_the_redirect_of_its_issuer() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let good = stored.agree(&mut world);
    let mixed_up = |iss: Option<&str>| {
        let mut redirect = good.clone();
        redirect.iss = iss.map(String::from);
        redirect
    };
    let mismatch = FinishError::Failed(AuthError::RedirectIssuerMismatch);
    let mut other_state = good.clone();
    other_state.state = None;
    let denied = Redirect::parse(&format!("?error=access_denied&iss={ISSUER}"));
    let mut of_page = denied.clone();
    of_page.state.clone_from(&good.state);
    let refusal = AuthError::Denied { error: "access_denied".into(), description: None };
    let mut host = Host::new(config(), 2);
    for (redirect, error) in [
        (mixed_up(Some("https://evil.example")), mismatch.clone()),
        (mixed_up(None), mismatch),
        (other_state, FinishError::StateMismatch),
        (denied, FinishError::StateMismatch),
        (of_page, FinishError::Failed(refusal)),
    ] {
        assert_eq!(stored.finish_in(&mut world, &mut host, &redirect), Err(error));
    }
    assert_eq!((host.verdicts(), world.count("/token")), (0, 0));
    stored.finish_in(&mut world, &mut host, &good).unwrap();
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
}

/// F109: the code goes to no other issuer than the one of the page.
#[test]
fn stored_login_fails_if_its_issuer_has_changed() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    world.metadata(
        json!({ "issuer": "https://evil.example", "token_endpoint": "https://evil.example/token" }),
    );
    let host = stored.finish(&mut world, config(), 2, &redirect);
    assert_eq!(*failure(&host), AuthError::IssuerMismatch { expected: ISSUER.into() });
    // The configuration has another issuer now.
    let elsewhere =
        config().client_secret("https://other.example", "me", mcp_proto::auth::Secret::new("hush"));
    let host = stored.finish(&mut world, elsewhere, 3, &redirect);
    assert_eq!(*failure(&host), AuthError::RegisteredElsewhere { issuer: ISSUER.into() });
    assert_eq!(world.count("/token"), 0);
    // Neither has used the login up.
    world.metadata(json!({ "issuer": ISSUER, "token_endpoint": format!("{ISSUER}/token") }));
    let mut host = stored.finish(&mut world, config(), 4, &redirect);
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
}

/// F109: a process that has discovered another issuer sends it no code.
#[test]
fn stored_login_is_finished_at_its_own_issuer() {
    const OTHER: &str = "https://other.example";
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    world.add(Issuer::new(OTHER));
    let move_to = |world: &mut World, issuer: &str| {
        world.trusts = issuer.into();
        world.describe(json!({}));
    };
    move_to(&mut world, OTHER);
    let mut host = Host::new(config(), 2);
    assert_eq!(host.call(&mut world), Outcome::Answered(2));
    move_to(&mut world, ISSUER);
    stored.finish_in(&mut world, &mut host, &redirect).unwrap();
    assert!(matches!(host.events.last(), Some(Event::Ready(_))), "{:?}", host.events);
    let tokens = [OTHER, ISSUER].map(|issuer| world.count(&format!("POST {issuer}/token")));
    assert_eq!(tokens, [1, 1]);
}

/// F109: without the mark in the store another process could finish the login too.
#[test]
fn stored_login_needs_a_store_that_can_be_written() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    world.store.read_only = true;
    let host = stored.finish(&mut world, config(), 2, &redirect);
    assert_eq!(*failure(&host), AuthError::Store("the disk is full".into()));
    assert_eq!(world.count("/token"), 0);
}

/// F109: a logout removes the tokens, and not the mark of the used login before its time.
#[test]
fn used_login_stays_used_after_a_logout() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    let mut host = stored.finish(&mut world, config(), 2, &redirect);
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert_eq!((host.events.last(), host.machine.status()), (Some(&Event::LoggedOut), None));
    assert!(!world.store.stored().unwrap().record.has_tokens());
    assert_eq!(*failure(&stored.finish(&mut world, config(), 3, &redirect)), AuthError::LoginUsed);
    host.pass(Duration::from_secs(661));
    host.machine.logout(host.now);
    host.settle(&mut world);
    assert_eq!(world.store.text(), "");
}

/// F109: a login is not finished so late that the mark of another process may be gone.
#[test]
fn login_is_not_finished_once_its_mark_would_be_forgotten() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    let mut host = Host::new(config(), 2);
    host.pass(Duration::from_secs(599));
    let login = stored.open(&host).unwrap();
    host.machine.finish_login(host.now, &login, redirect).unwrap();
    host.pass(Duration::from_secs(62));
    host.drive(&mut world);
    assert_eq!(*failure(&host), AuthError::LoginRefused);
}

/// F109: the table of used logins is bounded, and forgets none before its time.
#[test]
fn store_refuses_more_logins_than_it_can_remember() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    let full: serde_json::Map<_, _> =
        (0..256).map(|number| (format!("{number:024x}"), json!(1_785_240_300))).collect();
    world.store.edit(|record| record["usedLogins"] = full.into());
    let mut host = stored.finish(&mut world, config(), 2, &redirect);
    assert_eq!(*failure(&host), AuthError::LoginRefused);
    host.pass(Duration::from_secs(300));
    stored.finish_in(&mut world, &mut host, &redirect).unwrap();
    assert!(matches!(host.events.last(), Some(Event::Ready(_))));
    assert_eq!(world.store.text().matches("1785240").count(), 2, "the token's time and the new mark");
}

/// F109: the token is bound to the key that the page named, and the next process can use it.
#[test]
fn stored_login_keeps_the_key_of_its_token() {
    let mut world = World::new();
    world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
    world.challenge = "DPoP".into();
    let mut config = config();
    config.dpop = Some(DpopKey::Generated);
    let stored = Stored::begin(&mut world, config.clone(), 1);
    let redirect = stored.agree(&mut world);
    assert!(stored.sealed.len() < 4096, "{}", stored.sealed.len());
    let second = stored.finish(&mut world, config.clone(), 2, &redirect);
    for mut host in [second, Host::new(config.clone(), 3)] {
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
        host.keeps_secrets(&world);
    }
    // The application's own key.
    let mut world = World::new();
    world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
    config.dpop = Some(DpopKey::Provided(std::sync::Arc::new(super::sim::FakeKey)));
    let stored = Stored::begin(&mut world, config.clone(), 1);
    let redirect = stored.agree(&mut world);
    assert_eq!(stored.finish(&mut world, config, 2, &redirect).call(&mut world), Outcome::Answered(1));
}

/// F109: two instances registered at the same time, and the store keeps one of the registrations.
#[test]
fn stored_logins_of_two_registrations_can_both_be_finished() {
    let mut world = World::new();
    world.issuer().registers = json!({ "client_secret": "secret-1" });
    let first = Stored::begin(&mut world, config(), 1);
    world.store.clear();
    let second = Stored::begin(&mut world, config(), 2);
    assert_eq!(world.issuer().registrations.len(), 2);
    for (stored, seed) in [(second, 3), (first, 4)] {
        let redirect = stored.agree(&mut world);
        let host = stored.finish(&mut world, config(), seed, &redirect);
        assert!(matches!(host.events.last(), Some(Event::Ready(_))), "{:?}", host.events);
    }
}

/// F109: preregistered clients, and servers of 2025-03-26.
#[test]
fn stored_login_works_with_configured_clients_and_legacy_servers() {
    let mut world = World::new();
    world.issuer().clients.insert("known".into(), Some("hush".into()));
    let configured = config().client_secret(ISSUER, "known", mcp_proto::auth::Secret::new("hush"));
    for (mut world, config) in [(world, configured), (World::legacy(), config())] {
        let stored = Stored::begin(&mut world, config.clone(), 1);
        let redirect = stored.agree(&mut world);
        let mut host = stored.finish(&mut world, config, 2, &redirect);
        assert_eq!(host.call(&mut world), Outcome::Answered(1));
    }
}

#[test]
fn stored_login_requests_the_scopes_that_the_application_names() {
    let mut world = World::new();
    let mut config = config();
    config.scopes = Some(Scopes::parse("files:read"));
    let scopes = Some(Scopes::parse("files:write"));
    let stored = Stored::begin_with_scopes(&mut world, config.clone(), 1, scopes);
    assert_eq!(stored.page.scopes.as_ref().unwrap().to_string(), "files:read files:write");
    let redirect = stored.agree(&mut world);
    let host = stored.finish(&mut world, config, 2, &redirect);
    assert_eq!(host.machine.status().unwrap().scopes, stored.page.scopes);
}

/// A page that this process has open is closed; requests that wait for it are sent with the token.
#[test]
fn stored_login_replaces_an_open_page_and_waits_for_other_operations() {
    let mut world = World::new();
    let stored = Stored::begin(&mut world, config(), 1);
    let redirect = stored.agree(&mut world);
    let mut host = Host::new(config(), 2);
    host.user = UserAction::Ignore;
    host.machine.login(host.now);
    let login = stored.open(&host).unwrap();
    assert_eq!(host.machine.finish_login(host.now, &login, redirect.clone()), Err(FinishError::Busy));
    host.drive(&mut world);
    assert_eq!(host.pages(), 1);
    stored.finish_in(&mut world, &mut host, &redirect).unwrap();
    assert!(matches!(host.events[1..], [Event::PageObsolete, Event::Ready(_)]), "{:?}", host.events);
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
}

/// A login that is begun while another operation runs begins after it.
#[test]
fn login_is_begun_after_the_operation_in_progress() {
    let mut world = World::new();
    let mut host = Host::new(config(), 1);
    host.machine.login(host.now);
    host.machine.begin_login(host.now, None);
    host.settle(&mut world);
    let is_begun = |event: &Event| matches!(event, Event::LoginBegun(..));
    assert_eq!((host.pages(), host.events.iter().filter(|event| is_begun(event)).count()), (1, 1));
    // The token of the login before is still there.
    assert_eq!(host.call(&mut world), Outcome::Answered(1));
}
