//! Token requests by grant, and their scopes, resource and key.

use alloc::sync::Arc;
use core::time::Duration;

use form_urlencoded::Serializer;

use crate::auth::fetch::check_authorization_page;
use crate::auth::sanitize;
use crate::auth::{
    Es256, FetchPolicyError, Now, Pkce, Scopes, Secret, ServerMetadata, TokenEndpointError, TokenKind,
    URL_BYTES, dpop,
};
use crate::prelude::*;

use super::AuthClient;
use super::config::{ClientCredentials, DpopKey, Grant, IdentityProvider, ProviderLocation, RedirectPaths};
use super::error::{AuthError, FinishError};
use super::event::{Action, AssertionPurpose, AssertionRequest, AuthorizationPage, Event, Question};
use super::exchange::{FetchReply, FormBody, TokenRequest, granted_token, unsafe_url};
use super::flow::{Flow, FlowPurpose, FlowStep, LeaseWait, OpenPage, Search, StepResult};
use super::record::{Lease, RecordChange, RegisteredClient, Tokens};
use super::tokens::TokenOrigin;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl AuthClient {
    /// The scopes to request: those of the challenge and of earlier requests, or those that the configuration or the
    /// server's metadata names.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy>
    pub(super) fn scopes_for(&self, flow: &Flow, issuer: &str) -> Option<Scopes> {
        let supported = flow.resource.as_ref().and_then(|resource| resource.scopes_supported.as_ref());
        let chosen = self.config.scopes.as_ref();
        //= C12.14 "Scopes of a challenge are authoritative for the request"
        let asked = match (&flow.requirement.scope, chosen) {
            (Some(asked), Some(chosen)) => Some(chosen.union(asked)),
            (Some(asked), None) => Some(asked.clone()),
            (None, chosen) => chosen.or(supported).cloned(),
        };
        let tokens = self.tokens.current().filter(|tokens| tokens.issuer == issuer);
        let before = tokens.and_then(|tokens| tokens.requested.as_ref());
        let scopes = match (before, asked) {
            (Some(before), Some(asked)) => Some(before.union(&asked)),
            (before, asked) => asked.or_else(|| before.cloned()),
        };
        scopes.filter(|scopes| !scopes.is_empty())
    }

    /// The same with `offline_access`, if the authorization server supports it, to get a refresh token.
    pub(super) fn scopes_to_request(&self, flow: &Flow) -> Option<Scopes> {
        let scopes = flow.scopes.clone()?;
        let known = &flow.server.metadata.scopes_supported;
        let offline = known.as_ref().is_some_and(|known| known.contains("offline_access"));
        match self.config.grant {
            //= C12.22 "`offline_access` MAY if in scopes_supported"
            Grant::AuthorizationCode if offline => Some(scopes.union(&Scopes::parse("offline_access"))),
            _ => Some(scopes),
        }
    }

    /// The resource to request a token for.
    pub(super) fn resource_for(&self, flow: &Flow) -> String {
        let named = flow.resource.as_ref().map(|resource| resource.resource.clone());
        self.config.resource.clone().or(named).unwrap_or_else(|| self.resource.clone())
    }

    /// Chooses the key to bind the token to, if any.
    pub(super) fn choose_key(&mut self, flow: &mut Flow) -> Result<(), AuthError> {
        let needed = flow.needs_bound_token();
        let Some(choice) = &self.config.dpop else {
            return if needed { Err(AuthError::DpopRequired) } else { Ok(()) };
        };
        let algorithm = match choice {
            DpopKey::Provided(key) => key.algorithm(),
            DpopKey::Generated => "ES256",
        };
        let known = &flow.server.metadata.dpop_algorithms;
        let offered = known.iter().flatten().any(|known| known == algorithm);
        if !needed && !offered {
            return Ok(());
        }
        if self.tokens.signer().is_none() {
            let key = Es256::from_entropy(&self.rng.next_bytes()).map_err(|_| AuthError::Key)?;
            flow.new_key = Some(key.to_pkcs8_pem().map_err(|_| AuthError::Key)?);
            flow.key = Some(Arc::new(key));
        } else {
            flow.key = self.tokens.signer();
            // Another process may have stored another key by then.
            flow.new_key = self.tokens.record.key.clone().filter(|_| matches!(choice, DpopKey::Generated));
        }
        Ok(())
    }

    /// Requests a token, with the client's credentials known.
    pub(super) fn start_grant(&mut self, flow: Flow) -> StepResult {
        match &self.config.grant {
            Grant::AuthorizationCode => self.open_page(flow),
            Grant::ClientCredentials => {
                //= C14.8 "client_credentials grant"
                let form = self.with_target(FormBody::new("client_credentials"), &flow);
                self.request_grant(flow, form)
            }
            Grant::Enterprise(_) | Grant::JwtBearer => self.request_assertion(flow),
        }
    }

    fn with_target(&self, form: FormBody, flow: &Flow) -> FormBody {
        let scopes = self.scopes_to_request(flow).map(|scopes| scopes.to_string());
        //= C14.8 "resource sent"
        form.with("resource", &self.resource_for(flow)).with_optional("scope", scopes.as_deref())
    }

    fn request_grant(&mut self, flow: Flow, form: FormBody) -> StepResult {
        let server = &flow.server.metadata;
        let request = TokenRequest::new(server, form, flow.client.clone());
        self.request_token(TokenRequest { dpop_key: flow.key.clone(), ..request })?;
        flow.enter(FlowStep::Granting)
    }

    /// Requests an assertion from the host.
    fn request_assertion(&mut self, flow: Flow) -> StepResult {
        if self.actions.is_host_busy() {
            return flow.enter(FlowStep::AssertionQueued);
        }
        let (purpose, audience) = match &self.config.grant {
            Grant::Enterprise(IdentityProvider { location: ProviderLocation::Issuer(issuer), .. }) => {
                (AssertionPurpose::Identity, Some(issuer.clone()))
            }
            Grant::Enterprise(_) => (AssertionPurpose::Identity, None),
            _ => (AssertionPurpose::Grant, Some(flow.server.metadata.issuer.clone())),
        };
        let resource = self.resource_for(&flow);
        self.actions.push(Action::Assertion(AssertionRequest { purpose, audience, resource }));
        flow.enter(FlowStep::AwaitingAssertion)
    }

    /// Handles the host's assertion, or the reason why it has none.
    pub fn handle_assertion(&mut self, now: Now, assertion: Result<Secret, String>) {
        self.now = now;
        if !self.actions.accept(Question::Assertion) {
            return;
        }
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::AssertionQueued => client.request_assertion(flow),
            FlowStep::AwaitingAssertion => {
                let assertion = assertion.map_err(AuthError::Assertion)?;
                match &client.config.grant {
                    Grant::Enterprise(provider) => match provider.location.clone() {
                        ProviderLocation::TokenEndpoint(token_endpoint) => {
                            let issuer = token_endpoint.clone();
                            let server =
                                ServerMetadata { issuer, token_endpoint, ..ServerMetadata::default() };
                            client.exchange_token(flow, &server, &assertion)
                        }
                        ProviderLocation::Issuer(issuer) => {
                            let mut search = Search::of_servers([issuer], false);
                            search.subject = Some(assertion);
                            client.try_next_server(flow, search)
                        }
                    },
                    _ => client.present_assertion(flow, &assertion),
                }
            }
            other => flow.enter(other),
        });
    }

    fn present_assertion(&mut self, flow: Flow, assertion: &Secret) -> StepResult {
        //= C14.10 "RFC 7523 jwt-bearer at the AS with the ID-JAG and client authentication"
        let form = self.with_target(FormBody::new(JWT_BEARER).with_secret("assertion", assertion), &flow);
        self.request_grant(flow, form)
    }

    /// Exchanges the assertion about the user for one that the authorization server accepts.
    pub(super) fn exchange_token(
        &mut self,
        flow: Flow,
        server: &ServerMetadata,
        subject: &Secret,
    ) -> StepResult {
        let Grant::Enterprise(provider) = &self.config.grant else { return self.start_grant(flow) };
        let form = FormBody::new(TOKEN_EXCHANGE)
            //= C14.9 "RFC 8693 exchange at the IdP: requested_token_type id-jag, audience = AS issuer, resource = PRM resource, subject token id_token/saml2"
            .with("requested_token_type", ID_JAG)
            .with("audience", &flow.server.metadata.issuer)
            .with_secret("subject_token", subject)
            .with("subject_token_type", provider.subject.urn());
        let form = self.with_target(form, &flow);
        self.request_token(TokenRequest::new(server, form, Some(provider.credentials.clone())))?;
        flow.enter(FlowStep::Exchanging)
    }

    pub(super) fn handle_exchange_reply(&mut self, flow: Flow, reply: FetchReply) -> StepResult {
        let granted = granted_token(reply)?;
        //= C14.15 "Use the identity provider's answer only if its `issued_token_type` is id-jag"
        if granted.issued_type.as_deref() == Some(ID_JAG) {
            return self.present_assertion(flow, &granted.access);
        }
        Err(AuthError::UnusableToken)
    }

    pub(super) fn handle_grant_reply(&mut self, flow: Flow, reply: FetchReply) -> StepResult {
        let granted = match granted_token(reply) {
            Ok(granted) => granted,
            Err(error) => return self.handle_grant_failure(flow, error),
        };
        match granted.kind {
            TokenKind::Bearer if !flow.needs_bound_token() => {}
            TokenKind::Dpop if flow.key.is_some() => {}
            _ => return Err(AuthError::UnusableToken),
        }
        let client_id = flow.client.as_ref().map(|client| client.id.clone()).unwrap_or_default();
        let pin = flow
            .pin_client
            .then(|| RegisteredClient { id: client_id.clone(), ..RegisteredClient::default() });
        let grant = Tokens {
            issuer: flow.server.metadata.issuer.clone(),
            client_id,
            resource: self.resource_for(&flow),
            requested: flow.scopes.clone(),
            at_origin: flow.server.at_origin,
            ..Tokens::default()
        };
        let tokens = self.tokens.issue(self.now, granted, TokenOrigin::Grant, grant);
        let key = flow.new_key.clone();
        self.save(flow, RecordChange::SetTokens { tokens, replaced: None, pin, key })
    }

    /// Continues after a refused grant. A registration that the authorization server no longer knows is removed.
    fn handle_grant_failure(&mut self, flow: Flow, error: AuthError) -> StepResult {
        let lost = matches!(&error, AuthError::Token(TokenEndpointError::Refused { error, .. })
            if error == "invalid_client");
        let issuer = flow.server.metadata.issuer.clone();
        match flow.client.as_ref().map(|client| client.id.clone()) {
            Some(id)
                if lost && self.tokens.record.clients.get(&issuer).is_some_and(|known| known.id == id) =>
            {
                self.save(flow, RecordChange::ForgetClient { issuer, id, error })
            }
            _ => Err(error),
        }
    }
}

