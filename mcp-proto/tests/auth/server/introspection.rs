//! Issuers that introspect tokens.

use core::task::{Context, Poll, Waker};
use core::time::Duration;

use mcp_proto::Bytes;
use mcp_proto::auth::server::{
    Access, AccessDecision, Checker, IntrospectionChecker, IntrospectionConfig, MissingAudience,
    PresentedToken, TokenValidation, VerifyError,
};
use mcp_proto::auth::{Fetch, Now, Secret};
use mcp_proto::front::guard::{CheckerVerifier, FetchResponse, Verifier as _};
use mcp_proto::peer::Principal;
use mcp_proto::quota::QuotaOwner;
use mcp_proto::transport::http::Verb;
use serde_json::{Value, json};

use super::{ISSUER, RESOURCE, admit, at, protection};

const ENDPOINT: &str = "https://login.example/introspect";

fn config() -> IntrospectionConfig {
    IntrospectionConfig::new(ISSUER, ENDPOINT, "mcp server", Secret::new("p:ss w%rd"))
}

fn checker() -> IntrospectionChecker {
    IntrospectionChecker::new(config()).unwrap()
}

fn active() -> Value {
    json!({
        "active": true, "sub": "ada", "client_id": "editor", "scope": "a b", "aud": RESOURCE, "iss": ISSUER,
        "exp": 1_785_243_600, "username": "Ada",
    })
}

/// Checks a token, and again once its issuer has answered.
fn ask(checker: &mut IntrospectionChecker, now: Now, token: &str, answer: &Value) -> TokenValidation {
    let token = Secret::new(token);
    let TokenValidation::Pending(id) = checker.check(now, &QuotaOwner::LOCAL, &token) else {
        panic!("no introspection is pending")
    };
    let fetch = checker.poll_fetch().unwrap().0;
    assert_eq!(fetch.id, id);
    checker.handle_answer(now, id, 200, answer.to_string().as_bytes());
    checker.check(now, &QuotaOwner::LOCAL, &token)
}

#[track_caller]
fn good(verdict: TokenValidation) -> Access {
    match verdict {
        TokenValidation::Valid(access) => *access,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(verdict: TokenValidation) -> VerifyError {
    match verdict {
        TokenValidation::Rejected(error) => error,
        other => panic!("{other:?}"),
    }
}

/// RFC 7662, section 2.1; RFC 6749, section 2.3.1
#[test]
fn checker_sends_the_token_in_a_form_with_client_credentials() {
    let mut checker = checker();
    assert!(matches!(
        checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("t+k/=")),
        TokenValidation::Pending(_)
    ));
    let Fetch { verb, url, headers, body, .. } = checker.poll_fetch().unwrap().0;
    assert_eq!((verb, url.as_str()), (Verb::Post, ENDPOINT));
    assert_eq!(body, "token=t%2Bk%2F%3D&token_type_hint=access_token");
    let header =
        |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.expose());
    assert_eq!(header("content-type"), Some("application/x-www-form-urlencoded"));
    // "mcp+server:p%3Ass+w%25rd"
    assert_eq!(header("authorization"), Some("Basic bWNwK3NlcnZlcjpwJTNBc3MrdyUyNXJk"));
}

/// S10.2
#[test]
fn active_token_has_the_permissions_of_the_response() {
    let access = good(ask(&mut checker(), at(0), "t", &active()));
    assert_eq!(access.principal.as_str(), "https://login.example#ada");
    assert_eq!(access.scopes.to_string(), "a b");
    assert_eq!(access.client_id.as_deref(), Some("editor"));
    assert_eq!(access.audiences, [RESOURCE]);
    assert_eq!(access.expires, Some(at(3600).unix));
    assert_eq!(access.claims.decode::<Value>().unwrap()["username"], "Ada");
}

