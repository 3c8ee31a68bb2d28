//! Fuzzing of a resource server: requests with tokens and proofs of all kinds, and the answers of their issuer.
//!
//! The issuer is simulated: only tokens that it has signed, or that it has answered to be active, give access.

mod shapes;

use alloc::collections::{BTreeMap, VecDeque};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use serde_json::{Value, json};

use shapes::{FuzzKey, ISSUER, ProofShape, RESOURCE, RequestShape, START, TokenShape};

use super::harness::choose;
use crate::auth::server::{
    Access, AccessDecision, Checker, DpopConfig, GrantedAccess, IntrospectionChecker, IntrospectionConfig,
    JwtChecker, JwtConfig, KeySource, PresentedToken, Protection, TokenDecision, TokenValidation,
    TrustedIssuer, VerifyError,
};
use crate::auth::{Fetch, FetchId, Now, Requirement, Secret, dpop};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::single_use::{SingleUse as _, UsedIds};
use crate::transport::http::server::{HttpResponse, RequestHead};
use crate::{Instant, UnixTime};

/// How far the clock of a client may differ, by its proofs.
const PROOF_WINDOW: Duration = Duration::from_secs(60);
/// How long the server uses the issuer's answer about a token.
const CACHED: Duration = Duration::from_secs(10);
/// How long the server uses keys that it cannot fetch again.
const MAX_STALE: Duration = Duration::from_secs(60 * 60);
/// The longest that a driver waits for an answer.
const FETCH_TIME: Duration = Duration::from_secs(20);
/// The least time between two fetches of keys.
const REFETCH_INTERVAL: u64 = 30;

#[derive(Arbitrary, Clone, Copy)]
struct Config {
    /// Whether the server asks the issuer about each token, which is opaque to it then.
    introspects: bool,
    proofs: Proofs,
}

#[derive(Arbitrary, Clone, Copy, PartialEq)]
enum Proofs {
    Refused,
    Accepted,
    Required,
}

#[derive(Arbitrary)]
enum Operation {
    NewToken {
        token: TokenShape,
        request: RequestShape,
    },
    TokenAgain {
        which: u8,
        request: RequestShape,
    },
    RawToken {
        token: Vec<u8>,
        request: RequestShape,
    },
    /// The issuer answers the oldest fetch: with the keys of the set bits, or with the claims of the token.
    Answer {
        keys: u8,
        is_active: bool,
        status: u8,
    },
    RawAnswer(Vec<u8>),
    Fail,
    /// Time passes: this many seconds, shifted to the right.
    Advance {
        seconds: u16,
        shift: u8,
    },
}

/// A token that was presented.
#[derive(Clone)]
struct KnownToken {
    text: String,
    /// Nothing, if no issuer has made it.
    shape: Option<TokenShape>,
    /// When the issuer has last said that it is active.
    active_at: Option<Instant>,
}

/// A request whose token is verified.
struct Waiting {
    presented: PresentedToken,
    token: usize,
    request: RequestShape,
    fetch: FetchId,
}

struct Server {
    config: Config,
    protection: Protection,
    checker: Box<dyn Checker>,
    proofs: UsedIds,
    now: Now,
    tokens: Vec<KnownToken>,
    /// The fetches without an answer, and when each began.
    fetches: VecDeque<(Fetch, Instant)>,
    fetched: u64,
    waiting: Vec<Waiting>,
    /// The issuer's keys as the server knows them, and since when.
    keys: Option<(u8, Instant)>,
    /// When each proof, by its key and number, was accepted last.
    used_proofs: BTreeMap<(u8, u8), Instant>,
    granted: usize,
}

/// Reads the input as requests to a server that requires tokens, and as answers of their issuer. Returns the number of
/// requests that were granted.
pub fn resource_server(data: &[u8]) -> usize {
    let mut input = Unstructured::new(data);
    let Ok(config) = Config::arbitrary(&mut input) else { return 0 };
    let mut server = Server::new(config);
    while !input.is_empty()
        && let Ok(operation) = Operation::arbitrary(&mut input)
    {
        server.apply(operation);
        server.collect_fetches();
    }
    while !server.fetches.is_empty() {
        server.fail_fetch("the end");
        server.collect_fetches();
    }
    assert!(server.waiting.is_empty(), "a request waits for no fetch");
    server.granted
}

