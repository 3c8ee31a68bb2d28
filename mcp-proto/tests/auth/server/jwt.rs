//! Signed tokens.

mod keys;

use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use mcp_proto::auth::server::{
    Access, Checker, JwtAlgorithm, JwtChecker, JwtConfig, KeySource, TokenTypes, TokenValidation,
    TrustedIssuer, VerifyError,
};
use mcp_proto::auth::{Es256, Fetch, Now, Secret, Signer};
use mcp_proto::quota::QuotaOwner;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::openssl_tokens::{KEYS, TOKENS, WEAK};
use super::{ISSUER, RESOURCE, at};

const NOW: u64 = 1_785_240_000;

fn key(seed: u8) -> Es256 {
    Es256::from_entropy(&[seed; 32]).unwrap()
}

fn jwk(seed: u8, id: &str) -> Value {
    let mut jwk: Value = serde_json::from_str(&key(seed).public_jwk()).unwrap();
    jwk["kid"] = json!(id);
    jwk
}

fn keys(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn signed(seed: u8, header: &Value, claims: &Value) -> Secret {
    let input = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    let signature = key(seed).sign(input.as_bytes()).unwrap();
    Secret::new(format!("{input}.{}", BASE64.encode(signature)))
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "at+jwt", "kid": "one"})
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "ada", "aud": RESOURCE, "exp": NOW + 3600, "iat": NOW, "client_id": "editor",
        "scope": "a b",
    })
}

/// A checker with one fixed key.
fn fixed() -> JwtChecker {
    JwtChecker::new(JwtConfig::from_issuers([trusted()]))
}

fn trusted() -> TrustedIssuer {
    TrustedIssuer::new(ISSUER, KeySource::Fixed(keys(&[jwk(1, "one")])))
}

/// A checker that fetches its keys.
fn fetching() -> JwtChecker {
    let source = KeySource::Url("https://login.example/keys".into());
    JwtChecker::new(JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, source)]))
}

