//! Runs a flow step by step.

use alloc::boxed::Box;

use crate::auth::Now;

use super::AuthClient;
use super::event::Event;
use super::fetching::FetchReply;
use super::flow::{AccessRequirement, Flow, FlowEnd, FlowPurpose, FlowStep, StepResult};

impl AuthClient {
    /// Begins a flow. There must be none.
    pub(super) fn begin_flow(&mut self, now: Now, want: FlowPurpose, asked: AccessRequirement) {
        let flow = Flow::new(want, asked);
        self.flows.set(flow);
        self.run_step(now, Self::load);
    }

    /// Goes on where a step led.
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
                if let Some((want, asked)) = self.flows.take_queued() {
                    self.begin_flow(now, want, asked);
                }
            }
        }
    }

    /// Goes on with the flow there is.
    pub(super) fn run_step(&mut self, now: Now, go: impl FnOnce(&mut Self, Box<Flow>) -> StepResult) {
        if let Some(flow) = self.flows.take() {
            let want = flow.purpose.clone();
            let next = go(self, flow);
            let next = next.map_err(|end| self.downgrade_end(now, &want, end));
            self.advance(now, next);
        }
    }

    /// What a failure means for what was wanted.
    fn downgrade_end(&mut self, now: Now, want: &FlowPurpose, end: FlowEnd) -> FlowEnd {
        match (want, end) {
            // The present token is still good.
            (FlowPurpose::EarlyRenewal, FlowEnd::Failed(_)) if !self.tokens.has_expired(now) => {
                self.tokens.pause_early_renewal(now.deadline_after(self.config.refresh_pause));
                FlowEnd::Ready
            }
            // Nothing is kept any more: that the authorization server does not know yet changes nothing here.
            (FlowPurpose::Logout, FlowEnd::Failed(_)) => FlowEnd::LoggedOut,
            (_, end) => end,
        }
    }

    /// Gives up what the flow waits for.
    pub(super) fn drop_flow(&mut self) -> bool {
        let Some(flow) = self.flows.take() else { return false };
        self.abort_fetch();
        if matches!(flow.step, FlowStep::Page(_)) {
            self.close_page();
        }
        true
    }

    /// What to do, now that it is known what is kept.
    pub(super) fn choose_step(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        match flow.purpose {
            FlowPurpose::Load => Err(FlowEnd::Ready),
            FlowPurpose::EarlyRenewal if !self.tokens.expires_soon(now, self.config.refresh_margin) => {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::EarlyRenewal if self.tokens.can_renew() => self.discover_issuer(now, flow),
            FlowPurpose::EarlyRenewal if self.is_interactive() => Err(FlowEnd::Ready),
            FlowPurpose::NewToken { refused, .. } if self.tokens.has_newer(now, refused) => {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::NewToken { unexpected: surprise, may_renew: true, .. }
                if self.tokens.can_renew() && (!surprise || self.tokens.has_expired(now)) =>
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

    /// The end of an exchange.
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
