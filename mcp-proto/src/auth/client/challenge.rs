//! Requests that the server refuses.

use crate::auth::{Now, Requirement, TokenKind};

use super::AuthClient;
use super::error::AuthError;
use super::event::{RefusedRequest, RetryDecision};
use super::flow::{AccessRequirement, FlowPurpose};
use super::token_state::TokenOrigin;

/// Maximum number of authorizations for one request, and of those for the same missing scopes until they are granted or
/// the application calls [`login`](AuthClient::login): each may open a page.
const MAX_STEP_UPS: u32 = 3;
/// Maximum number of times that one request is sent again: for authorizations and nonces.
const MAX_RESENDS: u32 = 6;

impl AuthClient {
    pub(super) fn handle_refusal(&mut self, now: Now, refused: &RefusedRequest<'_>) -> RetryDecision {
        if let Some(nonce) = refused.nonce {
            self.nonces.keep(&self.server, nonce);
        }
        let requirement = refused.www_authenticate.and_then(Requirement::parse).unwrap_or_default();
        let asked =
            AccessRequirement::from_challenge(refused.www_authenticate.unwrap_or_default(), &requirement);
        let step_up = refused.status == 403 && requirement.is_insufficient_scope();
        //= C12.2 "react to 401"
        if refused.status != 401 && !step_up {
            return RetryDecision::Fail(AuthError::Forbidden);
        }
        let final_error = || match step_up {
            true => AuthError::InsufficientScope { scopes: asked.scopes.clone() },
            false => AuthError::StillRefused { status: refused.status },
        };
        if refused.attempt >= MAX_RESENDS {
            return RetryDecision::Fail(final_error());
        }
        if requirement.is_use_dpop_nonce() && refused.generation.is_some() {
            return match refused.nonce {
                Some(_) => RetryDecision::Retry,
                None => RetryDecision::Fail(final_error()),
            };
        }
        if self.flows.current().is_some() {
            return self.join_flow(now, refused, asked, step_up);
        }
        if self.tokens.is_loaded() && self.tokens.has_newer(now, refused.generation) {
            return RetryDecision::Retry;
        }
        if refused.attempt >= MAX_STEP_UPS || (step_up && !self.can_step_up(&asked)) {
            return RetryDecision::Fail(final_error());
        }
        let current = refused.generation == Some(self.tokens.generation()) && self.tokens.current().is_some();
        // The server may have refused a proof for its nonce before it checked the token.
        let nonces = u32::from(self.tokens.current().is_some_and(|tokens| tokens.kind == TokenKind::Dpop));
        let again = refused.attempt > nonces && current;
        if !step_up && again && self.tokens.origin() == Some(TokenOrigin::Grant) {
            return RetryDecision::Fail(final_error());
        }
        if let (true, Some(scopes)) = (step_up, &asked.scopes) {
            self.step_ups.note(scopes);
        }
        let purpose = self.flow_purpose(now, refused, step_up);
        self.begin_flow(now, purpose, asked);
        RetryDecision::Wait
    }

    /// The purpose of the flow that a refusal requires.
    fn flow_purpose(&self, now: Now, refused: &RefusedRequest<'_>, step_up: bool) -> FlowPurpose {
        if step_up {
            return FlowPurpose::StepUp { refused: refused.generation };
        }
        FlowPurpose::NewToken {
            refused: refused.generation,
            unexpected: self.tokens.current().is_none() || !self.tokens.has_expired(now),
            may_renew: refused.attempt == 0 || self.tokens.origin() != Some(TokenOrigin::Renewal),
        }
    }

    /// Whether another grant could add the required scopes, and was not requested too often.
    fn can_step_up(&mut self, asked: &AccessRequirement) -> bool {
        let Self { step_ups, tokens, .. } = self;
        let Some(scopes) = &asked.scopes else { return false };
        step_ups.forget_granted(|scopes| tokens.current().is_some() && tokens.allows_scopes(Some(scopes)));
        //= C12.16 "few retries; track per resource+operation"
        step_ups.count(scopes) < MAX_STEP_UPS
            && (tokens.current().is_none() || !tokens.allows_scopes(Some(scopes)))
    }

    /// Makes the request wait for the current flow, and adds its requirement.
    fn join_flow(
        &mut self,
        now: Now,
        refused: &RefusedRequest<'_>,
        asked: AccessRequirement,
        step_up: bool,
    ) -> RetryDecision {
        let purpose = self.flow_purpose(now, refused, step_up);
        let newer = self.tokens.is_loaded() && self.tokens.has_newer(now, refused.generation);
        // The flow has its token already, or the request was sent before there was one.
        if newer && !self.flows.is_logout() && !self.flows.replaces(self.tokens.generation()) {
            return RetryDecision::Retry;
        }
        self.flows.join(purpose, asked);
        RetryDecision::Wait
    }
}
