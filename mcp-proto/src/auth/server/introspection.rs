//! Token introspection: asks the issuer about opaque tokens (RFC 7662).

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::Instant;
use crate::auth::fetch::FORM;
use crate::auth::keys::basic_credentials;
use crate::auth::metadata::document_text;
use crate::auth::{Fetch, FetchId, FetchPolicy, FetchPolicyError, Now, PrivateNetworks, Secret};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::quota::{FairTable, QuotaOwner, Shares};

use super::access::{Claims, unix_time};
use super::{Access, Checker, FETCH_TIMEOUT, TokenValidation, VerifyError};

config! {
    /// Configuration of token introspection.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub struct IntrospectionConfig {
        /// The issuer's identifier.
        pub issuer: String = issuer.into(),
        /// URL of the introspection endpoint.
        pub endpoint: String = endpoint.into(),
        /// The client id of this server at the issuer.
        pub client_id: String = client_id.into(),
        /// The client secret of this server at the issuer.
        pub client_secret: Secret = client_secret,
        /// How to treat tokens for which the issuer names no audience. Default: they are refused.
        pub missing_audience: MissingAudience = MissingAudience::Refused,
        /// How long a response is cached, at most until the token expires. Default 10 s: for that time a revoked token
        /// remains valid. At least 1 s.
        pub cache_ttl: Duration = Duration::from_secs(10),
        /// Maximum number of cached responses, separately for valid and for invalid tokens. Default 4,096. A full cache
        /// first evicts responses of the [owner](crate::quota::QuotaOwner) that adds one: the principal of a valid
        /// token, or the sender of an invalid one.
        pub cache_entries: usize = 4096,
        /// Maximum number of concurrent introspections. Default 256. A sender with [more than its
        /// share](crate::quota::Shares::try_take) of them gets 429, except for tokens that were valid within the last
        /// 10 min, which use the quota of their principal.
        pub max_pending: usize = 256,
    }

    /// Introspects tokens of `issuer` at `endpoint`, as `client_id`.
    pub fn new(issuer: impl Into<String>, endpoint: impl Into<String>, client_id: impl Into<String>, client_secret: Secret);
}

/// How to treat tokens for which the issuer names no audience.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MissingAudience {
    /// The token is refused: it may be for any resource.
    #[default]
    Refused,
    /// The token is for this server, under this name. Correct only if the issuer reports tokens as inactive to every
    /// server that they are not for.
    ThisServer(String),
}

/// Minimum cache time, so that every waiting request gets the response.
const KEPT_AT_LEAST: Duration = Duration::from_secs(1);

/// How long the owner of a valid token is remembered: longer than the usual time between two uses.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Maximum bytes of a response, which bounds the size of the cache.
const ANSWER_BYTES: usize = 16 * 1024;

/// A checker that asks the tokens' issuer.
///
/// It caches responses for [a short time](IntrospectionConfig::cache_ttl), by a hash of the token. Concurrent requests
/// with the same token share one introspection.
///
/// It names principals as `JwtChecker` does.
pub struct IntrospectionChecker {
    config: IntrospectionConfig,
    reach: FetchPolicy,
    /// Tokens that are valid, or were recently.
    valid: ExpiringCache<ValidToken>,
    /// Invalid tokens.
    invalid: ExpiringCache<VerifyError>,
    /// Fetches by token, for tokens under introspection.
    pending_by_token: OrderedMap<Digest, FetchId>,
    /// Tokens under introspection by fetch, the oldest first.
    pending: OrderedMap<FetchId, PendingToken>,
    shares: Shares,
    fetches: VecDeque<Fetch>,
    last_fetch: u64,
}

/// The cached access of a valid token.
struct ValidToken {
    /// When the token must be introspected again.
    expires: Instant,
    access: Access,
}

/// A token under introspection.
struct PendingToken {
    digest: Digest,
    started: Instant,
    /// The owner whose quota it uses.
    owner: QuotaOwner,
    /// The sender of the token.
    sender: QuotaOwner,
}

/// The issuer's response (RFC 7662, section 2.2).
#[derive(Deserialize)]
struct IntrospectionResponse {
    active: bool,
    #[serde(flatten)]
    claims: Claims,
}

