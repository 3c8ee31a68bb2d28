//! Requests of the authorization client to authorization servers, with their headers and bodies.

use core::fmt::Write as _;

use mcp_proto::auth::client::{AuthConfig, Event, RequestAuth};
use mcp_proto::transport::http::Verb;
use serde_json::json;

use crate::fixtures::{check, one_line};
use crate::sim::{Call, Host, Outcome, SERVER, World};
use crate::token_records::{config, with_dpop};

/// Makes a request to the server, and logs in if necessary.
fn call(host: &mut Host, world: &mut World, out: &mut String) {
    let mut call = Call::default();
    let mut told = host.events.len();
    loop {
        match host.advance(world, &mut call) {
            None => {}
            Some(Outcome::Waiting) => loop {
                host.drive(world);
                for event in &host.events[told..] {
                    if let Event::NeedsAuthorization(page) = event {
                        writeln!(out, "page {}", page.url).unwrap();
                    }
                }
                told = host.events.len();
                let Some(fetch) = host.held.pop_front() else { break };
                writeln!(out, "> {} {}", fetch.verb.as_str(), fetch.url).unwrap();
                for (name, value) in &fetch.headers {
                    writeln!(out, "> {name}: {}", value.expose()).unwrap();
                }
                if !fetch.body.is_empty() {
                    writeln!(out, "> {}", one_line(&fetch.body)).unwrap();
                }
                host.exchange(world, &fetch);
            },
            Some(outcome) => {
                assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
                break;
            }
        }
    }
    let admission = host.machine.credentials(host.now, Verb::Post, SERVER);
    let RequestAuth::Ready { headers, .. } = admission else { panic!("{admission:?}") };
    for (name, value) in headers {
        writeln!(out, "request {name}: {}", value.expose()).unwrap();
    }
}

/// A login, a refresh and a logout.
fn trace(mut world: World, config: AuthConfig) -> String {
    let mut out = String::new();
    let mut host = Host::new(config, 1);
    host.holds = true;
    call(&mut host, &mut world, &mut out);
    writeln!(out, "--- the token is refused").unwrap();
    world.end_tokens();
    call(&mut host, &mut world, &mut out);
    writeln!(out, "--- logout").unwrap();
    host.machine.logout(host.now);
    loop {
        host.drive(&mut world);
        let Some(fetch) = host.held.pop_front() else { break };
        writeln!(out, "> {} {} {}", fetch.verb.as_str(), fetch.url, one_line(&fetch.body)).unwrap();
        host.exchange(&mut world, &fetch);
    }
    out
}

#[test]
fn authorization_client_sends_the_recorded_requests() {
    let mut world = World::new();
    world.challenge = r#"Bearer scope="files:read""#.into();
    check("login_bearer.txt", &trace(world, config()));

    let mut world = World::new();
    world.metadata(json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
    world.challenge = "DPoP".into();
    world.issuer().registers = json!({ "client_secret": "secret-1" });
    check("login_dpop.txt", &trace(world, with_dpop()));

    check("login_legacy.txt", &trace(World::legacy(), config()));
}
