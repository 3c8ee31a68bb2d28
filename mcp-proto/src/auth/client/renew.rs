//! Renewing a token, by one process at a time.
//!
//! A refresh token that is used twice may end all that was granted. So whoever renews first puts a lease into the
//! store, in one step; the others look there until the token is another one, or the lease has ended.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use crate::Instant;
use crate::auth::tokens::id_token_subject;
use crate::auth::{Granted, Now, TokenKind, TokenRefusal};

use super::config::{ClientCredentials, ClientProof};
use super::credentials::{Via, end};
use super::error::AuthError;
use super::event::Stamp;
use super::exchange::{Form, Presented, TokenRequest};
use super::fetching::Reply;
use super::flow::{Flow, Next, Step};
use super::record::{Lease, Tokens};
use super::save::Change;
use super::{AuthClient, after};

/// Another process renews.
pub(super) struct Watch {
    /// By what lease.
    lease: Lease,
    /// Which token.
    stamp: Stamp,
    /// When it is not waited for any longer.
    until: Option<Instant>,
    /// When the store is looked at again; not while it is.
    pub(super) next: Option<Instant>,
}

impl AuthClient {
    /// Whether the token can be renewed without anyone's help.
    pub(super) fn can_renew(&self) -> bool {
        self.record.tokens.as_ref().is_some_and(|tokens| {
            tokens.refresh.is_some() && (tokens.kind != TokenKind::Dpop || self.signer().is_some())
        })
    }

    /// Renews the token, unless somebody else does.
    pub(super) fn renew_in_turn(&mut self, now: Now, flow: Box<Flow>) -> Next {
        let Some(of) = self.record.tokens.clone() else { return self.decide(now, flow) };
        match &self.record.lease {
            Some(lease) if lease.by != self.name && lease.until > now.unix => {
                let lease = lease.clone();
                self.watch(now, flow, lease)
            }
            _ => self.take_lease(now, flow, of, None),
        }
    }

    fn take_lease(&mut self, now: Now, flow: Box<Flow>, of: Arc<Tokens>, over: Option<Lease>) -> Next {
        let until = now.unix + self.config.refresh_lease;
        let lease = Lease { by: self.name.clone(), until };
        self.save(now, flow, Change::Lease { lease, of, over })
    }

    fn watch(&mut self, now: Now, flow: Box<Flow>, lease: Lease) -> Next {
        let until = after(now.instant, self.config.refresh_lease);
        let next = after(now.instant, self.config.lease_poll);
        Ok(flow.at(Step::Watching(Watch { lease, stamp: self.stamp, until, next })))
    }

    /// It is time to look at the store again.
    pub(super) fn watch_again(&mut self, mut flow: Box<Flow>) -> Next {
        if let Step::Watching(watch) = &mut flow.step {
            watch.next = None;
            if self.awaits.is_none() {
                self.ask_to_load();
            }
        }
        Ok(flow)
    }

    /// What the store holds while another process renews.
    pub(super) fn watched(&mut self, now: Now, flow: Box<Flow>, watch: Watch) -> Next {
        if self.stamp != watch.stamp {
            return self.decide(now, flow);
        }
        let Some(of) = self.record.tokens.clone().filter(|_| self.can_renew()) else {
            return self.decide(now, flow);
        };
        // Its clock may say something else than ours: no lease is waited for longer than it lasts.
        let over = watch.until.is_some_and(|until| until <= now.instant);
        match self.record.lease.clone() {
            Some(lease) if lease == watch.lease && lease.until > now.unix && !over => {
                let next = after(now.instant, self.config.lease_poll);
                Ok(flow.at(Step::Watching(Watch { next, ..watch })))
            }
            Some(lease) if lease != watch.lease && lease.by != self.name && lease.until > now.unix => {
                self.watch(now, flow, lease)
            }
            lease => self.take_lease(now, flow, of, lease),
        }
    }

    /// Renews the token: the lease is ours.
    pub(super) fn renew(&mut self, now: Now, flow: Box<Flow>, lease: Lease, of: Arc<Tokens>) -> Next {
        let (Some(found), Some(refresh)) = (flow.found.clone(), of.refresh.clone()) else {
            return self.decide(now, flow);
        };
        let bound = if of.kind == TokenKind::Dpop { self.signer() } else { None };
        let form = Form::of("refresh_token").with_secret("refresh_token", &refresh);
        let request = TokenRequest {
            endpoint: found.metadata.token_endpoint.clone(),
            audience: found.metadata.issuer.clone(),
            form: form.with("resource", &of.resource),
            client: Some(Presented::at(&found.metadata, self.known_as(&of.issuer, &of.client_id))),
            bound,
            until: after(now.instant, lease.until.saturating_since(now.unix).min(self.config.refresh_lease)),
            again: false,
        };
        match self.request_token(now, &request) {
            Ok(()) => Ok(flow.at(Step::Renewing { request, lease, replaced: of })),
            Err(error) => self.save(now, flow, Change::Unlease { lease, error }),
        }
    }

    pub(super) fn renewal_replied(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        (mut request, lease, of): (TokenRequest, Lease, Arc<Tokens>),
        reply: Reply,
    ) -> Next {
        match self.token_replied(now, &mut request, reply) {
            Ok(None) => Ok(flow.at(Step::Renewing { request, lease, replaced: of })),
            Ok(Some(granted)) if granted.kind == of.kind => {
                let tokens = self.renewed(now, granted, &of);
                let change = Change::Tokens { tokens, replaced: Some(of), pin: None, key: None };
                self.save(now, flow, change)
            }
            Ok(Some(_)) => self.save(now, flow, Change::Unlease { lease, error: AuthError::WrongToken }),
            Err(AuthError::Token(refusal)) if refusal.is_definitive() => {
                let lost = matches!(&refusal, TokenRefusal::Refused { error, .. }
                    if error == "invalid_client" || error == "unauthorized_client");
                let client = lost.then(|| of.client_id.clone());
                self.save(now, flow, Change::Spent { of, client })
            }
            Err(error) => self.save(now, flow, Change::Unlease { lease, error }),
        }
    }

    fn renewed(&mut self, now: Now, granted: Granted, of: &Tokens) -> Arc<Tokens> {
        self.issued(now, &granted, Via::Renewal);
        let subject = granted.id_token.as_ref().and_then(|token| id_token_subject(token, &of.issuer));
        Arc::new(Tokens {
            subject,
            access: granted.access,
            refresh: granted.refresh.or_else(|| of.refresh.clone()),
            issued: now.unix,
            expires: granted.lifetime.and_then(|lifetime| end(now, lifetime)),
            granted: granted.scope.or_else(|| of.granted.clone()),
            ..of.clone()
        })
    }

    /// What this client presented itself as, when it got its token.
    pub(super) fn known_as(&self, issuer: &str, id: &str) -> ClientCredentials {
        let configured = self.config.registered.iter().find(|registered| {
            registered.credentials().id == id
                && registered.issuer().is_none_or(|known| self.same_issuer(known, issuer))
        });
        let kept = || self.record.clients.get(issuer).filter(|client| client.id == id);
        configured
            .map(|registered| registered.credentials().clone())
            .or_else(|| kept().map(super::record::Client::credentials))
            .unwrap_or_else(|| ClientCredentials {
                id: String::from(id),
                proof: ClientProof::None,
                method: None,
            })
    }
}
