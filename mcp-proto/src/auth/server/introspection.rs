//! Tokens that only their issuer understands: it is asked (RFC 7662).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;

use super::checker::FETCH_TIMEOUT;
use super::claims::{Confirmation, OneOrMany, principal, unix_time};
use super::expiring_cache::{Digest, ExpiringCache, digest};
use super::{Access, Checker, TokenValidation, VerifyError};
use crate::Instant;
use crate::auth::{Fetch, FetchId, FetchPolicy, FetchPolicyError, Now, PrivateNetworks, Secret};
use crate::quota::{QuotaOwner, Shares};
use crate::schema::Json;
use crate::transport::http::Verb;

/// How the issuer is asked about tokens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IntrospectionConfig {
    /// What the issuer is called.
    pub issuer: String,
    /// Where it is asked.
    pub endpoint: String,
    /// By which name this server is known there.
    pub client_id: String,
    /// The password that goes with it.
    pub client_secret: Secret,
    /// What holds if the issuer does not say for whom a token is. Default: the token is refused.
    pub missing_audience: MissingAudience,
    /// How long an answer is kept, though never longer than the token is good for. Default 10 s: as long does a token that
    /// was withdrawn stay good. At least 1 s.
    pub cache_ttl: Duration,
    /// How many answers are kept: so many of good tokens, and so many of others. Default 4,096. If there are more, an
    /// [owner](crate::quota::QuotaOwner) gives up its own first: the principal of a good token, the sender of another.
    pub cache_entries: usize,
    /// How many tokens are asked about at once. Default 256. A sender with
    /// [more than its share](crate::quota::Shares::try_take) of them is answered with 429; only tokens that were good
    /// within the last 10 min are asked about then, on behalf of whom they name.
    pub max_pending: usize,
    /// Whether the endpoint may be in a private network. Default: it may. It is the operator who names it.
    pub private_networks: PrivateNetworks,
}

/// What holds if the issuer does not say for whom a token is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MissingAudience {
    /// The token is refused: it may be for anybody.
    #[default]
    Refused,
    /// It is for this server, which is named so. Right only where the issuer calls tokens inactive that are for others than
    /// who asks.
    ThisServer(String),
}

impl IntrospectionConfig {
    /// Asks `issuer` at `endpoint`, as `client_id`.
    pub fn new(
        issuer: impl Into<String>,
        endpoint: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: Secret,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            endpoint: endpoint.into(),
            client_id: client_id.into(),
            client_secret,
            missing_audience: MissingAudience::Refused,
            cache_ttl: Duration::from_secs(10),
            cache_entries: 4096,
            max_pending: 256,
            private_networks: PrivateNetworks::Allowed,
        }
    }
}

/// How long an answer is kept at least: whoever waits for it is to get it.
const KEPT_AT_LEAST: Duration = Duration::from_secs(1);

/// How long it is remembered whose token it is that was good: longer than it takes to use it again.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// How many bytes an answer may have: what is kept of all of them is bounded so.
const ANSWER_BYTES: usize = 16 * 1024;

/// Asks the issuer of tokens what they are good for.
///
/// Answers are kept in here for a [moment](IntrospectionConfig::cache_ttl), by a hash of the token. Many requests with one token
/// ask once.
///
/// Who a token names is told as `JwtChecker` does.
pub struct IntrospectionChecker {
    config: IntrospectionConfig,
    reach: FetchPolicy,
    /// Tokens that are good, or were lately.
    valid: ExpiringCache<ValidToken>,
    /// Tokens that are not.
    invalid: ExpiringCache<VerifyError>,
    /// Which tokens are being asked about.
    pending_by_token: BTreeMap<Digest, FetchId>,
    /// The same by their exchanges: the oldest first.
    pending: BTreeMap<FetchId, PendingToken>,
    shares: Shares,
    fetches: VecDeque<Fetch>,
    last_fetch: u64,
}

/// What is known of a good token.
struct ValidToken {
    /// How long it is taken without asking.
    expires: Instant,
    access: Access,
}

/// A token that is being asked about.
struct PendingToken {
    digest: Digest,
    started: Instant,
    /// Whose quota it uses.
    owner: QuotaOwner,
    /// Who has sent it.
    sender: QuotaOwner,
}

