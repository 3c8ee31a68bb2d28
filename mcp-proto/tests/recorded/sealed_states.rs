//! Sealed request states with fixed keys, fixed random bytes and a fixed time.

use core::fmt::Write as _;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::UnixTime;
use mcp_proto::front::{Claim, ClaimFuture, ClaimOutcome, Context, HandlerError, Router, SingleUse, UseId};
use mcp_proto::peer::Principal;
use mcp_proto::peer::server::{SealKey, Sealer};
use mcp_proto::schema::{ElicitParams, ElicitSchema, ElicitValue, StringSchema, Tool};
use serde_json::{Value, json};

use crate::common::front_http::HttpHarness;
use crate::fixtures::{check, committed, sorted};

const NOW: UnixTime = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));

fn key(byte: u8) -> SealKey {
    SealKey::new([byte; 32])
}

/// The value of this name in one line of a fixture.
fn named<'a>(fixture: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(": ");
    fixture.lines().find_map(value).unwrap_or_else(|| panic!("no {name} in the fixture"))
}

/// One sealing: the key, the random bytes, the binding, the lifetime and the payload.
type Case = (&'static str, u8, [u8; 12], &'static [u8], Duration, &'static [u8]);

const CASES: [Case; 4] = [
    ("plain", 1, [7; 12], b"alice, tools/call transfer 5", Duration::from_secs(600), b"asked twice"),
    ("empty", 1, [0; 12], b"", Duration::from_millis(1), b""),
    ("other key", 2, [255; 12], b"bound", Duration::from_secs(86_400), b"\0\x01\xFE\xFF"),
    (
        "millis",
        3,
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        b"x",
        Duration::from_millis(1_234_567),
        b"{\"a\":{}}",
    ),
];

fn seal(case: &Case) -> String {
    let (_, by, nonce, bound_to, valid, payload) = *case;
    Sealer::new(key(by), []).seal(nonce, bound_to, NOW + valid, payload)
}

fn seal_all() -> String {
    CASES.iter().map(|case| format!("{}: {}\n", case.0, seal(case))).collect()
}

#[test]
fn sealer_writes_the_recorded_states() {
    check("sealed_states.txt", &seal_all());
}

#[test]
fn sealer_opens_the_recorded_states() {
    let fixture = committed("sealed_states.txt", &seal_all());
    for (name, by, nonce, bound_to, valid, payload) in CASES {
        let state = named(&fixture, name);
        for sealer in [Sealer::new(key(by), []), Sealer::new(key(9), [key(8), key(by)])] {
            let opened = sealer.open(NOW, bound_to, state).expect(name);
            assert_eq!((opened.payload.as_slice(), opened.nonce), (payload, nonce), "{name}");
            assert_eq!(opened.expires, NOW + valid, "{name}");
            assert!(sealer.open(NOW + valid, bound_to, state).is_err());
            assert!(sealer.open(NOW, b"something else", state).is_err());
        }
    }
}

// --- States of a router ---

fn form(field: &str) -> ElicitParams {
    ElicitParams::form(format!("Your {field}?"), ElicitSchema::new([(field, StringSchema::new().into())]))
}

async fn question(cx: &Context, field: &str) -> Result<String, HandlerError> {
    let answer = cx.elicit(field, form(field)).await?;
    Ok(match answer.content.as_ref().and_then(|content| content.get(field)) {
        Some(ElicitValue::String(text)) => text.clone(),
        _ => answer.action.as_str().to_owned(),
    })
}

/// A store of used states.
#[derive(Default)]
struct Uses(Mutex<String>);

impl SingleUse for Uses {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        let UseId::State(state) = claim.id else { panic!("{claim:?}") };
        let millis = |time: UnixTime| time.since_epoch().as_millis();
        let line = format!("{state:?} used at {}, expires at {}\n", millis(claim.now), millis(claim.expires));
        self.0.lock().unwrap().push_str(&line);
        Box::pin(core::future::ready(Ok(ClaimOutcome::First)))
    }
}

