//! The current tokens and their record in the store, the credentials of requests, and requests that the server refuses.

use alloc::sync::Arc;
use core::time::Duration;

use super::AuthClient;
use super::config::Grant;
use super::error::AuthError;
use super::event::{
    Action, AuthContext, Event, Question, RecordVersion, RefusedRequest, RequestAuth, RetryDecision,
    SaveOutcome, StoredRecord, TokenGeneration, TokenStatus,
};
use super::flow::{Flow, FlowPurpose, FlowStep, StepResult};
use super::record::{PendingSave, Record, RecordChange, Tokens};
use crate::Instant;
use crate::auth::token_response::id_token_subject;
use crate::auth::{Es256, Now, Requirement, Scopes, Secret, Signer, TokenKind, TokenResponse};
use crate::prelude::*;
use crate::transport::http::Verb;

/// The record as last read or written, with the state of its tokens in this process.
#[derive(Default)]
pub(super) struct TokenState {
    pub(super) record: Record,
    pub(super) version: Option<RecordVersion>,
    /// Whether the record was read.
    loaded: bool,
    pub(super) generation: TokenGeneration,
    pub(super) context: AuthContext,
    /// Whether requests of this context carry a token.
    authorized: bool,
    /// The token that this process obtained last.
    issued: Option<IssuedToken>,
    /// The application's key for tokens.
    provided_key: Option<Arc<dyn Signer>>,
    /// The key in the record.
    stored_key: Option<Arc<dyn Signer>>,
    /// No early renewal before this time.
    pub(super) early_renewal_after: Option<Instant>,
}

/// A token that this process obtained itself.
struct IssuedToken {
    access: Secret,
    origin: TokenOrigin,
    /// When it expires by the monotonic clock.
    expires: Option<Instant>,
}

/// How a token was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOrigin {
    Grant,
    Renewal,
}

/// The shortest lifetime of a token. One that expires before its use would make each request wait for another.
const MIN_LIFETIME: Duration = Duration::from_secs(10);

impl TokenState {
    /// No tokens yet. Tokens are bound to `provided_key`, if there is one, rather than to the key in the record.
    pub(super) fn new(provided_key: Option<Arc<dyn Signer>>) -> Self {
        Self { provided_key, ..Self::default() }
    }

    pub(super) fn current(&self) -> Option<&Arc<Tokens>> {
        self.record.tokens.as_ref()
    }

    pub(super) fn status(&self) -> Option<TokenStatus> {
        let tokens = self.current()?;
        Some(TokenStatus {
            issuer: tokens.issuer.clone(),
            client_id: tokens.client_id.clone(),
            scopes: tokens.granted.clone().or_else(|| tokens.requested.clone()),
            expires: tokens.expires,
            has_refresh: tokens.refresh.is_some(),
            kind: tokens.kind,
            resource: tokens.resource.clone(),
        })
    }

    // --- Changes ---

    /// Adopts the record that the store holds.
    pub(super) fn adopt_stored(&mut self, stored: Option<StoredRecord>) {
        self.loaded = true;
        match stored {
            Some(StoredRecord { record, version }) => self.adopt_saved(record, Some(version)),
            None => self.adopt_saved(Record::default(), None),
        }
    }

    /// Adopts a record that the store has saved as this version; `None` if it was removed.
    pub(super) fn adopt_saved(&mut self, record: Record, version: Option<RecordVersion>) {
        self.version = version;
        self.adopt(record);
    }