impl IntrospectionChecker {
    /// A checker with this configuration.
    ///
    /// # Errors
    /// If the endpoint is unsuitable for credentials.
    pub fn new(config: IntrospectionConfig) -> Result<Self, FetchPolicyError> {
        let reach = FetchPolicy::for_server(&config.endpoint, PrivateNetworks::Allowed)?;
        reach.check(&config.endpoint)?;
        Ok(Self {
            reach,
            valid: ExpiringCache::new(config.cache_entries.max(1)),
            invalid: ExpiringCache::new(config.cache_entries.max(1)),
            pending_by_token: OrderedMap::new(),
            pending: OrderedMap::new(),
            shares: Shares::new(config.max_pending),
            fetches: VecDeque::new(),
            last_fetch: 0,
            config,
        })
    }

    /// Gives up fetches that no driver performs any more.
    fn expire_pending(&mut self, now: Instant) {
        let is_old =
            |(_, oldest): &(&FetchId, &PendingToken)| now.saturating_since(oldest.started) >= FETCH_TIMEOUT;
        while self.pending.first_key_value().filter(is_old).is_some()
            && let Some((id, PendingToken { digest: name, owner, .. })) = self.pending.pop_first()
        {
            self.pending_by_token.remove(&name);
            self.shares.give_back(&owner, 1);
            // Both queues have the same order.
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
        let IntrospectionConfig { endpoint, client_id, client_secret, .. } = &self.config;
        let mut fetch = Fetch::post(endpoint.clone(), FORM, form.finish());
        fetch.headers.push(("authorization", basic_credentials(client_id, client_secret)));
        self.fetches.push_back(Fetch { id, limit: ANSWER_BYTES, ..fetch });
        self.pending_by_token.insert(name, id);
        self.pending.insert(id, PendingToken { digest: name, started: now, owner, sender: sender.clone() });
        TokenValidation::Pending(id)
    }

    /// Takes a share of the concurrent introspections: from the sender, or from the known owner of the token. Returns
    /// the owner that it took.
    fn reserve_quota(&mut self, now: Instant, name: &Digest, sender: &QuotaOwner) -> Option<QuotaOwner> {
        if self.shares.try_take(sender, 1).is_ok() {
            return Some(sender.clone());
        }
        let named = self.owner_of(now, name)?;
        self.shares.try_take(&named, 1).ok().map(|()| named)
    }

    /// The owner of a token that is valid, or was recently.
    fn owner_of(&self, now: Instant, name: &Digest) -> Option<QuotaOwner> {
        self.valid.get(now, name).map(|good| QuotaOwner::from(good.access.principal.clone()))
    }

    fn handle_result(&mut self, now: Now, id: FetchId, known: Result<Access, VerifyError>) {
        let Some(PendingToken { digest: name, owner, sender, .. }) = self.pending.remove(&id) else { return };
        self.pending_by_token.remove(&name);
        self.shares.give_back(&owner, 1);
        let now = now.instant;
        let until = now + self.config.cache_ttl.max(KEPT_AT_LEAST);
        match known {
            Ok(access) => {
                let owner = QuotaOwner::from(access.principal.clone());
                self.invalid.remove(&name);
                let remembered = until.max(now + REMEMBERED);
                self.valid.insert(now, &owner, name, remembered, ValidToken { expires: until, access });
            }
            // The owner stays known: the token may still be valid.
            Err(error @ VerifyError::Unavailable(_)) => {
                self.invalid.insert(now, &sender, name, now + KEPT_AT_LEAST, error);
            }
            Err(error) => {
                self.valid.remove(&name);
                self.invalid.insert(now, &sender, name, until, error);
            }
        }
    }

    fn parse_response(&self, now: Now, status: u16, body: &[u8]) -> Result<Access, VerifyError> {
        if status != 200 {
            return Err(VerifyError::unavailable(format!("the issuer answers with status {status}")));
        }
        let text = document_text(body).unwrap_or_default();
        let unreadable = |_| VerifyError::unavailable("the answer of the issuer cannot be read");
        let answer: IntrospectionResponse = serde_json::from_str(text).map_err(unreadable)?;
        let invalid = |why: &str| Err(VerifyError::invalid(why));
        //= S10.2 "introspection"
        if !answer.active {
            return invalid("the token's issuer does not know it, or not any more");
        }
        let claims = answer.claims;
        if claims.iss.as_ref().is_some_and(|issuer| *issuer != self.config.issuer) {
            return invalid("the token is of another issuer");
        }
        // A time that cannot be read is no time without an end.
        let [from, expires] = [claims.nbf, claims.exp].map(|claim| claim.map(unix_time));
        if [from, expires].contains(&Some(None)) {
            return invalid("the token's claims cannot be read");
        }
        if from.flatten().is_some_and(|from| from > now.unix) {
            return invalid("the token is not good yet");
        }
        let (scopes, expires) = (claims.scope.scopes(), expires.flatten());
        let mut access =
            claims.into_access(&self.config.issuer, scopes, expires, text).map_err(VerifyError::invalid)?;
        if let MissingAudience::ThisServer(name) = &self.config.missing_audience
            && access.audiences.is_empty()
        {
            access.audiences.push(name.clone());
        }
        Ok(access)
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
        self.owner_of(now.instant, &digest([token.expose()]))
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

debug_fields! { IntrospectionChecker { config } }

// A bounded cache by digest, whose entries expire.

/// The hash that identifies an entry. Secrets are stored only in this form.
pub(super) type Digest = [u8; 32];

/// The digest of several texts. Their boundaries are part of the input, so that they cannot shift.
pub(super) fn digest<const PARTS: usize>(parts: [&str; PARTS]) -> Digest {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// A cache whose entries expire, with a capacity that is shared fairly between owners.
#[derive(Debug)]
pub(super) struct ExpiringCache<V>(FairTable<Digest, (Instant, V)>);

impl<V> ExpiringCache<V> {
    pub(super) fn new(most: usize) -> Self {
        Self(FairTable::new(most))
    }

    pub(super) fn get(&self, now: Instant, key: &Digest) -> Option<&V> {
        self.0.get(*key).filter(|(until, _)| *until > now).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &Digest) {
        self.0.remove(*key);
    }

    /// Removes expired entries.
    fn expire(&mut self, now: Instant) {
        while self.0.pop_idle(now).is_some() {}
    }

    /// Inserts a value. If the cache is full, it evicts an entry of this owner, or of the owner that has most.
    pub(super) fn insert(&mut self, now: Instant, owner: &QuotaOwner, key: Digest, until: Instant, value: V) {
        self.expire(now);
        if !self.0.has_room(owner) {
            // Every owner has its share. As this is a cache, the entry that expires first is evicted.
            self.0.pop_idle(Instant::from_origin(core::time::Duration::MAX));
        }
        // The table orders entries by their expiry, so that the first to expire is evicted first.
        if self.0.insert(key, owner, (until, value)).is_ok() {
            self.0.set_idle(key, Some(until));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use core::time::Duration;

    use super::*;

    impl<V> ExpiringCache<V> {
        fn len(&self) -> usize {
            self.0.len()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn owner(number: u8) -> QuotaOwner {
        QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn value_is_found_until_it_expires() {
        let mut recent = ExpiringCache::new(2);
        recent.insert(at(0), &owner(1), digest(["a"]), at(10), 'a');
        assert_eq!(recent.get(at(9), &digest(["a"])), Some(&'a'));
        assert_eq!(recent.get(at(10), &digest(["a"])), None);
        recent.expire(at(10));
        assert_eq!(recent.len(), 0);
    }

    #[test]
    fn full_cache_drops_the_value_that_expires_next() {
        let mut recent = ExpiringCache::new(2);
        recent.insert(at(0), &owner(1), digest(["a"]), at(30), 'a');
        recent.insert(at(0), &owner(1), digest(["b"]), at(20), 'b');
        recent.insert(at(0), &owner(1), digest(["c"]), at(40), 'c');
        assert_eq!(recent.get(at(1), &digest(["b"])), None);
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&'a'));
        assert_eq!(recent.len(), 2);
    }

    #[test]
    fn values_of_one_owner_do_not_evict_those_of_another() {
        let mut recent = ExpiringCache::new(4);
        recent.insert(at(0), &owner(1), digest(["a"]), at(10), 0);
        for number in 0..100 {
            recent.insert(at(0), &owner(2), digest([&number.to_string()]), at(1000), number);
        }
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&0));
        assert_eq!(recent.len(), 4);
    }

    #[test]
    fn new_owner_gets_room_when_all_others_use_their_shares() {
        let mut recent = ExpiringCache::new(2);
        for number in 1..=3 {
            recent.insert(
                at(0),
                &owner(number),
                digest([&number.to_string()]),
                at(u64::from(number)),
                number,
            );
        }
        assert_eq!(recent.get(at(0), &digest(["1"])), None);
        assert_eq!(recent.get(at(0), &digest(["3"])), Some(&3));
    }

    #[test]
    fn inserting_a_key_again_takes_no_room() {
        let mut recent = ExpiringCache::new(1);
        recent.insert(at(0), &owner(1), digest(["a"]), at(30), 'a');
        recent.insert(at(0), &owner(1), digest(["a"]), at(10), 'b');
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&'b'));
        assert_eq!(recent.len(), 1);
    }

    #[test]
    fn digest_separates_its_parts() {
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }
}