/// What an issuer answers (RFC 7662, section 2.2).
#[derive(Deserialize)]
struct IntrospectionResponse {
    active: bool,
    iss: Option<String>,
    sub: Option<String>,
    #[serde(default)]
    aud: OneOrMany,
    client_id: Option<String>,
    #[serde(default)]
    scope: OneOrMany,
    exp: Option<f64>,
    nbf: Option<f64>,
    cnf: Option<Confirmation>,
}

impl IntrospectionChecker {
    /// As `config` has it.
    ///
    /// # Errors
    /// If the endpoint is none that a password may be sent to.
    pub fn new(config: IntrospectionConfig) -> Result<Self, FetchPolicyError> {
        let reach = FetchPolicy::for_server(&config.endpoint, config.private_networks)?;
        reach.check(&config.endpoint)?;
        Ok(Self {
            reach,
            valid: ExpiringCache::new(config.cache_entries.max(1)),
            invalid: ExpiringCache::new(config.cache_entries.max(1)),
            pending_by_token: BTreeMap::new(),
            pending: BTreeMap::new(),
            shares: Shares::new(config.max_pending),
            fetches: VecDeque::new(),
            last_fetch: 0,
            config,
        })
    }

    /// Gives up exchanges that nobody makes any more.
    fn expire_pending(&mut self, now: Instant) {
        while let Some(oldest) = self.pending.first_entry()
            && now.saturating_since(oldest.get().started) >= FETCH_TIMEOUT
        {
            let (id, PendingToken { digest: name, owner, .. }) = oldest.remove_entry();
            self.pending_by_token.remove(&name);
            self.shares.give_back(&owner, 1);
            // They are in the same order.
            self.fetches.pop_front_if(|fetch| fetch.id == id);
        }
    }