    /// Adopts a record that is not in the store.
    pub(super) fn adopt(&mut self, record: Record) {
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

    /// Forgets the record.
    pub(super) fn clear(&mut self) {
        self.adopt_saved(Record::default(), None);
        self.issued = None;
    }

    /// Notes an issued token before it is saved, and returns it. Fields that the response lacks are those of `grant`.
    pub(super) fn issue(
        &mut self,
        now: Now,
        granted: TokenResponse,
        origin: TokenOrigin,
        grant: Tokens,
    ) -> Arc<Tokens> {
        let lifetime = granted.lifetime.map(|lifetime| lifetime.max(MIN_LIFETIME));
        let expires = lifetime.and_then(|lifetime| now.deadline_after(lifetime));
        self.issued = Some(IssuedToken { access: granted.access.clone(), origin, expires });
        Arc::new(Tokens {
            subject: granted.id_token.as_ref().and_then(|token| id_token_subject(token, &grant.issuer)),
            access: granted.access,
            kind: granted.kind,
            refresh: granted.refresh.or(grant.refresh),
            issued: now.unix,
            // Never beyond the end of the wall clock.
            expires: lifetime.map(|lifetime| now.unix + lifetime).filter(|end| *end > now.unix),
            granted: granted.scope.or(grant.granted),
            ..grant
        })
    }

    /// Notes whether a request is sent with a token: the response depends on that.
    pub(super) fn note_sent(&mut self, authorized: bool) {
        if self.authorized != authorized {
            self.authorized = authorized;
            self.end_context();
        }
    }

    /// Begins another authorization context.
    pub(super) fn end_context(&mut self) {
        self.context = AuthContext(self.context.0.saturating_add(1));
    }

    // --- Questions ---

    /// Whether this process renewed the token of `record`, for the same subject as that of the current token.
    fn is_renewal_for_same_subject(&self, record: &Record) -> bool {
        let (Some(old), Some(new)) = (self.current(), &record.tokens) else { return false };
        let renewed = self
            .issued
            .as_ref()
            .is_some_and(|issued| issued.origin == TokenOrigin::Renewal && issued.access == new.access);
        let subject = new.subject.is_some() && new.subject == old.subject;
        renewed && subject && self.authorized && old.issuer == new.issuer
    }

    /// The current token as it was issued, if this process obtained it.
    fn issued(&self) -> Option<&IssuedToken> {
        let tokens = self.current()?;
        self.issued.as_ref().filter(|issued| issued.access == tokens.access)
    }

    /// How this process obtained the current token, if it did.
    fn origin(&self) -> Option<TokenOrigin> {
        self.issued().map(|issued| issued.origin)
    }

    /// The key that tokens are bound to.
    pub(super) fn signer(&self) -> Option<Arc<dyn Signer>> {
        self.provided_key.clone().or_else(|| self.stored_key.clone())
    }

    /// Whether there is a valid token that is newer than the one used.
    pub(super) fn has_newer(&self, now: Now, used: Option<TokenGeneration>) -> bool {
        used < Some(self.generation) && !self.has_expired(now)
    }

    /// Whether there is no token, it has expired by either clock, or its key is lost.
    pub(super) fn has_expired(&self, now: Now) -> bool {
        let Some(tokens) = self.current() else { return true };
        if tokens.kind == TokenKind::Dpop && self.signer().is_none() {
            return true;
        }
        //= C12.24 "expiry honoured"
        tokens.expires.is_some_and(|end| end <= now.unix)
            || self.issued().and_then(|issued| issued.expires).is_some_and(|end| end <= now.instant)
    }

    /// Whether the token expires within a minute, or within the second half of a short lifetime: then a renewed one
    /// arrives in time, although clocks may differ a little.
    pub(super) fn expires_soon(&self, now: Now) -> bool {
        //= F108 "refresh before the expiry"
        const MARGIN: Duration = Duration::from_secs(60);
        let half = self.current().and_then(|tokens| {
            let end = tokens.expires?;
            end.saturating_since(tokens.issued).checked_div(2)
        });
        let margin = half.map_or(MARGIN, |half| MARGIN.min(half));
        self.has_expired(Now { instant: now.instant + margin, unix: now.unix + margin })
    }

    /// Whether the token can be renewed with its refresh token.
    pub(super) fn can_renew(&self) -> bool {
        self.current().is_some_and(|tokens| {
            tokens.refresh.is_some() && (tokens.kind != TokenKind::Dpop || self.signer().is_some())
        })
    }

    /// Whether the token grants these scopes, as far as is known.
    pub(super) fn allows_scopes(&self, scopes: Option<&Scopes>) -> bool {
        let known = self.current().and_then(|tokens| tokens.granted.as_ref().or(tokens.requested.as_ref()));
        match (known, scopes) {
            (_, None) => true,
            (Some(known), Some(scopes)) => known.contains_all(scopes),
            (None, Some(_)) => false,
        }
    }
}

impl AuthClient {
    /// Whether a new grant needs the user.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.config.grant, Grant::AuthorizationCode)
    }

    /// The headers for a request. Only requests to the server's origin get a token.
    pub fn credentials(&mut self, now: Now, verb: Verb, url: &str) -> RequestAuth {
        self.now = now;
        //= C12.13 "Send only tokens issued by that server's AS"
        if !self.is_server_url(url) {
            return RequestAuth::Ready { headers: Vec::new(), generation: None };
        }
        let auth = self.server_request_auth(verb, url);
        if let RequestAuth::Ready { generation, .. } = &auth {
            self.tokens.note_sent(generation.is_some());
        }
        auth
    }

