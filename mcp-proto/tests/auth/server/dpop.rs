//! Tokens bound to keys, and their proofs.

use core::future::ready;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use mcp_proto::auth::dpop::{proof, thumbprint};
use mcp_proto::auth::server::{Access, AccessDecision, DpopConfig, JwtAlgorithm, Protection, TokenDecision};
use mcp_proto::auth::{Es256, Now, Secret, Signer, TokenKind};
use mcp_proto::front::{Claim, ClaimError, ClaimFuture, ClaimOutcome, SingleUse, UsedIds};
use mcp_proto::transport::http::server::{HttpResponse, RequestHead};
use serde_json::{Value, json};

use super::{access, answer, at, demand, header, protection};
use futures_lite::future::block_on;

const TOKEN: &str = "a-token";

fn key() -> Es256 {
    Es256::from_entropy(&[5; 32]).unwrap()
}

fn bound() -> Access {
    let mut access = access("");
    access.key = thumbprint(&key().public_jwk());
    access
}

/// A server, with the store of the proofs that it has seen.
struct Server {
    protection: Protection,
    proofs: Arc<dyn SingleUse>,
}

impl Server {
    fn new(dpop: DpopConfig) -> Self {
        Self::with_store(dpop, Arc::new(UsedIds::default()))
    }

    fn with_store(dpop: DpopConfig, proofs: Arc<dyn SingleUse>) -> Self {
        Self { protection: protection().dpop(dpop), proofs }
    }

    fn ask(&self, now: Now, fields: &[(&str, &str)], access: Access) -> Result<(), HttpResponse> {
        let head = RequestHead { method: "POST", path: "/mcp?session=1", fields: &fields, client: None };
        match self.protection.check_request(&head, now) {
            AccessDecision::Answer(answer) => Err(answer),
            AccessDecision::Verify(presented) => {
                match self.protection.check_token(&presented, Ok(access))? {
                    TokenDecision::Granted(_) => Ok(()),
                    TokenDecision::Claim(proof) => {
                        let outcome = block_on(self.proofs.claim(proof.claim().clone()));
                        proof.resolve(outcome).map(drop)
                    }
                }
            }
        }
    }

    fn prove(&self, now: Now, proof: &str) -> Result<(), HttpResponse> {
        let authorization = format!("DPoP {TOKEN}");
        self.ask(now, &[("authorization", &authorization), ("dpop", proof)], bound())
    }
}

/// A proof as this crate's client creates it.
fn client_proof(now: Now, nonce: Option<&str>, jti: &str) -> String {
    let token = Secret::new(TOKEN);
    proof(&key(), "POST", "https://mcp.example/mcp", Some(&token), nonce, now.unix, jti).unwrap()
}

/// A proof with changed contents.
fn changed_proof(change: impl FnOnce(&mut Value, &mut Value)) -> String {
    let key = key();
    let mut header = json!({
        "typ": "dpop+jwt", "alg": "ES256", "jwk": serde_json::from_str::<Value>(&key.public_jwk()).unwrap(),
    });
    let mut claims = json!({
        "jti": "x", "htm": "POST", "htu": "https://mcp.example/mcp", "iat": 1_785_240_000,
        "ath": hash(),
    });
    change(&mut header, &mut claims);
    let input = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    format!("{input}.{}", BASE64.encode(key.sign(input.as_bytes()).unwrap()))
}

