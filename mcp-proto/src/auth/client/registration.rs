//! Registration with an authorization server: by preregistered credentials, by a client metadata document, or
//! dynamically.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>

use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::UnixTime;
use crate::auth::metadata::document_text;
use crate::auth::sanitize;
use crate::auth::{Fetch, Scopes, Secret, ServerMetadata};
use crate::prelude::*;

use super::AuthClient;
use super::config::{
    AuthConfig, AuthMethod, ClientCredentials, Grant, LoginMode, Preregistration, RedirectPaths,
};
use super::error::AuthError;
use super::exchange::{Exchange, FetchAnswer, FetchReply};
use super::flow::{Flow, FlowPurpose, FlowStep, StepResult};
use super::record::{RecordChange, RegisteredClient};

/// Maximum bytes of a client id or secret.
const NAME_BYTES: usize = 4096;

/// Number of characters of an issuer's digest in its redirect URI: 132 bits.
const SEGMENT_BYTES: usize = 22;

/// The metadata of a client (RFC 7591), which it registers or publishes.
#[derive(Serialize)]
struct ClientMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<&'a str>,
    client_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo_uri: Option<&'a str>,
    redirect_uris: [&'a str; 1],
    grant_types: &'a [&'a str],
    response_types: [&'a str; 1],
    token_endpoint_auth_method: &'a str,
    application_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Default, Deserialize)]
struct RegistrationError {
    error: Option<String>,
    error_description: Option<String>,
}

impl AuthClient {
    /// Finds the client's credentials, or registers it, and requests a token.
    pub(super) fn register(&mut self, mut flow: Flow) -> StepResult {
        let found = flow.server.clone();
        let server = &found.metadata;
        flow.scopes = self.scopes_for(&flow, &server.issuer);
        let opens_page = self.is_interactive() && flow.purpose != FlowPurpose::BeginLogin;
        if opens_page && self.config.login_mode == LoginMode::NonInteractive {
            return Err(AuthError::LoginRequired { scopes: flow.scopes });
        }
        self.choose_key(&mut flow)?;
        flow.redirect_uri.clone_from(&self.config.redirect_uri);
        //= K22 "Clients are known by preregistration, else a client id document, else dynamic registration, else the user"
        let mut credentials =
            self.configured_credentials(&server.issuer, &mut flow.pin_client)?.or_else(|| {
                let document = self.config.client_id_document.as_ref().filter(|_| server.client_id_documents);
                document.map(ClientCredentials::new)
            });
        if credentials.is_none() {
            flow.redirect_uri = self.redirect_uri_for(server);
            credentials = self.earlier_registration(&server.issuer, &flow.redirect_uri);
        }
        flow.client = credentials;
        match (&self.config.grant, &server.registration_endpoint) {
            _ if flow.client.is_some() => self.start_grant(flow),
            (Grant::AuthorizationCode | Grant::Enterprise(_), Some(endpoint)) => {
                let body = self.registration_body(server, &flow);
                self.fetch(Exchange::new(Fetch::post(endpoint.clone(), "application/json", body)))?;
                flow.enter(FlowStep::Registering)
            }
            // The assertion may identify the client.
            (Grant::JwtBearer, _) => self.start_grant(flow),
            _ => Err(AuthError::NotRegistered { issuer: server.issuer.clone() }),
        }
    }

    /// The preregistered credentials for an authorization server, if there are any. Sets whether to pin them to it.
    pub(super) fn configured_credentials(
        &self,
        issuer: &str,
        pin: &mut bool,
    ) -> Result<Option<ClientCredentials>, AuthError> {
        let known = &self.config.preregistrations;
        let is_exact =
            |known: &&Preregistration| known.issuer().is_some_and(|known| self.same_issuer(known, issuer));
        let exact = known.iter().find(is_exact);
        if exact.is_none() && !self.is_issuer_allowed(issuer) {
            //= C12.20 "SHOULD error for pre-registered mismatch"
            return Err(AuthError::RegisteredElsewhere { issuer: issuer.into() });
        }
        let found = exact.or_else(|| known.iter().find(|known| known.issuer().is_none()));
        *pin = exact.is_none() && found.is_some();
        Ok(found.map(|found| found.credentials().clone()))
    }

    /// The earlier registration at an authorization server, if it is still valid and has the same redirect URI.
    fn earlier_registration(&self, issuer: &str, redirect: &str) -> Option<ClientCredentials> {
        //= C12.20 "never used with another AS; re-register when the AS changes"
        let client = self.tokens.record.clients.get(issuer)?;
        let same = client.redirect_uri.as_deref() == Some(redirect);
        let valid = client.expires.is_none_or(|end| end > self.now.unix);
        (same && valid).then(|| client.credentials())
    }