/// RFC 8259, section 8.1
#[test]
fn checker_ignores_a_byte_order_mark_before_the_response() {
    let (mut checker, token) = (checker(), Secret::new("t"));
    checker.check(at(0), &QuotaOwner::LOCAL, &token);
    let id = checker.poll_fetch().unwrap().0.id;
    checker.handle_answer(at(0), id, 200, format!("\u{FEFF}{}", active()).as_bytes());
    let access = good(checker.check(at(0), &QuotaOwner::LOCAL, &token));
    assert_eq!(access.claims.decode::<Value>().unwrap()["username"], "Ada");
}

/// S10.2
#[test]
fn checker_refuses_an_inactive_or_foreign_token() {
    let mut other = active();
    other["iss"] = json!("https://evil.example");
    let mut early = active();
    early["nbf"] = json!(1_785_240_001);
    let mut nobody = active();
    nobody.as_object_mut().unwrap().retain(|name, _| name != "sub" && name != "client_id");
    let mut bound = active();
    bound["cnf"] = json!({"x5t#S256": "abc"});
    let mut before_time = active();
    before_time["exp"] = json!(-1);
    let mut beyond_time = active();
    beyond_time["nbf"] = json!(1e300);
    for answer in [json!({"active": false}), other, early, nobody, bound, before_time, beyond_time] {
        let error = refused(ask(&mut checker(), at(0), "t", &answer));
        assert!(matches!(error, VerifyError::Invalid(_)), "{answer}: {error}");
    }
}

/// S9.3: a client on its own behalf is not the user of the same name.
#[test]
fn checker_distinguishes_clients_from_users() {
    let mut machine = active();
    machine["client_id"] = json!("ada");
    machine.as_object_mut().unwrap().remove("sub");
    let access = good(ask(&mut checker(), at(0), "t", &machine));
    assert_eq!(access.principal.as_str(), "https://login.example?client_id=ada");
}

/// S10.2
#[test]
fn checker_accepts_a_token_without_audience_only_if_configured() {
    let mut answer = active();
    answer.as_object_mut().unwrap().remove("aud");
    assert_eq!(good(ask(&mut checker(), at(0), "t", &answer)).audiences, [""; 0]);
    let mut config = config();
    config.missing_audience = MissingAudience::ThisServer(RESOURCE.into());
    let mut checker = IntrospectionChecker::new(config).unwrap();
    assert_eq!(good(ask(&mut checker, at(0), "t", &answer)).audiences, [RESOURCE]);
    answer["aud"] = json!(["https://other.example"]);
    assert_eq!(good(ask(&mut checker, at(0), "u", &answer)).audiences, ["https://other.example"]);
}

#[test]
fn checker_caches_responses_briefly() {
    for seconds in [10, 60] {
        let mut config = config();
        config.cache_ttl = config.cache_ttl.max(Duration::from_secs(seconds));
        let mut checker = IntrospectionChecker::new(config).unwrap();
        good(ask(&mut checker, at(0), "t", &active()));
        good(checker.check(at(seconds - 1), &QuotaOwner::LOCAL, &Secret::new("t")));
        assert_eq!(checker.poll_fetch(), None);
        let verdict = checker.check(at(seconds), &QuotaOwner::LOCAL, &Secret::new("t"));
        assert!(matches!(verdict, TokenValidation::Pending(_)));
        assert!(checker.poll_fetch().is_some());
    }
}

#[test]
fn checker_introspects_a_token_once_for_all_requests() {
    let mut checker = checker();
    let TokenValidation::Pending(first) = checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("t")) else {
        panic!()
    };
    let TokenValidation::Pending(second) = checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("t")) else {
        panic!()
    };
    assert_eq!(first, second);
    assert!(checker.poll_fetch().is_some());
    assert_eq!(checker.poll_fetch(), None);
}

