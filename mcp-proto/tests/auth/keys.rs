use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::UnixTime;
use mcp_proto::auth::dpop::{self, Nonces, thumbprint, token_hash};
use mcp_proto::auth::{Es256, KeyError, Pkce, Secret, SignError, Signer, client_assertion, random_text};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::EncodePrivateKey;
use serde_json::{Value, json};

const NOW: UnixTime = UnixTime::from_epoch(Duration::from_millis(1_785_240_000_900));

fn key() -> Es256 {
    Es256::from_entropy(&[7; 32]).unwrap()
}

fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// The public key of a JWK.
fn verifier(jwk: &Value) -> VerifyingKey {
    let half = |name: &str| decode(jwk[name].as_str().unwrap());
    VerifyingKey::from_sec1_bytes(&[vec![4], half("x"), half("y")].concat()).unwrap()
}

/// Header and claims of a JWT whose signature is good.
fn open(jwt: &str, jwk: &str) -> (Value, Value) {
    let (signed, signature) = jwt.rsplit_once('.').unwrap();
    let signature = Signature::from_slice(&decode(signature)).unwrap();
    verifier(&serde_json::from_str(jwk).unwrap()).verify(signed.as_bytes(), &signature).unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let read = |part: &str| serde_json::from_slice(&decode(part)).unwrap();
    (read(header), read(claims))
}

/// C12.7, by appendix B of RFC 7636.
#[test]
fn code_challenge_is_the_hash_of_its_verifier() {
    let pkce = Pkce::from_verifier(Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
    assert_eq!(pkce.challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    assert!(!format!("{pkce:?}").contains("dBjft"));
}

#[test]
fn verifier_depends_on_the_entropy_and_uses_unreserved_characters() {
    let pkce = Pkce::new([255; 32]);
    assert_ne!(pkce, Pkce::new([254; 32]));
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    assert!(pkce.verifier.expose().bytes().all(unreserved));
    // RFC 7636 requires 43 to 128.
    assert_eq!(pkce.verifier.expose().len(), 43);
    assert_eq!(random_text([255; 32]), pkce.verifier.expose());
}

/// Appendix A.2.5 of RFC 6979.
#[test]
fn signatures_need_no_random_number() {
    let scalar = "C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721";
    let bytes: [u8; 32] =
        core::array::from_fn(|at| u8::from_str_radix(&scalar[at * 2..at * 2 + 2], 16).unwrap());
    let der = p256::SecretKey::from_slice(&bytes).unwrap().to_pkcs8_der().unwrap();
    let signature = Es256::from_pkcs8_der(der.as_bytes()).unwrap().sign(b"sample").unwrap();
    let hexadecimal: String = signature.iter().map(|byte| format!("{byte:02X}")).collect();
    let (r, s) = (
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716",
        "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8",
    );
    assert_eq!(hexadecimal, format!("{r}{s}"));
}

#[test]
fn key_round_trips_through_storage() {
    let pem = key().to_pkcs8_pem().unwrap();
    assert!(pem.expose().starts_with("-----BEGIN PRIVATE KEY-----"));
    let again = Es256::from_pkcs8_pem(&format!("\n {}\r\n", pem.expose())).unwrap();
    assert_eq!(again.public_jwk(), key().public_jwk());
    assert_ne!(Es256::from_entropy(&[8; 32]).unwrap().public_jwk(), key().public_jwk());
}

#[test]
fn reader_refuses_invalid_keys() {
    for text in [
        "",
        "x",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
    ] {
        assert_eq!(Es256::from_pkcs8_pem(text).map(drop), Err(KeyError), "{text}");
    }
    assert_eq!(Es256::from_pkcs8_der(&[0x30, 0x80]).map(drop), Err(KeyError));
}

#[test]
fn debug_output_hides_a_key() {
    assert_eq!(format!("{:?}", key().with_key_id("k")), "Es256(..)");
}

/// C14.8
#[test]
fn assertion_identifies_the_client_for_five_minutes() {
    let key = key().with_key_id("key 1");
    let jwt = client_assertion(&key, "client \"1\"", "https://auth.example.com", NOW, "abc").unwrap();
    let (header, claims) = open(jwt.expose(), &key.public_jwk());
    assert_eq!(header, json!({"typ": "JWT", "alg": "ES256", "kid": "key 1"}));
    let expected = json!({
        "iss": "client \"1\"", "sub": "client \"1\"", "aud": "https://auth.example.com",
        "iat": 1_785_240_000, "exp": 1_785_240_300, "jti": "abc",
    });
    assert_eq!(claims, expected);
}

#[test]
fn proof_covers_one_request_and_one_token() {
    let key = key().with_key_id("not told");
    let token = Secret::new("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU");
    let url = "https://example.com/mcp?a=b#c";
    let jwt = dpop::proof(&key, "POST", url, Some(&token), Some("n-0"), NOW, "abc").unwrap();
    let (header, claims) = open(&jwt, &key.public_jwk());
    let jwk: Value = serde_json::from_str(&key.public_jwk()).unwrap();
    assert_eq!(header, json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}));
    let expected = json!({
        "jti": "abc", "htm": "POST", "htu": "https://example.com/mcp", "iat": 1_785_240_000,
        // Section 7.1 of RFC 9449.
        "ath": "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo", "nonce": "n-0",
    });
    assert_eq!(claims, expected);
    let bare = dpop::proof(&key, "GET", "https://example.com", None, None, NOW, "abc").unwrap();
    let claims = open(&bare, &key.public_jwk()).1;
    assert!(claims.get("ath").is_none() && claims.get("nonce").is_none());
    assert_eq!(token_hash(token.expose()), expected["ath"]);
}