    fn start_introspection(
        &mut self,
        now: Instant,
        name: Digest,
        sender: &QuotaOwner,
        token: &Secret,
    ) -> TokenValidation {
        let Some(owner) = self.reserve_quota(now, &name, sender) else {
            return TokenValidation::Rejected(VerifyError::over_quota(
                "too many tokens are being asked about",
            ));
        };
        self.last_fetch = self.last_fetch.saturating_add(1);
        let id = FetchId::new(self.last_fetch);
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token.expose()).append_pair("token_type_hint", "access_token");
        self.fetches.push_back(Fetch {
            id,
            verb: Verb::Post,
            url: self.config.endpoint.clone(),
            headers: [
                ("accept", Secret::new("application/json")),
                ("content-type", Secret::new("application/x-www-form-urlencoded")),
                ("authorization", self.credentials()),
            ]
            .into(),
            body: Bytes::from(form.finish()),
            limit: ANSWER_BYTES,
        });
        self.pending_by_token.insert(name, id);
        self.pending.insert(id, PendingToken { digest: name, started: now, owner, sender: sender.clone() });
        TokenValidation::Pending(id)
    }

    /// Takes a share of what may be asked at once: of the sender, or of whom the token is known to name. Returns whose.
    fn reserve_quota(&mut self, now: Instant, name: &Digest, sender: &QuotaOwner) -> Option<QuotaOwner> {
        if self.shares.try_take(sender, 1).is_ok() {
            return Some(sender.clone());
        }
        let named = self.valid.get(now, name).map(|good| QuotaOwner::from(good.access.principal.clone()))?;
        self.shares.try_take(&named, 1).ok().map(|()| named)
    }

    /// RFC 6749, section 2.3.1.
    fn credentials(&self) -> Secret {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let id = encoded(&self.config.client_id);
        let secret = Secret::new(encoded(self.config.client_secret.expose()));
        let pair = Secret::new(format!("{id}:{}", secret.expose()));
        Secret::new(format!("Basic {}", BASE64.encode(pair.expose())))
    }

    fn handle_result(&mut self, now: Now, id: FetchId, known: Result<Access, VerifyError>) {
        let Some(PendingToken { digest: name, owner, sender, .. }) = self.pending.remove(&id) else { return };
        self.pending_by_token.remove(&name);
        self.shares.give_back(&owner, 1);
        let now = now.instant;
        match known {
            Ok(access) => {
                let until = now + self.config.cache_ttl.max(KEPT_AT_LEAST);
                let owner = QuotaOwner::from(access.principal.clone());
                self.invalid.remove(&name);
                self.valid.insert(
                    now,
                    &owner,
                    name,
                    until.max(now + REMEMBERED),
                    ValidToken { expires: until, access },
                );
            }
            // Whose it was stays known: nothing says that it is not good any more.
            Err(error @ VerifyError::Unavailable(_)) => {
                self.invalid.insert(now, &sender, name, now + KEPT_AT_LEAST, error);
            }
            Err(error) => {
                self.valid.remove(&name);
                self.invalid.insert(
                    now,
                    &sender,
                    name,
                    now + self.config.cache_ttl.max(KEPT_AT_LEAST),
                    error,
                );
            }
        }
    }

    fn parse_response(&self, now: Now, status: u16, body: &[u8]) -> Result<Access, VerifyError> {
        if status != 200 {
            return Err(VerifyError::unavailable(format!("the issuer answers with status {status}")));
        }
        let unreadable = |_| VerifyError::unavailable("the answer of the issuer can not be read");
        let answer: IntrospectionResponse = serde_json::from_slice(body).map_err(unreadable)?;
        let invalid = |why: &str| Err(VerifyError::invalid(why));
        if !answer.active {
            return invalid("its issuer does not know it, or not any more");
        }
        if answer.iss.as_ref().is_some_and(|issuer| *issuer != self.config.issuer) {
            return invalid("it is of another issuer");
        }
        if answer.nbf.and_then(unix_time).is_some_and(|from| from > now.unix) {
            return invalid("it is not good yet");
        }
        if answer.cnf.as_ref().is_some_and(Confirmation::is_unsupported) {
            return invalid("it is bound to what this server does not see");
        }
        let principal = principal(&self.config.issuer, answer.sub.as_deref(), answer.client_id.as_deref());
        let Some(principal) = principal else { return invalid("it names nobody") };
        let mut audiences = answer.aud.0;
        if let MissingAudience::ThisServer(name) = &self.config.missing_audience
            && audiences.is_empty()
        {
            audiences.push(name.clone());
        }
        let claims = core::str::from_utf8(body).ok().and_then(|text| Json::new(text).ok());
        Ok(Access {
            principal,
            scopes: answer.scope.scopes(),
            client_id: answer.client_id,
            expires: answer.exp.and_then(unix_time),
            key: answer.cnf.and_then(|bound| bound.jkt),
            audiences,
            claims: claims.unwrap_or_else(Json::empty_object),
        })
    }
}

impl Checker for IntrospectionChecker {
    fn check(&mut self, now: Now, owner: &QuotaOwner, token: &Secret) -> TokenValidation {
        let name = digest([token.expose()]);
        let now = now.instant;
        if let Some(error) = self.invalid.get(now, &name) {
            return TokenValidation::Rejected(error.clone());
        }
        if let Some(good) = self.valid.get(now, &name).filter(|good| good.expires > now) {
            return TokenValidation::Valid(Box::new(good.access.clone()));
        }
        self.expire_pending(now);
        match self.pending_by_token.get(&name) {
            Some(id) => TokenValidation::Pending(*id),
            None => self.start_introspection(now, name, owner, token),
        }
    }

    fn known_owner(&self, now: Now, token: &Secret) -> Option<QuotaOwner> {
        let good = self.valid.get(now.instant, &digest([token.expose()]))?;
        Some(QuotaOwner::from(good.access.principal.clone()))
    }

    fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, body: &[u8]) {
        let known = self.parse_response(now, status, body);
        self.handle_result(now, id, known);
    }

    fn handle_failed(&mut self, now: Now, id: FetchId, detail: &str) {
        self.handle_result(now, id, Err(VerifyError::unavailable(detail)));
    }

    fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)> {
        Some((self.fetches.pop_front()?, self.reach))
    }

    fn has_fetch(&self) -> bool {
        !self.fetches.is_empty()
    }
}

impl fmt::Debug for IntrospectionChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionChecker").field("config", &self.config).finish_non_exhaustive()
    }
}
