//! What the application decides.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use iri_string::types::UriStr;

use crate::auth::url;
use crate::auth::{
    DOCUMENT_BYTES, FetchPolicy, FetchPolicyError, IssuerMatch, PrivateNetworks, Scopes, Secret, Signer,
    canonical_resource, check_page_url,
};

/// The configuration of an [`AuthClient`](super::AuthClient).
///
/// ```
/// use mcp_proto::auth::Secret;
/// use mcp_proto::auth::client::AuthConfig;
///
/// let secret = Secret::new("7Fjfp0ZBr1KtDRbnfVdmIw");
/// let config = AuthConfig::new("my host", "http://127.0.0.1:4870/callback")
///     .client_secret("https://auth.example.com", "s6BhdRkqt3", secret);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthConfig {
    /// How tokens are asked for. Default: a person agrees on a page.
    pub grant: Grant,
    /// Whether there is a person who can agree. Default: there is.
    pub login_mode: LoginMode,
    /// How this client presents itself where it registers.
    pub client: ClientInfo,
    /// The registrations that this client has beforehand. If there is any, no authorization server without one is
    /// contacted: it would learn what another one gave out. Default: none.
    pub preregistrations: Vec<Preregistration>,
    /// The URL of this client's own metadata document, which is then its name at every authorization server that reads
    /// such documents. `https` with a path. Default: none.
    pub client_id_document: Option<String>,
    /// Where pages lead back to: `https`, or `http` on loopback.
    pub redirect_uri: String,
    /// Whether issuers get redirect URIs of their own below that one. Default: they share it.
    pub redirect_paths: RedirectPaths,
    /// The resource to ask tokens for, instead of the one in the server's metadata or the server's URL. Metadata that
    /// names this resource is accepted, whatever the server's URL is. Default: none.
    pub resource: Option<String>,
    /// Whether the server's metadata may name its URL with one slash more or less at the end. Default: it may, and
    /// [`Event::Tolerated`](super::Event::Tolerated) says so.
    pub trailing_slash: TrailingSlash,
    /// What to ask for when a challenge names no scopes, in place of all that the server's metadata lists. It is asked
    /// for besides what challenges name.
    pub scopes: Option<Scopes>,
    /// Whether tokens may be bound to a key (RFC 9449), and to which. They are where the server demands it or the
    /// authorization server offers it. Default: never.
    pub dpop: Option<DpopKey>,
    /// How the issuer in metadata is compared with the one that led there. Default: exactly.
    pub issuer_match: IssuerMatch,
    /// Whether metadata may lead into private networks. Default: no.
    pub private_networks: PrivateNetworks,
    /// Whether servers may do as 2025-03-26 has it: no metadata of the resource, and an authorization server at their
    /// own origin. Default: yes.
    pub legacy_discovery: LegacyDiscovery,
    /// How long an exchange with an authorization server may take. Default 15 s: a person may be waiting.
    pub exchange_timeout: Duration,
    /// How long a page may stay open. Default 10 min, after which authorization servers forget it too.
    pub page_timeout: Duration,
    /// How long before its end a token is renewed. Default 60 s: requests that are on their way then still arrive in
    /// time, and clocks may differ a little.
    pub refresh_margin: Duration,
    /// How long a renewal that failed for a passing reason is left alone while the token is still good. Default 10 s.
    pub refresh_pause: Duration,
    /// How long one process keeps others that share its store from renewing. Default 30 s: twice an exchange.
    pub refresh_lease: Duration,
    /// How often the store is looked at while another process renews. Default 500 ms.
    pub lease_poll: Duration,
    /// The longest document that is read, in bytes. Default 256 KiB.
    pub document_bytes: usize,
    /// How often one request may lead to an authorization. Default 3, as each may show a page.
    pub step_ups: u32,
    /// How often one request may be sent again, for whatever reason. Default 6: besides authorizations there are nonces.
    pub resends: u32,
    /// How many redirects a document may be behind. Default 3.
    pub redirects: u32,
    /// How many of the authorization servers that a resource lists are tried. Default 3.
    pub servers: usize,
}

