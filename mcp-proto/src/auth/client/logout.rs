//! Forgetting everything: here first, then at the authorization server.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;

use crate::auth::Now;

use super::AuthClient;
use super::event::Event;
use super::exchange::{ClientAuthentication, FormBody, TokenRequest};
use super::flow::{Flow, FlowEnd, FlowStep, StepResult};
use super::record_change::RecordChange;

impl AuthClient {
    /// Removes what is kept.
    pub(super) fn remove_record(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        self.note_revocable_tokens(&mut flow);
        self.save(now, flow, RecordChange::Clear)
    }

    /// What is kept cannot be removed; what else can be done is done.
    pub(super) fn handle_removal_failure(
        &mut self,
        now: Now,
        mut flow: Box<Flow>,
        detail: String,
    ) -> StepResult {
        self.events.push(Event::RemovalFailed(detail));
        self.note_revocable_tokens(&mut flow);
        self.revoke_removed(now, flow)
    }

    /// Notes what there is to give back.
    fn note_revocable_tokens(&mut self, flow: &mut Flow) {
        let tokens = self.tokens.current().cloned();
        flow.credentials =
            tokens.as_ref().map(|tokens| self.credentials_for(&tokens.issuer, &tokens.client_id));
        flow.removed_tokens = tokens;
    }

    /// Gives the token back, now that nothing is kept.
    pub(super) fn revoke_removed(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        self.tokens.clear();
        let Some(tokens) = &flow.removed_tokens else { return Err(FlowEnd::LoggedOut) };
        let (issuer, era) = (tokens.issuer.clone(), tokens.issuer_source);
        self.discover_server(now, flow, VecDeque::from([issuer]), era)
    }

    /// Tells the authorization server that the token is not needed any more (RFC 7009). Whatever comes of it, this
    /// client is done.
    pub(super) fn revoke(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        let (Some(tokens), Some(found)) = (flow.removed_tokens.take(), flow.discovered.clone()) else {
            return Err(FlowEnd::LoggedOut);
        };
        let Some(endpoint) = found.metadata.revocation_endpoint.clone() else {
            return Err(FlowEnd::LoggedOut);
        };
        let (token, kind) = match &tokens.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&tokens.access, "access_token"),
        };
        let request = TokenRequest {
            endpoint,
            audience: found.metadata.issuer.clone(),
            form: FormBody::default().with_secret("token", token).with("token_type_hint", kind),
            client: flow
                .credentials
                .take()
                .map(|client| ClientAuthentication::for_server(&found.metadata, client)),
            dpop_key: None,
            deadline: None,
            nonce_retried: false,
        };
        match self.request_token(now, &request) {
            Ok(()) => Ok(flow.into_step(FlowStep::Revoking)),
            Err(_) => Err(FlowEnd::LoggedOut),
        }
    }
}
