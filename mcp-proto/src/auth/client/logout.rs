//! Forgetting everything: here first, then at the authorization server.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;

use crate::auth::Now;

use super::AuthClient;
use super::event::Event;
use super::exchange::{Form, Presented, TokenRequest};
use super::flow::{End, Flow, Next, Step};
use super::record::Record;
use super::save::Change;

impl AuthClient {
    /// Removes what is kept.
    pub(super) fn forget(&mut self, now: Now, mut flow: Box<Flow>) -> Next {
        self.recall(&mut flow);
        self.save(now, flow, Change::Nothing)
    }

    /// What is kept can not be removed; what else can be done is done.
    pub(super) fn unforgotten(&mut self, now: Now, mut flow: Box<Flow>, detail: String) -> Next {
        self.tell(Event::NotForgotten(detail));
        self.recall(&mut flow);
        self.forgotten(now, flow)
    }

    /// Notes what there is to give back.
    fn recall(&mut self, flow: &mut Flow) {
        let tokens = self.record.tokens.clone();
        flow.credentials = tokens.as_ref().map(|tokens| self.known_as(&tokens.issuer, &tokens.client_id));
        flow.forgotten = tokens;
    }

    /// Gives the token back, now that nothing is kept.
    pub(super) fn forgotten(&mut self, now: Now, flow: Box<Flow>) -> Next {
        self.version = None;
        self.take(Record::default());
        self.fresh = None;
        let Some(tokens) = &flow.forgotten else { return Err(End::LoggedOut) };
        let (issuer, era) = (tokens.issuer.clone(), tokens.era);
        self.look_for_server(now, flow, VecDeque::from([issuer]), era)
    }

    /// Tells the authorization server that the token is not needed any more (RFC 7009). Whatever comes of it, this
    /// client is done.
    pub(super) fn revoke(&mut self, now: Now, mut flow: Box<Flow>) -> Next {
        let (Some(tokens), Some(found)) = (flow.forgotten.take(), flow.found.clone()) else {
            return Err(End::LoggedOut);
        };
        let Some(endpoint) = found.metadata.revocation_endpoint.clone() else { return Err(End::LoggedOut) };
        let (token, kind) = match &tokens.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&tokens.access, "access_token"),
        };
        let request = TokenRequest {
            endpoint,
            audience: found.metadata.issuer.clone(),
            form: Form::default().with_secret("token", token).with("token_type_hint", kind),
            client: flow.credentials.take().map(|client| Presented::at(&found.metadata, client)),
            bound: None,
            until: None,
            again: false,
        };
        match self.request_token(now, &request) {
            Ok(()) => Ok(flow.at(Step::Revoking)),
            Err(_) => Err(End::LoggedOut),
        }
    }
}
