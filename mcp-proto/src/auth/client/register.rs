//! Registration with an authorization server: by preregistered credentials, by a client metadata document, or
//! dynamically.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::AuthClient;
use super::config::{AuthConfig, AuthMethod, ClientCredentials, Grant, LoginMode, RedirectPaths};
use super::error::AuthError;
use super::exchange::{ClientAuthentication, FetchReply, FetchRequest};
use super::flow::{Flow, FlowStep, StepResult};
use super::record::{ClientSource, RecordChange, RegisteredClient};
use crate::UnixTime;
use crate::auth::members::{document_text, sanitize};
use crate::auth::{Now, Scopes, Secret, ServerMetadata};
use crate::transport::http::Verb;

/// Maximum bytes of a client id or secret.
const NAME_BYTES: usize = 4096;

/// Number of characters of an issuer's digest in its redirect URI: 132 bits.
const SEGMENT_BYTES: usize = 22;

#[derive(Serialize)]
struct RegistrationRequest<'a> {
    client_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo_uri: Option<&'a str>,
    redirect_uris: &'a [&'a str],
    grant_types: &'a [&'a str],
    response_types: &'a [&'a str],
    token_endpoint_auth_method: &'a str,
    application_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    client_secret_expires_at: Option<u64>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct RegistrationError {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    error_description: Option<String>,
}

impl AuthClient {
    /// Finds the client's credentials, or registers it, and requests a token.
    pub(super) fn register(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        let Some(found) = flow.discovered.clone() else { return self.discover_resource(now, flow) };
        let server = &found.metadata;
        flow.scopes = self.scopes_for(&flow, &server.issuer);
        if self.is_interactive() && self.config.login_mode == LoginMode::NonInteractive {
            return Err(AuthError::LoginRequired { scopes: flow.scopes }.into());
        }
        self.choose_key(&mut flow, server)?;
        flow.redirect_uri.clone_from(&self.config.redirect_uri);
        if let Some((credentials, pin)) = self.configured_credentials(&server.issuer)? {
            flow.pin_client = pin;
            flow.client = Some(ClientAuthentication::for_server(server, credentials));
            return self.start_grant(now, flow);
        }
        if let Some(url) = self.config.client_id_document.as_ref().filter(|_| server.client_id_documents) {
            flow.client = Some(ClientAuthentication::for_server(server, ClientCredentials::new(url)));
            return self.start_grant(now, flow);
        }
        flow.redirect_uri = self.redirect_uri_for(server);
        if let Some(client) = self.earlier_registration(now, &server.issuer, &flow.redirect_uri) {
            flow.client = Some(ClientAuthentication::for_server(server, client.credentials()));
            return self.start_grant(now, flow);
        }
        match (&self.config.grant, &server.registration_endpoint) {
            (Grant::AuthorizationCode | Grant::Enterprise(_), Some(endpoint)) => {
                let body = self.registration_body(server, &flow);
                let request = FetchRequest {
                    verb: Verb::Post,
                    url: endpoint.clone(),
                    headers: Vec::from([
                        ("accept", Secret::new("application/json")),
                        ("content-type", Secret::new("application/json")),
                    ]),
                    body: body.into(),
                    secrets: Vec::new(),
                    deadline: None,
                };
                self.fetch(now, request)?;
                Ok(flow.into_step(FlowStep::Registering))
            }
            // The assertion may identify the client.
            (Grant::JwtBearer, _) => self.start_grant(now, flow),
            _ => Err(AuthError::NotRegistered { issuer: server.issuer.clone() }.into()),
        }
    }

    /// The preregistered credentials for an authorization server, and whether to pin them to it.
    fn configured_credentials(&self, issuer: &str) -> Result<Option<(ClientCredentials, bool)>, AuthError> {
        if self.config.preregistrations.is_empty() {
            return Ok(None);
        }
        let exact = self
            .config
            .preregistrations
            .iter()
            .find(|registered| registered.issuer().is_some_and(|known| self.same_issuer(known, issuer)));
        let open = || self.config.preregistrations.iter().find(|registered| registered.issuer().is_none());
        match exact {
            Some(registered) => Ok(Some((registered.credentials().clone(), false))),
            None if !self.is_issuer_allowed(issuer) => {
                //= C12.20 "SHOULD error for pre-registered mismatch"
                Err(AuthError::RegisteredElsewhere { issuer: issuer.to_string() })
            }
            None => Ok(open().map(|registered| (registered.credentials().clone(), true))),
        }
    }

