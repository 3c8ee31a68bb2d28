//! The keys of one issuer, and how they are come by.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::key::{PublicKey, read_set};
use super::{Jws, JwtConfig, KeySource, WRONG_SIGNATURE};
use crate::Instant;
use crate::auth::server::checker::LOST;
use crate::auth::{DOCUMENT_BYTES, Fetch, FetchId, Reach, Secret, ServerMetadata};
use crate::transport::http::Verb;

/// An issuer, with its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) name: String,
    source: Source,
    reach: Option<Reach>,
    keys: Arc<[PublicKey]>,
    /// When the keys came.
    fetched: Option<Instant>,
    /// When they were last asked for.
    asked: Option<Instant>,
    fetching: Option<(FetchId, Step)>,
    /// The same, as long as nobody makes it.
    pending: Option<(Fetch, Reach)>,
    /// Why they could not be had.
    problem: String,
}

#[derive(Debug)]
enum Source {
    Fixed,
    Url(String),
    Metadata,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The metadata, at the place of this number.
    Metadata(usize),
    Keys,
}

/// What the keys say of a signature.
pub(super) enum Judged {
    /// It is by the key of this number, or by any if there is none, unless it is wrong.
    By(Arc<[PublicKey]>, Option<usize>),
    /// By none of them.
    Bad(&'static str),
    /// This has to be fetched first.
    Wait(FetchId),
    /// There are no keys, for this reason.
    NoKeys(String),
}

/// Numbers for exchanges.
pub(super) struct Numbers<'a>(pub(super) &'a mut u64);

impl Numbers<'_> {
    fn next(&mut self) -> FetchId {
        *self.0 = self.0.saturating_add(1);
        FetchId::new(*self.0)
    }
}