impl Server {
    fn new(config: Config) -> Self {
        let protection = Protection::new(RESOURCE, ISSUER).unwrap().required(["mcp"]).unwrap();
        let protection = match config.proofs {
            Proofs::Refused => protection,
            Proofs::Accepted => protection.dpop(DpopConfig::accepted()),
            Proofs::Required => protection.dpop(DpopConfig::required()),
        };
        let checker: Box<dyn Checker> = if config.introspects {
            let endpoint = "https://login.example/introspect";
            let config = IntrospectionConfig::new(ISSUER, endpoint, "server", Secret::new("server-secret"));
            Box::new(IntrospectionChecker::new(config).unwrap())
        } else {
            let source = KeySource::Url("https://login.example/keys".into());
            Box::new(JwtChecker::new(JwtConfig::from_issuers([TrustedIssuer::new(ISSUER, source)])))
        };
        Self {
            config,
            protection,
            checker,
            proofs: UsedIds::default(),
            now: Now { instant: Instant::ORIGIN, unix: START },
            tokens: Vec::new(),
            fetches: VecDeque::new(),
            fetched: 0,
            waiting: Vec::new(),
            keys: None,
            used_proofs: BTreeMap::new(),
            granted: 0,
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::NewToken { token, request } => {
                let number = self.tokens.len();
                let (text, is_changed) = match self.config.introspects {
                    true => (format!("token-{number}"), false),
                    false => token.sign(),
                };
                let shape = Some(token).filter(|_| !is_changed);
                self.tokens.push(KnownToken { text, shape, active_at: None });
                self.request(number, request);
            }
            Operation::TokenAgain { which, request } => {
                if let Some(number) = usize::from(which).checked_rem(self.tokens.len()) {
                    self.request(number, request);
                }
            }
            Operation::RawToken { token, request } => {
                let text = String::from_utf8_lossy(&token).trim().to_owned();
                if self.tokens.iter().all(|known| known.text != text) {
                    self.tokens.push(KnownToken { text, shape: None, active_at: None });
                    self.request(self.tokens.len() - 1, request);
                }
            }
            Operation::Answer { keys, is_active, status } => {
                let status = choose([200, 200, 200, 404, 503], status);
                self.end_fetch(|server, id| {
                    let body = server.answer(keys, is_active, status);
                    server.checker.handle_answer(server.now, id, status, body.to_string().as_bytes());
                });
            }
            Operation::RawAnswer(body) => {
                self.end_fetch(|server, id| server.checker.handle_answer(server.now, id, 200, &body));
            }
            Operation::Fail => {
                self.fail_fetch("\u{1b}[1mgone");
            }
            Operation::Advance { seconds, shift } => {
                let elapsed = Duration::from_secs(u64::from(seconds) >> (shift % 16));
                let now = self.now.instant + elapsed;
                // Drivers give up a fetch before the checker does.
                while self
                    .fetches
                    .front()
                    .is_some_and(|(_, since)| now.saturating_since(*since) >= FETCH_TIME)
                {
                    self.fail_fetch("it took too long");
                }
                self.now = Now { instant: now, unix: self.now.unix + elapsed };
            }
        }
    }

    // --- The issuer ---

    fn collect_fetches(&mut self) {
        while let Some((fetch, policy)) = self.checker.poll_fetch() {
            assert_eq!(policy.check(&fetch.url), Ok(()));
            self.fetched += 1;
            self.fetches.push_back((fetch, self.now.instant));
        }
        assert!(!self.checker.has_fetch());
        let most = self.now.instant.since_origin().as_secs() / REFETCH_INTERVAL + 1;
        assert!(self.config.introspects || self.fetched <= most, "{} fetches of keys", self.fetched);
    }

    fn fail_fetch(&mut self, detail: &str) {
        self.end_fetch(|server, id| server.checker.handle_failed(server.now, id, detail));
    }