    fn server_request_auth(&mut self, verb: Verb, url: &str) -> RequestAuth {
        let nothing = || RequestAuth::Ready { headers: Vec::new(), generation: None };
        if self.flows.is_logout() {
            return nothing();
        }
        if !self.tokens.loaded {
            if self.flows.current.is_none() {
                self.begin_flow(FlowPurpose::Load, Requirement::default());
            }
            return RequestAuth::Wait;
        }
        let Some(tokens) = self.tokens.current() else { return nothing() };
        let needs_user = self.is_interactive() && !self.tokens.can_renew();
        if self.tokens.has_expired(self.now) {
            if self.flows.current.is_some() {
                return RequestAuth::Wait;
            }
            if needs_user {
                // Without a token the request gets a challenge, which names the requirements.
                return nothing();
            }
            let purpose = FlowPurpose::NewToken {
                refused: Some(self.tokens.generation),
                unexpected: false,
                may_renew: true,
            };
            self.begin_flow(purpose, Requirement::default());
            return RequestAuth::Wait;
        }
        if self.flows.replaces(self.tokens.generation) {
            return RequestAuth::Wait;
        }
        let tokens = tokens.clone();
        let Ok(headers) = self.headers(verb, url, &tokens) else { return nothing() };
        let generation = Some(self.tokens.generation);
        let paused = self.tokens.early_renewal_after.is_some_and(|until| until > self.now.instant);
        if self.flows.current.is_none() && !needs_user && !paused && self.tokens.expires_soon(self.now) {
            self.begin_flow(FlowPurpose::EarlyRenewal, Requirement::default());
        }
        RequestAuth::Ready { headers, generation }
    }

    fn headers(
        &mut self,
        verb: Verb,
        url: &str,
        tokens: &Tokens,
    ) -> Result<Vec<(&'static str, Secret)>, AuthError> {
        let value = format!("{} {}", tokens.kind.as_str(), tokens.access.expose());
        //= C12.12 "`Authorization: Bearer` in every HTTP request, never in the query"
        let mut headers = Vec::from([("authorization", Secret::new(value))]);
        if tokens.kind == TokenKind::Dpop {
            let signer = self.tokens.signer().ok_or(AuthError::Key)?;
            headers.push(self.dpop_proof(&*signer, verb.as_str(), url, Some(&tokens.access))?);
        }
        Ok(headers)
    }
}

/// Maximum number of authorizations for one request, and of those for the same missing scopes until they are granted or
/// the application calls [`login`](AuthClient::login): each may open a page.
const MAX_STEP_UPS: u32 = 3;
/// Maximum number of times that one request is sent again: for authorizations and nonces.
const MAX_RESENDS: u32 = 6;

impl AuthClient {
    //= F106 "A refusal refreshes the token and repeats the request once"
    /// Handles a request that the server refused with 401 or 403.
    pub fn handle_challenge(&mut self, now: Now, refused: &RefusedRequest<'_>) -> RetryDecision {
        self.now = now;
        if let Some(nonce) = refused.nonce {
            self.nonces.keep(&self.server, nonce);
        }
        let asked = refused.www_authenticate.and_then(Requirement::parse).unwrap_or_default();
        //= K5 "only for `insufficient_scope`"
        let step_up = refused.status == 403 && asked.is_insufficient_scope();
        //= C12.2 "react to 401"
        if refused.status != 401 && !step_up {
            return RetryDecision::Fail(AuthError::Forbidden);
        }
        let final_error = || match step_up {
            true => AuthError::InsufficientScope { scopes: asked.scope.clone() },
            false => AuthError::StillRefused { status: refused.status },
        };
        if refused.attempt >= MAX_RESENDS {
            return RetryDecision::Fail(final_error());
        }
        if asked.is_use_dpop_nonce() && refused.generation.is_some() {
            return match refused.nonce {
                Some(_) => RetryDecision::Retry,
                None => RetryDecision::Fail(final_error()),
            };
        }
        if self.flows.current.is_some() {
            return self.join_flow(refused, asked, step_up);
        }
        if self.tokens.loaded && self.tokens.has_newer(self.now, refused.generation) {
            return RetryDecision::Retry;
        }
        if refused.attempt >= MAX_STEP_UPS || (step_up && !self.can_step_up(&asked)) {
            return RetryDecision::Fail(final_error());
        }
        let current = refused.generation == Some(self.tokens.generation) && self.tokens.current().is_some();
        // The server may have refused a proof for its nonce before it checked the token.
        let nonces = u32::from(self.tokens.current().is_some_and(|tokens| tokens.kind == TokenKind::Dpop));
        let again = refused.attempt > nonces && current;
        if !step_up && again && self.tokens.origin() == Some(TokenOrigin::Grant) {
            return RetryDecision::Fail(final_error());
        }
        if let (true, Some(scopes)) = (step_up, &asked.scope) {
            self.step_ups.note(scopes);
        }
        let purpose = self.flow_purpose(refused, step_up);
        self.begin_flow(purpose, asked);
        RetryDecision::Wait
    }

