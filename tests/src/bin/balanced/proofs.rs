//! Access tokens: what instances accept, clients whose tokens are bound to keys (DPoP), and proofs that are used again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use mcp_hyper::WireEvent;
use mcp_hyper::auth::{Authorization, MemoryStore, TokenStore as _};
use mcp_proto::UnixTime;
use mcp_proto::auth::client::{AuthConfig, DpopKey, LoginMode, Record};
use mcp_proto::auth::server::{Access, DpopConfig, PresentedToken, Protection};
use mcp_proto::auth::{Es256, Secret, Signer as _, TokenKind, dpop};
use mcp_proto::front::SingleUse;
use mcp_proto::front::guard::Guard;
use mcp_proto::peer::Principal;
use serde_json::json;
use smol::Timer;

use crate::Outcome;
use crate::crowd::{Crowd, send};
use crate::instance_log::ensure;

/// The URL of the server, as clients know it.
pub(crate) const URL: &str = "http://localhost/mcp";
/// The token of clients without a key.
pub(crate) const BEARER: &str = "Bearer of-anyone";
/// The issuer of the tokens. Nothing listens there: a client that tries to log in fails.
const ISSUER: &str = "http://127.0.0.1:1";
/// How often a proof is used at once: the balancer sends each use to another instance.
const AT_ONCE: usize = 3;
/// When a proof is used once more. Redis is started again within that time.
const LATER: Duration = Duration::from_secs(4);

/// The uses of proofs.
#[derive(Default)]
pub(crate) struct Tally {
    /// Proofs that were used several times.
    proofs: u32,
    /// Those uses, by the answers.
    uses: BTreeMap<&'static str, u32>,
    /// Clients that repeated a request because the server demanded another nonce than the one that it had accepted.
    renewals: u32,
}

impl Tally {
    /// Whether proofs were accepted and refused, and nonces replaced.
    pub(crate) fn has_all_kinds(&self) -> bool {
        self.renewals > 0 && [ACCEPTED, USED].iter().all(|kind| self.uses.contains_key(kind))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proofs, uses, renewals } = self;
        let times = AT_ONCE + 1;
        write!(
            f,
            "{proofs} proofs were used {times} times each, and none was accepted twice: {uses:?}; {renewals} requests of other \
             clients were repeated with a new nonce"
        )
    }
}

/// Accepts every token. One that comes with a proof is bound to the key whose thumbprint it is.
pub(crate) fn guard(nonces: [u8; 32], used_proofs: Arc<dyn SingleUse>) -> Outcome<Guard> {
    let protection = Protection::new(URL, ISSUER)?.dpop(DpopConfig::accepted().nonces(nonces));
    let verify = async |presented: PresentedToken| {
        let mut access = Access::new(Principal::new("crowd"), URL);
        access.key = (presented.kind == TokenKind::Dpop).then(|| presented.token.expose().to_owned());
        Ok(access)
    };
    Ok(Guard::new(protection, verify).single_use(used_proofs))
}

fn new_key() -> Outcome<Es256> {
    let mut entropy = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut entropy)?;
    Ok(Es256::from_entropy(&entropy)?)
}

fn token(key: &Es256) -> Outcome<Secret> {
    Ok(dpop::thumbprint(&key.public_jwk()).map(Secret::new).ok_or("the key has no thumbprint")?)
}

/// The authorization of a client that has logged in before: its token is bound to a key of its own.
pub(crate) async fn authorization() -> Outcome<Authorization> {
    let key = new_key()?;
    let record = json!({"version": 1, "tokens": {
        "issuer": ISSUER, "client_id": "crowd", "resource": URL, "access": token(&key)?.expose(), "kind": "DPoP",
        "issued": unix_now()?.since_epoch().as_secs(),
    }});
    let store = MemoryStore::new();
    store.swap(URL, None, Some(Record::from_json(record.to_string().as_bytes())?)).await?;
    let mut config = AuthConfig::new("crowd", "http://127.0.0.1/callback");
    (config.dpop, config.login_mode) = (Some(DpopKey::Provided(Arc::new(key))), LoginMode::NonInteractive);
    Ok(Authorization::new(config).store(store))
}