/// A key that is elsewhere, and cannot be used.
struct Unplugged;

impl Signer for Unplugged {
    fn algorithm(&self) -> &str {
        "ES256"
    }

    fn key_id(&self) -> Option<&str> {
        None
    }

    fn public_jwk(&self) -> String {
        "not JSON".into()
    }

    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, SignError> {
        Err(SignError)
    }
}

#[test]
fn signing_reports_an_unavailable_key() {
    assert_eq!(client_assertion(&Unplugged, "a", "b", NOW, "c"), Err(SignError));
    assert_eq!(dpop::proof(&Unplugged, "GET", "https://x", None, None, NOW, "c"), Err(SignError));
}

/// Section 3.1 of RFC 7638 and section 6.1 of RFC 9449.
#[test]
fn thumbprint_covers_the_required_members_of_the_key() {
    let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
    let rsa = json!({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"});
    assert_eq!(thumbprint(&rsa.to_string()).unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    let ec = json!({
        "kty": "EC", "crv": "P-256", "use": "sig",
        "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
        "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
    });
    assert_eq!(thumbprint(&ec.to_string()).unwrap(), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    // RFC 8037, appendix A.3.
    let okp = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    assert_eq!(thumbprint(&okp.to_string()).unwrap(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    assert!(thumbprint(&key().public_jwk()).is_some());
}

#[test]
fn invalid_public_key_has_no_thumbprint() {
    for jwk in [
        "",
        "[]",
        "{}",
        r#"{"kty":"oct","k":"AAAA"}"#,
        r#"{"kty":"EC","crv":"P-256","x":"AA"}"#,
        r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"AA"}"#,
        r#"{"kty":"RSA","e":"AQAB","n":"A\"A"}"#,
        r#"{"kty":"RSA","e":"AQAB","n":5}"#,
        r#"{"kty":"RSA","e":"AQAB","n":"AA","n":"AB"}"#,
        r#"{"kty":"RSA","e":"AQAB","n":""}"#,
    ] {
        assert_eq!(thumbprint(jwk), None, "{jwk}");
    }
}

#[test]
fn nonces_are_stored_by_origin() {
    let mut nonces = Nonces::default();
    nonces.keep("https://Example.com:443/mcp?a#b", "one");
    assert_eq!(nonces.get("HTTPS://example.com/other"), Some("one"));
    assert_eq!(nonces.get("https://example.com:444/mcp"), None);
    assert_eq!(nonces.get("http://example.com/mcp"), None);
    nonces.keep("https://example.com", "two");
    assert_eq!(nonces.get("https://example.com/"), Some("two"));
}

#[test]
fn invalid_nonces_are_ignored() {
    let mut nonces = Nonces::default();
    nonces.keep("https://x.example", "good");
    for nonce in ["", "a b", "a\"b", "a\\b", "é", "a\r\nb", &"x".repeat(2049)] {
        nonces.keep("https://x.example", nonce);
    }
    nonces.keep("not a url", "other");
    assert_eq!(nonces.get("https://x.example"), Some("good"));
    assert_eq!(nonces.get("not a url"), None);
}

#[test]
fn nonces_of_the_last_sixteen_origins_are_stored() {
    let mut nonces = Nonces::default();
    for number in 0..20 {
        nonces.keep(&format!("https://{number}.example"), "a");
        nonces.keep("https://often.example", "b");
    }
    let kept = (0..20).filter(|number| nonces.get(&format!("https://{number}.example")).is_some()).count();
    assert_eq!((kept, nonces.get("https://often.example")), (15, Some("b")));
    assert_eq!(nonces.get("https://19.example"), Some("a"));
}
