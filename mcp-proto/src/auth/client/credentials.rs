//! The credentials of requests to the server.

use alloc::string::String;
use alloc::vec::Vec;

use crate::auth::{Now, Secret, TokenKind, dpop};
use crate::transport::http::Verb;

use super::AuthClient;
use super::config::Grant;
use super::error::AuthError;
use super::event::RequestAuth;
use super::flow::{AccessRequirement, FlowPurpose};

impl AuthClient {
    /// Whether a new grant needs the user.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.config.grant, Grant::AuthorizationCode)
    }

    pub(super) fn request_auth(&mut self, now: Now, verb: Verb, url: &str) -> RequestAuth {
        let auth = self.server_request_auth(now, verb, url);
        if let RequestAuth::Ready { generation, .. } = &auth
            && self.is_server_url(url)
        {
            self.tokens.note_sent(generation.is_some());
        }
        auth
    }

    fn server_request_auth(&mut self, now: Now, verb: Verb, url: &str) -> RequestAuth {
        let nothing = || RequestAuth::Ready { headers: Vec::new(), generation: None };
        //= C12.13 "Send only tokens issued by that server's AS"
        if !self.is_server_url(url) {
            return nothing();
        }
        if self.flows.is_logout() {
            return nothing();
        }
        if !self.tokens.is_loaded() {
            if self.flows.current().is_none() {
                self.begin_flow(now, FlowPurpose::Load, AccessRequirement::default());
            }
            return RequestAuth::Wait;
        }
        let Some(tokens) = self.tokens.current() else { return nothing() };
        let needs_user = self.is_interactive() && !self.tokens.can_renew();
        if self.tokens.has_expired(now) {
            if self.flows.current().is_some() {
                return RequestAuth::Wait;
            }
            if needs_user {
                // Without a token the request gets a challenge, which names the requirements.
                return nothing();
            }
            let purpose = FlowPurpose::NewToken {
                refused: Some(self.tokens.generation()),
                unexpected: false,
                may_renew: true,
            };
            self.begin_flow(now, purpose, AccessRequirement::default());
            return RequestAuth::Wait;
        }
        if self.flows.replaces(self.tokens.generation()) {
            return RequestAuth::Wait;
        }
        let headers = match self.headers(now, verb, url, &tokens.access.clone(), tokens.kind) {
            Ok(headers) => headers,
            Err(_) => return nothing(),
        };
        let generation = Some(self.tokens.generation());
        let paused = self.tokens.is_early_renewal_paused(now);
        if self.flows.current().is_none() && !needs_user && !paused && self.tokens.expires_soon(now) {
            self.begin_flow(now, FlowPurpose::EarlyRenewal, AccessRequirement::default());
        }
        RequestAuth::Ready { headers, generation }
    }

    fn headers(
        &mut self,
        now: Now,
        verb: Verb,
        url: &str,
        access: &Secret,
        kind: TokenKind,
    ) -> Result<Vec<(&'static str, Secret)>, AuthError> {
        let scheme = if kind == TokenKind::Dpop { "DPoP " } else { "Bearer " };
        let mut value = String::from(scheme);
        value.push_str(access.expose());
        //= C12.12 "`Authorization: Bearer` in every HTTP request, never in the query"
        let mut headers = Vec::from([("authorization", Secret::new(value))]);
        if kind == TokenKind::Dpop {
            let signer = self.tokens.signer().ok_or(AuthError::Key)?;
            let jti = self.rng.next_text();
            let nonce = self.nonces.get(url);
            let proof = dpop::proof(&*signer, verb.as_str(), url, Some(access), nonce, now.unix, &jti);
            headers.push(("dpop", Secret::new(proof.map_err(|_| AuthError::Key)?)));
        }
        Ok(headers)
    }
}
