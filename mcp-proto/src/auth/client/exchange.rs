//! Exchanges with authorization servers: fetches, which follow redirects, and token requests with the client's
//! authentication.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use form_urlencoded::Serializer;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use super::AuthClient;
use super::config::{AuthConfig, AuthMethod, ClientCredentials, ClientProof};
use super::error::AuthError;
use super::event::Action;
use crate::Instant;
use crate::auth::keys::basic_credentials;
use crate::auth::members::{SHOWN, sanitize};
use crate::auth::{
    Fetch, FetchId, FetchPolicy, FetchPolicyError, Now, Secret, ServerMetadata, Signer, TokenEndpointError,
    TokenResponse, client_assertion, dpop, parse_token_response,
};
use crate::transport::http::{Fields, Verb, read_headers};

/// Maximum number of redirects to a document.
const MAX_REDIRECTS: u32 = 3;

/// Makes exchanges, one at a time, with redirects.
pub(super) struct Fetcher {
    policy: FetchPolicy,
    timeout: Duration,
    /// Maximum bytes of a response.
    limit: usize,
    last_id: u64,
    in_flight: Option<InFlight>,
}

/// The exchange in flight.
struct InFlight {
    id: FetchId,
    /// Its request, without the body.
    request: FetchRequest,
    deadline: Option<Instant>,
    hops: u32,
}

impl InFlight {
    fn unreachable(&self, detail: impl Into<String>) -> AuthError {
        AuthError::Unreachable { url: without_query(&self.request.url), detail: detail.into() }
    }

    /// The request for the target of a redirect. `None` if the response is no redirect, or too many were followed.
    fn redirect(&self, status: u16, location: Option<&[u8]>) -> Option<FetchRequest> {
        let moved = matches!(status, 301 | 302 | 303 | 307 | 308) && self.request.verb == Verb::Get;
        if !moved || self.hops >= MAX_REDIRECTS {
            return None;
        }
        let target = redirect_target(&self.request.url, str::from_utf8(location?).ok()?)?;
        Some(FetchRequest { headers: self.request.headers.clone(), ..FetchRequest::get(target) })
    }
}

/// A response that is no redirect.
pub(super) struct FetchAnswer {
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) body: Bytes,
    /// The secrets in the request, which must not be shown if the response repeats them.
    secrets: Vec<Secret>,
}

/// How an exchange ended.
pub(super) type FetchReply = Result<FetchAnswer, AuthError>;

/// The request of an exchange.
pub(super) struct FetchRequest {
    verb: Verb,
    url: String,
    pub(super) headers: Vec<(&'static str, Secret)>,
    body: Bytes,
    secrets: Vec<Secret>,
    /// A deadline before the usual timeout.
    deadline: Option<Instant>,
}

impl FetchRequest {
    pub(super) fn get(url: String) -> Self {
        let headers = Vec::from([("accept", Secret::new("application/json"))]);
        Self { verb: Verb::Get, url, headers, body: Bytes::new(), secrets: Vec::new(), deadline: None }
    }

    pub(super) fn post(url: &str, content_type: &str, body: String) -> Self {
        let mut request = Self { verb: Verb::Post, body: body.into(), ..Self::get(url.into()) };
        request.headers.push(("content-type", Secret::new(content_type)));
        request
    }
}

impl Fetcher {
    pub(super) fn new(policy: FetchPolicy, config: &AuthConfig) -> Self {
        Self {
            policy,
            timeout: config.exchange_timeout,
            limit: config.document_bytes,
            last_id: 0,
            in_flight: None,
        }
    }

    pub(super) fn policy(&self) -> &FetchPolicy {
        &self.policy
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.in_flight.as_ref()?.deadline
    }

    fn start(&mut self, now: Now, mut request: FetchRequest, hops: u32) -> Result<Action, AuthError> {
        //= C12.26 "validate each redirect hop"
        self.policy.check(&request.url).map_err(|error| unsafe_url(&request.url, error))?;
        self.last_id = self.last_id.saturating_add(1);
        let id = FetchId::new(self.last_id);
        let fetch = Fetch {
            id,
            verb: request.verb,
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: core::mem::take(&mut request.body),
            limit: self.limit,
        };
        let deadline = [now.deadline_after(self.timeout), request.deadline].into_iter().flatten().min();
        self.in_flight = Some(InFlight { id, request, deadline, hops });
        Ok(Action::Fetch(fetch))
    }

    /// Ends the exchange in flight if it is the one with this id.
    fn take_id(&mut self, id: FetchId) -> Option<InFlight> {
        self.in_flight.take_if(|fetch| fetch.id == id)
    }
}

impl AuthClient {
    /// Starts an exchange.
    pub(super) fn fetch(&mut self, request: FetchRequest) -> Result<(), AuthError> {
        self.fetcher.start(self.now, request, 0).map(|action| self.actions.push(action))
    }

    /// Aborts the exchange in flight.
    pub(super) fn abort_fetch(&mut self) {
        if let Some(fetch) = self.fetcher.in_flight.take() {
            self.actions.abort(fetch.id);
        }
    }

    /// Ends the exchange in flight at its deadline.
    pub(super) fn time_out_fetch(&mut self) -> Option<FetchReply> {
        let fetch = self.fetcher.in_flight.take()?;
        self.actions.abort(fetch.id);
        Some(Err(fetch.unreachable("it took too long")))
    }

    pub(super) fn fail_fetch(&mut self, id: FetchId, detail: &str) -> Option<FetchReply> {
        let fetch = self.fetcher.take_id(id)?;
        let detail = redact_secrets(&sanitize(detail).unwrap_or_default(), &fetch.request.secrets);
        Some(Err(fetch.unreachable(detail)))
    }