/// The hash of the token as this crate's client computes it.
fn hash() -> Value {
    let made = client_proof(at(0), None, "x");
    let claims = BASE64.decode(made.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice::<Value>(&claims).unwrap()["ath"].clone()
}

#[track_caller]
fn refused(asked: Result<(), HttpResponse>, error: &str) -> HttpResponse {
    let answer = asked.unwrap_err();
    assert_eq!(answer.status, 401, "{answer:?}");
    let demand = demand(&answer);
    assert_eq!(demand.error.as_deref(), Some(error), "{answer:?}");
    assert!(demand.wants_dpop);
    answer
}

#[test]
fn server_accepts_a_proof_of_this_crates_client() {
    let server = Server::new(DpopConfig::accepted());
    server.prove(at(0), &client_proof(at(0), None, "a")).unwrap();
    server.prove(at(0), &changed_proof(|_, _| {})).unwrap();
}

/// RFC 9449, section 7.1
#[test]
fn challenge_and_metadata_list_the_accepted_schemes_and_algorithms() {
    let both =
        protection().dpop(DpopConfig::accepted().signed_by([JwtAlgorithm::Es256, JwtAlgorithm::EdDsa]));
    let answered = answer(&both, &[]);
    let challenges = header(&answered, "www-authenticate");
    assert_eq!(challenges.len(), 2);
    assert!(challenges[0].starts_with("Bearer ") && challenges[1].starts_with("DPoP "), "{challenges:?}");
    assert!(challenges[1].contains(r#"algs="ES256 EdDSA""#), "{challenges:?}");
    let document: Value = serde_json::from_slice(&both.metadata()).unwrap();
    assert_eq!(document["dpop_signing_alg_values_supported"], json!(["ES256", "EdDSA"]));
    assert_eq!(document.get("dpop_bound_access_tokens_required"), None);

    let only = protection().dpop(DpopConfig::required());
    let answered = answer(&only, &[]);
    let [challenge] = *header(&answered, "www-authenticate") else { panic!() };
    assert!(challenge.starts_with("DPoP "));
    let document: Value = serde_json::from_slice(&only.metadata()).unwrap();
    assert_eq!(document["dpop_bound_access_tokens_required"], true);
}

/// RFC 9449, section 7.2: a stolen token must be useless without its key.
#[test]
fn server_refuses_a_bound_token_without_a_proof_in_any_scheme() {
    let server = Server::new(DpopConfig::accepted());
    let answer = server.ask(at(0), &[("authorization", "Bearer a-token")], bound()).unwrap_err();
    assert_eq!((answer.status, demand(&answer).error.as_deref()), (401, Some("invalid_token")));
    // By a server without DPoP, too.
    let plain = Server { protection: protection(), proofs: Arc::new(UsedIds::default()) };
    let answer = plain.ask(at(0), &[("authorization", "Bearer a-token")], bound()).unwrap_err();
    assert_eq!(answer.status, 401);
    refused(server.ask(at(0), &[("authorization", "DPoP a-token")], bound()), "invalid_dpop_proof");
}

#[test]
fn server_refuses_an_unbound_token_in_the_dpop_scheme() {
    let server = Server::new(DpopConfig::accepted());
    let proof = client_proof(at(0), None, "a");
    let fields = [("authorization", "DPoP a-token"), ("dpop", proof.as_str())];
    refused(server.ask(at(0), &fields, access("")), "invalid_token");
    server.ask(at(0), &[("authorization", "Bearer a-token")], access("")).unwrap();
    let only = Server::new(DpopConfig::required());
    refused(only.ask(at(0), &[("authorization", "Bearer a-token")], access("")), "invalid_token");
}

#[test]
fn refusal_of_a_proof_speaks_of_the_proof() {
    let server = Server::new(DpopConfig::accepted());
    for (proof, why) in [
        ("x".into(), "the proof is no signed token"),
        ("x".repeat(20_000), "the proof is too long"),
        (
            changed_proof(|header, _| header["crit"] = json!(["b64"])),
            "the proof has extensions that are not understood",
        ),
        (changed_proof(|header, _| header["alg"] = "HS256".into()), "the proof's algorithm is not accepted"),
        (changed_proof(|_, claims| claims["iat"] = "now".into()), "the proof's claims cannot be read"),
    ] {
        let answer = server.prove(at(0), &proof).unwrap_err();
        assert_eq!(demand(&answer).error_description.as_deref(), Some(why));
    }
}

#[test]
fn server_refuses_two_proofs() {
    let server = Server::new(DpopConfig::accepted());
    let (one, two) = (client_proof(at(0), None, "a"), client_proof(at(0), None, "b"));
    let fields = [("authorization", "DPoP a-token"), ("dpop", one.as_str()), ("dpop", two.as_str())];
    refused(server.ask(at(0), &fields, bound()), "invalid_dpop_proof");
}

/// RFC 9449, section 4.3. Each of these has a valid signature.
#[test]
fn server_refuses_a_proof_of_another_request() {
    let server = Server::new(DpopConfig::accepted());
    type Change = fn(&mut Value, &mut Value);
    let changes: [(&str, Change); 16] = [
        ("type", |header, _| header["typ"] = json!("jwt")),
        ("no type", |header, _| header["typ"] = Value::Null),
        ("no key", |header, _| header["jwk"] = Value::Null),
        ("private key", |header, _| header["jwk"]["d"] = json!("AQ")),
        ("symmetric", |header, _| header["alg"] = json!("HS256")),
        ("unsigned", |header, _| header["alg"] = json!("none")),
        ("other algorithm", |header, _| header["alg"] = json!("ES384")),
        ("method", |_, claims| claims["htm"] = json!("GET")),
        ("case of the method", |_, claims| claims["htm"] = json!("post")),
        ("path", |_, claims| claims["htu"] = json!("https://mcp.example/mcp2")),
        ("host", |_, claims| claims["htu"] = json!("https://evil.example/mcp")),
        ("scheme", |_, claims| claims["htu"] = json!("http://mcp.example/mcp")),
        ("no id", |_, claims| claims["jti"] = Value::Null),
        ("no time", |_, claims| claims["iat"] = Value::Null),
        ("no token", |_, claims| claims["ath"] = Value::Null),
        ("other token", |_, claims| claims["ath"] = json!("fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo")),
    ];
    for (what, change) in changes {
        let refused = server.prove(at(0), &changed_proof(change));
        let answer = refused.err().unwrap_or_else(|| panic!("{what} is accepted"));
        assert_eq!(
            (answer.status, demand(&answer).error.as_deref()),
            (401, Some("invalid_dpop_proof")),
            "{what}"
        );
    }
    for garbage in ["", "a.b.c", "e30.e30.", &"a".repeat(20_000)] {
        refused(server.prove(at(0), garbage), "invalid_dpop_proof");
    }
}

#[test]
fn server_refuses_a_proof_by_another_key() {
    let server = Server::new(DpopConfig::accepted());
    let eve = Es256::from_entropy(&[6; 32]).unwrap();
    let token = Secret::new(TOKEN);
    let other = proof(&eve, "POST", "https://mcp.example/mcp", Some(&token), None, at(0).unix, "a").unwrap();
    refused(server.prove(at(0), &other), "invalid_token");
    // The key of one, signed by the other.
    let mixed = changed_proof(|header, _| header["jwk"] = serde_json::from_str(&eve.public_jwk()).unwrap());
    refused(server.prove(at(0), &mixed), "invalid_dpop_proof");
}

/// Query, fragment and spelling of the URL do not matter.
#[test]
fn url_of_a_proof_may_have_any_spelling() {
    let server = Server::new(DpopConfig::accepted());
    let spellings =
        ["HTTPS://MCP.Example:443/mcp", "https://mcp.example/mcp?session=1", "https://mcp.example/mcp#a"];
    for (number, url) in spellings.into_iter().enumerate() {
        let proof = changed_proof(|_, claims| {
            claims["htu"] = json!(url);
            claims["jti"] = json!(number.to_string());
        });
        server.prove(at(0), &proof).unwrap();
    }
}

/// RFC 9449, section 11.1
#[test]
fn server_accepts_a_proof_once() {
    let server = Server::new(DpopConfig::accepted());
    let once = client_proof(at(0), None, "a");
    server.prove(at(0), &once).unwrap();
    for seconds in [0, 30, 60] {
        refused(server.prove(at(seconds), &once), "invalid_dpop_proof");
    }
    server.prove(at(1), &client_proof(at(1), None, "b")).unwrap();
}

/// A sender without a valid token cannot use up proofs.
#[test]
fn proof_with_an_invalid_token_is_not_used_up() {
    let server = Server::new(DpopConfig::accepted());
    let proof = client_proof(at(0), None, "a");
    let mut expired = bound();
    expired.expires = Some(at(0).unix);
    let fields = [("authorization", "DPoP a-token"), ("dpop", proof.as_str())];
    server.ask(at(0), &fields, expired).unwrap_err();
    server.ask(at(0), &fields, bound()).unwrap();
}

#[test]
fn server_accepts_a_proof_only_near_its_time() {
    for (made, now, good) in
        [(100, 100, true), (100, 160, true), (100, 161, false), (161, 101, true), (162, 101, false)]
    {
        let proved = Server::new(DpopConfig::accepted()).prove(at(now), &client_proof(at(made), None, "a"));
        assert_eq!(proved.is_ok(), good, "made at {made}, used at {now}");
    }
    let patient = Server::new(DpopConfig::accepted().window(Duration::from_secs(600)));
    patient.prove(at(600), &client_proof(at(0), None, "a")).unwrap();
}

/// A proof from the future is remembered for as long as it is valid.
#[test]
fn server_accepts_a_proof_from_the_future_once() {
    let server = Server::new(DpopConfig::accepted());
    let ahead = client_proof(at(60), None, "a");
    server.prove(at(0), &ahead).unwrap();
    refused(server.prove(at(119), &ahead), "invalid_dpop_proof");
    refused(server.prove(at(121), &ahead), "invalid_dpop_proof");
}

/// RFC 9449, section 9
#[test]
fn server_that_requires_nonces_issues_one() {
    let server = Server::new(DpopConfig::required().nonces([7; 32]));
    let answer = refused(server.prove(at(0), &client_proof(at(0), None, "a")), "use_dpop_nonce");
    assert!(demand(&answer).is_use_dpop_nonce());
    let [nonce] = *header(&answer, "dpop-nonce") else { panic!() };
    // The refused proof was not recorded: its id may be used again.
    server.prove(at(0), &client_proof(at(0), Some(nonce), "a")).unwrap();
    server.prove(at(299), &client_proof(at(299), Some(nonce), "b")).unwrap();
    // A nonce is valid for ten minutes.
    server.prove(at(599), &client_proof(at(599), Some(nonce), "c")).unwrap();
    refused(server.prove(at(600), &client_proof(at(600), Some(nonce), "d")), "use_dpop_nonce");
    refused(server.prove(at(0), &client_proof(at(0), Some("made-up"), "e")), "use_dpop_nonce");
    // Instances with the same key accept each other's nonces; others do not.
    let same = Server::new(DpopConfig::required().nonces([7; 32]));
    same.prove(at(0), &client_proof(at(0), Some(nonce), "a")).unwrap();
    let other = Server::new(DpopConfig::required().nonces([8; 32]));
    refused(other.prove(at(0), &client_proof(at(0), Some(nonce), "a")), "use_dpop_nonce");
}

/// A store whose answer the test chooses, with the last claim.
struct ControlledStore {
    answer: Mutex<Result<ClaimOutcome, ClaimError>>,
    claim: Mutex<Option<Claim>>,
}

impl ControlledStore {
    fn new(answer: Result<ClaimOutcome, ClaimError>) -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(answer), claim: Mutex::default() })
    }
}