impl AuthConfig {
    /// Every default, for a client called `name` whose pages lead back to `redirect_uri`.
    pub fn new(name: impl Into<String>, redirect_uri: impl Into<String>) -> Self {
        Self {
            grant: Grant::AuthorizationCode,
            login_mode: LoginMode::Interactive,
            client: ClientInfo::new(name),
            preregistrations: Vec::new(),
            client_id_document: None,
            redirect_uri: redirect_uri.into(),
            redirect_paths: RedirectPaths::Shared,
            resource: None,
            trailing_slash: TrailingSlash::Accepted,
            scopes: None,
            dpop: None,
            issuer_match: IssuerMatch::Exact,
            private_networks: PrivateNetworks::Refused,
            legacy_discovery: LegacyDiscovery::Accepted,
            exchange_timeout: Duration::from_secs(15),
            page_timeout: Duration::from_secs(600),
            refresh_margin: Duration::from_secs(60),
            refresh_pause: Duration::from_secs(10),
            refresh_lease: Duration::from_secs(30),
            lease_poll: Duration::from_millis(500),
            document_bytes: DOCUMENT_BYTES,
            step_ups: 3,
            resends: 6,
            redirects: 3,
            servers: 3,
        }
    }

    /// Adds the id of a public client: one that was registered beforehand and has no secret.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.preregistrations.push(Preregistration::public(id));
        self
    }

    /// Adds an id and a secret that `issuer` gave out. They are sent to the endpoints of that issuer alone; if discovery
    /// names no such issuer, the login ends with [`RegisteredElsewhere`](super::AuthError::RegisteredElsewhere) before
    /// anything is sent.
    #[must_use]
    pub fn client_secret(mut self, issuer: impl Into<String>, id: impl Into<String>, secret: Secret) -> Self {
        self.preregistrations
            .push(Preregistration::for_issuer(issuer, ClientCredentials::with_secret(id, secret)));
        self
    }

    /// Adds an id that `issuer` gave out and the key that signs the assertions for it (`private_key_jwt`). As with
    /// [`client_secret`](Self::client_secret), no other issuer is sent an assertion.
    #[must_use]
    pub fn client_key(
        mut self,
        issuer: impl Into<String>,
        id: impl Into<String>,
        key: Arc<dyn Signer>,
    ) -> Self {
        self.preregistrations.push(Preregistration::for_issuer(issuer, ClientCredentials::with_key(id, key)));
        self
    }

    pub(super) fn check(&self, reach: &FetchPolicy) -> Result<(), AuthConfigError> {
        if self.preregistrations.iter().filter_map(Preregistration::issuer).any(|issuer| !is_issuer(issuer)) {
            return Err(AuthConfigError::Issuer);
        }
        if let Some(resource) = &self.resource {
            canonical_resource(resource).map_err(|_| AuthConfigError::Resource)?;
        }
        if let Some(url) = &self.client_id_document {
            let path = UriStr::new(url).ok().filter(|url| url.scheme_str() == "https").map(UriStr::path_str);
            if path.is_none_or(|path| path.len() < 2) || url.contains('#') {
                return Err(AuthConfigError::ClientIdDocument);
            }
        }
        match &self.grant {
            Grant::AuthorizationCode => {
                check_page_url(&self.redirect_uri).map_err(|_| AuthConfigError::RedirectUri)
            }
            Grant::ClientCredentials if self.preregistrations.is_empty() => Err(AuthConfigError::Credentials),
            Grant::Enterprise(IdentityProvider { location: place, .. }) => {
                let (ProviderLocation::Issuer(url) | ProviderLocation::TokenEndpoint(url)) = place;
                reach.check(url).map_err(|_| AuthConfigError::IdentityProvider)
            }
            _ => Ok(()),
        }
    }
}

/// Whether issuers get redirect URIs of their own.
///
/// An issuer that does not name itself in its answers (`iss`, RFC 9207) can be impersonated by another one that sends the
/// browser on to it (a mix-up attack). A redirect URI that no other issuer knows shows which issuer has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RedirectPaths {
    /// All issuers lead back to the same URI.
    #[default]
    Shared,
    /// Where this client registers by itself with an issuer that does not announce `iss`, a segment that only this issuer
    /// is given is added to the path. The host must serve every path below the redirect URI, and tell
    /// [`Redirect::parse`](super::Redirect::parse) the URL and not the query alone: an answer without `iss` at the path of
    /// another issuer, or at none, ends the login with [`RedirectIssuerMismatch`](super::AuthError::RedirectIssuerMismatch).
    PerIssuer,
}

