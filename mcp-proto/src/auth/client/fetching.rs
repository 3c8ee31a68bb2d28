//! Exchanges with authorization servers, one at a time, following redirects.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use crate::Instant;
use crate::auth::sanitize::{SHOWN, sanitize};
use crate::auth::{Fetch, FetchId, FetchPolicy, Now, Secret};
use crate::transport::http::{Fields, Verb, read_headers};

use super::AuthClient;
use super::config::AuthConfig;
use super::error::AuthError;

/// Maximum number of redirects to a document.
const MAX_REDIRECTS: u32 = 3;

/// Makes exchanges, one at a time, with redirects.
pub(super) struct Fetcher {
    policy: FetchPolicy,
    timeout: Duration,
    /// Maximum bytes of a response.
    limit: usize,
    last_id: u64,
    in_flight: Option<InFlight>,
}

/// The exchange in flight.
struct InFlight {
    id: FetchId,
    verb: Verb,
    url: String,
    headers: Vec<(&'static str, Secret)>,
    deadline: Option<Instant>,
    hops: u32,
    /// The secrets in the request, which must not be shown if the response repeats them.
    secrets: Vec<Secret>,
}

/// How an exchange ended.
pub(super) enum FetchReply {
    /// With a response that is no redirect.
    Answer { url: String, status: u16, body: Bytes, secrets: Vec<Secret> },
    /// Without a response.
    Failed(AuthError),
}

impl FetchReply {
    fn unreachable(fetch: &InFlight, detail: String) -> Self {
        Self::Failed(AuthError::Unreachable { url: without_query(&fetch.url), detail })
    }
}

/// The request of an exchange.
pub(super) struct FetchRequest {
    pub(super) verb: Verb,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, Secret)>,
    pub(super) body: Bytes,
    pub(super) secrets: Vec<Secret>,
    /// A deadline before the usual timeout.
    pub(super) deadline: Option<Instant>,
}

impl FetchRequest {
    pub(super) fn get(url: String) -> Self {
        Self {
            verb: Verb::Get,
            url,
            headers: Vec::from([("accept", Secret::new("application/json"))]),
            body: Bytes::new(),
            secrets: Vec::new(),
            deadline: None,
        }
    }
}

impl Fetcher {
    pub(super) fn new(policy: FetchPolicy, config: &AuthConfig) -> Self {
        Self {
            policy,
            timeout: config.exchange_timeout,
            limit: config.document_bytes,
            last_id: 0,
            in_flight: None,
        }
    }

    pub(super) fn policy(&self) -> &FetchPolicy {
        &self.policy
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.in_flight.as_ref()?.deadline
    }

    fn start(&mut self, now: Now, request: FetchRequest, hops: u32) -> Result<Fetch, AuthError> {
        let FetchRequest { verb, url, headers, body, secrets, deadline: until } = request;
        //= C12.26 "validate each redirect hop"
        self.policy.check(&url).map_err(|error| AuthError::UnsafeUrl { url: without_query(&url), error })?;
        self.last_id = self.last_id.saturating_add(1);
        let id = FetchId::new(self.last_id);
        let deadline = now.deadline_after(self.timeout);
        let deadline = deadline.map(|deadline| until.map_or(deadline, |until| deadline.min(until))).or(until);
        self.in_flight = Some(InFlight {
            id,
            verb,
            url: url.clone(),
            headers: if verb == Verb::Get { headers.clone() } else { Vec::new() },
            deadline,
            hops,
            secrets,
        });
        Ok(Fetch { id, verb, url, headers, body, limit: self.limit })
    }

    /// Ends the exchange in flight if it is the one with this id.
    fn take_id(&mut self, id: FetchId) -> Option<InFlight> {
        self.in_flight.take_if(|fetch| fetch.id == id)
    }

