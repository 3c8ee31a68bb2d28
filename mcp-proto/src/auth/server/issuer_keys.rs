//! The keys of one issuer, and their retrieval.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::checker::{FETCH_TIMEOUT, WRONG_SIGNATURE};
use super::jws::{Jws, PublicKey, parse_key_set};
use super::jwt::{JwtConfig, KeySource};
use crate::Instant;
use crate::auth::members::document_text;
use crate::auth::{DOCUMENT_BYTES, Fetch, FetchId, FetchPolicy, PrivateNetworks, Secret, ServerMetadata};
use crate::transport::http::Verb;

/// Age at which keys are fetched again: a revoked key remains valid for no longer.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);
/// Maximum age of keys that cannot be fetched again. By then, most tokens that were signed while the issuer was reachable
/// have expired.
const MAX_STALE: Duration = Duration::from_secs(60 * 60);
/// Minimum time between two fetches of keys, successful or not, whatever tokens arrive: a token with a new key waits no
/// longer, and tokens with unknown keys cannot cause more fetches.
const MIN_REFETCH_INTERVAL: Duration = Duration::from_secs(30);

/// An issuer with its cached keys.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    pub(super) name: String,
    source: Source,
    reach: Option<FetchPolicy>,
    keys: Arc<[PublicKey]>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    /// When the last fetch was requested.
    requested: Option<Instant>,
    fetching: Option<(FetchId, FetchStep)>,
    /// The fetch, until the driver takes it.
    pending: Option<(Fetch, FetchPolicy)>,
    /// Why the last fetch failed.
    last_error: String,
}

#[derive(Debug)]
enum Source {
    Fixed,
    Url(String),
    Metadata,
}

#[derive(Clone, Copy, Debug)]
enum FetchStep {
    /// Fetching the metadata at the well-known URL with this index.
    Metadata(usize),
    Keys,
}

/// The key that a signature must be verified with.
pub(super) enum KeyMatch {
    /// The signature must be by the key at this index, or by any of the keys if it names none.
    Found(Arc<[PublicKey]>, Option<usize>),
    /// None of the keys can have made the signature, for this reason.
    Rejected(&'static str),
    /// This fetch must end first.
    Pending(FetchId),
    /// There are no keys, for this reason.
    NoKeys(String),
}

/// A counter for fetch ids.
pub(super) struct FetchIds<'a>(pub(super) &'a mut u64);

impl FetchIds<'_> {
    fn next(&mut self) -> FetchId {
        *self.0 = self.0.saturating_add(1);
        FetchId::new(*self.0)
    }
}

impl IssuerKeys {
    pub(super) fn new(name: String, source: &KeySource, config: &JwtConfig) -> Self {
        let mut problem = String::new();
        let reach = FetchPolicy::for_server(&name, PrivateNetworks::Allowed);
        if let Err(error) = &reach {
            problem = error.to_string();
        }
        let mut keys = Arc::default();
        let source = match source {
            KeySource::Metadata => Source::Metadata,
            KeySource::Url(url) => Source::Url(url.clone()),
            KeySource::Fixed(set) => {
                keys = parse_key_set(set.as_bytes(), config.max_keys).unwrap_or_default().into();
                problem = "there are no keys for signatures in the set".into();
                Source::Fixed
            }
        };
        Self {
            name,
            source,
            reach: reach.ok(),
            keys,
            fetched: None,
            requested: None,
            fetching: None,
            pending: None,
            last_error: problem,
        }
    }