impl SingleUse for ControlledStore {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        let answer = match *self.answer.lock().unwrap() {
            // As a store behaves that has failed over: it still records the use of new ids.
            Ok(ClaimOutcome::Forgotten { before }) if claim.since >= before => Ok(ClaimOutcome::First),
            ref answer => answer.clone(),
        };
        *self.claim.lock().unwrap() = Some(claim);
        Box::pin(ready(answer))
    }
}

/// RFC 9449, section 11.1: instances that share a store accept a proof once together.
#[test]
fn instances_with_one_store_accept_a_proof_once() {
    let store = Arc::new(UsedIds::default());
    let [one, other] = [(); 2].map(|()| Server::with_store(DpopConfig::accepted(), store.clone()));
    let once = client_proof(at(0), None, "a");
    one.prove(at(0), &once).unwrap();
    refused(other.prove(at(0), &once), "invalid_dpop_proof");
}

#[test]
fn server_refuses_every_proof_while_the_store_fails() {
    let failed = ClaimError::Failed("the store at 10.0.0.7 is down".into());
    for (error, status) in [(failed, 503), (ClaimError::Full, 429)] {
        let server = Server::with_store(DpopConfig::accepted(), ControlledStore::new(Err(error)));
        let answer = server.prove(at(0), &client_proof(at(0), None, "a")).unwrap_err();
        assert_eq!(answer.status, status);
        assert_eq!(header(&answer, "retry-after").len(), 1);
        assert!(header(&answer, "www-authenticate").is_empty());
        assert!(!String::from_utf8_lossy(&answer.body).contains("10.0.0.7"));
    }
}