/// A server whose tool sends three input requests, and runs something once.
fn web(uses: &Arc<Uses>, principal: Option<&str>) -> HttpHarness {
    let router = Router::new("asker", "1").seal(Sealer::new(key(1), [])).single_use(uses.clone()).tool_with(
        Tool::new("steps", "A tool", json!({"type": "object"})),
        async |_: Value, cx: Context| {
            let first = question(&cx, "first").await?;
            let done = cx.run_once("done", async { vec!["paid".to_owned(), first.clone()] }).await;
            let second = question(&cx, "second").await?;
            let third = question(&cx, "third").await?;
            Ok::<_, HandlerError>(format!("{first} {second} {third} {done:?}"))
        },
    );
    let mut web = HttpHarness::new(router);
    web.principal = principal.map(Principal::new);
    web
}

fn attempt(web: &mut HttpHarness, state: Option<&str>, answers: Value) -> Value {
    let mut params = json!({"name": "steps", "arguments": {"b": [true, null, "\u{e9}\n"], "a": {"n": 1.5}}});
    if let Some(state) = state {
        params["requestState"] = state.into();
        params["inputResponses"] = answers;
    }
    web.ask_with("tools/call", params, json!({"elicitation": {"form": {}}})).json()["result"].take()
}

fn answer(field: &str) -> Value {
    json!({(field): {"action": "accept", "content": {(field): format!("the {field}")}}})
}

/// The binding of the router: each part with its length before it, then the parameters in canonical form.
fn bound_to(principal: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let owner = if principal.is_some() { "of" } else { "of nobody" };
    for part in ["asker", owner, principal.unwrap_or_default(), "tools/call"] {
        out.extend_from_slice(&u64::try_from(part.len()).unwrap().to_be_bytes());
        out.extend_from_slice(part.as_bytes());
    }
    let params = r#"{"arguments":{"a":{"n":1.5,},"b":[true,null,"é\n",],},"name":"steps",}"#;
    out.extend_from_slice(params.as_bytes());
    out
}

const ROUNDS: [&str; 3] = ["first", "second", "third"];

/// A call from its first attempt to its result: each state, and its payload.
fn rounds(principal: Option<&str>) -> String {
    let uses = Arc::new(Uses::default());
    let mut web = web(&uses, principal);
    let mut out = String::new();
    let mut result = attempt(&mut web, None, Value::Null);
    for field in ROUNDS {
        let state = result["requestState"].as_str().expect("a state").to_owned();
        let opened = Sealer::new(key(1), [])
            .open(NOW, &bound_to(principal), &state)
            .expect("the binding is unchanged");
        writeln!(out, "{field}: {state}").unwrap();
        let payload = String::from_utf8(opened.payload).unwrap();
        writeln!(out, "{field} says: {payload}").unwrap();
        writeln!(out, "{field} expires: {}", opened.expires.since_epoch().as_millis()).unwrap();
        result = attempt(&mut web, Some(&state), answer(field));
    }
    writeln!(out, "result: {}", sorted(&result)).unwrap();
    out.push_str(&uses.0.lock().unwrap());
    out
}

const PRINCIPALS: [(&str, Option<&str>); 2] =
    [("request_states.txt", None), ("request_states_of_alice.txt", Some("alice"))];

#[test]
fn router_seals_the_recorded_states() {
    for (fixture, principal) in PRINCIPALS {
        check(fixture, &rounds(principal));
    }
}

/// A newer instance than the one that sealed the state continues the call at each of its rounds.
#[test]
fn router_continues_from_the_recorded_states() {
    for (fixture, principal) in PRINCIPALS {
        let fixture = committed(fixture, &rounds(principal));
        for at in 0..ROUNDS.len() {
            let mut web = web(&Arc::default(), principal);
            let mut result = attempt(&mut web, Some(named(&fixture, ROUNDS[at])), answer(ROUNDS[at]));
            for field in &ROUNDS[at + 1..] {
                let state = result["requestState"].as_str().expect("a state").to_owned();
                result = attempt(&mut web, Some(&state), answer(field));
            }
            assert_eq!(sorted(&result).to_string(), named(&fixture, "result"), "from {}", ROUNDS[at]);
        }
    }
}