/// How long a page may stay open. Authorization servers expire pages after that time too.
pub(super) const PAGE_TIMEOUT: Duration = Duration::from_secs(600);

/// The parsed redirect of a page.
///
/// ```
/// use mcp_proto::auth::client::Redirect;
///
/// let redirect = Redirect::parse("?code=SplxlOBeZQQYbYS6WxSbIA&state=xyz");
/// assert_eq!(redirect.state.map(|state| state.expose().to_string()).as_deref(), Some("xyz"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redirect {
    /// The path of the redirect, if known: see [`RedirectPaths`](super::RedirectPaths).
    pub path: Option<String>,
    /// The code to exchange for a token.
    pub code: Option<Secret>,
    /// Identifies the page.
    pub state: Option<Secret>,
    /// The issuer of the redirect.
    pub iss: Option<String>,
    /// The error code, if there is no code.
    pub error: Option<String>,
    /// The description of the error.
    pub error_description: Option<String>,
}

impl Redirect {
    /// Parses a URL, its path and query, or its query alone. Of repeated parameters the first one counts.
    pub fn parse(url: &str) -> Self {
        let url = url.split('#').next().unwrap_or_default();
        let query = url.split_once('?').map_or(url, |(_, query)| query);
        let path = url.contains('?').then(|| path(url)).flatten();
        let mut redirect = Self { path: path.map(String::from), ..Self::default() };
        let (mut code, mut state) = (None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "code" => &mut code,
                "state" => &mut state,
                "iss" => &mut redirect.iss,
                "error" => &mut redirect.error,
                "error_description" => &mut redirect.error_description,
                _ => continue,
            };
            place.get_or_insert_with(|| value.into_owned());
        }
        redirect.code = code.map(Secret::new);
        redirect.state = state.map(Secret::new);
        redirect
    }
}

