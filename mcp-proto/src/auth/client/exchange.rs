//! Exchanges with authorization servers: fetches, which follow redirects, and token requests with the client's
//! authentication.

use alloc::sync::Arc;

use bytes::Bytes;
use form_urlencoded::Serializer;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use super::AuthClient;
use super::config::{AuthMethod, ClientCredentials, ClientProof};
use super::error::AuthError;
use super::event::Action;
use crate::Instant;
use crate::auth::fetch::{self, FORM};
use crate::auth::keys::basic_credentials;
use crate::auth::{
    Fetch, FetchId, FetchPolicy, FetchPolicyError, Secret, ServerMetadata, Signer, TokenEndpointError,
    TokenResponse, client_assertion, dpop, parse_token_response,
};
use crate::auth::{SHOWN, sanitize};
use crate::prelude::*;
use crate::redact::{Redactor, url_without_secrets};
use crate::transport::http::{Fields, Verb, read_headers};
use crate::url::parse_host;

/// Maximum number of redirects to a document.
const MAX_REDIRECTS: u32 = 3;

/// Makes exchanges, one at a time, with redirects.
pub(super) struct Fetcher {
    pub(super) policy: FetchPolicy,
    last_id: u64,
    in_flight: Option<Exchange>,
}

/// An exchange: its request, which has no body any more once it is in flight.
pub(super) struct Exchange {
    pub(super) fetch: Fetch,
    /// The secrets in the request, which must not be shown if the response repeats them.
    secrets: Vec<Secret>,
    /// The end of the wait for a response, unless the usual timeout ends earlier.
    deadline: Option<Instant>,
    hops: u32,
    /// The token request, if it may be repeated with the nonce of the response.
    repeatable: Option<TokenRequest>,
}

impl Exchange {
    pub(super) fn new(fetch: Fetch) -> Self {
        Self { fetch, secrets: Vec::new(), deadline: None, hops: 0, repeatable: None }
    }

    fn unreachable(&self, detail: impl Into<String>) -> AuthError {
        AuthError::Unreachable { url: without_query(&self.fetch.url), detail: detail.into() }
    }

    /// The exchange with the target of a redirect. `None` if the response is no redirect, or too many were followed.
    fn redirect(&self, status: u16, location: Option<&[u8]>) -> Option<Self> {
        let moved = matches!(status, 301 | 302 | 303 | 307 | 308) && self.fetch.verb == Verb::Get;
        if !moved || self.hops >= MAX_REDIRECTS {
            return None;
        }
        let target = redirect_target(&self.fetch.url, str::from_utf8(location?).ok()?)?;
        let fetch = Fetch { headers: self.fetch.headers.clone(), ..Fetch::get(target) };
        Some(Self { hops: self.hops.saturating_add(1), ..Self::new(fetch) })
    }
}

/// A response that is no redirect.
pub(super) struct FetchAnswer {
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) body: Bytes,
    /// See [`Exchange::secrets`].
    secrets: Vec<Secret>,
}

/// How an exchange ended.
pub(super) type FetchReply = Result<FetchAnswer, AuthError>;

impl Fetcher {
    pub(super) fn new(policy: FetchPolicy) -> Self {
        Self { policy, last_id: 0, in_flight: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.in_flight.as_ref()?.deadline
    }

    /// Ends the exchange in flight if it is the one with this id.
    fn take_id(&mut self, id: FetchId) -> Option<Exchange> {
        self.in_flight.take_if(|exchange| exchange.fetch.id == id)
    }
}

impl AuthClient {
    /// Starts an exchange.
    pub(super) fn fetch(&mut self, mut exchange: Exchange) -> Result<(), AuthError> {
        let Exchange { fetch, deadline, .. } = &mut exchange;
        //= K21 "at each hop"
        //= C12.26 "validate each redirect hop"
        self.fetcher.policy.check(&fetch.url).map_err(|error| unsafe_url(&fetch.url, error))?;
        self.check_host(&fetch.url)?;
        self.fetcher.last_id = self.fetcher.last_id.saturating_add(1);
        fetch.id = FetchId::new(self.fetcher.last_id);
        fetch.limit = self.config.document_bytes;
        self.actions.push(Action::Fetch(fetch.clone()));
        fetch.body.clear();
        let usual = self.now.deadline_after(self.config.exchange_timeout);
        *deadline = [usual, *deadline].into_iter().flatten().min();
        self.fetcher.in_flight = Some(exchange);
        Ok(())
    }