    /// The purpose of the flow that a refusal requires.
    fn flow_purpose(&self, refused: &RefusedRequest<'_>, step_up: bool) -> FlowPurpose {
        if step_up {
            return FlowPurpose::StepUp { refused: refused.generation };
        }
        FlowPurpose::NewToken {
            refused: refused.generation,
            unexpected: self.tokens.current().is_none() || !self.tokens.has_expired(self.now),
            may_renew: refused.attempt == 0 || self.tokens.origin() != Some(TokenOrigin::Renewal),
        }
    }

    /// Whether another grant could add the required scopes, and was not requested too often.
    fn can_step_up(&mut self, asked: &Requirement) -> bool {
        let Self { step_ups, tokens, .. } = self;
        let Some(scopes) = &asked.scope else { return false };
        step_ups.forget_granted(|scopes| tokens.current().is_some() && tokens.allows_scopes(Some(scopes)));
        //= C12.16 "few retries; track per resource+operation"
        step_ups.count(scopes) < MAX_STEP_UPS
            && (tokens.current().is_none() || !tokens.allows_scopes(Some(scopes)))
    }

    /// Makes the request wait for the current flow, and adds its requirement.
    fn join_flow(
        &mut self,
        refused: &RefusedRequest<'_>,
        asked: Requirement,
        step_up: bool,
    ) -> RetryDecision {
        let purpose = self.flow_purpose(refused, step_up);
        let newer = self.tokens.loaded && self.tokens.has_newer(self.now, refused.generation);
        // The flow has its token already, or the request was sent before there was one.
        if newer && !self.flows.is_logout() && !self.flows.replaces(self.tokens.generation) {
            return RetryDecision::Retry;
        }
        self.flows.join(purpose, asked);
        RetryDecision::Wait
    }
}

/// The number of sets of scopes to remember: more than the operations of one server need.
const REMEMBERED: usize = 16;

/// How often each set of missing scopes was requested, until it is granted or the user logs in.
#[derive(Debug, Default)]
pub(super) struct StepUps(Vec<(Scopes, u32)>);

impl StepUps {
    /// How often these scopes were requested in vain.
    fn count(&self, scopes: &Scopes) -> u32 {
        self.0.iter().find(|(known, _)| known == scopes).map_or(0, |(_, count)| *count)
    }

    /// Counts a request for these scopes; the set that was requested first is forgotten if there are too many.
    fn note(&mut self, scopes: &Scopes) {
        match self.0.iter_mut().find(|(known, _)| known == scopes) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => {
                if self.0.len() >= REMEMBERED {
                    self.0.remove(0);
                }
                self.0.push((scopes.clone(), 1));
            }
        }
    }

    /// Forgets the sets that are granted now.
    fn forget_granted(&mut self, is_granted: impl Fn(&Scopes) -> bool) {
        self.0.retain(|(scopes, _)| !is_granted(scopes));
    }

    /// Forgets all sets.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

// Loading of the record from the store, and saving of its changes by compare-and-swap.

/// Maximum number of conflicts of one change: that many mean that another process keeps writing.
const CONFLICTS: u32 = 16;

impl AuthClient {
    /// Begins a flow: loads the record.
    pub(super) fn load(&mut self, flow: Flow) -> StepResult {
        if self.actions.is_store_busy() {
            return flow.enter(FlowStep::Queued);
        }
        self.actions.push(Action::Load);
        flow.enter(FlowStep::Loading)
    }

