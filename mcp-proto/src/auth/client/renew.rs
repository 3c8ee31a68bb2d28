//! The end of a token: its renewal by one process at a time, and logout.
//!
//! A second use of a refresh token may revoke the whole grant. So a process first puts a lease into the store, by
//! compare-and-swap; the others poll the store until the token is replaced or the lease has expired.

use alloc::sync::Arc;
use core::time::Duration;

use super::AuthClient;
use super::config::ClientCredentials;
use super::error::AuthError;
use super::event::{Action, Event};
use super::exchange::{FetchReply, FormBody, TokenRequest, granted_token};
use super::flow::{Flow, FlowStep, LeaseWait, Search, StepResult};
use super::record::{Lease, RecordChange, RegisteredClient, Tokens};
use super::tokens::TokenOrigin;
use crate::auth::{TokenEndpointError, TokenKind};
use crate::prelude::*;

/// How long one process reserves the renewal of a token in a shared store: twice an exchange.
const LEASE: Duration = Duration::from_secs(30);
/// Interval at which the store is read while another process renews the token.
const LEASE_POLL: Duration = Duration::from_millis(500);

impl AuthClient {
    /// Renews the token, or waits while another process does.
    pub(super) fn renew_in_turn(&mut self, flow: Flow) -> StepResult {
        let Some(of) = self.tokens.current().cloned() else { return self.choose_step(flow) };
        match &self.tokens.record.lease {
            Some(lease) if lease.holder != self.lease_holder && lease.expires > self.now.unix => {
                let lease = lease.clone();
                self.wait_for_lease(flow, lease)
            }
            _ => self.acquire_lease(flow, of, None),
        }
    }

    fn acquire_lease(&mut self, flow: Flow, of: Arc<Tokens>, over: Option<Lease>) -> StepResult {
        let lease = Lease { holder: self.lease_holder.clone(), expires: self.now.unix + LEASE };
        self.save(flow, RecordChange::TakeLease { lease, of, over })
    }

    fn wait_for_lease(&mut self, flow: Flow, lease: Lease) -> StepResult {
        let (deadline, next_poll) = (self.now.deadline_after(LEASE), self.now.deadline_after(LEASE_POLL));
        let generation = self.tokens.generation;
        flow.enter(FlowStep::AwaitingRenewal(LeaseWait { lease, generation, deadline, next_poll }))
    }

    /// Reads the store again during a wait.
    pub(super) fn poll_lease(&mut self, mut flow: Flow) -> StepResult {
        if let FlowStep::AwaitingRenewal(wait) = &mut flow.step {
            wait.next_poll = None;
            if !self.actions.is_store_busy() {
                self.actions.push(Action::Load);
            }
        }
        Ok(Some(flow))
    }

    /// Continues a wait with the record just read.
    pub(super) fn handle_lease_state(&mut self, flow: Flow, wait: LeaseWait) -> StepResult {
        if self.tokens.generation != wait.generation {
            return self.choose_step(flow);
        }
        let Some(of) = self.tokens.current().cloned().filter(|_| self.tokens.can_renew()) else {
            return self.choose_step(flow);
        };
        // Clocks of processes may differ: the wait for a lease is no longer than its duration.
        let over = wait.deadline.is_some_and(|until| until <= self.now.instant);
        match self.tokens.record.lease.clone() {
            Some(lease) if lease == wait.lease && lease.expires > self.now.unix && !over => {
                let next = self.now.deadline_after(LEASE_POLL);
                flow.enter(FlowStep::AwaitingRenewal(LeaseWait { next_poll: next, ..wait }))
            }
            Some(lease)
                if lease != wait.lease
                    && lease.holder != self.lease_holder
                    && lease.expires > self.now.unix =>
            {
                self.wait_for_lease(flow, lease)
            }
            lease => self.acquire_lease(flow, of, lease),
        }
    }