/// A proof that might be one of the lost records is refused; a new nonce shows that a proof is new.
#[test]
fn server_requires_a_new_nonce_after_the_store_has_lost_records() {
    let store = ControlledStore::new(Ok(ClaimOutcome::First));
    let server = Server::with_store(DpopConfig::required().nonces([7; 32]), store.clone());
    let nonce_of = |asked| {
        let answer = refused(asked, "use_dpop_nonce");
        header(&answer, "dpop-nonce")[0].to_owned()
    };
    let nonce = nonce_of(server.prove(at(0), &client_proof(at(0), None, "a")));
    server.prove(at(1), &client_proof(at(1), Some(&nonce), "a")).unwrap();
    *store.answer.lock().unwrap() = Ok(ClaimOutcome::Forgotten { before: at(100).unix });
    // Before that time no nonce helps.
    let answer = server.prove(at(99), &client_proof(at(99), Some(&nonce), "b")).unwrap_err();
    assert_eq!((answer.status, header(&answer, "retry-after").len()), (503, 1));
    // The client chooses the time of its proof, but not the nonce.
    let fresh = nonce_of(server.prove(at(101), &client_proof(at(130), Some(&nonce), "b")));
    assert_ne!(fresh, nonce);
    server.prove(at(101), &client_proof(at(101), Some(&fresh), "b")).unwrap();
    assert_eq!(store.claim.lock().unwrap().as_ref().unwrap().since, at(101).unix);
}