    /// The earlier registration at an authorization server, if it is still valid and has the same redirect URI.
    fn earlier_registration(&self, now: Now, issuer: &str, redirect: &str) -> Option<&RegisteredClient> {
        //= C12.20 "never used with another AS; re-register when the AS changes"
        self.tokens.record().clients.get(issuer).filter(|client| {
            let same =
                matches!(&client.source, ClientSource::Registered { redirect_uri } if redirect_uri == redirect);
            same && client.expires.is_none_or(|end| end > now.unix)
        })
    }

    fn registration_body(&self, server: &ServerMetadata, flow: &Flow) -> String {
        let has_metadata = flow.discovered.as_ref().is_some_and(|found| found.has_metadata);
        let supports = |method: &AuthMethod| match &server.token_auth_methods {
            Some(known) => known.iter().any(|name| name == method.as_str()),
            // The default is basic; a server without metadata may support any method.
            None => !has_metadata || *method == AuthMethod::Basic,
        };
        let method = [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post].into_iter().find(supports);
        let grants: &[&str] = match self.config.grant {
            Grant::Enterprise(_) => &["urn:ietf:params:oauth:grant-type:jwt-bearer"],
            //= C12.22 "`refresh_token` in grant_types SHOULD"
            _ => &["authorization_code", "refresh_token"],
        };
        // Some servers refuse scopes that they do not list, and grant a client no scopes beyond its registration.
        let listed = |scopes: &Scopes| {
            server.scopes_supported.as_ref().is_none_or(|supported| supported.contains_all(scopes))
        };
        let registration = RegistrationRequest {
            client_name: &self.config.client.name,
            client_uri: self.config.client.uri.as_deref(),
            logo_uri: self.config.client.logo.as_deref(),
            redirect_uris: &[&flow.redirect_uri],
            grant_types: grants,
            response_types: &["code"],
            token_endpoint_auth_method: method.unwrap_or(AuthMethod::None).as_str(),
            //= C12.19 "DCR: `application_type` set (native for loopback/CLI)"
            application_type: self.config.client.application_type.as_str(),
            scope: self.scopes_to_request(flow).filter(listed).map(|scopes| scopes.to_string()),
        };
        serde_json::to_string(&registration).unwrap_or_default()
    }

    pub(super) fn handle_registration_reply(
        &mut self,
        now: Now,
        mut flow: Box<Flow>,
        reply: FetchReply,
    ) -> StepResult {
        let (status, body) = match reply {
            FetchReply::Failed(error) => return Err(error.into()),
            FetchReply::Answer { status, body, .. } => (status, body),
        };
        let Some(found) = flow.discovered.clone() else { return self.discover_resource(now, flow) };
        let issuer = found.metadata.issuer.clone();
        let text = document_text(&body).unwrap_or_default();
        let answer =
            serde_json::from_str::<RegistrationResponse>(text).ok().filter(|_| matches!(status, 200 | 201));
        let Some(client) = answer.and_then(|answer| registered_client(answer, &flow.redirect_uri)) else {
            let fault = serde_json::from_str::<RegistrationError>(text).ok();
            let (error, description) =
                fault.map(|fault| (fault.error, fault.error_description)).unwrap_or_default();
            //= C12.19 "registration refusal handled with a meaningful error"
            return Err(AuthError::RegistrationRefused {
                status,
                error: error.and_then(|text| sanitize(&text)),
                description: description.and_then(|text| sanitize(&text)),
            }
            .into());
        };
        flow.client = Some(ClientAuthentication::for_server(&found.metadata, client.credentials()));
        self.save(now, flow, RecordChange::AddClient { issuer, client })
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
        source: ClientSource::Registered { redirect_uri: redirect_uri.into() },
    })
}

#[derive(Serialize)]
struct ClientDocument<'a> {
    client_id: &'a str,
    client_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo_uri: Option<&'a str>,
    redirect_uris: [&'a str; 1],
    grant_types: [&'static str; 2],
    response_types: [&'static str; 1],
    token_endpoint_auth_method: &'static str,
    application_type: &'static str,
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
        let document = ClientDocument {
            client_id: self.client_id_document.as_deref()?,
            client_name: &self.client.name,
            client_uri: self.client.uri.as_deref(),
            logo_uri: self.client.logo.as_deref(),
            redirect_uris: [&self.redirect_uri],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none",
            application_type: self.client.application_type.as_str(),
        };
        serde_json::to_string(&document).ok()
    }
}
