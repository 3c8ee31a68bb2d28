//! Exchanges with authorization servers: fetches, which follow redirects, and token requests with the client's
//! authentication.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use form_urlencoded::Serializer;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use super::AuthClient;
use super::config::{AuthConfig, AuthMethod, ClientCredentials, ClientProof};
use super::error::AuthError;
use crate::Instant;
use crate::auth::members::{SHOWN, sanitize};
use crate::auth::{
    Fetch, FetchId, FetchPolicy, Now, Secret, ServerMetadata, Signer, TokenEndpointError, TokenResponse,
    client_assertion, dpop, parse_token_response,
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
    verb: Verb,
    url: String,
    headers: Vec<(&'static str, Secret)>,
    deadline: Option<Instant>,
    hops: u32,
    /// The secrets in the request, which must not be shown if the response repeats them.
    secrets: Vec<Secret>,
}

/// How an exchange ended.
pub(super) enum FetchReply {
    /// With a response that is no redirect.
    Answer { url: String, status: u16, body: Bytes, secrets: Vec<Secret> },
    /// Without a response.
    Failed(AuthError),
}

impl FetchReply {
    fn unreachable(fetch: &InFlight, detail: String) -> Self {
        Self::Failed(AuthError::Unreachable { url: without_query(&fetch.url), detail })
    }
}

/// The request of an exchange.
pub(super) struct FetchRequest {
    pub(super) verb: Verb,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, Secret)>,
    pub(super) body: Bytes,
    pub(super) secrets: Vec<Secret>,
    /// A deadline before the usual timeout.
    pub(super) deadline: Option<Instant>,
}

impl FetchRequest {
    pub(super) fn get(url: String) -> Self {
        Self {
            verb: Verb::Get,
            url,
            headers: Vec::from([("accept", Secret::new("application/json"))]),
            body: Bytes::new(),
            secrets: Vec::new(),
            deadline: None,
        }
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

    fn start(&mut self, now: Now, request: FetchRequest, hops: u32) -> Result<Fetch, AuthError> {
        let FetchRequest { verb, url, headers, body, secrets, deadline: until } = request;
        //= C12.26 "validate each redirect hop"
        self.policy.check(&url).map_err(|error| AuthError::UnsafeUrl { url: without_query(&url), error })?;
        self.last_id = self.last_id.saturating_add(1);
        let id = FetchId::new(self.last_id);
        let deadline = now.deadline_after(self.timeout);
        let deadline = deadline.map(|deadline| until.map_or(deadline, |until| deadline.min(until))).or(until);
        self.in_flight = Some(InFlight {
            id,
            verb,
            url: url.clone(),
            headers: if verb == Verb::Get { headers.clone() } else { Vec::new() },
            deadline,
            hops,
            secrets,
        });
        Ok(Fetch { id, verb, url, headers, body, limit: self.limit })
    }

    /// Ends the exchange in flight if it is the one with this id.
    fn take_id(&mut self, id: FetchId) -> Option<InFlight> {
        self.in_flight.take_if(|fetch| fetch.id == id)
    }

    /// The request for the target of a redirect. `None` if the response is no redirect, or too many were followed.
    fn follow_redirect(
        &self,
        fetch: &InFlight,
        status: u16,
        location: Option<&[u8]>,
    ) -> Option<FetchRequest> {
        let moved = matches!(status, 301 | 302 | 303 | 307 | 308) && fetch.verb == Verb::Get;
        if !moved || fetch.hops >= MAX_REDIRECTS {
            return None;
        }
        let location = str::from_utf8(location?).ok()?;
        let target = redirect_target(&fetch.url, location)?;
        Some(FetchRequest { headers: fetch.headers.clone(), ..FetchRequest::get(target) })
    }
}

impl AuthClient {
    /// Starts an exchange.
    pub(super) fn fetch(&mut self, now: Now, request: FetchRequest) -> Result<(), AuthError> {
        self.actions.fetch(self.fetcher.start(now, request, 0)?);
        Ok(())
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
        Some(FetchReply::unreachable(&fetch, "it took too long".into()))
    }

    pub(super) fn fail_fetch(&mut self, id: FetchId, detail: &str) -> Option<FetchReply> {
        let fetch = self.fetcher.take_id(id)?;
        let detail = redact_secrets(&sanitize(detail).unwrap_or_default(), &fetch.secrets);
        Some(FetchReply::unreachable(&fetch, detail))
    }

