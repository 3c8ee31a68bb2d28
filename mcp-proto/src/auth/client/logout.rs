//! Logout: removes the record, then revokes the token at the authorization server.

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
    /// Removes the record.
    pub(super) fn remove_record(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        self.note_revocable_tokens(&mut flow);
        self.save(now, flow, RecordChange::Clear)
    }

    /// Revokes the token although the store could not remove the record.
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

    /// Notes the tokens to revoke, and their credentials.
    fn note_revocable_tokens(&mut self, flow: &mut Flow) {
        let tokens = self.tokens.current().cloned();
        flow.credentials =
            tokens.as_ref().map(|tokens| self.credentials_for(&tokens.issuer, &tokens.client_id));
        flow.removed_tokens = tokens;
    }

    /// Revokes the noted tokens, after the removal.
    pub(super) fn revoke_removed(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        self.tokens.clear();
        let Some(tokens) = &flow.removed_tokens else { return Err(FlowEnd::LoggedOut) };
        let (issuer, source) = (tokens.issuer.clone(), tokens.issuer_source);
        self.discover_server(now, flow, VecDeque::from([issuer]), source)
    }

    /// Revokes the token (RFC 7009). The result does not matter.
    pub(super) fn revoke(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        let (Some(tokens), Some(found)) = (flow.removed_tokens.take(), flow.discovered.clone()) else {
            return Err(FlowEnd::LoggedOut);
        };
        let Some(endpoint) = &found.metadata.revocation_endpoint else {
            return Err(FlowEnd::LoggedOut);
        };
        let (token, kind) = match &tokens.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&tokens.access, "access_token"),
        };
        let form = FormBody::default().with_secret("token", token).with("token_type_hint", kind);
        let client = flow.credentials.take();
        let client = client.map(|client| ClientAuthentication::for_server(&found.metadata, client));
        let request = TokenRequest::new(endpoint, &found.metadata.issuer, form, client);
        match self.request_token(now, &request) {
            Ok(()) => Ok(flow.into_step(FlowStep::Revoking)),
            Err(_) => Err(FlowEnd::LoggedOut),
        }
    }
}