    pub(super) fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)> {
        self.pending.take()
    }

    pub(super) fn has_fetch(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn is_fetching(&self, id: FetchId) -> bool {
        self.fetching.is_some_and(|(fetching, _)| fetching == id)
    }

    /// Finds the key of a signature. It may start a fetch even if the result does not depend on it.
    pub(super) fn match_keys(&mut self, now: Instant, jws: &Jws<'_>, numbers: &mut FetchIds<'_>) -> KeyMatch {
        if matches!(self.source, Source::Fixed) {
            if self.keys.is_empty() {
                return KeyMatch::NoKeys(self.last_error.clone());
            }
            return self.find_key(jws).unwrap_or_else(KeyMatch::Rejected);
        }
        if self.requested.is_some_and(|asked| now.saturating_since(asked) >= FETCH_TIMEOUT) {
            self.fetching = None;
        }
        let age = self.fetched.map(|fetched| now.saturating_since(fetched));
        if age.is_some_and(|age| age >= MAX_STALE) {
            self.keys = Arc::default();
            self.fetched = None;
        }
        let looked = self.find_key(jws);
        if looked.is_err() || age.is_none_or(|age| age >= MAX_AGE) {
            self.refresh(now, numbers);
        }
        looked.unwrap_or_else(|why| self.resolve_mismatch(why))
    }

    /// Finds the key of a signature that names none, and that does not match the keys `tried`.
    pub(super) fn rematch_keys(
        &mut self,
        now: Instant,
        jws: &Jws<'_>,
        tried: &Arc<[PublicKey]>,
        numbers: &mut FetchIds<'_>,
    ) -> KeyMatch {
        if !Arc::ptr_eq(tried, &self.keys) {
            // New keys have arrived meanwhile.
            return self.match_keys(now, jws, numbers);
        }
        if matches!(self.source, Source::Fixed) {
            return KeyMatch::Rejected(WRONG_SIGNATURE);
        }
        self.refresh(now, numbers);
        self.resolve_mismatch(WRONG_SIGNATURE)
    }

    /// Fetches the keys unless the last fetch is too recent. An unknown key may be a new one.
    fn refresh(&mut self, now: Instant, numbers: &mut FetchIds<'_>) {
        let rested = self.requested.is_none_or(|asked| now.saturating_since(asked) >= MIN_REFETCH_INTERVAL);
        if rested && self.fetching.is_none() {
            self.begin_fetch(now, numbers);
        }
    }

    /// The result for a signature that matches none of the known keys.
    fn resolve_mismatch(&self, why: &'static str) -> KeyMatch {
        match self.fetching {
            Some((id, _)) => KeyMatch::Pending(id),
            None if self.fetched.is_some() => KeyMatch::Rejected(why),
            None => KeyMatch::NoKeys(self.last_error.clone()),
        }
    }

    /// Finds the key of a signature among the known ones, or the reason why none matches.
    fn find_key(&self, jws: &Jws<'_>) -> Result<KeyMatch, &'static str> {
        let named = |key: &PublicKey| {
            key.supports(jws.algorithm) && (jws.header.kid.is_none() || key.id == jws.header.kid)
        };
        let unknown = "the token is signed by a key that its issuer does not have";
        let first = self.keys.iter().position(named).ok_or(unknown)?;
        Ok(KeyMatch::Found(self.keys.clone(), jws.header.kid.is_some().then_some(first)))
    }

    // --- Fetching ---

    fn begin_fetch(&mut self, now: Instant, numbers: &mut FetchIds<'_>) {
        self.requested = Some(now);
        match &self.source {
            Source::Fixed => {}
            Source::Url(url) => self.fetch(url.clone(), FetchStep::Keys, numbers),
            Source::Metadata => self.fetch_metadata(0, numbers),
        }
    }

    fn fetch_metadata(&mut self, place: usize, numbers: &mut FetchIds<'_>) {
        match ServerMetadata::well_known_urls(&self.name).into_iter().nth(place) {
            Some(url) => self.fetch(url, FetchStep::Metadata(place), numbers),
            None if self.last_error.is_empty() => self.last_error = "the issuer has no metadata".into(),
            None => {}
        }
    }

    fn fetch(&mut self, url: String, step: FetchStep, numbers: &mut FetchIds<'_>) {
        let Some(reach) = self.reach else { return };
        if let Err(error) = reach.check(&url) {
            self.last_error = error.to_string();
            return;
        }
        let id = numbers.next();
        self.fetching = Some((id, step));
        let fetch = Fetch {
            id,
            verb: Verb::Get,
            url,
            headers: [("accept", Secret::new("application/json"))].into(),
            body: Bytes::new(),
            limit: DOCUMENT_BYTES,
        };
        self.pending = Some((fetch, reach));
    }

    /// Handles the response to the pending fetch.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        status: u16,
        body: &[u8],
        config: &JwtConfig,
        numbers: &mut FetchIds<'_>,
    ) {
        let Some((_, step)) = self.fetching.take() else { return };
        match step {
            FetchStep::Metadata(place) => match self.parse_metadata(status, body) {
                Ok(url) => self.fetch(url, FetchStep::Keys, numbers),
                Err(problem) => {
                    self.last_error = problem;
                    self.fetch_metadata(place.saturating_add(1), numbers);
                }
            },
            FetchStep::Keys => {
                let keys = (status == 200).then(|| parse_key_set(body, config.max_keys)).flatten();
                match keys.filter(|keys| !keys.is_empty()) {
                    Some(keys) => {
                        self.keys = keys.into();
                        self.fetched = Some(now);
                        self.last_error.clear();
                    }
                    None => self.last_error = format!("there are no keys in the answer of status {status}"),
                }
            }
        }
    }

    /// Handles the failure of the pending fetch.
    pub(super) fn handle_failed(&mut self, detail: &str, numbers: &mut FetchIds<'_>) {
        let Some((_, step)) = self.fetching.take() else { return };
        self.last_error = crate::auth::members::sanitize(detail).unwrap_or_default();
        if let FetchStep::Metadata(place) = step {
            self.fetch_metadata(place.saturating_add(1), numbers);
        }
    }

    fn parse_metadata(&self, status: u16, body: &[u8]) -> Result<String, String> {
        if status != 200 {
            return Err(format!("its metadata is answered with status {status}"));
        }
        // Only the members needed here: an issuer of machine tokens may lack endpoints that a client requires.
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: Option<String>,
        }
        let metadata: Metadata = serde_json::from_str(document_text(body).unwrap_or_default())
            .map_err(|error| format!("its metadata cannot be read: {error}"))?;
        if metadata.issuer != self.name {
            return Err("its metadata is of another issuer".into());
        }
        metadata.jwks_uri.ok_or_else(|| "its metadata does not say where its keys are".into())
    }
}