    /// Renews the token under this process's lease.
    pub(super) fn renew(&mut self, flow: Flow, lease: Lease, of: Arc<Tokens>) -> StepResult {
        let Some(refresh) = &of.refresh else { return self.choose_step(flow) };
        let server = &flow.server.metadata;
        let demands_scope =
            self.config.refresh_scope_issuers.iter().any(|issuer| self.same_issuer(issuer, &of.issuer));
        let scope = of.granted.as_ref().or(of.requested.as_ref()).filter(|_| demands_scope);
        let form = FormBody::new("refresh_token")
            .with_secret("refresh_token", refresh)
            //= C12.11 "(refresh too)"
            .with("resource", &of.resource)
            .with_optional("scope", scope.map(ToString::to_string).as_deref());
        let credentials = self.credentials_for(&of.issuer, &of.client_id);
        let mut request = TokenRequest::new(server, form, Some(credentials));
        request.dpop_key = self.tokens.signer().filter(|_| of.kind == TokenKind::Dpop);
        let remaining = lease.expires.saturating_since(self.now.unix);
        request.deadline = self.now.deadline_after(remaining.min(LEASE));
        match self.request_token(request) {
            Ok(()) => flow.enter(FlowStep::Renewing { lease, replaced: of }),
            Err(error) => self.save(flow, RecordChange::ReleaseLease { lease, error }),
        }
    }

    pub(super) fn handle_renewal_reply(
        &mut self,
        flow: Flow,
        lease: Lease,
        of: Arc<Tokens>,
        reply: FetchReply,
    ) -> StepResult {
        match granted_token(reply) {
            Ok(granted) if granted.kind == of.kind => {
                let tokens = self.tokens.issue(self.now, granted, TokenOrigin::Renewal, Tokens::clone(&of));
                let change = RecordChange::SetTokens { tokens, replaced: Some(of), pin: None, key: None };
                self.save(flow, change)
            }
            Ok(_) => self.save(flow, RecordChange::ReleaseLease { lease, error: AuthError::UnusableToken }),
            Err(AuthError::Token(refusal)) if refusal.is_definitive() => {
                let lost = matches!(&refusal, TokenEndpointError::Refused { error, .. }
                    if error == "invalid_client" || error == "unauthorized_client");
                let client = lost.then(|| of.client_id.clone());
                self.save(flow, RecordChange::DropRefresh { of, client })
            }
            Err(error) => self.save(flow, RecordChange::ReleaseLease { lease, error }),
        }
    }

    /// The credentials that a token was issued to.
    pub(super) fn credentials_for(&self, issuer: &str, id: &str) -> ClientCredentials {
        let configured = self.config.preregistrations.iter().find(|registered| {
            registered.credentials().id == id
                && registered.issuer().is_none_or(|known| self.same_issuer(known, issuer))
        });
        let kept = || self.tokens.record.clients.get(issuer).filter(|client| client.id == id);
        configured
            .map(|registered| registered.credentials().clone())
            .or_else(|| kept().map(RegisteredClient::credentials))
            .unwrap_or_else(|| ClientCredentials::new(id))
    }
}

impl AuthClient {
    /// Removes the record.
    pub(super) fn remove_record(&mut self, mut flow: Flow) -> StepResult {
        self.note_revocable_tokens(&mut flow);
        self.save(flow, RecordChange::Clear)
    }

    /// Revokes the token although the store could not remove the record.
    pub(super) fn handle_removal_failure(&mut self, mut flow: Flow, detail: String) -> StepResult {
        self.events.push(Event::RemovalFailed(detail));
        self.note_revocable_tokens(&mut flow);
        self.revoke_removed(flow)
    }

    /// Notes the tokens to revoke, and their credentials.
    fn note_revocable_tokens(&mut self, flow: &mut Flow) {
        let tokens = self.tokens.current().cloned();
        flow.credentials =
            tokens.as_ref().map(|tokens| self.credentials_for(&tokens.issuer, &tokens.client_id));
        flow.removed_tokens = tokens;
    }

    /// Revokes the noted tokens, after the removal.
    pub(super) fn revoke_removed(&mut self, flow: Flow) -> StepResult {
        self.tokens.clear();
        let Some(tokens) = &flow.removed_tokens else { return Ok(None) };
        let search = Search::of_servers([tokens.issuer.clone()], tokens.at_origin);
        self.try_next_server(flow, search)
    }

    /// Revokes the token (RFC 7009). The result does not matter.
    pub(super) fn revoke(&mut self, mut flow: Flow) -> StepResult {
        let server = &flow.server.metadata;
        let (Some(tokens), Some(endpoint)) = (flow.removed_tokens.take(), &server.revocation_endpoint) else {
            return Ok(None);
        };
        let (token, kind) = match &tokens.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&tokens.access, "access_token"),
        };
        let form = FormBody::default().with_secret("token", token).with("token_type_hint", kind);
        let request = TokenRequest::new(server, form, flow.credentials.take());
        self.request_token(TokenRequest { endpoint: endpoint.clone(), ..request })?;
        flow.enter(FlowStep::Revoking)
    }
}