    /// Handles the response to an exchange. `None` if a redirect is followed.
    pub(super) fn handle_fetch_answer(
        &mut self,
        id: FetchId,
        status: u16,
        fields: &dyn Fields,
        body: Bytes,
    ) -> Option<FetchReply> {
        let fetch = self.fetcher.take_id(id)?;
        let [nonce, location] = read_headers(fields, ["dpop-nonce", "location"]);
        if let Some(nonce) = nonce.first.and_then(|nonce| str::from_utf8(nonce).ok()) {
            self.nonces.keep(&fetch.request.url, nonce);
        }
        if body.len() > self.fetcher.limit {
            return Some(Err(fetch.unreachable("the answer is too long")));
        }
        if let Some(request) = fetch.redirect(status, location.first) {
            let hop = self.fetcher.start(self.now, request, fetch.hops.saturating_add(1));
            return hop.map(|action| self.actions.push(action)).err().map(Err);
        }
        let FetchRequest { url, secrets, .. } = fetch.request;
        Some(Ok(FetchAnswer { url, status, body, secrets }))
    }
}

/// The target of a redirect from `base`.
fn redirect_target(base: &str, location: &str) -> Option<String> {
    let base = UriAbsoluteStr::new(base.split('#').next().unwrap_or_default()).ok()?;
    Some(UriReferenceStr::new(location).ok()?.resolve_against(base).to_string())
}

/// A URL for errors: shortened, without query and fragment.
pub(super) fn without_query(url: &str) -> String {
    sanitize(url.split(['?', '#']).next().unwrap_or_default()).unwrap_or_default()
}

pub(super) fn unsafe_url(url: &str, error: FetchPolicyError) -> AuthError {
    AuthError::UnsafeUrl { url: without_query(url), error }
}

/// Withholds a text of the other side that repeats a secret sent to it: verbatim, form-encoded, or truncated at the end
/// of the text.
fn redact_secrets(text: &str, secrets: &[Secret]) -> String {
    let is_cut = text.chars().count() >= SHOWN;
    let repeats = |secret: &str| {
        let mut beginnings = (4..secret.len().min(text.len())).filter_map(|length| secret.get(..length));
        let at_end = is_cut && beginnings.any(|beginning| text.ends_with(beginning));
        secret.len() >= 4 && (at_end || text.contains(secret))
    };
    let tells = secrets.iter().map(Secret::expose).any(|secret| {
        let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        repeats(secret) || repeats(&encoded)
    });
    if tells { "(withheld: it repeats a secret)".into() } else { text.into() }
}

/// A request to a token endpoint, which may be repeated with another nonce.
#[derive(Default)]
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
    /// Whether it was repeated with a nonce.
    nonce_retried: bool,
}

impl TokenRequest {
    /// A request that binds the token to no key and has the usual timeout.
    pub(super) fn new(
        endpoint: &str,
        audience: &str,
        form: FormBody,
        client: Option<ClientCredentials>,
    ) -> Self {
        Self { endpoint: endpoint.into(), audience: audience.into(), form, client, ..Self::default() }
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
    pub(super) fn for_server(mut self, server: &ServerMetadata) -> Self {
        let supports = |method: &AuthMethod| {
            server
                .token_auth_methods
                .as_ref()
                .is_none_or(|known| known.iter().any(|name| name == method.as_str()))
        };
        self.method = self.method.or(Some(match &self.proof {
            ClientProof::None => AuthMethod::None,
            ClientProof::Key(_) => AuthMethod::PrivateKeyJwt,
            // The default is basic: RFC 8414, section 2.
            ClientProof::Secret(_) => [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None]
                .into_iter()
                .find(supports)
                .unwrap_or(AuthMethod::Basic),
        }));
        self
    }
}

impl AuthClient {
    /// Starts a token request.
    pub(super) fn request_token(&mut self, request: &TokenRequest) -> Result<(), AuthError> {
        let mut headers = Vec::new();
        let mut form = request.form.clone();
        if let Some(client) = &request.client {
            form = self.authenticate(client, &request.audience, form, &mut headers)?;
        }
        if let Some(signer) = &request.dpop_key {
            headers.push(self.dpop_proof(&**signer, "POST", &request.endpoint, None)?);
        }
        let content_type = "application/x-www-form-urlencoded";
        let mut fetch = FetchRequest::post(&request.endpoint, content_type, form.encode());
        fetch.headers.append(&mut headers);
        self.fetch(FetchRequest { secrets: form.secrets, deadline: request.deadline, ..fetch })
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

    /// Handles the reply to a token request. `Ok(None)` if the request is repeated with the required nonce.
    pub(super) fn handle_token_reply(
        &mut self,
        request: &mut TokenRequest,
        reply: FetchReply,
    ) -> Result<Option<TokenResponse>, AuthError> {
        let FetchAnswer { status, body, secrets, .. } = reply?;
        match parse_token_response(status, &body) {
            Ok(granted) => Ok(Some(granted)),
            Err(refusal)
                if refusal.is_use_dpop_nonce() && request.dpop_key.is_some() && !request.nonce_retried =>
            {
                request.nonce_retried = true;
                self.request_token(request)?;
                Ok(None)
            }
            Err(TokenEndpointError::Refused { error, description }) => {
                Err(AuthError::Token(TokenEndpointError::Refused {
                    error: redact_secrets(&error, &secrets),
                    description: description.map(|text| redact_secrets(&text, &secrets)),
                }))
            }
            Err(refusal) => Err(AuthError::Token(refusal)),
        }
    }
}
