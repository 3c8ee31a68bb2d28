//! What requests to the server go out with.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::auth::{Es256, Now, Scopes, Secret, Signer, TokenKind, TokenResponse, dpop};
use crate::transport::http::Verb;
use crate::{Instant, UnixTime};

use super::AuthClient;
use super::config::Grant;
use super::error::AuthError;
use super::event::{AuthContext, RequestAuth, TokenGeneration};
use super::flow::{AccessRequirement, FlowPurpose};
use super::record::Record;

/// A token that this process got itself.
pub(super) struct IssuedToken {
    access: Secret,
    pub(super) origin: TokenOrigin,
    /// When it ends by the clock that nobody sets.
    expires: Option<Instant>,
}

/// How a token was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOrigin {
    /// By a grant.
    Grant,
    /// In the place of another one.
    Renewal,
}

/// The life of a token, at least ten seconds: no request would ever go out with one that ends before it can be used, and
/// each would ask for another.
fn clamp_lifetime(lifetime: Duration) -> Duration {
    lifetime.max(Duration::from_secs(10))
}

/// When a token ends by the time of day; at the far end of time it does not.
pub(super) fn expiry(now: Now, lifetime: Duration) -> Option<UnixTime> {
    Some(now.unix + clamp_lifetime(lifetime)).filter(|end| *end > now.unix)
}

impl AuthClient {
    /// Notes what was just issued, before it is kept.
    pub(super) fn note_issued(&mut self, now: Now, granted: &TokenResponse, via: TokenOrigin) {
        let until = granted.lifetime.and_then(|lifetime| now.deadline_after(clamp_lifetime(lifetime)));
        self.fresh = Some(IssuedToken { access: granted.access.clone(), origin: via, expires: until });
    }

    /// Takes a record for what is known.
    pub(super) fn adopt_record(&mut self, record: Record) {
        let access = |record: &Record| record.tokens.as_ref().map(|tokens| tokens.access.clone());
        if access(&record) != access(&self.record) {
            self.generation = TokenGeneration(self.generation.0.saturating_add(1));
            self.early_renewal_after = None;
            if !self.is_renewal_for_same_subject(&record) {
                self.end_context();
            }
            self.authorized = record.tokens.is_some();
        }
        if record.key != self.record.key {
            let key = record.key.as_ref().and_then(|pem| Es256::from_pkcs8_pem(pem.expose()).ok());
            self.stored_key = key.map(|key| Arc::new(key) as Arc<dyn Signer>);
        }
        self.record = record;
    }

    /// Whether the token of a record was renewed by this process, and is for the same subject as the present one.
    fn is_renewal_for_same_subject(&self, record: &Record) -> bool {
        let (Some(old), Some(new)) = (&self.record.tokens, &record.tokens) else { return false };
        let renewed = self
            .fresh
            .as_ref()
            .is_some_and(|fresh| fresh.origin == TokenOrigin::Renewal && fresh.access == new.access);
        let subject = new.subject.is_some() && new.subject == old.subject;
        renewed && subject && self.authorized && old.issuer == new.issuer
    }

    /// Requests are made on behalf of another from now on.
    pub(super) fn end_context(&mut self) {
        self.context = AuthContext(self.context.0.saturating_add(1));
    }

    /// Notes whether a request goes out with a token: the answer is another one then.
    pub(super) fn note_sent(&mut self, authorized: bool) {
        if self.authorized != authorized {
            self.authorized = authorized;
            self.end_context();
        }
    }

    /// How the present token was got, if this process got it.
    pub(super) fn token_origin(&self) -> Option<TokenOrigin> {
        let tokens = self.record.tokens.as_ref()?;
        self.fresh.as_ref().filter(|fresh| fresh.access == tokens.access).map(|fresh| fresh.origin)
    }

    /// Whether the present token has ended, by either clock, or its key is lost.
    pub(super) fn has_expired(&self, now: Now) -> bool {
        self.expires_by(now.instant, now)
    }

    /// Whether the present token ends within the margin, or within the last half of a short life.
    pub(super) fn expires_soon(&self, now: Now) -> bool {
        let life = self.record.tokens.as_ref().and_then(|tokens| {
            let end = tokens.expires?;
            end.saturating_since(tokens.issued).checked_div(2)
        });
        let margin = life.map_or(self.config.refresh_margin, |half| self.config.refresh_margin.min(half));
        let later = Now { instant: now.instant + margin, unix: now.unix + margin };
        self.expires_by(later.instant, later)
    }