    /// Handles the record that the store holds.
    pub fn handle_loaded(&mut self, now: Now, loaded: Result<Option<StoredRecord>, String>) {
        self.now = now;
        if !self.actions.accept(Question::Load) {
            return;
        }
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::Queued => client.load(flow),
            FlowStep::Loading => {
                match loaded {
                    Ok(stored) => client.tokens.adopt_stored(stored),
                    Err(detail) if flow.purpose == FlowPurpose::Logout => {
                        return client.handle_removal_failure(flow, detail);
                    }
                    Err(detail) => return Err(AuthError::Store(detail)),
                }
                client.choose_step(flow)
            }
            FlowStep::AwaitingRenewal(wait) => {
                client.tokens.adopt_stored(loaded.map_err(AuthError::Store)?);
                client.handle_lease_state(flow, wait)
            }
            other => flow.enter(other),
        });
    }

    /// Saves a change to the record.
    pub(super) fn save(&mut self, flow: Flow, change: RecordChange) -> StepResult {
        self.save_again(flow, change, 0)
    }

    fn save_again(&mut self, flow: Flow, change: RecordChange, conflicts: u32) -> StepResult {
        let clear = matches!(change, RecordChange::Clear);
        if clear && self.tokens.version.is_none() {
            return self.revoke_removed(flow);
        }
        let record = match change.apply(self.now, &self.tokens.record) {
            Some(record) => record,
            None => {
                // Another process made the change obsolete.
                return match change {
                    RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => {
                        Err(error)
                    }
                    RecordChange::UseLogin { id, .. } => Err(self.tokens.record.login_error(&id)),
                    _ => self.choose_step(flow),
                };
            }
        };
        let stored = (!clear || !record.is_empty()).then(|| record.clone());
        self.actions.push(Action::Store { record: stored, expected: self.tokens.version });
        flow.enter(FlowStep::Saving(Box::new(PendingSave { change, record, conflicts })))
    }

    /// Handles the outcome of an [`Action::Store`].
    pub fn handle_stored(&mut self, now: Now, saved: Result<SaveOutcome, String>) {
        self.now = now;
        if !self.actions.accept(Question::Store) {
            return;
        }
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::Queued => client.load(flow),
            FlowStep::Saving(save) => match saved {
                Ok(SaveOutcome::Done(version)) => {
                    let is_removed = matches!(save.change, RecordChange::Clear) && save.record.is_empty();
                    let version = (!is_removed).then_some(version);
                    client.tokens.adopt_saved(save.record, version);
                    client.handle_saved(flow, save.change)
                }
                Ok(SaveOutcome::Conflict(there)) if save.conflicts < CONFLICTS => {
                    client.tokens.adopt_stored(there);
                    client.save_again(flow, save.change, save.conflicts.saturating_add(1))
                }
                Ok(SaveOutcome::Conflict(_)) => {
                    client.handle_save_failure(flow, *save, "other processes keep writing it".into())
                }
                Err(detail) => client.handle_save_failure(flow, *save, detail),
            },
            other => flow.enter(other),
        });
    }

    /// Continues after the change was saved.
    fn handle_saved(&mut self, mut flow: Flow, change: RecordChange) -> StepResult {
        match change {
            RecordChange::TakeLease { lease, of, .. } => self.renew(flow, lease, of),
            RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => Err(error),
            RecordChange::DropRefresh { .. } => {
                flow.refresh_rejected = true;
                self.continue_without_renewal(flow)
            }
            RecordChange::AddClient { .. } => self.start_grant(flow),
            RecordChange::SetTokens { .. } => Ok(None),
            RecordChange::UseLogin { .. } => self.redeem_login(flow),
            RecordChange::Clear => self.revoke_removed(flow),
        }
    }

    /// Continues after the change could not be saved: without saving it, where possible.
    fn handle_save_failure(&mut self, flow: Flow, save: PendingSave, detail: String) -> StepResult {
        match &save.change {
            // Without it, another process could do the same.
            RecordChange::TakeLease { .. } | RecordChange::UseLogin { .. } => {
                return Err(AuthError::Store(detail));
            }
            RecordChange::Clear => return self.handle_removal_failure(flow, detail),
            RecordChange::ReleaseLease { .. } | RecordChange::ForgetClient { .. } => {}
            RecordChange::SetTokens { .. } => {
                self.tokens.adopt(save.record);
                self.events.push(Event::SaveFailed(detail));
            }
            RecordChange::AddClient { .. } | RecordChange::DropRefresh { .. } => {
                self.tokens.adopt(save.record)
            }
        }
        self.handle_saved(flow, save.change)
    }
}