#[track_caller]
fn good(verdict: TokenValidation) -> Access {
    match verdict {
        TokenValidation::Valid(access) => *access,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn invalid(verdict: TokenValidation) -> String {
    match verdict {
        TokenValidation::Rejected(VerifyError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn unavailable(verdict: TokenValidation) -> String {
    match verdict {
        TokenValidation::Rejected(VerifyError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn fetch(checker: &mut JwtChecker, url: &str) -> Fetch {
    let (fetch, _) = checker.poll_fetch().expect("something to fetch");
    assert_eq!(fetch.url, url);
    fetch
}

/// Checks a token, and answers the fetch that this needs.
fn check(checker: &mut JwtChecker, now: Now, token: &Secret, set: &str) -> TokenValidation {
    if let TokenValidation::Pending(id) = checker.check_and_verify(now, token) {
        assert_eq!(checker.poll_fetch().unwrap().0.id, id);
        checker.handle_answer(now, id, 200, set.as_bytes());
    }
    checker.check_and_verify(now, token)
}

trait CheckAndVerify {
    /// Checks a token including its signature.
    fn check_and_verify(&mut self, now: Now, token: &Secret) -> TokenValidation;
}

impl CheckAndVerify for JwtChecker {
    fn check_and_verify(&mut self, now: Now, token: &Secret) -> TokenValidation {
        let mut verdict = self.check(now, &QuotaOwner::LOCAL, token);
        loop {
            let TokenValidation::SignatureUnchecked(signed) = verdict else { return verdict };
            verdict = match signed.verify(token) {
                Err(_) if !signed.has_key_id() => self.recheck(now, token, &signed),
                verified => return verified.into(),
            };
        }
    }
}

// --- Claims ---

/// RFC 8259, section 8.1
#[test]
fn checker_ignores_a_byte_order_mark_before_a_key_set() {
    let set = format!("\u{FEFF}{}", keys(&[jwk(1, "one")]));
    good(check(&mut fetching(), at(0), &signed(1, &header(), &claims()), &set));
}

/// S9.3, S10.2
#[test]
fn token_of_a_trusted_issuer_has_its_permissions() {
    let access = good(fixed().check_and_verify(at(0), &signed(1, &header(), &claims())));
    assert_eq!(access.principal.as_str(), "https://login.example#ada");
    assert_eq!(access.scopes.to_string(), "a b");
    assert_eq!(access.client_id.as_deref(), Some("editor"));
    assert_eq!(access.audiences, [RESOURCE]);
    assert_eq!(access.key, None);
    assert_eq!(access.claims.decode::<Value>().unwrap()["iat"], NOW);
}

/// S10.2. Each of these has a valid signature.
#[test]
fn checker_refuses_a_token_for_its_claims() {
    let cases = [
        ("exp", json!(NOW - 30)),
        ("exp", Value::Null),
        ("exp", json!("never")),
        ("exp", json!(-1)),
        ("nbf", json!(NOW + 31)),
        ("nbf", json!("soon")),
        ("iss", json!("https://login.example/")),
        ("iss", json!("https://evil.example")),
        ("iss", Value::Null),
        ("iss", json!([ISSUER])),
        ("sub", json!(7)),
        ("cnf", json!({"x5t#S256": "abc"})),
        ("cnf", json!({"jkt": "abc", "x5t#S256": "abc"})),
        ("cnf", json!({})),
    ];
    for (name, value) in cases {
        let mut claims = claims();
        claims[name] = value;
        invalid(fixed().check_and_verify(at(0), &signed(1, &header(), &claims)));
    }
    let mut nobody = claims();
    nobody["sub"] = json!("");
    nobody["client_id"] = Value::Null;
    assert_eq!(
        invalid(fixed().check_and_verify(at(0), &signed(1, &header(), &nobody))),
        "the token names neither a subject nor a client"
    );
}

#[test]
fn checker_tolerates_a_small_clock_skew() {
    for (name, value) in [("exp", NOW - 29), ("nbf", NOW + 30)] {
        let mut claims = claims();
        claims[name] = json!(value);
        good(fixed().check_and_verify(at(0), &signed(1, &header(), &claims)));
        let mut config = JwtConfig::from_issuers([trusted()]);
        config.leeway = Duration::from_secs(1);
        invalid(JwtChecker::new(config).check_and_verify(at(0), &signed(1, &header(), &claims)));
    }
}

/// `exp` may have a fraction, scopes may be a list, and a token may be a client's own.
#[test]
fn checker_accepts_other_forms_of_claims() {
    let said = json!({
        "iss": ISSUER, "aud": ["https://other.example", RESOURCE], "exp": NOW as f64 + 0.5, "azp": "robot",
        "scp": ["a", "b c"], "cnf": {"jkt": "thumb"},
    });
    let access = good(fixed().check_and_verify(at(0), &signed(1, &header(), &said)));
    assert_eq!(access.principal.as_str(), "https://login.example?client_id=robot");
    assert_eq!(access.scopes.to_string(), "a b c");
    assert_eq!(access.audiences, ["https://other.example", RESOURCE]);
    assert_eq!(access.key.as_deref(), Some("thumb"));
}

#[test]
fn checker_refuses_a_token_of_another_type() {
    let types = |typ: Value| json!({"alg": "ES256", "kid": "one", "typ": typ});
    for typ in ["dpop+jwt", "logout+jwt", "application/secevent+jwt", "at+jwt2", ""] {
        invalid(fixed().check_and_verify(at(0), &signed(1, &types(json!(typ)), &claims())));
    }
    let mut strict =
        JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, KeySource::Fixed(keys(&[jwk(1, "one")])))]);
    strict.types = TokenTypes::AccessTokens;
    for (typ, taken) in [
        (json!("AT+JWT"), true),
        (json!("application/at+jwt"), true),
        (json!("JWT"), false),
        (Value::Null, false),
    ] {
        let token = signed(1, &types(typ), &claims());
        good(fixed().check_and_verify(at(0), &token));
        let verdict = JwtChecker::new(strict.clone()).check_and_verify(at(0), &token);
        assert_eq!(matches!(verdict, TokenValidation::Valid(_)), taken);
    }
}

// --- Signatures ---

/// S10.2
#[test]
fn checker_verifies_tokens_of_other_implementations_for_every_algorithm() {
    for (algorithm, token) in TOKENS {
        let source = KeySource::Fixed(KEYS.into());
        let mut config = JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, source)]);
        good(JwtChecker::new(config.clone()).check_and_verify(at(0), &Secret::new(token)));
        config.algorithms.retain(|allowed| allowed.as_str() != algorithm);
        let why = invalid(JwtChecker::new(config).check_and_verify(at(0), &Secret::new(token)));
        assert_eq!(why, "the token's algorithm is not accepted");
    }
}

/// S10.2
#[test]
fn checker_refuses_any_changed_signature() {
    for (algorithm, token) in TOKENS {
        let config = JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, KeySource::Fixed(KEYS.into()))]);
        let mut checker = JwtChecker::new(config);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = BASE64.decode(signature).unwrap();
        for at_byte in [0, signature.len() / 2, signature.len() - 1] {
            let mut other = signature.clone();
            other[at_byte] ^= 1;
            let token = Secret::new(format!("{signed}.{}", BASE64.encode(other)));
            assert_eq!(
                invalid(checker.check_and_verify(at(0), &token)),
                "the token's signature is wrong",
                "{algorithm}"
            );
        }
        for other in [&signature[1..], &[]] {
            invalid(
                checker.check_and_verify(at(0), &Secret::new(format!("{signed}.{}", BASE64.encode(other)))),
            );
        }
    }
}