/// Whether the server's metadata may differ from its URL by a slash at the end of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrailingSlash {
    /// It may, as is common.
    #[default]
    Accepted,
    /// It may not: RFC 9728, section 3.3.
    Refused,
}

/// Whether there is a person who can agree on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoginMode {
    /// There is.
    #[default]
    Interactive,
    /// There is not: tokens that are kept are used and renewed, and where a page would be needed
    /// [that is said](super::AuthError::LoginRequired). Nothing is registered for it.
    NonInteractive,
}

/// How tokens are asked for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Grant {
    /// A person agrees on a page (the authorization code grant with PKCE).
    #[default]
    AuthorizationCode,
    /// This client acts for itself, by its own credentials.
    ///
    /// <https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials>
    ClientCredentials,
    /// An identity provider decides: it takes an assertion about who the person is, from the host, and gives out one
    /// that the authorization server takes.
    ///
    /// <https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization>
    Enterprise(IdentityProvider),
    /// The host has an assertion that the authorization server takes (RFC 7523), as workloads do. What it refuses is
    /// not tried again.
    JwtBearer,
}

/// The identity provider of [`Grant::Enterprise`].
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    /// Where it is.
    pub location: ProviderLocation,
    /// What this client is known by there.
    pub credentials: ClientCredentials,
    /// What the host's assertions are.
    pub subject: SubjectKind,
}

/// Where an identity provider is.
#[derive(Clone, Debug)]
pub enum ProviderLocation {
    /// Its issuer, whose metadata tells the rest.
    Issuer(String),
    /// Its token endpoint.
    TokenEndpoint(String),
}

/// What an assertion about a person is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SubjectKind {
    /// An ID token of OpenID Connect.
    #[default]
    IdToken,
    /// An assertion of SAML 2.
    Saml2,
}

impl SubjectKind {
    pub(super) const fn urn(self) -> &'static str {
        match self {
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::Saml2 => "urn:ietf:params:oauth:token-type:saml2",
        }
    }
}

/// How this client presents itself where it registers (RFC 7591).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientInfo {
    /// Its name, as people are shown it.
    pub name: String,
    /// Its home page.
    pub uri: Option<String>,
    /// The URL of its logo.
    pub logo: Option<String>,
    /// What kind of application it is.
    pub application_type: ApplicationType,
}

impl ClientInfo {
    /// A native application called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), uri: None, logo: None, application_type: ApplicationType::Native }
    }
}

/// What kind of application a client is: it decides which redirects an authorization server takes.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ApplicationType {
    /// It runs on the person's own machine, and pages lead back to loopback.
    #[default]
    Native,
    /// It is served from elsewhere.
    Web,
}

impl ApplicationType {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Web => "web",
        }
    }
}

/// The credentials of a client at one authorization server, from before this client ran.
///
/// Credentials with a secret or a key belong to an issuer from the beginning: a server that a client connects to names its
/// authorization servers itself, and could otherwise have the secret sent to one of its choice.
#[derive(Clone, Debug)]
pub struct Preregistration {
    issuer: Option<String>,
    credentials: ClientCredentials,
}

impl Preregistration {
    /// The id of a public client. It belongs to the first authorization server that it is used with, and is not sent to
    /// another afterwards.
    pub fn public(id: impl Into<String>) -> Self {
        Self { issuer: None, credentials: ClientCredentials::new(id) }
    }

    /// Credentials that `issuer` gave out. The issuer is compared as [`AuthConfig::issuer_match`] says.
    pub fn for_issuer(issuer: impl Into<String>, credentials: ClientCredentials) -> Self {
        Self { issuer: Some(issuer.into()), credentials }
    }

    /// The issuer that gave the credentials out. `None` for a public client that may be used with any one issuer.
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// The credentials.
    pub fn credentials(&self) -> &ClientCredentials {
        &self.credentials
    }
}