impl Issuer {
    pub(super) fn new(name: String, source: &KeySource, config: &JwtConfig) -> Self {
        let mut problem = String::new();
        let reach = Reach::of(&name, config.private_networks);
        if let Err(error) = &reach {
            problem = error.to_string();
        }
        let mut keys = Arc::default();
        let source = match source {
            KeySource::Metadata => Source::Metadata,
            KeySource::Url(url) => Source::Url(url.clone()),
            KeySource::Fixed(set) => {
                keys = read_set(set.as_bytes(), config.keys).unwrap_or_default().into();
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
            asked: None,
            fetching: None,
            pending: None,
            problem,
        }
    }

    pub(super) fn poll_fetch(&mut self) -> Option<(Fetch, Reach)> {
        self.pending.take()
    }

    pub(super) fn has_fetch(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn fetches(&self, id: FetchId) -> bool {
        self.fetching.is_some_and(|(fetching, _)| fetching == id)
    }

    /// Judges a signature. It may have keys fetched, even if it need not wait for them.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        jws: &Jws<'_>,
        config: &JwtConfig,
        numbers: &mut Numbers<'_>,
    ) -> Judged {
        if matches!(self.source, Source::Fixed) {
            if self.keys.is_empty() {
                return Judged::NoKeys(self.problem.clone());
            }
            return self.look(jws).unwrap_or_else(Judged::Bad);
        }
        if self.asked.is_some_and(|asked| now.saturating_since(asked) >= LOST) {
            self.fetching = None;
        }
        let age = self.fetched.map(|fetched| now.saturating_since(fetched));
        if age.is_some_and(|age| age >= config.stale) {
            self.keys = Arc::default();
            self.fetched = None;
        }
        let looked = self.look(jws);
        if looked.is_err() || age.is_none_or(|age| age >= config.refresh) {
            self.refresh(now, config, numbers);
        }
        looked.unwrap_or_else(|why| self.newer_keys(why))
    }

    /// Judges a signature that is by none of the keys `tried`, and names none.
    pub(super) fn judge_again(
        &mut self,
        now: Instant,
        jws: &Jws<'_>,
        tried: &Arc<[PublicKey]>,
        config: &JwtConfig,
        numbers: &mut Numbers<'_>,
    ) -> Judged {
        if !Arc::ptr_eq(tried, &self.keys) {
            // New keys have come meanwhile.
            return self.judge(now, jws, config, numbers);
        }
        if matches!(self.source, Source::Fixed) {
            return Judged::Bad(WRONG_SIGNATURE);
        }
        self.refresh(now, config, numbers);
        self.newer_keys(WRONG_SIGNATURE)
    }

    /// Fetches the keys unless that was done lately. A key that is not known may be a new one.
    fn refresh(&mut self, now: Instant, config: &JwtConfig, numbers: &mut Numbers<'_>) {
        let rested = self.asked.is_none_or(|asked| now.saturating_since(asked) >= config.pause);
        if rested && self.fetching.is_none() {
            self.begin(now, numbers);
        }
    }

    /// What is said of a signature that is wrong by the keys that are known.
    fn newer_keys(&self, why: &'static str) -> Judged {
        match self.fetching {
            Some((id, _)) => Judged::Wait(id),
            None if self.fetched.is_some() => Judged::Bad(why),
            None => Judged::NoKeys(self.problem.clone()),
        }
    }

    /// Which of the keys it is by; why by none of them.
    fn look(&self, jws: &Jws<'_>) -> Result<Judged, &'static str> {
        let named = |key: &PublicKey| {
            key.fits(jws.algorithm) && (jws.header.kid.is_none() || key.id == jws.header.kid)
        };
        let unknown = "it is signed by a key that its issuer does not have";
        let first = self.keys.iter().position(named).ok_or(unknown)?;
        Ok(Judged::By(self.keys.clone(), jws.header.kid.is_some().then_some(first)))
    }

    // --- Fetching ---

    fn begin(&mut self, now: Instant, numbers: &mut Numbers<'_>) {
        self.asked = Some(now);
        match &self.source {
            Source::Fixed => {}
            Source::Url(url) => self.fetch(url.clone(), Step::Keys, numbers),
            Source::Metadata => self.fetch_metadata(0, numbers),
        }
    }

    fn fetch_metadata(&mut self, place: usize, numbers: &mut Numbers<'_>) {
        match ServerMetadata::places(&self.name).into_iter().nth(place) {
            Some(url) => self.fetch(url, Step::Metadata(place), numbers),
            None if self.problem.is_empty() => self.problem = "the issuer has no metadata".into(),
            None => {}
        }
    }

    fn fetch(&mut self, url: String, step: Step, numbers: &mut Numbers<'_>) {
        let Some(reach) = self.reach else { return };
        if let Err(error) = reach.check(&url) {
            self.problem = error.to_string();
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

    /// The exchange under way has ended so.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        status: u16,
        body: &[u8],
        config: &JwtConfig,
        numbers: &mut Numbers<'_>,
    ) {
        let Some((_, step)) = self.fetching.take() else { return };
        match step {
            Step::Metadata(place) => match self.read_metadata(status, body) {
                Ok(url) => self.fetch(url, Step::Keys, numbers),
                Err(problem) => {
                    self.problem = problem;
                    self.fetch_metadata(place.saturating_add(1), numbers);
                }
            },
            Step::Keys => {
                let keys = (status == 200).then(|| read_set(body, config.keys)).flatten();
                match keys.filter(|keys| !keys.is_empty()) {
                    Some(keys) => {
                        self.keys = keys.into();
                        self.fetched = Some(now);
                        self.problem.clear();
                    }
                    None => self.problem = format!("there are no keys in the answer of status {status}"),
                }
            }
        }
    }

    /// The exchange under way has come to nothing.
    pub(super) fn handle_failed(&mut self, detail: &str, numbers: &mut Numbers<'_>) {
        let Some((_, step)) = self.fetching.take() else { return };
        self.problem = crate::auth::text::shown(detail).unwrap_or_default();
        if let Step::Metadata(place) = step {
            self.fetch_metadata(place.saturating_add(1), numbers);
        }
    }

    fn read_metadata(&self, status: u16, body: &[u8]) -> Result<String, String> {
        if status != 200 {
            return Err(format!("its metadata is answered with status {status}"));
        }
        // Not all that a client needs: issuers of tokens for machines may have no endpoint for anybody.
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: Option<String>,
        }
        let metadata: Metadata =
            serde_json::from_slice(body).map_err(|error| format!("its metadata can not be read: {error}"))?;
        if metadata.issuer != self.name {
            return Err("its metadata is of another issuer".into());
        }
        metadata.jwks_uri.ok_or_else(|| "its metadata does not say where its keys are".into())
    }
}
