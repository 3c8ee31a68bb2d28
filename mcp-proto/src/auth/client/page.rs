//! The authorization page and its redirect.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-response-validation>

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use form_urlencoded::Serializer;

use crate::auth::fetch_policy::check_authorization_page;
use crate::auth::sanitize::sanitize;
use crate::auth::{FetchPolicyError, Now, Pkce, Secret, URL_BYTES, dpop};

use super::AuthClient;
use super::config::RedirectPaths;
use super::error::{AuthError, FinishError};
use super::event::{AuthorizationPage, Event};
use super::exchange::FormBody;
use super::fetching::without_query;
use super::flow::{Flow, FlowEnd, FlowStep, OpenPage, StepResult};

/// How long a page may stay open. Authorization servers expire pages after that time too.
const PAGE_TIMEOUT: Duration = Duration::from_secs(600);

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
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "code" => {
                    redirect.code.get_or_insert_with(|| Secret::new(value));
                }
                "state" => {
                    redirect.state.get_or_insert_with(|| Secret::new(value));
                }
                "iss" => {
                    redirect.iss.get_or_insert(value.into());
                }
                "error" => {
                    redirect.error.get_or_insert(value.into());
                }
                "error_description" => {
                    redirect.error_description.get_or_insert(value.into());
                }
                _ => {}
            }
        }
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

impl fmt::Debug for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirect").field("iss", &self.iss).finish_non_exhaustive()
    }
}

impl AuthClient {
    /// Requests that the application open a page.
    pub(super) fn open_page(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        let Some(found) = flow.discovered.clone() else { return self.discover_resource(now, flow) };
        let issuer = &found.metadata.issuer;
        //= C12.7 "refuse if `code_challenge_methods_supported` is absent"
        if found.has_metadata && !found.metadata.offers_s256() {
            return Err(AuthError::NoPkce { issuer: issuer.clone() }.into());
        }
        let endpoint = found.metadata.authorization_endpoint.as_ref();
        let endpoint =
            endpoint.ok_or_else(|| AuthError::NoAuthorizationEndpoint { issuer: issuer.clone() })?;
        check_authorization_page(endpoint, issuer)
            .map_err(|error| AuthError::UnsafeUrl { url: without_query(endpoint), error })?;
        let Some(client) = &flow.client else {
            return Err(AuthError::NotRegistered { issuer: issuer.clone() }.into());
        };
        let (state, pkce) = (Secret::new(self.rng.next_text()), Pkce::new(self.rng.next_bytes()));
        let scopes = self.scopes_to_request(&flow);
        let mut query = Serializer::new(String::new());
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.credentials.id)
            .append_pair("redirect_uri", &flow.redirect_uri)
            .append_pair("state", state.expose())
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
            return Err(AuthError::UnsafeUrl {
                url: without_query(endpoint),
                error: FetchPolicyError::TooLong,
            }
            .into());
        }
        self.events.push(Event::NeedsAuthorization(AuthorizationPage {
            url,
            issuer: issuer.clone(),
            scopes,
            redirect_uri: flow.redirect_uri.clone(),
            lifetime: PAGE_TIMEOUT,
        }));
        let until = now.deadline_after(PAGE_TIMEOUT);
        let redirect_uri = flow.redirect_uri.clone();
        //= C12.9 "Before redirect record validated issuer with verifier/state"
        Ok(flow.into_step(FlowStep::Page(OpenPage {
            redirect_uri,
            state,
            verifier: pkce.verifier,
            deadline: until,
        })))
    }

    /// Withdraws the page from the application.
    pub(super) fn close_page(&mut self) {
        if !self.events.remove_page() {
            self.events.push(Event::PageObsolete);
        }
    }

    /// Ends the open page with an error.
    pub(super) fn fail_page(&mut self, now: Now, error: AuthError) {
        if self.flows.open_page().is_some() {
            self.close_page();
            self.run_step(now, |_, _| Err(FlowEnd::Failed(error)));
        }
    }

    pub(super) fn finish_page(&mut self, now: Now, redirect: Redirect) -> Result<(), FinishError> {
        let page = self.flows.open_page().ok_or(FinishError::NoPage)?;
        //= C12.8 "`state` sent and verified; answers without or with other state dropped"
        if redirect.state.as_ref() != Some(&page.state) {
            return Err(FinishError::StateMismatch);
        }
        // The application may not have polled it yet, if the redirect came another way.
        self.events.remove_page();
        let mut result = Ok(());
        self.run_step(now, |client, mut flow| match flow.take_step() {
            FlowStep::Page(page) => {
                let next = client.redeem_code(now, flow, page, redirect);
                if let Err(FlowEnd::Failed(error)) = &next {
                    result = Err(FinishError::Failed(error.clone()));
                }
                next
            }
            other => Ok(flow.into_step(other)),
        });
        result
    }

    fn redeem_code(&mut self, now: Now, flow: Box<Flow>, page: OpenPage, redirect: Redirect) -> StepResult {
        let Some(found) = flow.discovered.clone() else { return self.discover_resource(now, flow) };
        let server = &found.metadata;
        // RFC 9207, section 2.4: before any other check of the redirect.
        //= C12.10 "On iss mismatch do not act on or show error/error_description/error_uri"
        match &redirect.iss {
            //= C12.9 "check `iss` (RFC 9207) by plain string compare"
            Some(iss) if *iss != server.issuer => return Err(AuthError::RedirectIssuerMismatch.into()),
            //= C12.9 "table true/absent → reject"
            None if server.iss_in_answers => return Err(AuthError::RedirectIssuerMismatch.into()),
            _ => {}
        }
        // The path identifies an issuer that does not name itself.
        let is_known = redirect.iss.is_some() || self.config.redirect_paths == RedirectPaths::Shared;
        if !is_known && redirect.path.as_deref() != path(&page.redirect_uri) {
            return Err(AuthError::RedirectIssuerMismatch.into());
        }
        if let Some(error) = redirect.error {
            let error = sanitize(&error).unwrap_or_default();
            let description = redirect.error_description.and_then(|text| sanitize(&text));
            return Err(AuthError::Denied { error, description }.into());
        }
        let code = redirect.code.filter(|code| !code.expose().is_empty()).ok_or(AuthError::NoCode)?;
        let form = FormBody::new("authorization_code")
            .with_secret("code", &code)
            .with("redirect_uri", &page.redirect_uri)
            .with_secret("code_verifier", &page.verifier)
            //= C12.11 "AND token requests"
            .with("resource", &self.resource_for(&flow));
        self.request_grant(now, flow, form)
    }
}