#[test]
fn checker_limits_pending_introspections() {
    let mut config = config();
    config.max_pending = 2;
    let mut checker = IntrospectionChecker::new(config).unwrap();
    for token in ["a", "b"] {
        assert!(matches!(
            checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new(token)),
            TokenValidation::Pending(_)
        ));
    }
    let error = refused(checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("c")));
    assert!(matches!(error, VerifyError::OverQuota(_)));
    let id = checker.poll_fetch().unwrap().0.id;
    checker.handle_failed(at(0), id, "gone");
    assert!(matches!(
        checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("c")),
        TokenValidation::Pending(_)
    ));
}

/// The exchange may never be made: its server was dropped, for example.
#[test]
fn checker_repeats_an_unanswered_introspection() {
    let mut config = config();
    config.max_pending = 1;
    let mut checker = IntrospectionChecker::new(config).unwrap();
    let TokenValidation::Pending(first) = checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("t")) else {
        panic!()
    };
    refused(checker.check(at(29), &QuotaOwner::LOCAL, &Secret::new("u")));
    let TokenValidation::Pending(second) = checker.check(at(30), &QuotaOwner::LOCAL, &Secret::new("u"))
    else {
        panic!()
    };
    assert_eq!(checker.poll_fetch().unwrap().0.id, second, "the first exchange is obsolete");
    checker.handle_answer(at(30), first, 200, active().to_string().as_bytes());
    refused(checker.check(at(30), &QuotaOwner::LOCAL, &Secret::new("t")));
    checker.handle_answer(at(30), second, 200, active().to_string().as_bytes());
    good(checker.check(at(30), &QuotaOwner::LOCAL, &Secret::new("u")));
}

/// An issuer that is down does not receive a query for each request.
#[test]
fn failed_introspection_is_unavailable_and_not_repeated_at_once() {
    for (status, body) in [(500, "{}"), (200, "<html>"), (200, "{}"), (401, r#"{"active":true}"#)] {
        let mut checker = checker();
        let TokenValidation::Pending(id) = checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("t")) else {
            panic!()
        };
        checker.handle_answer(at(0), id, status, body.as_bytes());
        let error = refused(checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("t")));
        assert!(matches!(error, VerifyError::Unavailable(_)), "{status} {body}");
        assert!(matches!(
            checker.check(at(1), &QuotaOwner::LOCAL, &Secret::new("t")),
            TokenValidation::Pending(_)
        ));
    }
}

