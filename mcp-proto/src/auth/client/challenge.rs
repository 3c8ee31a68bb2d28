//! What becomes of requests that the server refuses.

use crate::auth::{Now, Requirement, TokenKind};

use super::AuthClient;
use super::error::AuthError;
use super::event::{RefusedRequest, RetryDecision};
use super::flow::{AccessRequirement, FlowPurpose};
use super::token_state::TokenOrigin;

impl AuthClient {
    pub(super) fn handle_refusal(&mut self, now: Now, refused: &RefusedRequest<'_>) -> RetryDecision {
        if let Some(nonce) = refused.nonce {
            self.nonces.keep(&self.server, nonce);
        }
        let demand = refused.www_authenticate.and_then(Requirement::parse).unwrap_or_default();
        let asked = AccessRequirement::from_challenge(refused.www_authenticate.unwrap_or_default(), &demand);
        let more = refused.status == 403 && demand.is_insufficient_scope();
        if refused.status != 401 && !more {
            return RetryDecision::Fail(AuthError::Forbidden);
        }
        let final_error = || match more {
            true => AuthError::InsufficientScope { scopes: asked.scopes.clone() },
            false => AuthError::StillRefused { status: refused.status },
        };
        if refused.attempt >= self.config.resends {
            return RetryDecision::Fail(final_error());
        }
        if demand.is_use_dpop_nonce() && refused.generation.is_some() {
            return match refused.nonce {
                Some(_) => RetryDecision::Retry,
                None => RetryDecision::Fail(final_error()),
            };
        }
        if self.flows.current().is_some() {
            return self.join_flow(now, refused, asked, more);
        }
        if self.tokens.is_loaded() && self.tokens.has_newer(now, refused.generation) {
            return RetryDecision::Retry;
        }
        if refused.attempt >= self.config.step_ups || (more && !self.can_step_up(&asked)) {
            return RetryDecision::Fail(final_error());
        }
        let current = refused.generation == Some(self.tokens.generation()) && self.tokens.current().is_some();
        // A proof may have been refused for its nonce before the token was looked at.
        let nonces = u32::from(self.tokens.current().is_some_and(|tokens| tokens.kind == TokenKind::Dpop));
        let again = refused.attempt > nonces && current;
        if !more && again && self.tokens.origin() == Some(TokenOrigin::Grant) {
            return RetryDecision::Fail(final_error());
        }
        let want = self.flow_purpose(now, refused, more);
        self.begin_flow(now, want, asked);
        RetryDecision::Wait
    }

    /// What a refusal makes necessary.
    fn flow_purpose(&self, now: Now, refused: &RefusedRequest<'_>, more: bool) -> FlowPurpose {
        if more {
            return FlowPurpose::StepUp { refused: refused.generation };
        }
        FlowPurpose::NewToken {
            refused: refused.generation,
            unexpected: self.tokens.current().is_none() || !self.tokens.has_expired(now),
            may_renew: refused.attempt == 0 || self.tokens.origin() != Some(TokenOrigin::Renewal),
        }
    }

    /// Whether another grant could give what is asked for.
    fn can_step_up(&self, asked: &AccessRequirement) -> bool {
        asked.scopes.is_some()
            && (self.tokens.current().is_none() || !self.tokens.allows_scopes(asked.scopes.as_ref()))
    }

    /// Waits for the flow there is, which may have to do more now.
    fn join_flow(
        &mut self,
        now: Now,
        refused: &RefusedRequest<'_>,
        asked: AccessRequirement,
        more: bool,
    ) -> RetryDecision {
        let want = self.flow_purpose(now, refused, more);
        let newer = self.tokens.is_loaded() && self.tokens.has_newer(now, refused.generation);
        // The flow has its token already, or the request was sent before there was one.
        if newer && !self.flows.is_logout() && !self.flows.replaces(self.tokens.generation()) {
            return RetryDecision::Retry;
        }
        self.flows.join(want, asked);
        RetryDecision::Wait
    }
}