    /// The request for the target of a redirect. `None` if the response is no redirect, or too many were followed.
    fn follow_redirect(
        &self,
        fetch: &InFlight,
        status: u16,
        location: Option<&[u8]>,
    ) -> Option<FetchRequest> {
        let moved = matches!(status, 301 | 302 | 303 | 307 | 308) && fetch.verb == Verb::Get;
        if !moved || fetch.hops >= MAX_REDIRECTS {
            return None;
        }
        let location = str::from_utf8(location?).ok()?;
        let target = redirect_target(&fetch.url, location)?;
        Some(FetchRequest { headers: fetch.headers.clone(), ..FetchRequest::get(target) })
    }
}

impl AuthClient {
    /// Starts an exchange.
    pub(super) fn fetch(&mut self, now: Now, request: FetchRequest) -> Result<(), AuthError> {
        self.actions.fetch(self.fetcher.start(now, request, 0)?);
        Ok(())
    }

    /// Aborts the exchange in flight.
    pub(super) fn abort_fetch(&mut self) {
        if let Some(fetch) = self.fetcher.in_flight.take() {
            self.actions.abort(fetch.id);
        }
    }

    /// Ends the exchange in flight at its deadline.
    pub(super) fn time_out_fetch(&mut self) -> Option<FetchReply> {
        let fetch = self.fetcher.in_flight.take()?;
        self.actions.abort(fetch.id);
        Some(FetchReply::unreachable(&fetch, "it took too long".into()))
    }

    pub(super) fn fail_fetch(&mut self, id: FetchId, detail: &str) -> Option<FetchReply> {
        let fetch = self.fetcher.take_id(id)?;
        let detail = redact_secrets(&sanitize(detail).unwrap_or_default(), &fetch.secrets);
        Some(FetchReply::unreachable(&fetch, detail))
    }

    /// Handles the response to an exchange. `None` if a redirect is followed.
    pub(super) fn handle_fetch_answer(
        &mut self,
        now: Now,
        id: FetchId,
        status: u16,
        fields: &dyn Fields,
        body: Bytes,
    ) -> Option<FetchReply> {
        let fetch = self.fetcher.take_id(id)?;
        let [nonce, location] = read_headers(fields, ["dpop-nonce", "location"]);
        if let Some(nonce) = nonce.first.and_then(|nonce| str::from_utf8(nonce).ok()) {
            self.nonces.keep(&fetch.url, nonce);
        }
        if body.len() > self.fetcher.limit {
            return Some(FetchReply::unreachable(&fetch, "the answer is too long".into()));
        }
        match self.fetcher.follow_redirect(&fetch, status, location.first) {
            Some(request) => match self.fetcher.start(now, request, fetch.hops.saturating_add(1)) {
                Ok(hop) => {
                    self.actions.fetch(hop);
                    None
                }
                Err(error) => Some(FetchReply::Failed(error)),
            },
            None => Some(FetchReply::Answer { url: fetch.url, status, body, secrets: fetch.secrets }),
        }
    }
}

/// The target of a redirect from `base`.
fn redirect_target(base: &str, location: &str) -> Option<String> {
    let base = UriAbsoluteStr::new(base.split('#').next().unwrap_or_default()).ok()?;
    Some(UriReferenceStr::new(location).ok()?.resolve_against(base).to_string())
}

/// A URL for errors: shortened, without query and fragment.
pub(super) fn without_query(url: &str) -> String {
    sanitize(url.split(['?', '#']).next().unwrap_or_default()).unwrap_or_default()
}

/// Withholds a text of the other side that repeats a secret sent to it: verbatim, form-encoded, or truncated at the end
/// of the text.
pub(super) fn redact_secrets(text: &str, secrets: &[Secret]) -> String {
    let is_cut = text.chars().count() >= SHOWN;
    let repeats = |secret: &str| {
        let mut beginnings = (4..secret.len().min(text.len())).filter_map(|length| secret.get(..length));
        let at_end = is_cut && beginnings.any(|beginning| text.ends_with(beginning));
        secret.len() >= 4 && (at_end || text.contains(secret))
    };
    let tells = secrets.iter().map(Secret::expose).any(|secret| {
        let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        repeats(secret) || repeats(&encoded)
    });
    if tells { "(withheld: it repeats a secret)".into() } else { text.into() }
}