/// The path of a URL, with or without its origin.
fn path(url: &str) -> Option<&str> {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|start| rest.get(start..)).unwrap_or("/"),
        None => url,
    };
    path.starts_with('/').then_some(path)
}

debug_fields! { Redirect { iss } }

impl AuthClient {
    /// Requests that the application open a page.
    fn open_page(&mut self, flow: Flow) -> StepResult {
        let found = flow.server.clone();
        let issuer = &found.metadata.issuer;
        //= C12.7 "refuse if `code_challenge_methods_supported` is absent"
        if found.has_metadata && !found.metadata.offers_s256() {
            return Err(AuthError::NoPkce { issuer: issuer.clone() });
        }
        let endpoint = found.metadata.authorization_endpoint.as_ref();
        let endpoint =
            endpoint.ok_or_else(|| AuthError::NoAuthorizationEndpoint { issuer: issuer.clone() })?;
        check_authorization_page(endpoint, issuer).map_err(|error| unsafe_url(endpoint, error))?;
        self.check_host(endpoint)?;
        let Some(client) = &flow.client else {
            return Err(AuthError::NotRegistered { issuer: issuer.clone() });
        };
        let (state, pkce) = (Secret::new(self.rng.next_text()), Pkce::new(self.rng.next_bytes()));
        let scopes = self.scopes_to_request(&flow);
        let mut query = Serializer::new(String::new());
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &flow.redirect_uri)
            .append_pair("state", state.expose())
            //= F108 "PKCE with S256"
            //= C12.7 "PKCE S256"
            .append_pair("code_challenge", &pkce.challenge)
            .append_pair("code_challenge_method", "S256")
            //= C12.11 "`resource` (RFC 8707) in authorization"
            .append_pair("resource", &self.resource_for(&flow));
        if let Some(scopes) = &scopes {
            query.append_pair("scope", &scopes.to_string());
            if scopes.contains("offline_access") {
                // OpenID Connect Core, section 11: without it the scope is ignored.
                query.append_pair("prompt", "consent");
            }
        }
        if let Some(thumbprint) = flow.key.as_ref().and_then(|key| dpop::thumbprint(&key.public_jwk())) {
            query.append_pair("dpop_jkt", &thumbprint);
        }
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        let url = alloc::format!("{endpoint}{separator}{}", query.finish());
        if url.len() > URL_BYTES {
            // Servers may list any number of scopes, and browsers limit the length of URLs.
            return Err(unsafe_url(endpoint, FetchPolicyError::TooLong));
        }
        let page = AuthorizationPage {
            url,
            issuer: issuer.clone(),
            scopes,
            redirect_uri: flow.redirect_uri.clone(),
            lifetime: PAGE_TIMEOUT,
        };
        if flow.purpose == FlowPurpose::BeginLogin {
            return self.hand_over_login(flow, page, state, pkce.verifier);
        }
        self.events.push(Event::NeedsAuthorization(page));
        let deadline = self.now.deadline_after(PAGE_TIMEOUT);
        //= C12.9 "Before redirect record validated issuer with verifier/state"
        flow.enter(FlowStep::Page(OpenPage { state, verifier: pkce.verifier, deadline }))
    }

    /// Withdraws the page from the application.
    pub(super) fn close_page(&mut self) {
        if !self.events.remove_page() {
            self.events.push(Event::PageObsolete);
        }
    }

    /// Ends the open page with an error.
    pub(super) fn fail_page(&mut self, error: AuthError) {
        if self.flows.open_page().is_some() {
            self.close_page();
            self.run_step(|_, _| Err(error));
        }
    }

    /// Finishes the open page with its redirect.
    ///
    /// # Errors
    /// If no page is open, or the redirect is of another page or invalid.
    pub fn finish(&mut self, now: Now, redirect: Redirect) -> Result<(), FinishError> {
        self.now = now;
        let page = self.flows.open_page().ok_or(FinishError::NoPage)?;
        //= F108 "a state compared in constant time"
        //= C12.8 "`state` sent and verified; answers without or with other state dropped"
        if redirect.state.as_ref() != Some(&page.state) {
            return Err(FinishError::StateMismatch);
        }
        // The application may not have polled it yet, if the redirect came another way.
        self.events.remove_page();
        let mut result = Ok(());
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::Page(page) => {
                let server = &flow.server.metadata;
                let code = client.check_redirect(
                    redirect,
                    &server.issuer,
                    server.iss_in_answers,
                    &flow.redirect_uri,
                );
                let next = code.and_then(|code| client.redeem_code(flow, &page.verifier, &code));
                if let Err(error) = &next {
                    result = Err(FinishError::Failed(error.clone()));
                }
                next
            }
            other => flow.enter(other),
        });
        result
    }

    /// Checks the redirect of a page of this issuer, and returns its code.
    pub(super) fn check_redirect(
        &self,
        redirect: Redirect,
        issuer: &str,
        iss_in_answers: bool,
        redirect_uri: &str,
    ) -> Result<Secret, AuthError> {
        // RFC 9207, section 2.4: before any other check of the redirect.
        //= C12.10 "On iss mismatch do not act on or show error/error_description/error_uri"
        match &redirect.iss {
            //= C12.9 "check `iss` (RFC 9207) by plain string compare"
            Some(iss) if iss != issuer => return Err(AuthError::RedirectIssuerMismatch),
            //= C12.9 "table true/absent → reject"
            None if iss_in_answers => return Err(AuthError::RedirectIssuerMismatch),
            _ => {}
        }
        // The path identifies an issuer that does not name itself.
        let is_known = redirect.iss.is_some() || self.config.redirect_paths == RedirectPaths::Shared;
        if !is_known && redirect.path.as_deref() != path(redirect_uri) {
            return Err(AuthError::RedirectIssuerMismatch);
        }
        if let Some(error) = redirect.error {
            let error = sanitize(&error).unwrap_or_default();
            let description = redirect.error_description.and_then(|text| sanitize(&text));
            return Err(AuthError::Denied { error, description });
        }
        redirect.code.filter(|code| !code.expose().is_empty()).ok_or(AuthError::NoCode)
    }

    pub(super) fn redeem_code(&mut self, flow: Flow, verifier: &Secret, code: &Secret) -> StepResult {
        let form = FormBody::new("authorization_code")
            .with_secret("code", code)
            .with("redirect_uri", &flow.redirect_uri)
            .with_secret("code_verifier", verifier)
            //= C12.11 "AND token requests"
            .with("resource", &self.resource_for(&flow));
        self.request_grant(flow, form)
    }
}

// The end of a token: its renewal by one process at a time, and logout.
//
// A second use of a refresh token may revoke the whole grant. So a process first puts a lease into the store, by
// compare-and-swap; the others poll the store until the token is replaced or the lease has expired.

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