/// Counts the requests of a client that are repeated because their nonce, which was accepted before, no longer is.
pub(crate) fn count_renewals(crowd: Arc<Crowd>) -> impl FnMut(&WireEvent<'_>) + Send {
    let mut was_accepted = false;
    move |event| {
        let WireEvent::Head { status, headers, .. } = event else { return };
        was_accepted |= status.is_success();
        if was_accepted && *status == StatusCode::UNAUTHORIZED && headers.contains_key("dpop-nonce") {
            crowd.tally(|tally| tally.proofs.renewals += 1);
        }
    }
}

/// Makes calls, and sends each with its proof to several instances at once, and once more later.
pub(crate) async fn check_proofs_until_end(crowd: Arc<Crowd>) -> Outcome {
    let key = new_key()?;
    let token = token(&key)?;
    let mut nonce: Option<String> = None;
    while !crowd.is_over() {
        let n = crowd.next_number();
        let (made, jti) = (unix_now()?, format!("call {n}"));
        let proof = dpop::proof(&key, "POST", URL, Some(&token), nonce.as_deref(), made, &jti)?;
        let (headers, body) = call(n, &token, &proof)?;
        let mut uses = Vec::new();
        let send = || smol::spawn(send(crowd.socket.clone(), headers.clone(), body.clone()));
        for sent in (0..AT_ONCE).map(|_| send()).collect::<Vec<_>>() {
            uses.push(sent.await);
        }
        Timer::after(LATER).await;
        uses.push(send().await);
        let fresh =
            uses.iter().rev().flatten().find_map(|(_, headers)| headers.get("dpop-nonce")?.to_str().ok());
        nonce = fresh.map(str::to_owned).or(nonce);
        let kinds = uses.iter().map(kind_of).collect::<Outcome<Vec<_>>>()?;
        let accepted = kinds.iter().filter(|kind| **kind == ACCEPTED).count();
        ensure(accepted <= 1, || format!("a proof was accepted {accepted} times"))?;
        crowd.tally(|tally| {
            tally.answered.extend((accepted == 1).then_some(n));
            tally.proofs.proofs += 1;
            kinds.into_iter().for_each(|kind| *tally.proofs.uses.entry(kind).or_default() += 1);
        });
    }
    Ok(())
}

const ACCEPTED: &str = "accepted";
const USED: &str = "refused as used";

/// What an answer says of a use of a proof.
fn kind_of(answer: &Outcome<(StatusCode, HeaderMap)>) -> Outcome<&'static str> {
    match answer {
        Ok((StatusCode::OK, _)) => Ok(ACCEPTED),
        Ok((StatusCode::UNAUTHORIZED, headers)) => {
            let challenge = headers.get("www-authenticate").ok_or("a refusal has no challenge")?.to_str()?;
            if challenge.contains("use_dpop_nonce") {
                Ok("refused for its nonce")
            } else if challenge.contains("invalid_dpop_proof") {
                Ok(USED)
            } else {
                Err(format!("a proof is refused otherwise: {challenge}").into())
            }
        }
        Ok((StatusCode::SERVICE_UNAVAILABLE, headers)) if headers.contains_key("retry-after") => {
            Ok("refused without Redis")
        }
        // The balancer answers so for an instance that was killed.
        Ok((StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _))
        | Err(_) => Ok("may have run"),
        Ok((status, _)) => Err(format!("a call with a proof is answered by status {status}").into()),
    }
}

/// A call of 2026-07-28 that records its end at once.
fn call(n: u32, token: &Secret, proof: &str) -> Outcome<(HeaderMap, Vec<u8>)> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "count", "arguments": {"n": n}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "crowd", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let authorization = format!("DPoP {}", token.expose());
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "count"),
        ("authorization", authorization.as_str()),
        ("dpop", proof),
    ];
    let headers = headers.map(|(name, value)| {
        HeaderValue::from_str(value).map(|value| (HeaderName::from_static(name), value))
    });
    Ok((headers.into_iter().collect::<Result<_, _>>()?, body.to_string().into_bytes()))
}

fn unix_now() -> Outcome<UnixTime> {
    Ok(UnixTime::from_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?))
}
