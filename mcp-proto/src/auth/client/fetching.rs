//! One exchange at a time, with redirects followed hop by hop.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use crate::Instant;
use crate::auth::sanitize::{SHOWN, sanitize};
use crate::auth::{Fetch, FetchId, Now, Secret};
use crate::transport::http::{Fields, Verb};

use super::error::AuthError;
use super::event::Action;
use super::{AuthClient, deadline_after};

/// The exchange that is under way.
pub(super) struct InFlight {
    id: FetchId,
    verb: Verb,
    url: String,
    headers: Vec<(&'static str, Secret)>,
    deadline: Option<Instant>,
    hops: u32,
    /// What was sent and must not be shown, should the other side say it.
    secrets: Vec<Secret>,
}

/// How an exchange ended.
pub(super) enum FetchReply {
    /// With an answer that is no redirect.
    Answer { url: String, status: u16, body: Bytes, secrets: Vec<Secret> },
    /// Without any.
    Failed(AuthError),
}

/// What an exchange is made of.
pub(super) struct FetchRequest {
    pub(super) verb: Verb,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, Secret)>,
    pub(super) body: Bytes,
    pub(super) secrets: Vec<Secret>,
    /// Not later than that, if it should end before its time.
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

impl AuthClient {
    /// Has an exchange made.
    pub(super) fn fetch(&mut self, now: Now, request: FetchRequest) -> Result<(), AuthError> {
        self.send(now, request, 0)
    }

    fn send(&mut self, now: Now, request: FetchRequest, hops: u32) -> Result<(), AuthError> {
        let FetchRequest { verb, url, headers, body, secrets, deadline: until } = request;
        self.fetch_policy
            .check(&url)
            .map_err(|error| AuthError::UnsafeUrl { url: without_query(&url), error })?;
        let id = FetchId::new(self.next_fetch);
        self.next_fetch = self.next_fetch.saturating_add(1);
        let deadline = deadline_after(now.instant, self.config.exchange_timeout);
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
        let limit = self.config.document_bytes;
        self.actions.push_back(Action::Fetch(Fetch { id, verb, url, headers, body, limit }));
        Ok(())
    }

    /// Breaks off what is under way.
    pub(super) fn abort(&mut self) {
        let Some(fetch) = self.in_flight.take() else { return };
        let before = self.actions.len();
        self.actions.retain(|action| !matches!(action, Action::Fetch(queued) if queued.id == fetch.id));
        if self.actions.len() == before {
            self.actions.push_back(Action::Abort(fetch.id));
        }
    }

    pub(super) fn fetch_deadline(&self) -> Option<Instant> {
        self.in_flight.as_ref()?.deadline
    }

    /// The end of the exchange under way, because its time is over.
    pub(super) fn time_out_fetch(&mut self) -> Option<FetchReply> {
        let url = without_query(&self.in_flight.as_ref()?.url);
        self.abort();
        Some(FetchReply::Failed(AuthError::Unreachable { url, detail: "it took too long".into() }))
    }

    pub(super) fn fail_fetch(&mut self, id: FetchId, detail: &str) -> Option<FetchReply> {
        let fetch = self.in_flight.take_if(|fetch| fetch.id == id)?;
        let detail = redact_secrets(&sanitize(detail).unwrap_or_default(), &fetch.secrets);
        Some(FetchReply::Failed(AuthError::Unreachable { url: without_query(&fetch.url), detail }))
    }

    /// The end of an exchange, unless a redirect is followed.
    pub(super) fn handle_fetch_answer(
        &mut self,
        now: Now,
        id: FetchId,
        status: u16,
        fields: &dyn Fields,
        body: Bytes,
    ) -> Option<FetchReply> {
        let fetch = self.in_flight.take_if(|fetch| fetch.id == id)?;
        if let Some(nonce) = fields.get("dpop-nonce").and_then(|nonce| str::from_utf8(nonce).ok()) {
            self.nonces.keep(&fetch.url, nonce);
        }
        if body.len() > self.config.document_bytes {
            let detail = "the answer is too long".into();
            return Some(FetchReply::Failed(AuthError::Unreachable {
                url: without_query(&fetch.url),
                detail,
            }));
        }
        let moved = matches!(status, 301 | 302 | 303 | 307 | 308) && fetch.verb == Verb::Get;
        let target = moved.then(|| fields.get("location")).flatten();
        if let Some(target) = target
            .and_then(|location| str::from_utf8(location).ok())
            .and_then(|location| redirect_target(&fetch.url, location))
            .filter(|_| fetch.hops < self.config.redirects)
        {
            let request = FetchRequest { headers: fetch.headers, ..FetchRequest::get(target) };
            let hops = fetch.hops.saturating_add(1);
            return self.send(now, request, hops).err().map(FetchReply::Failed);
        }
        Some(FetchReply::Answer { url: fetch.url, status, body, secrets: fetch.secrets })
    }
}

/// What a redirect from `base` leads to.
fn redirect_target(base: &str, location: &str) -> Option<String> {
    let base = UriAbsoluteStr::new(base.split('#').next().unwrap_or_default()).ok()?;
    Some(UriReferenceStr::new(location).ok()?.resolve_against(base).to_string())
}

/// A URL as errors show it: a beginning without the query.
pub(super) fn without_query(url: &str) -> String {
    sanitize(url.split(['?', '#']).next().unwrap_or_default()).unwrap_or_default()
}

/// A text of others, unless it repeats a secret that they were sent: as it is, as a form has it, or cut off at the end of
/// the text.
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