/// Neither an absent signature nor one that the public key can produce.
#[test]
fn checker_refuses_algorithms_that_need_no_private_key() {
    for alg in ["none", "None", "HS256", "HS512", "es256", "ES256 ", "ES512", "ES256K", "RSA1_5", ""] {
        let token = signed(1, &json!({"alg": alg, "kid": "one"}), &claims());
        assert_eq!(
            invalid(fixed().check_and_verify(at(0), &token)),
            "the token's algorithm is not accepted",
            "{alg}"
        );
        assert_eq!(JwtAlgorithm::parse(alg), None);
    }
    let unsigned = format!("{}.{}.", BASE64.encode(r#"{"alg":"none"}"#), BASE64.encode(claims().to_string()));
    invalid(fixed().check_and_verify(at(0), &Secret::new(unsigned)));
}

#[test]
fn checker_uses_a_key_only_for_its_declared_purpose() {
    let with = |name: &str, value: Value| {
        let mut jwk = jwk(1, "one");
        jwk[name] = value;
        let source = KeySource::Fixed(keys(&[jwk]));
        JwtChecker::new(JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, source)]))
    };
    let token = signed(1, &header(), &claims());
    for (name, value) in [("use", json!("sig")), ("alg", json!("ES256")), ("key_ops", json!(["verify"]))] {
        good(with(name, value).check_and_verify(at(0), &token));
    }
    for (name, value) in [
        ("use", json!("enc")),
        ("alg", json!("ES384")),
        ("key_ops", json!(["encrypt"])),
        ("crv", json!("P-384")),
        ("kty", json!("oct")),
        ("kid", json!("two")),
        // A published private key is compromised.
        ("d", json!("AQ")),
    ] {
        let verdict = with(name, value.clone()).check_and_verify(at(0), &token);
        assert!(matches!(verdict, TokenValidation::Rejected(_)), "{name} {value}");
    }
}

