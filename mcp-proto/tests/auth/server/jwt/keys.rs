//! The keys of issuers, and their retrieval.

use super::*;

#[test]
fn checker_finds_keys_by_the_metadata_of_the_issuer() {
    let mut checker = JwtChecker::new(JwtConfig::new("https://login.example/tenant"));
    let mut claims = claims();
    claims["iss"] = json!("https://login.example/tenant");
    let token = signed(1, &header(), &claims);
    assert!(matches!(checker.check_and_verify(at(0), &token), TokenValidation::Pending(_)));
    let first = fetch(&mut checker, "https://login.example/.well-known/oauth-authorization-server/tenant");
    checker.handle_answer(at(0), first.id, 404, b"");
    let second = fetch(&mut checker, "https://login.example/.well-known/openid-configuration/tenant");
    checker.handle_failed(at(0), second.id, "reset");
    let third = fetch(&mut checker, "https://login.example/tenant/.well-known/openid-configuration");
    let metadata = json!({"issuer": "https://login.example/tenant", "jwks_uri": "https://keys.example/set", "claims": 7});
    checker.handle_answer(at(0), third.id, 200, metadata.to_string().as_bytes());
    assert!(
        matches!(checker.check_and_verify(at(0), &token), TokenValidation::Pending(_)),
        "the keys are not fetched yet"
    );
    let keys_at = fetch(&mut checker, "https://keys.example/set");
    checker.handle_answer(at(0), keys_at.id, 200, keys(&[jwk(1, "one")]).as_bytes());
    good(checker.check_and_verify(at(0), &token));
    assert_eq!(checker.poll_fetch(), None);
}

/// A false server of the issuer's metadata could name its own keys.
#[test]
fn checker_ignores_metadata_of_another_issuer_and_unreachable_keys() {
    let metadata = |issuer: &str, keys: &str| {
        json!({"issuer": issuer, "token_endpoint": "https://login.example/token", "jwks_uri": keys})
            .to_string()
    };
    for document in [
        metadata("https://evil.example", "https://login.example/keys"),
        metadata("https://login.example/", "https://login.example/keys"),
        metadata(ISSUER, "http://login.example/keys"),
        metadata(ISSUER, "http://127.0.0.1/keys"),
        metadata(ISSUER, "https://localhost/keys"),
        metadata(ISSUER, "file:///etc/passwd"),
        json!({"issuer": ISSUER, "token_endpoint": "https://login.example/token"}).to_string(),
    ] {
        let mut checker = JwtChecker::new(JwtConfig::new(ISSUER));
        let token = signed(1, &header(), &claims());
        assert!(matches!(checker.check_and_verify(at(0), &token), TokenValidation::Pending(_)));
        while let Some((fetch, _)) = checker.poll_fetch() {
            assert!(fetch.url.contains("/.well-known/"), "{}", fetch.url);
            checker.handle_answer(at(0), fetch.id, 200, document.as_bytes());
        }
        unavailable(checker.check_and_verify(at(0), &token));
    }
}

#[test]
fn checker_fetches_keys_once_for_all_waiting_requests() {
    let mut checker = fetching();
    let token = signed(1, &header(), &claims());
    let TokenValidation::Pending(first) = checker.check_and_verify(at(0), &token) else { panic!() };
    let TokenValidation::Pending(second) = checker.check_and_verify(at(1), &token) else { panic!() };
    assert_eq!(first, second);
    assert!(checker.poll_fetch().is_some());
    assert_eq!(checker.poll_fetch(), None);
}

/// The issuer signs with a new key.
#[test]
fn checker_fetches_a_new_key_when_a_token_names_it() {
    let mut checker = fetching();
    good(check(&mut checker, at(0), &signed(1, &header(), &claims()), &keys(&[jwk(1, "one")])));
    let new = signed(2, &json!({"alg": "ES256", "kid": "two"}), &claims());
    let set = keys(&[jwk(1, "one"), jwk(2, "two")]);
    good(check(&mut checker, at(60), &new, &set));
    good(checker.check_and_verify(at(60), &signed(1, &header(), &claims())));
}