    fn registration_body(&self, server: &ServerMetadata, flow: &Flow) -> String {
        // The default is basic; a server without metadata may support any method.
        let supports = |method: &AuthMethod| {
            method.is_supported(server, !flow.server.has_metadata || *method == AuthMethod::Basic)
        };
        let method = [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post].into_iter().find(supports);
        let grants: &[&str] = match self.config.grant {
            Grant::Enterprise(_) => &["urn:ietf:params:oauth:grant-type:jwt-bearer"],
            _ => &["authorization_code", "refresh_token"],
        };
        // Some servers refuse scopes that they do not list, and grant a client no scopes beyond its registration.
        let listed = |scopes: &Scopes| {
            server.scopes_supported.as_ref().is_none_or(|supported| supported.contains_all(scopes))
        };
        let registration = ClientMetadata {
            redirect_uris: [&flow.redirect_uri],
            grant_types: grants,
            token_endpoint_auth_method: method.unwrap_or(AuthMethod::None).as_str(),
            scope: self.scopes_to_request(flow).filter(listed).map(|scopes| scopes.to_string()),
            ..self.config.client_metadata()
        };
        serde_json::to_string(&registration).unwrap_or_default()
    }

    pub(super) fn handle_registration_reply(&mut self, mut flow: Flow, reply: FetchReply) -> StepResult {
        let FetchAnswer { status, body, .. } = reply?;
        let text = document_text(&body).unwrap_or_default();
        let answer =
            serde_json::from_str::<RegistrationResponse>(text).ok().filter(|_| matches!(status, 200 | 201));
        let Some(client) = answer.and_then(|answer| registered_client(answer, &flow.redirect_uri)) else {
            let fault = serde_json::from_str::<RegistrationError>(text).unwrap_or_default();
            let [error, description] =
                [fault.error, fault.error_description].map(|text| text.and_then(|text| sanitize(&text)));
            //= C12.19 "registration refusal handled with a meaningful error"
            return Err(AuthError::RegistrationRefused { status, error, description });
        };
        let issuer = flow.server.metadata.issuer.clone();
        flow.client = Some(client.credentials());
        self.save(flow, RecordChange::AddClient { issuer, client })
    }

    /// The redirect URI to register with an authorization server.
    fn redirect_uri_for(&self, server: &ServerMetadata) -> String {
        let shared = &self.config.redirect_uri;
        if self.config.redirect_paths == RedirectPaths::Shared || server.iss_in_answers {
            return shared.clone();
        }
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&server.issuer));
        let segment = digest.get(..SEGMENT_BYTES).unwrap_or(&digest);
        let (path, query) = shared.split_at(shared.find('?').unwrap_or(shared.len()));
        alloc::format!("{}/{segment}{query}", path.trim_end_matches('/'))
    }
}

/// The client as the authorization server registered it, if its id and its secret can be used.
fn registered_client(answer: RegistrationResponse, redirect_uri: &str) -> Option<RegisteredClient> {
    let fits = |text: &str| (1..=NAME_BYTES).contains(&text.len());
    let secret = answer.client_secret.map(Secret::new);
    let good = fits(&answer.client_id) && secret.as_ref().is_none_or(|secret| fits(secret.expose()));
    good.then(|| RegisteredClient {
        id: answer.client_id,
        secret,
        // An unknown method is ignored.
        method: answer.token_endpoint_auth_method.as_deref().and_then(AuthMethod::parse),
        expires: answer
            .client_secret_expires_at
            .filter(|&end| end != 0)
            .map(|end| UnixTime::from_epoch(Duration::from_secs(end))),
        redirect_uri: Some(redirect_uri.into()),
    })
}

impl AuthConfig {
    /// The document to publish at [`client_id_document`](Self::client_id_document), as JSON: serve it there with the
    /// media type `application/json`. `None` if no such URL is configured.
    ///
    /// It describes a public client, without a secret or key.
    ///
    /// ```
    /// use mcp_proto::auth::client::AuthConfig;
    ///
    /// let mut config = AuthConfig::new("my host", "http://127.0.0.1:4870/callback");
    /// config.client_id_document = Some("https://host.example.com/client.json".into());
    /// let document = config.client_document().unwrap();
    /// assert!(document.contains(r#""client_id":"https://host.example.com/client.json""#));
    /// assert!(document.contains(r#""redirect_uris":["http://127.0.0.1:4870/callback"]"#));
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>
    pub fn client_document(&self) -> Option<String> {
        //= C12.18 "document has client_id (= URL), client_name, redirect_uris"
        let client_id = Some(self.client_id_document.as_deref()?);
        let document = ClientMetadata { client_id, ..self.client_metadata() };
        serde_json::to_string(&document).ok()
    }

    /// The metadata of a public client with the usual grants.
    fn client_metadata(&self) -> ClientMetadata<'_> {
        ClientMetadata {
            client_id: None,
            client_name: &self.client.name,
            client_uri: self.client.uri.as_deref(),
            logo_uri: self.client.logo.as_deref(),
            redirect_uris: [&self.redirect_uri],
            //= C12.22 "`refresh_token` in grant_types SHOULD"
            grant_types: &["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: AuthMethod::None.as_str(),
            //= C12.19 "DCR: `application_type` set (native for loopback/CLI)"
            application_type: self.client.application_type.as_str(),
            scope: None,
        }
    }
}