/// Keys that are malformed or too weak.
#[test]
fn checker_ignores_unusable_keys() {
    let odd = [
        json!({"kty": "OKP", "crv": "Ed25519", "x": "AQ", "kid": "one"}),
        json!({"kty": "OKP", "crv": "Ed448", "x": BASE64.encode([1; 57]), "kid": "one"}),
        json!({"kty": "EC", "crv": "P-256", "x": BASE64.encode([1; 32]), "y": BASE64.encode([1; 32]), "kid": "one"}),
        json!({"kty": "EC", "crv": "P-256", "x": BASE64.encode([1; 64]), "y": "", "kid": "one"}),
        json!({"kty": "RSA", "n": BASE64.encode([0; 256]), "e": "AQAB", "kid": "one"}),
        json!({"kty": "RSA", "n": BASE64.encode([0xfe; 256]), "e": "AQAB", "kid": "one"}),
        json!({"kty": "RSA", "n": BASE64.encode([0xff; 1024]), "e": "AQAB", "kid": "one"}),
        json!({"kty": "RSA", "n": BASE64.encode([0xff; 256]), "e": "", "kid": "one"}),
        json!({"kty": "RSA", "n": BASE64.encode([0xff; 256]), "e": "AA", "kid": "one"}),
        json!("key"),
        json!({"kid": "one"}),
    ];
    for key in odd {
        for alg in ["ES256", "EdDSA", "RS256", "PS512"] {
            let source = KeySource::Fixed(keys(core::slice::from_ref(&key)));
            let mut checker = JwtChecker::new(JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, source)]));
            let token = signed(1, &json!({"alg": alg, "kid": "one"}), &claims());
            assert!(matches!(checker.check_and_verify(at(0), &token), TokenValidation::Rejected(_)), "{key}");
        }
    }
    let checker = |set: &str| {
        JwtChecker::new(JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, KeySource::Fixed(set.into()))]))
    };
    invalid(checker(KEYS).check_and_verify(at(0), &Secret::new(WEAK)));
    for set in ["", "{}", "[]", r#"{"keys":{}}"#, r#"{"keys":[]}"#] {
        unavailable(checker(set).check_and_verify(at(0), &Secret::new(TOKENS[0].1)));
    }
}

/// Some issuers name no key.
#[test]
fn checker_tries_all_matching_keys_for_a_token_without_key_id() {
    let set = keys(&[jwk(2, "two"), jwk(1, "one")]);
    let mut checker =
        JwtChecker::new(JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, KeySource::Fixed(set))]));
    good(checker.check_and_verify(at(0), &signed(1, &json!({"alg": "ES256"}), &claims())));
    assert_eq!(
        invalid(checker.check_and_verify(at(0), &signed(3, &json!({"alg": "ES256"}), &claims()))),
        "the token's signature is wrong"
    );
}

#[test]
fn checker_refuses_an_unknown_critical_header() {
    let mut header = header();
    header["crit"] = json!(["b64"]);
    header["b64"] = json!(false);
    invalid(fixed().check_and_verify(at(0), &signed(1, &header, &claims())));
}

#[test]
fn checker_refuses_malformed_tokens() {
    for text in ["", ".", "..", "...", "a.b.c", "e30.e30.", "e30=.e30.AA", &"a".repeat(20_000)] {
        invalid(fixed().check_and_verify(at(0), &Secret::new(text)));
    }
}

/// A signature covers the whole token.
#[test]
fn checker_refuses_any_changed_token() {
    let token = signed(1, &header(), &claims());
    let mut checker = fixed();
    for at_byte in (0..token.expose().len()).step_by(7) {
        let mut text = token.expose().to_owned();
        let other = if &text[at_byte..=at_byte] == "A" { "B" } else { "A" };
        text.replace_range(at_byte..=at_byte, other);
        assert!(
            !matches!(checker.check_and_verify(at(0), &Secret::new(text)), TokenValidation::Valid(_)),
            "{at_byte}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No input causes a panic.
    #[test]
    fn checker_survives_any_text_and_any_key_set(header in ".{0,60}", payload in ".{0,60}", set in ".{0,80}") {
        let text = format!("{}.{}.{}", BASE64.encode(&header), BASE64.encode(&payload), BASE64.encode(&set));
        let _ = fixed().check_and_verify(at(0), &Secret::new(text));
        let unsigned = format!("{}.{}.", BASE64.encode(r#"{"alg":"ES256"}"#), BASE64.encode(claims().to_string()));
        let _ = check(&mut fetching(), at(0), &Secret::new(unsigned), &set);
    }
}

/// Slow work runs where no other request waits for it.
#[test]
fn checker_leaves_every_signature_to_be_verified_outside_its_lock() {
    for header in [header(), json!({"alg": "ES256"})] {
        for seed in [1, 2] {
            let token = signed(seed, &header, &claims());
            let TokenValidation::SignatureUnchecked(signed) =
                fixed().check(at(0), &QuotaOwner::LOCAL, &token)
            else {
                panic!("{header}")
            };
            assert_eq!(signed.verify(&token).is_ok(), seed == 1);
            assert_eq!(signed.has_key_id(), header["kid"].is_string());
        }
    }
}