/// Tokens with invented key ids must not flood the issuer with requests.
#[test]
fn unknown_keys_trigger_fetches_only_at_the_configured_rate() {
    let mut checker = fetching();
    let set = keys(&[jwk(1, "one")]);
    good(check(&mut checker, at(0), &signed(1, &header(), &claims()), &set));
    let mut fetches = 0;
    for second in 1..=120 {
        let header = json!({"alg": "ES256", "kid": format!("{second}")});
        let unsigned =
            format!("{}.{}.AA", BASE64.encode(header.to_string()), BASE64.encode(claims().to_string()));
        let token = Secret::new(unsigned);
        if let TokenValidation::Pending(id) = checker.check_and_verify(at(second), &token) {
            fetches += 1;
            assert!(checker.poll_fetch().is_some());
            checker.handle_answer(at(second), id, 200, set.as_bytes());
        }
        let why = invalid(checker.check_and_verify(at(second), &token));
        assert_eq!(why, "the token is signed by a key that its issuer does not have");
    }
    assert_eq!(fetches, 4, "one in 30 s");
}

/// A token that is refused anyway triggers no fetch.
#[test]
fn tokens_refused_for_their_claims_trigger_no_fetch() {
    let mut expired = claims();
    expired["exp"] = json!(NOW - 60);
    let mut foreign = claims();
    foreign["iss"] = json!("https://evil.example");
    let mut checker = fetching();
    for claims in [expired, foreign] {
        invalid(checker.check_and_verify(at(0), &signed(1, &header(), &claims)));
    }
    assert_eq!(checker.poll_fetch(), None);
}

#[test]
fn withdrawn_key_is_valid_until_keys_are_fetched_again() {
    let mut checker = fetching();
    let mut lasting = claims();
    lasting["exp"] = json!(NOW + 100_000);
    let token = signed(1, &header(), &lasting);
    good(check(&mut checker, at(0), &token, &keys(&[jwk(1, "one")])));
    good(checker.check_and_verify(at(599), &token));
    assert_eq!(checker.poll_fetch(), None);
    // Requests do not wait for new keys while the old ones are valid.
    good(checker.check_and_verify(at(600), &token));
    let fetch = checker.poll_fetch().unwrap().0;
    checker.handle_answer(at(600), fetch.id, 200, keys(&[jwk(2, "two")]).as_bytes());
    invalid(checker.check_and_verify(at(601), &token));
}

