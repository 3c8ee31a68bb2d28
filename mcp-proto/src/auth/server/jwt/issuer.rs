//! The keys of one issuer, and how they are come by.

use alloc::string::{String, ToString};
use alloc::sync::Arc;

use bytes::Bytes;

use super::key::{PublicKey, read_set};
use super::{Jws, JwtConfig, KeySource};
use crate::Instant;
use crate::auth::{DOCUMENT_BYTES, Fetch, FetchId, IssuerMatch, Reach, Secret, ServerMetadata};
use crate::bind::http::Verb;

/// The most keys that a signature without the name of its key is tried with.
const TRIED: usize = 8;

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
    Good,
    /// It is by the key of this number, if it is not wrong.
    By(Arc<[PublicKey]>, usize),
    /// By none of them.
    Bad(&'static str),
    /// This is to be fetched first.
    Fetch(Fetch),
    /// What is being fetched.
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
        Self { name, source, reach: reach.ok(), keys, fetched: None, asked: None, fetching: None, problem }
    }

    /// What may be visited on its behalf.
    pub(super) fn reach(&self) -> Option<Reach> {
        self.reach
    }

    pub(super) fn fetches(&self, id: FetchId) -> bool {
        self.fetching.is_some_and(|(fetching, _)| fetching == id)
    }

    /// Judges a signature. The second is what is to be fetched beside, for those who come later.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        jws: &Jws<'_>,
        config: &JwtConfig,
        numbers: &mut Numbers<'_>,
    ) -> (Judged, Option<Fetch>) {
        if matches!(self.source, Source::Fixed) {
            if self.keys.is_empty() {
                return (Judged::NoKeys(self.problem.clone()), None);
            }
            return (self.look(jws).unwrap_or_else(Judged::Bad), None);
        }
        let age = self.fetched.map(|fetched| now.saturating_since(fetched));
        if age.is_some_and(|age| age >= config.stale) {
            self.keys = Arc::default();
            self.fetched = None;
        }
        let looked = self.look(jws);
        // A key that is not known may be a new one.
        let wanted = looked.is_err() || age.is_none_or(|age| age >= config.refresh);
        let rested = self.asked.is_none_or(|asked| now.saturating_since(asked) >= config.pause);
        let fetch = if wanted && rested && self.fetching.is_none() { self.begin(now, numbers) } else { None };
        match (looked, fetch, self.fetching) {
            (Ok(judged), fetch, _) => (judged, fetch),
            (Err(_), Some(fetch), _) => (Judged::Fetch(fetch), None),
            (Err(_), None, Some((id, _))) => (Judged::Wait(id), None),
            (Err(why), None, None) if self.fetched.is_some() => (Judged::Bad(why), None),
            (Err(_), None, None) => (Judged::NoKeys(self.problem.clone()), None),
        }
    }

    /// Which of the keys it is by; why by none of them.
    fn look(&self, jws: &Jws<'_>) -> Result<Judged, &'static str> {
        let unknown = "it is signed by a key that its issuer does not have";
        if jws.header.kid.is_some() {
            let named = |key: &PublicKey| key.fits(jws.algorithm) && key.id == jws.header.kid;
            let named = self.keys.iter().position(named).ok_or(unknown)?;
            return Ok(Judged::By(self.keys.clone(), named));
        }
        // One that names none is tried with some here: if it is wrong, it may be by a new one.
        let mut fitting = self.keys.iter().filter(|key| key.fits(jws.algorithm)).take(TRIED).peekable();
        fitting.peek().ok_or(unknown)?;
        if fitting.any(|key| key.has_signed(jws)) { Ok(Judged::Good) } else { Err("its signature is wrong") }
    }

    // --- Fetching ---

    fn begin(&mut self, now: Instant, numbers: &mut Numbers<'_>) -> Option<Fetch> {
        self.asked = Some(now);
        match &self.source {
            Source::Fixed => None,
            Source::Url(url) => {
                let url = url.clone();
                self.fetch_keys(url, numbers)
            }
            Source::Metadata => self.fetch_metadata(0, numbers),
        }
    }

    fn fetch_metadata(&mut self, place: usize, numbers: &mut Numbers<'_>) -> Option<Fetch> {
        match ServerMetadata::places(&self.name).into_iter().nth(place) {
            Some(url) => self.fetch(url, Step::Metadata(place), numbers),
            None => {
                if self.problem.is_empty() {
                    self.problem = "the issuer has no metadata".into();
                }
                None
            }
        }
    }

    fn fetch_keys(&mut self, url: String, numbers: &mut Numbers<'_>) -> Option<Fetch> {
        self.fetch(url, Step::Keys, numbers)
    }

    fn fetch(&mut self, url: String, step: Step, numbers: &mut Numbers<'_>) -> Option<Fetch> {
        let reach = self.reach?;
        if let Err(error) = reach.check(&url) {
            self.problem = error.to_string();
            return None;
        }
        let id = numbers.next();
        self.fetching = Some((id, step));
        Some(Fetch {
            id,
            verb: Verb::Get,
            url,
            headers: [("accept", Secret::new("application/json"))].into(),
            body: Bytes::new(),
            limit: DOCUMENT_BYTES,
        })
    }

    /// The exchange under way has ended so. Returns the next.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        status: u16,
        body: &[u8],
        config: &JwtConfig,
        numbers: &mut Numbers<'_>,
    ) -> Option<Fetch> {
        let (_, step) = self.fetching.take()?;
        match step {
            Step::Metadata(place) => match self.read_metadata(status, body) {
                Ok(url) => self.fetch_keys(url, numbers),
                Err(problem) => {
                    self.problem = problem;
                    self.fetch_metadata(place.saturating_add(1), numbers)
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
                    None => {
                        self.problem = alloc::format!("there are no keys in the answer of status {status}")
                    }
                }
                None
            }
        }
    }

    /// The exchange under way has come to nothing. Returns the next.
    pub(super) fn handle_failed(&mut self, detail: &str, numbers: &mut Numbers<'_>) -> Option<Fetch> {
        let (_, step) = self.fetching.take()?;
        self.problem = crate::auth::text::shown(detail).unwrap_or_default();
        match step {
            Step::Metadata(place) => self.fetch_metadata(place.saturating_add(1), numbers),
            Step::Keys => None,
        }
    }

    fn read_metadata(&self, status: u16, body: &[u8]) -> Result<String, String> {
        if status != 200 {
            return Err(alloc::format!("its metadata is answered with status {status}"));
        }
        let metadata = ServerMetadata::read(body).map_err(|error| error.to_string())?;
        if !metadata.is_of(&self.name, IssuerMatch::Exact) {
            return Err("its metadata is of another issuer".into());
        }
        metadata.jwks_uri.ok_or_else(|| "its metadata does not say where its keys are".into())
    }
}