#[test]
fn server_without_nonces_refuses_proofs_that_the_store_may_have_lost() {
    let store = ControlledStore::new(Ok(ClaimOutcome::Forgotten { before: at(100).unix }));
    let server = Server::with_store(DpopConfig::accepted(), store);
    for (now, made, good) in [(101, 101, false), (101, 159, false), (159, 159, false), (160, 160, true)] {
        let proved = server.prove(at(now), &client_proof(at(made), None, "a"));
        assert_eq!(proved.map_err(|answer| answer.status), if good { Ok(()) } else { Err(503) }, "{made}");
    }
}

#[test]
fn debug_output_hides_the_nonce_key_and_proofs() {
    let shown = format!("{:?}", DpopConfig::required().nonces([7; 32]));
    assert!(!shown.contains("7, 7"), "{shown}");
    let fields = [("authorization", "DPoP a-token"), ("dpop", "s3cret")];
    let protection = protection().dpop(DpopConfig::accepted());
    let head = RequestHead { method: "GET", path: "/mcp", fields: &fields, client: None };
    let AccessDecision::Verify(presented) = protection.check_request(&head, at(0)) else { panic!() };
    assert_eq!(presented.kind, TokenKind::Dpop);
    assert!(!format!("{presented:?}").contains("s3cret"));
}