    fn expires_by(&self, instant: Instant, now: Now) -> bool {
        let Some(tokens) = &self.record.tokens else { return true };
        if tokens.kind == TokenKind::Dpop && self.signer().is_none() {
            return true;
        }
        let fresh = self.fresh.as_ref().filter(|fresh| fresh.access == tokens.access);
        tokens.expires.is_some_and(|end| end <= now.unix)
            || fresh.and_then(|fresh| fresh.expires).is_some_and(|end| end <= instant)
    }

    /// Whether the present token allows that, as far as anyone said.
    pub(super) fn allows_scopes(&self, scopes: Option<&Scopes>) -> bool {
        let tokens = self.record.tokens.as_ref();
        let known = tokens.and_then(|tokens| tokens.granted.as_ref().or(tokens.requested.as_ref()));
        match (known, scopes) {
            (_, None) => true,
            (Some(known), Some(scopes)) => known.contains_all(scopes),
            (None, Some(_)) => false,
        }
    }

    /// Whether a person is needed for a new grant.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.config.grant, Grant::AuthorizationCode)
    }

    pub(super) fn request_auth(&mut self, now: Now, verb: Verb, url: &str) -> RequestAuth {
        let admission = self.server_request_auth(now, verb, url);
        if let RequestAuth::Ready { generation: stamp, .. } = &admission
            && self.is_server_url(url)
        {
            self.note_sent(stamp.is_some());
        }
        admission
    }

    fn server_request_auth(&mut self, now: Now, verb: Verb, url: &str) -> RequestAuth {
        let nothing = || RequestAuth::Ready { headers: Vec::new(), generation: None };
        if !self.is_server_url(url) {
            return nothing();
        }
        if matches!(self.flow.as_ref().map(|flow| &flow.purpose), Some(FlowPurpose::Logout)) {
            return nothing();
        }
        if !self.loaded {
            if self.flow.is_none() {
                self.begin_flow(now, FlowPurpose::Load, AccessRequirement::default());
            }
            return RequestAuth::Wait;
        }
        let Some(tokens) = &self.record.tokens else { return nothing() };
        let helpless = self.is_interactive() && !self.can_renew();
        if self.has_expired(now) {
            if self.flow.is_some() {
                return RequestAuth::Wait;
            }
            if helpless {
                // The server says what it wants instead.
                return nothing();
            }
            let want =
                FlowPurpose::NewToken { refused: Some(self.generation), unexpected: false, may_renew: true };
            self.begin_flow(now, want, AccessRequirement::default());
            return RequestAuth::Wait;
        }
        if self.is_token_refused() {
            return RequestAuth::Wait;
        }
        let headers = match self.headers(now, verb, url, &tokens.access.clone(), tokens.kind) {
            Ok(headers) => headers,
            Err(_) => return nothing(),
        };
        let stamp = Some(self.generation);
        let paused = self.early_renewal_after.is_some_and(|until| until > now.instant);
        if self.flow.is_none() && !helpless && !paused && self.expires_soon(now) {
            self.begin_flow(now, FlowPurpose::EarlyRenewal, AccessRequirement::default());
        }
        RequestAuth::Ready { headers, generation: stamp }
    }

    /// Whether the present token is of no use, as the flow that replaces it knows.
    fn is_token_refused(&self) -> bool {
        self.flow.as_ref().is_some_and(
            |flow| matches!(flow.purpose, FlowPurpose::NewToken { refused, .. } if refused == Some(self.generation)),
        )
    }

    fn headers(
        &mut self,
        now: Now,
        verb: Verb,
        url: &str,
        access: &Secret,
        kind: TokenKind,
    ) -> Result<Vec<(&'static str, Secret)>, AuthError> {
        let scheme = if kind == TokenKind::Dpop { "DPoP " } else { "Bearer " };
        let mut value = String::from(scheme);
        value.push_str(access.expose());
        let mut headers = Vec::from([("authorization", Secret::new(value))]);
        if kind == TokenKind::Dpop {
            let signer = self.signer().ok_or(AuthError::Key)?;
            let jti = self.rng.next_text();
            let nonce = self.nonces.get(url);
            let proof = dpop::proof(&*signer, verb.as_str(), url, Some(access), nonce, now.unix, &jti);
            headers.push(("dpop", Secret::new(proof.map_err(|_| AuthError::Key)?)));
        }
        Ok(headers)
    }
}
