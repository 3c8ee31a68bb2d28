//! Runs a flow step by step.

use alloc::boxed::Box;
use core::time::Duration;

use crate::auth::Now;

use super::AuthClient;
use super::event::Event;
use super::fetching::FetchReply;
use super::flow::{AccessRequirement, Flow, FlowEnd, FlowPurpose, FlowStep, StepResult};

/// Pause after a failed early renewal, while the token is still valid.
const EARLY_RENEWAL_PAUSE: Duration = Duration::from_secs(10);

impl AuthClient {
    /// Begins a flow. There must be no current one.
    pub(super) fn begin_flow(&mut self, now: Now, purpose: FlowPurpose, requirement: AccessRequirement) {
        let flow = Flow::new(purpose, requirement);
        self.flows.set(flow);
        self.run_step(now, Self::load);
    }

    /// Sets the flow to its next step, or ends it.
    pub(super) fn advance(&mut self, now: Now, next: StepResult) {
        match next {
            Ok(flow) => self.flows.set(flow),
            Err(end) => {
                if matches!(end, FlowEnd::Failed(_)) {
                    self.forget_server();
                }
                self.events.push(match end {
                    FlowEnd::Ready => Event::Ready(self.tokens.generation()),
                    FlowEnd::Failed(error) => Event::Failed(error),
                    FlowEnd::LoggedOut => Event::LoggedOut,
                });
                if let Some((purpose, requirement)) = self.flows.take_queued() {
                    self.begin_flow(now, purpose, requirement);
                }
            }
        }
    }

    /// Runs a step of the current flow.
    pub(super) fn run_step(&mut self, now: Now, step: impl FnOnce(&mut Self, Box<Flow>) -> StepResult) {
        if let Some(flow) = self.flows.take() {
            let purpose = flow.purpose.clone();
            let next = step(self, flow);
            let next = next.map_err(|end| self.downgrade_end(now, &purpose, end));
            self.advance(now, next);
        }
    }

    /// Turns failures that do not matter for the purpose into successes.
    fn downgrade_end(&mut self, now: Now, purpose: &FlowPurpose, end: FlowEnd) -> FlowEnd {
        match (purpose, end) {
            // The current token is still valid.
            (FlowPurpose::EarlyRenewal, FlowEnd::Failed(_)) if !self.tokens.has_expired(now) => {
                self.tokens.pause_early_renewal(now.deadline_after(EARLY_RENEWAL_PAUSE));
                FlowEnd::Ready
            }
            // The record is removed, even if the authorization server has not revoked the token.
            (FlowPurpose::Logout, FlowEnd::Failed(_)) => FlowEnd::LoggedOut,
            (_, end) => end,
        }
    }

    /// Drops the current flow, with its exchange and its page. Returns whether there was one.
    pub(super) fn drop_flow(&mut self) -> bool {
        let Some(flow) = self.flows.take() else { return false };
        self.abort_fetch();
        if matches!(flow.step, FlowStep::Page(_)) {
            self.close_page();
        }
        true
    }

    /// Chooses the next step by the purpose and the loaded record.
    pub(super) fn choose_step(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        match flow.purpose {
            FlowPurpose::Load => Err(FlowEnd::Ready),
            FlowPurpose::EarlyRenewal if !self.tokens.expires_soon(now) => Err(FlowEnd::Ready),
            FlowPurpose::EarlyRenewal if self.tokens.can_renew() => self.discover_issuer(now, flow),
            FlowPurpose::EarlyRenewal if self.is_interactive() => Err(FlowEnd::Ready),
            FlowPurpose::NewToken { refused, .. } if self.tokens.has_newer(now, refused) => {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::NewToken { unexpected, may_renew: true, .. }
                if self.tokens.can_renew() && (!unexpected || self.tokens.has_expired(now)) =>
            {
                self.discover_issuer(now, flow)
            }
            FlowPurpose::StepUp { refused }
                if self.tokens.has_newer(now, refused)
                    && self.tokens.allows_scopes(flow.requirement.scopes.as_ref()) =>
            {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::Logout => self.remove_record(now, flow),
            _ => self.discover_resource(now, flow),
        }
    }

    /// Handles the end of an exchange.
    pub(super) fn handle_reply(&mut self, now: Now, reply: FetchReply) {
        self.run_step(now, |client, mut flow| match flow.take_step() {
            FlowStep::Resource(search) => client.handle_resource_reply(now, flow, search, reply),
            FlowStep::Server(search) => client.handle_server_reply(now, flow, search, reply),
            FlowStep::Registering => client.handle_registration_reply(now, flow, reply),
            FlowStep::Provider { search, subject, issuer } => {
                client.handle_provider_reply(now, flow, (search, subject, issuer), reply)
            }
            FlowStep::Exchanging(request) => client.handle_exchange_reply(now, flow, request, reply),
            FlowStep::Granting(request) => client.handle_grant_reply(now, flow, request, reply),
            FlowStep::Renewing { request, lease, replaced } => {
                client.handle_renewal_reply(now, flow, (request, lease, replaced), reply)
            }
            FlowStep::Revoking => Err(FlowEnd::LoggedOut),
            other => Ok(flow.into_step(other)),
        });
    }
}