#[test]
fn debug_output_hides_tokens_and_client_secrets() {
    let mut checker = checker();
    let _ = checker.check(at(0), &QuotaOwner::LOCAL, &Secret::new("s3cret"));
    let fetch = checker.poll_fetch().unwrap().0;
    let shown = format!("{checker:?} {fetch:?}");
    for secret in ["s3cret", "p:ss", "bWNwK3", "p%3Ass"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn configuration_refuses_an_insecure_introspection_endpoint() {
    for endpoint in ["http://login.example/introspect", "login", "ftp://login.example"] {
        let mut config = config();
        config.endpoint = endpoint.into();
        assert!(IntrospectionChecker::new(config).is_err(), "{endpoint}");
    }
}

/// A waiting request is woken when the issuer has answered, and a dropped one is forgotten.
#[test]
fn requests_wait_for_the_issuer_together() {
    let verifier = CheckerVerifier::from_checker(checker());
    let AccessDecision::Verify(presented) =
        admit(&protection(), "POST", "/mcp", &[("authorization", "Bearer t")])
    else {
        panic!()
    };
    let verify = |presented: &PresentedToken| verifier.verify(presented.clone());
    let (wakes, waker) = crate::common::polling::WakeCounter::new();
    let mut cx = Context::from_waker(&waker);
    assert!(verifier.poll_fetch(&mut cx).is_pending());
    let (mut first, mut second, third) = (verify(&presented), verify(&presented), verify(&presented));
    assert!(first.as_mut().poll(&mut cx).is_pending());
    assert_eq!(wakes.take(), 1, "there is something to fetch");
    assert!(second.as_mut().poll(&mut cx).is_pending());
    drop(third);
    let Poll::Ready((fetch, _)) = verifier.poll_fetch(&mut cx) else { panic!() };
    assert!(verifier.poll_fetch(&mut cx).is_pending());
    wakes.take();
    let body = Bytes::from(active().to_string());
    verifier.handle_fetched(at(1), fetch.id, Ok(FetchResponse { status: 200, body }));
    assert_eq!(wakes.take(), 2);
    for waiting in [&mut first, &mut second] {
        assert!(matches!(waiting.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
    }
}

#[test]
fn waiting_requests_are_limited() {
    let verifier = CheckerVerifier::from_checker(checker());
    let AccessDecision::Verify(presented) =
        admit(&protection(), "POST", "/mcp", &[("authorization", "Bearer t")])
    else {
        panic!()
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..615).map(|_| verifier.verify(presented.clone())).collect();
    for one in &mut waiting {
        assert!(one.as_mut().poll(&mut cx).is_pending());
    }
    // Polled again, it keeps its place.
    assert!(waiting[0].as_mut().poll(&mut cx).is_pending());
    let mut more = verifier.verify(presented.clone());
    assert!(matches!(more.as_mut().poll(&mut cx), Poll::Ready(Err(VerifyError::OverQuota(_)))));
    // There is room for others.
    let mut other = presented.clone();
    other.owner = QuotaOwner::from(Principal::new("other"));
    assert!(verifier.verify(other).as_mut().poll(&mut cx).is_pending());
    waiting.pop();
    let mut more = verifier.verify(presented);
    assert!(more.as_mut().poll(&mut cx).is_pending());
}

/// A sender with this address.
fn sender(address: &str) -> QuotaOwner {
    QuotaOwner::from_client(None, address.parse().ok())
}

#[test]
fn sender_of_random_tokens_does_not_block_others() {
    let mut checker = checker();
    let (eve, ada) = (sender("192.0.2.66"), sender("192.0.2.1"));
    let asked = (0..1000)
        .filter(|number| {
            let verdict = checker.check(at(0), &eve, &Secret::new(format!("random-{number}")));
            matches!(verdict, TokenValidation::Pending(_))
        })
        .count();
    assert_eq!(asked, 154, "three fifths of the pending introspections");
    assert!(matches!(checker.check(at(0), &ada, &Secret::new("t")), TokenValidation::Pending(_)));
}

#[test]
fn responses_about_random_tokens_do_not_evict_valid_ones() {
    let mut config = config();
    config.cache_entries = 4;
    let mut checker = IntrospectionChecker::new(config).unwrap();
    good(ask(&mut checker, at(0), "t", &active()));
    for number in 0..100 {
        refused(ask(&mut checker, at(1), &format!("random-{number}"), &json!({"active": false})));
    }
    good(checker.check(at(2), &QuotaOwner::LOCAL, &Secret::new("t")));
}

/// Many clients may share one address, behind a proxy for example.
#[test]
fn recently_valid_token_counts_towards_its_own_principal() {
    let mut checker = checker();
    good(ask(&mut checker, at(0), "t", &active()));
    let flood = (0..1000).map(|number| Secret::new(format!("random-{number}")));
    flood.for_each(|token| drop(checker.check(at(60), &QuotaOwner::LOCAL, &token)));
    let unknown = refused(checker.check(at(60), &QuotaOwner::LOCAL, &Secret::new("u")));
    assert!(matches!(unknown, VerifyError::OverQuota(_)));
    let TokenValidation::Pending(id) = checker.check(at(60), &QuotaOwner::LOCAL, &Secret::new("t")) else {
        panic!()
    };
    // Once it is revoked, it is like any other.
    checker.handle_answer(at(60), id, 200, br#"{"active":false}"#);
    refused(checker.check(at(61), &QuotaOwner::LOCAL, &Secret::new("t")));
    let withdrawn = refused(checker.check(at(80), &QuotaOwner::LOCAL, &Secret::new("t")));
    assert!(matches!(withdrawn, VerifyError::OverQuota(_)));
}