#[test]
fn keys_that_cannot_be_refreshed_are_valid_for_an_hour() {
    let mut checker = fetching();
    let mut lasting = claims();
    lasting["exp"] = json!(NOW + 100_000);
    let token = signed(1, &header(), &lasting);
    good(check(&mut checker, at(0), &token, &keys(&[jwk(1, "one")])));
    for (second, status, body) in
        [(600, 500, ""), (1200, 200, "{}"), (1800, 200, r#"{"keys":[]}"#), (3599, 404, "")]
    {
        good(checker.check_and_verify(at(second), &token));
        let fetch = checker.poll_fetch().unwrap().0;
        checker.handle_answer(at(second), fetch.id, status, body.as_bytes());
        good(checker.check_and_verify(at(second), &token));
    }
    unavailable(checker.check_and_verify(at(3600), &token));
    assert!(matches!(checker.check_and_verify(at(3629), &token), TokenValidation::Pending(_)));
}

#[test]
fn checker_without_keys_is_unavailable_and_retries_after_a_pause() {
    let mut checker = fetching();
    let token = signed(1, &header(), &claims());
    let TokenValidation::Pending(id) = checker.check_and_verify(at(0), &token) else { panic!() };
    assert_eq!(checker.poll_fetch().unwrap().0.id, id);
    checker.handle_failed(at(0), id, "connection refused");
    assert_eq!(unavailable(checker.check_and_verify(at(29), &token)), "connection refused");
    good(check(&mut checker, at(30), &token, &keys(&[jwk(1, "one")])));
}

#[test]
fn checker_stores_a_limited_number_of_keys() {
    let mut config = JwtConfig::from_issuers([TrustedIssuer::new(
        ISSUER,
        KeySource::Fixed(keys(&[jwk(2, "two"), jwk(1, "one")])),
    )]);
    config.max_keys = 1;
    let mut checker = JwtChecker::new(config);
    good(checker.check_and_verify(at(0), &signed(2, &json!({"alg": "ES256", "kid": "two"}), &claims())));
    invalid(checker.check_and_verify(at(0), &signed(1, &header(), &claims())));
}

/// One issuer cannot speak for another.
#[test]
fn each_issuer_has_its_own_keys() {
    const OTHER: &str = "https://other.example";
    let of = |issuer: &str, seed: u8| TrustedIssuer::new(issuer, KeySource::Fixed(keys(&[jwk(seed, "one")])));
    let mut checker = JwtChecker::new(JwtConfig::from_issuers([of(ISSUER, 1), of(OTHER, 2)]));
    let mut other = claims();
    other["iss"] = json!(OTHER);
    good(checker.check_and_verify(at(0), &signed(1, &header(), &claims())));
    assert_eq!(
        good(checker.check_and_verify(at(0), &signed(2, &header(), &other))).principal.as_str(),
        "https://other.example#ada"
    );
    invalid(checker.check_and_verify(at(0), &signed(1, &header(), &other)));
    invalid(checker.check_and_verify(at(0), &signed(2, &header(), &claims())));
}

/// The fetch may never be made: its server was dropped, for example.
#[test]
fn checker_repeats_an_unanswered_fetch() {
    let mut checker = fetching();
    let token = signed(1, &header(), &claims());
    let TokenValidation::Pending(first) = checker.check_and_verify(at(0), &token) else { panic!() };
    let TokenValidation::Pending(same) = checker.check_and_verify(at(29), &token) else { panic!() };
    assert_eq!(first, same);
    let TokenValidation::Pending(second) = checker.check_and_verify(at(30), &token) else { panic!() };
    assert_ne!(first, second);
    assert_eq!(checker.poll_fetch().unwrap().0.id, second, "the first fetch is obsolete");
    checker.handle_answer(at(30), first, 200, keys(&[jwk(2, "two")]).as_bytes());
    checker.handle_answer(at(30), second, 200, keys(&[jwk(1, "one")]).as_bytes());
    good(checker.check_and_verify(at(30), &token));
}

/// A response to an unknown fetch is ignored.
#[test]
fn checker_ignores_unexpected_responses() {
    let mut checker = fetching();
    checker.handle_answer(at(0), mcp_proto::auth::FetchId::new(7), 200, keys(&[jwk(1, "one")]).as_bytes());
    checker.handle_failed(at(0), mcp_proto::auth::FetchId::new(1), "gone");
    assert!(matches!(
        checker.check_and_verify(at(0), &signed(1, &header(), &claims())),
        TokenValidation::Pending(_)
    ));
}

/// Setting the time of day changes which tokens have expired, and not when keys are fetched.
#[test]
fn checker_fetches_keys_by_the_monotonic_clock() {
    let mut checker = fetching();
    good(check(&mut checker, at(0), &signed(1, &header(), &claims()), &keys(&[jwk(1, "one")])));
    let set = Now { unix: at(0).unix + Duration::from_secs(86_400), ..at(1) };
    assert_eq!(
        invalid(checker.check_and_verify(set, &signed(1, &header(), &claims()))),
        "the token has expired"
    );
    assert_eq!(checker.poll_fetch(), None);
    good(checker.check_and_verify(at(2), &signed(1, &header(), &claims())));
}