/// Whether this can identify an issuer: a URL without user name, query and fragment (RFC 8414, section 2).
fn is_issuer(url: &str) -> bool {
    url::parse(url).is_ok_and(|parts| parts.user.is_none() && parts.query.is_none() && !parts.has_fragment)
}

/// A client's name, and how it shows that it is the one.
#[derive(Clone)]
pub struct ClientCredentials {
    /// The name.
    pub id: String,
    /// How it shows that.
    pub proof: ClientProof,
    /// How that is sent. Default: as the authorization server's metadata asks for.
    pub method: Option<AuthMethod>,
}

impl ClientCredentials {
    /// A client that shows nothing: a public one.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: ClientProof::None, method: None }
    }

    /// A client with a password.
    pub fn with_secret(id: impl Into<String>, secret: Secret) -> Self {
        Self { id: id.into(), proof: ClientProof::Secret(secret), method: None }
    }

    /// A client with a key, of which the authorization server knows the public half.
    pub fn with_key(id: impl Into<String>, key: Arc<dyn Signer>) -> Self {
        Self { id: id.into(), proof: ClientProof::Key(key), method: None }
    }
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials").field("id", &self.id).field("proof", &self.proof).finish()
    }
}

/// How a client shows that it is the one.
#[derive(Clone)]
#[non_exhaustive]
pub enum ClientProof {
    /// It does not.
    None,
    /// By a password.
    Secret(Secret),
    /// By signing (`private_key_jwt`).
    Key(Arc<dyn Signer>),
}

impl fmt::Debug for ClientProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Secret(_) => "Secret(..)",
            Self::Key(_) => "Key(..)",
        })
    }
}

/// How a client shows at a token endpoint that it is the one (RFC 7591, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthMethod {
    /// `client_secret_basic`: in a header.
    Basic,
    /// `client_secret_post`: in the form.
    Post,
    /// `none`: it says its name alone.
    None,
    /// `private_key_jwt`: by an assertion that it signs.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// As it stands in metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Basic, Self::Post, Self::None, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.as_str() == name)
    }
}

/// The key that tokens are bound to.
#[derive(Clone)]
#[non_exhaustive]
pub enum DpopKey {
    /// One that the machine makes and keeps with the tokens.
    Generated,
    /// The application's own.
    Provided(Arc<dyn Signer>),
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generated => "Generated",
            Self::Provided(_) => "Provided(..)",
        })
    }
}

/// Whether servers may do as 2025-03-26 has it.
///
/// <https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LegacyDiscovery {
    /// They may.
    #[default]
    Accepted,
    /// They must tell their authorization servers.
    Refused,
}

/// Why a configuration, or a URL with it, is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthConfigError {
    /// The server's URL is none that tokens may be sent to: `https`, or `http` on loopback.
    Server(FetchPolicyError),
    /// The resource to ask for is no URL.
    Resource,
    /// Pages would lead back over an open network: neither `https` nor loopback.
    RedirectUri,
    /// The client's metadata document is not at `https` with a path.
    ClientIdDocument,
    /// This way of asking for tokens needs credentials, and there are none.
    Credentials,
    /// The issuer of a [registration](AuthConfig::preregistrations) is no URL without user name, query and fragment.
    Issuer,
    /// The identity provider's URL is none that credentials may be sent to.
    IdentityProvider,
}

impl fmt::Display for AuthConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "no token can be sent to the server: {error}"),
            Self::Resource => f.write_str("the resource to ask for is no URL"),
            Self::RedirectUri => f.write_str("the redirect URI is neither https nor http on loopback"),
            Self::ClientIdDocument => {
                f.write_str("the URL of the client's metadata document is not https with a path")
            }
            Self::Credentials => f.write_str("clients that act for themselves need credentials"),
            Self::Issuer => f.write_str("the issuer of the client's credentials is not a URL of an issuer"),
            Self::IdentityProvider => {
                f.write_str("the identity provider is neither at https nor at http on loopback")
            }
        }
    }
}

impl core::error::Error for AuthConfigError {}