    //= F111 "hosts by an allow list"
    /// Checks that the client may log in at the host of a URL.
    pub(super) fn check_host(&self, url: &str) -> Result<(), AuthError> {
        let Some(allowed) = &self.config.allowed_hosts else { return Ok(()) };
        let host = fetch::parse_url(url).map_err(|error| unsafe_url(url, error))?.host;
        let is_host = |text: &String| parse_host(text).is_ok_and(|allowed| allowed.is_same(host));
        let is_own = fetch::parse_url(&self.server).is_ok_and(|server| server.host.is_same(host));
        if is_own || allowed.iter().any(is_host) {
            Ok(())
        } else {
            Err(unsafe_url(url, FetchPolicyError::NotAllowed))
        }
    }

    /// Aborts the exchange in flight.
    pub(super) fn abort_fetch(&mut self) -> Option<Exchange> {
        let exchange = self.fetcher.in_flight.take()?;
        self.actions.abort(exchange.fetch.id);
        Some(exchange)
    }

    /// Ends the exchange in flight at its deadline.
    pub(super) fn time_out_fetch(&mut self) -> Option<FetchReply> {
        Some(Err(self.abort_fetch()?.unreachable("it took too long")))
    }

    pub(super) fn fail_fetch(&mut self, id: FetchId, detail: &str) -> Option<FetchReply> {
        let exchange = self.fetcher.take_id(id)?;
        let detail = redact_secrets(&sanitize(detail).unwrap_or_default(), &exchange.secrets);
        Some(Err(exchange.unreachable(detail)))
    }

    /// Handles the response to an exchange. `None` if a redirect is followed, or a token request repeated.
    pub(super) fn handle_fetch_answer(
        &mut self,
        id: FetchId,
        status: u16,
        fields: &dyn Fields,
        body: Bytes,
    ) -> Option<FetchReply> {
        let exchange = self.fetcher.take_id(id)?;
        let [nonce, location] = read_headers(fields, ["dpop-nonce", "location"]);
        if let Some(nonce) = nonce.first.and_then(|nonce| str::from_utf8(nonce).ok()) {
            self.nonces.keep(&exchange.fetch.url, nonce);
        }
        if body.len() > self.config.document_bytes {
            return Some(Err(exchange.unreachable("the answer is too long")));
        }
        if let Some(hop) = exchange.redirect(status, location.first) {
            return self.fetch(hop).err().map(Err);
        }
        let asks_nonce = || parse_token_response(status, &body).is_err_and(|error| error.is_use_dpop_nonce());
        if let Some(request) = exchange.repeatable
            && asks_nonce()
        {
            return self.token_exchange(&request).and_then(|again| self.fetch(again)).err().map(Err);
        }
        Some(Ok(FetchAnswer { url: exchange.fetch.url, status, body, secrets: exchange.secrets }))
    }
}

/// The target of a redirect from `base`.
fn redirect_target(base: &str, location: &str) -> Option<String> {
    let base = UriAbsoluteStr::new(base.split('#').next().unwrap_or_default()).ok()?;
    Some(UriReferenceStr::new(location).ok()?.resolve_against(base).to_string())
}

/// A URL for errors: shortened, without its secret parts.
pub(super) fn without_query(url: &str) -> String {
    sanitize(&url_without_secrets(url)).unwrap_or_default()
}

pub(super) fn unsafe_url(url: &str, error: FetchPolicyError) -> AuthError {
    AuthError::UnsafeUrl { url: without_query(url), error }
}

/// Hides the secrets sent to the other side in a text of it, which may be cut off in one.
fn redact_secrets(text: &str, secrets: &[Secret]) -> String {
    let known = |redactor: Redactor, secret: &Secret| redactor.known(secret.expose());
    let redactor = secrets.iter().fold(Redactor::known_only(), known);
    let is_cut = text.chars().count() >= SHOWN;
    if is_cut { redactor.cut_text(text) } else { redactor.text(text) }.into_owned()
}

/// A request to a token endpoint.
pub(super) struct TokenRequest {
    pub(super) endpoint: String,
    /// The audience of client assertions.
    pub(super) audience: String,
    pub(super) form: FormBody,
    pub(super) client: Option<ClientCredentials>,
    /// The key to bind the token to.
    pub(super) dpop_key: Option<Arc<dyn Signer>>,
    /// A deadline before the usual timeout.
    pub(super) deadline: Option<Instant>,
}

impl TokenRequest {
    /// A request that binds the token to no key and has the usual timeout.
    pub(super) fn new(server: &ServerMetadata, form: FormBody, client: Option<ClientCredentials>) -> Self {
        Self {
            endpoint: server.token_endpoint.clone(),
            audience: server.issuer.clone(),
            form,
            client: client.map(|client| client.for_server(server)),
            dpop_key: None,
            deadline: None,
        }
    }
}

/// The body of a form.
#[derive(Clone, Default)]
pub(super) struct FormBody {
    members: Vec<(&'static str, Secret)>,
    /// The secret values among them.
    secrets: Vec<Secret>,
}

impl FormBody {
    pub(super) fn new(grant: &'static str) -> Self {
        Self::default().with("grant_type", grant)
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.members.push((name, Secret::new(value)));
        self
    }

