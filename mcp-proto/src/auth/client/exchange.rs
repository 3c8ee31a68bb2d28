//! Requests to token endpoints, and the authentication of the client there.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use form_urlencoded::Serializer;

use crate::Instant;
use crate::auth::{
    Now, Secret, ServerMetadata, Signer, TokenEndpointError, TokenResponse, client_assertion, dpop,
    parse_token_response,
};
use crate::transport::http::Verb;

use super::AuthClient;
use super::config::{AuthMethod, ClientCredentials, ClientProof};
use super::error::AuthError;
use super::fetching::{FetchReply, FetchRequest, redact_secrets};

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