    /// Ends the oldest fetch, and continues the requests that wait for it.
    fn end_fetch(&mut self, end: impl FnOnce(&mut Self, FetchId)) {
        let Some((fetch, _)) = self.fetches.front() else { return };
        let id = fetch.id;
        end(self, id);
        self.fetches.pop_front();
        let (ready, rest) =
            core::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.fetch == id);
        self.waiting = rest;
        let ready: Vec<Waiting> = ready;
        for waiting in ready {
            self.verify(waiting.presented, waiting.token, waiting.request);
        }
    }

    /// The answer to the oldest fetch, which has this status.
    fn answer(&mut self, keys: u8, is_active: bool, status: u16) -> Value {
        if !self.config.introspects {
            let sets = (0..3).filter(|number| keys >> number & 1 == 1);
            let set: Vec<_> =
                sets.map(|number| FuzzKey::new(number).jwk(Some(&number.to_string()))).collect();
            if status == 200 && !set.is_empty() {
                self.keys = Some((keys, self.now.instant));
            }
            return json!({"keys": set});
        }
        let body = &self.fetches[0].0.body;
        let text = form_urlencoded::parse(body).find(|(name, _)| name == "token").expect("a token").1;
        let now = self.now.instant;
        let token =
            self.tokens.iter_mut().find(|known| known.text == *text).expect("a token that was presented");
        let Some(shape) = token.shape.as_ref().filter(|_| is_active) else { return json!({"active": false}) };
        if status == 200 {
            token.active_at = Some(now);
        }
        let mut claims = shape.claims();
        claims["active"] = true.into();
        claims
    }

    // --- Requests ---

    fn request(&mut self, token: usize, request: RequestShape) {
        let KnownToken { text, shape, .. } = &self.tokens[token];
        let bound_to = shape.as_ref().and_then(|shape| shape.bound_to);
        let authorization = format!("{} {text}", request.scheme(bound_to.is_some()));
        let proof = request.proof().map(|proof| self.prove(proof, text, bound_to));
        let fields: Vec<_> = [("authorization", authorization)]
            .into_iter()
            .chain(proof.map(|proof| ("dpop", proof)))
            .collect();
        let head = RequestHead { method: "POST", path: "/mcp", fields: &fields, client: None };
        match self.protection.check_request(&head, self.now) {
            AccessDecision::Answer(refusal) => self.check_refusal(&refusal, token),
            AccessDecision::Verify(presented) => self.verify(presented, token, request),
        }
    }

    fn prove(&self, shape: &ProofShape, token: &str, bound_to: Option<u8>) -> String {
        let token = Secret::new(if shape.is_for_token() { token } else { "another" });
        let shift = Duration::from_secs(shape.seconds().unsigned_abs().into());
        let now = self.now.unix.since_epoch();
        let time = UnixTime::from_epoch(if shape.seconds() < 0 { now - shift } else { now + shift });
        let key = FuzzKey::new(shape.key(bound_to));
        let number = shape.number().to_string();
        dpop::proof(&key, shape.method(), shape.url(), Some(&token), None, time, &number).unwrap()
    }

    fn verify(&mut self, presented: PresentedToken, token: usize, request: RequestShape) {
        let owner = QuotaOwner::LOCAL;
        let mut validation = self.checker.check(self.now, &owner, &presented.token);
        let verified: Result<Access, VerifyError> = loop {
            validation = match validation {
                TokenValidation::Valid(access) => break Ok(*access),
                TokenValidation::Rejected(error) => break Err(error),
                TokenValidation::Pending(fetch) => {
                    return self.waiting.push(Waiting { presented, token, request, fetch });
                }
                TokenValidation::SignatureUnchecked(unverified) => {
                    match unverified.verify(&presented.token) {
                        Err(_) if !unverified.has_key_id() => {
                            self.checker.recheck(self.now, &presented.token, &unverified)
                        }
                        verified => verified.into(),
                    }
                }
            };
        };
        let outcome = self.protection.check_token(&presented, verified).and_then(|decision| match decision {
            TokenDecision::Granted(granted) => Ok(granted),
            TokenDecision::Claim(claim) => {
                let mut used = self.proofs.claim(claim.claim().clone());
                let Poll::Ready(used) = used.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                    panic!("the store in memory answers at once")
                };
                claim.resolve(used)
            }
        });
        match outcome {
            Ok(granted) => self.check_grant(&granted, &presented, token, &request),
            Err(refusal) => {
                self.check_refusal(&refusal, token);
                self.check_refused(&refusal, token, presented.received.unix, &request);
            }
        }
    }

    // --- Checks ---

    /// Whether the issuer vouches for a token as far as the server can know now.
    fn is_vouched_for(&self, token: usize, most_age: Duration) -> bool {
        let KnownToken { shape: Some(shape), active_at, .. } = &self.tokens[token] else { return false };
        let is_recent = |since: Instant| self.now.instant.saturating_since(since) < most_age;
        if self.config.introspects {
            active_at.is_some_and(is_recent)
        } else {
            self.keys.is_some_and(|(keys, since)| is_recent(since) && shape.is_signed_by(keys))
        }
    }

    /// Whether the sender of a request may use its token, apart from earlier uses of its proof.
    fn is_of_holder(&self, shape: &TokenShape, request: &RequestShape) -> bool {
        let has_proof = request.scheme(shape.bound_to.is_some()).eq_ignore_ascii_case("dpop");
        let Some(key) = shape.bound_to else { return !has_proof && self.config.proofs != Proofs::Required };
        let Some(proof) = request.proof() else { return false };
        has_proof
            && self.config.proofs != Proofs::Refused
            && proof.key(Some(key)) == key % 3
            && proof.url() == RESOURCE
            && proof.method() == "POST"
            && proof.is_for_token()
            && u64::from(proof.seconds().unsigned_abs()) <= PROOF_WINDOW.as_secs()
    }

    fn check_grant(
        &mut self,
        granted: &GrantedAccess,
        presented: &PresentedToken,
        token: usize,
        request: &RequestShape,
    ) {
        self.granted += 1;
        let introspects = self.config.introspects;
        let most_age = if introspects { CACHED } else { MAX_STALE };
        let shape = self.tokens[token].shape.clone().expect("a token that no issuer has made is accepted");
        assert!(self.is_vouched_for(token, most_age), "the issuer does not vouch for the token");
        assert!(shape.allows(presented.received.unix, introspects), "a token is accepted despite its claims");
        assert!(self.is_of_holder(&shape, request), "a token is accepted from another sender");
        assert_eq!(granted.access().principal.as_str(), shape.principal());
        if let (Some(proof), Some(_)) = (request.proof(), shape.bound_to) {
            let id = (proof.key(shape.bound_to), proof.number());
            let before = self.used_proofs.insert(id, self.now.instant);
            let elapsed = before.map(|before| self.now.instant.saturating_since(before));
            assert!(elapsed.is_none_or(|elapsed| elapsed > 2 * PROOF_WINDOW), "a proof is accepted twice");
        }
    }

    /// Requires that a refused request had a reason to be.
    fn check_refused(
        &self,
        refusal: &HttpResponse,
        token: usize,
        received: UnixTime,
        request: &RequestShape,
    ) {
        let Some(shape) = &self.tokens[token].shape else { return };
        let id = |proof: &ProofShape| (proof.key(shape.bound_to), proof.number());
        let is_repeated = request.proof().is_some_and(|proof| self.used_proofs.contains_key(&id(proof)));
        // The server has the issuer's latest answer.
        let is_known = self.is_vouched_for(token, Duration::from_secs(1));
        let allows = received == self.now.unix && shape.allows(received, self.config.introspects);
        assert!(
            !is_known || !allows || is_repeated || !self.is_of_holder(shape, request),
            "a valid token is refused: {:?}",
            refusal.body
        );
    }

    fn check_refusal(&self, refusal: &HttpResponse, token: usize) {
        assert!([400, 401, 403, 429, 503].contains(&refusal.status), "{refusal:?}");
        let text = &self.tokens[token].text;
        let shown =
            |shown: &[u8]| text.len() > 8 && shown.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!shown(&refusal.body), "a refusal repeats the token");
        let mut has_challenge = false;
        for (name, value) in refusal.headers.iter() {
            assert!(!shown(value.as_bytes()) && !value.contains(char::is_control));
            if *name == "www-authenticate" {
                has_challenge = true;
                assert!(Requirement::parse(value).is_some(), "a challenge that no client can read");
            }
        }
        assert_eq!(has_challenge, [400, 401, 403].contains(&refusal.status), "{}", refusal.status);
    }
}