    pub(super) fn with_optional(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn with_secret(mut self, name: &'static str, value: &Secret) -> Self {
        self.members.push((name, value.clone()));
        self.secrets.push(value.clone());
        self
    }

    fn encode(&self) -> String {
        let members = self.members.iter().map(|(name, value)| (*name, value.expose()));
        Serializer::new(String::new()).extend_pairs(members).finish()
    }
}

impl ClientCredentials {
    /// Chooses a method that the authorization server supports and the credentials allow.
    fn for_server(mut self, server: &ServerMetadata) -> Self {
        self.method = self.method.or(Some(match &self.proof {
            ClientProof::None => AuthMethod::None,
            ClientProof::Key(_) => AuthMethod::PrivateKeyJwt,
            // The default is basic: RFC 8414, section 2.
            ClientProof::Secret(_) => [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None]
                .into_iter()
                .find(|method| method.is_supported(server, true))
                .unwrap_or(AuthMethod::Basic),
        }));
        self
    }
}

impl AuthClient {
    /// Starts a token request. If it binds the token to a key, it is repeated once with the nonce that the response
    /// requires.
    pub(super) fn request_token(&mut self, request: TokenRequest) -> Result<(), AuthError> {
        let exchange = self.token_exchange(&request)?;
        let repeatable = Some(request).filter(|request| request.dpop_key.is_some());
        self.fetch(Exchange { repeatable, ..exchange })
    }

    fn token_exchange(&mut self, request: &TokenRequest) -> Result<Exchange, AuthError> {
        let mut headers = Vec::new();
        let mut form = request.form.clone();
        if let Some(client) = &request.client {
            form = self.authenticate(client, &request.audience, form, &mut headers)?;
        }
        if let Some(signer) = &request.dpop_key {
            headers.push(self.dpop_proof(&**signer, "POST", &request.endpoint, None)?);
        }
        let mut fetch = Fetch::post(request.endpoint.clone(), FORM, form.encode());
        fetch.headers.append(&mut headers);
        Ok(Exchange { secrets: form.secrets, deadline: request.deadline, ..Exchange::new(fetch) })
    }

    /// The header with a proof of possession for a request.
    pub(super) fn dpop_proof(
        &mut self,
        signer: &dyn Signer,
        method: &str,
        url: &str,
        access: Option<&Secret>,
    ) -> Result<(&'static str, Secret), AuthError> {
        let jti = self.rng.next_text();
        let proof = dpop::proof(signer, method, url, access, self.nonces.get(url), self.now.unix, &jti);
        proof.map(|proof| ("dpop", Secret::new(proof))).map_err(|_| AuthError::Key)
    }

    fn authenticate(
        &mut self,
        client: &ClientCredentials,
        audience: &str,
        mut form: FormBody,
        headers: &mut Vec<(&'static str, Secret)>,
    ) -> Result<FormBody, AuthError> {
        let id = &client.id;
        match (client.method, &client.proof) {
            (Some(AuthMethod::Basic), ClientProof::Secret(secret)) => {
                let value = basic_credentials(id, secret);
                form.secrets
                    .extend([secret.clone(), Secret::new(value.expose().trim_start_matches("Basic "))]);
                headers.push(("authorization", value));
                Ok(form)
            }
            (Some(AuthMethod::Post), ClientProof::Secret(secret)) => {
                Ok(form.with("client_id", id).with_secret("client_secret", secret))
            }
            (Some(AuthMethod::PrivateKeyJwt), ClientProof::Key(key)) => {
                let jti = self.rng.next_text();
                //= C14.8 "client_credentials grant with private_key_jwt (recommended: aud = AS, client_id omitted) or client secret"
                let assertion = client_assertion(&**key, id, audience, self.now.unix, &jti);
                let assertion = assertion.map_err(|_| AuthError::Key)?;
                Ok(form
                    .with("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
                    .with_secret("client_assertion", &assertion))
            }
            _ => Ok(form.with("client_id", id)),
        }
    }
}

/// The token in the reply to a token request.
pub(super) fn granted_token(reply: FetchReply) -> Result<TokenResponse, AuthError> {
    let FetchAnswer { status, body, secrets, .. } = reply?;
    parse_token_response(status, &body).map_err(|refusal| {
        AuthError::Token(match refusal {
            TokenEndpointError::Refused { error, description } => TokenEndpointError::Refused {
                error: redact_secrets(&error, &secrets),
                description: description.map(|text| redact_secrets(&text, &secrets)),
            },
            refusal => refusal,
        })
    })
}