    /// Handles the response to an exchange. `None` if a redirect is followed.
    pub(super) fn handle_fetch_answer(
        &mut self,
        now: Now,
        id: FetchId,
        status: u16,
        fields: &dyn Fields,
        body: Bytes,
    ) -> Option<FetchReply> {
        let fetch = self.fetcher.take_id(id)?;
        let [nonce, location] = read_headers(fields, ["dpop-nonce", "location"]);
        if let Some(nonce) = nonce.first.and_then(|nonce| str::from_utf8(nonce).ok()) {
            self.nonces.keep(&fetch.url, nonce);
        }
        if body.len() > self.fetcher.limit {
            return Some(FetchReply::unreachable(&fetch, "the answer is too long".into()));
        }
        match self.fetcher.follow_redirect(&fetch, status, location.first) {
            Some(request) => match self.fetcher.start(now, request, fetch.hops.saturating_add(1)) {
                Ok(hop) => {
                    self.actions.fetch(hop);
                    None
                }
                Err(error) => Some(FetchReply::Failed(error)),
            },
            None => Some(FetchReply::Answer { url: fetch.url, status, body, secrets: fetch.secrets }),
        }
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

/// Withholds a text of the other side that repeats a secret sent to it: verbatim, form-encoded, or truncated at the end
/// of the text.
pub(super) fn redact_secrets(text: &str, secrets: &[Secret]) -> String {
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
pub(super) struct TokenRequest {
    pub(super) endpoint: String,
    /// The audience of client assertions.
    pub(super) audience: String,
    pub(super) form: FormBody,
    pub(super) client: Option<ClientAuthentication>,
    /// The key to bind the token to.
    pub(super) dpop_key: Option<Arc<dyn Signer>>,
    /// A deadline before the usual timeout.
    pub(super) deadline: Option<Instant>,
    /// Whether it was repeated with a nonce.
    pub(super) nonce_retried: bool,
}

impl TokenRequest {
    /// A request that binds the token to no key and has the usual timeout.
    pub(super) fn new(
        endpoint: &str,
        audience: &str,
        form: FormBody,
        client: Option<ClientAuthentication>,
    ) -> Self {
        Self {
            endpoint: endpoint.into(),
            audience: audience.into(),
            form,
            client,
            dpop_key: None,
            deadline: None,
            nonce_retried: false,
        }
    }
}

/// A client's credentials, and its authentication method at an authorization server.
#[derive(Clone)]
pub(super) struct ClientAuthentication {
    pub(super) credentials: ClientCredentials,
    pub(super) method: AuthMethod,
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

    fn encode(&self) -> Bytes {
        let members = self.members.iter().map(|(name, value)| (*name, value.expose()));
        Serializer::new(String::new()).extend_pairs(members).finish().into_bytes().into()
    }
}

impl ClientAuthentication {
    /// Chooses a method that the authorization server supports and the credentials allow.
    pub(super) fn for_server(server: &ServerMetadata, credentials: ClientCredentials) -> Self {
        let supports = |method: AuthMethod| {
            server.token_auth_methods.as_ref().map(|known| known.iter().any(|name| name == method.as_str()))
        };
        let method = credentials.method.unwrap_or(match &credentials.proof {
            ClientProof::None => AuthMethod::None,
            ClientProof::Key(_) => AuthMethod::PrivateKeyJwt,
            // The default is basic: RFC 8414, section 2.
            ClientProof::Secret(_) => [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None]
                .into_iter()
                .find(|&method| supports(method).unwrap_or(true))
                .unwrap_or(AuthMethod::Basic),
        });
        Self { credentials, method }
    }
}

impl AuthClient {
    /// Starts a token request.
    pub(super) fn request_token(&mut self, now: Now, request: &TokenRequest) -> Result<(), AuthError> {
        let mut headers = Vec::from([
            ("accept", Secret::new("application/json")),
            ("content-type", Secret::new("application/x-www-form-urlencoded")),
        ]);
        let mut form = request.form.clone();
        if let Some(client) = &request.client {
            form = self.authenticate(now, client, &request.audience, form, &mut headers)?;
        }
        if let Some(signer) = &request.dpop_key {
            let jti = self.rng.next_text();
            let nonce = self.nonces.get(&request.endpoint);
            let proof = dpop::proof(&**signer, "POST", &request.endpoint, None, nonce, now.unix, &jti);
            headers.push(("dpop", Secret::new(proof.map_err(|_| AuthError::Key)?)));
        }
        self.fetch(
            now,
            FetchRequest {
                verb: Verb::Post,
                url: request.endpoint.clone(),
                headers,
                body: form.encode(),
                secrets: form.secrets,
                deadline: request.deadline,
            },
        )
    }

    fn authenticate(
        &mut self,
        now: Now,
        client: &ClientAuthentication,
        audience: &str,
        form: FormBody,
        headers: &mut Vec<(&'static str, Secret)>,
    ) -> Result<FormBody, AuthError> {
        let id = &client.credentials.id;
        match (client.method, &client.credentials.proof) {
            (AuthMethod::Basic, ClientProof::Secret(secret)) => {
                // RFC 6749, section 2.3.1: both are form-encoded first.
                let mut both = String::new();
                both.extend(form_urlencoded::byte_serialize(id.as_bytes()));
                both.push(':');
                both.extend(form_urlencoded::byte_serialize(secret.expose().as_bytes()));
                let mut value = String::from("Basic ");
                STANDARD.encode_string(Secret::new(both).expose(), &mut value);
                let mut form = form;
                form.secrets.extend([secret.clone(), Secret::new(value.trim_start_matches("Basic "))]);
                headers.push(("authorization", Secret::new(value)));
                Ok(form)
            }
            (AuthMethod::Post, ClientProof::Secret(secret)) => {
                Ok(form.with("client_id", id).with_secret("client_secret", secret))
            }
            (AuthMethod::PrivateKeyJwt, ClientProof::Key(key)) => {
                let jti = self.rng.next_text();
                //= C14.8 "client_credentials grant with private_key_jwt (recommended: aud = AS, client_id omitted) or client secret"
                let assertion = client_assertion(&**key, id, audience, now.unix, &jti);
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
        now: Now,
        request: &mut TokenRequest,
        reply: FetchReply,
    ) -> Result<Option<TokenResponse>, AuthError> {
        let (status, body, secrets) = match reply {
            FetchReply::Failed(error) => return Err(error),
            FetchReply::Answer { status, body, secrets, .. } => (status, body, secrets),
        };
        match parse_token_response(status, &body) {
            Ok(granted) => Ok(Some(granted)),
            Err(refusal)
                if refusal.is_use_dpop_nonce() && request.dpop_key.is_some() && !request.nonce_retried =>
            {
                request.nonce_retried = true;
                self.request_token(now, request)?;
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
