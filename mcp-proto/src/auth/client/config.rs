//! Configuration of the client.

use alloc::sync::Arc;
use core::time::Duration;

use iri_string::types::UriStr;

use crate::auth::{
    DOCUMENT_BYTES, FetchPolicy, FetchPolicyError, IssuerMatch, PrivateNetworks, Scopes, Secret,
    ServerMetadata, Signer, canonical_resource, check_page_url, fetch,
};
use crate::prelude::*;
use crate::schema::{ENTERPRISE_MANAGED_AUTHORIZATION, OAUTH_CLIENT_CREDENTIALS};
use crate::url::parse_host;

config! {
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
        /// How tokens are requested. Default: the user authorizes the client on a page.
        pub grant: Grant = Grant::AuthorizationCode,
        /// Whether a user can authorize the client. Default: yes.
        pub login_mode: LoginMode = LoginMode::Interactive,
        /// The client's metadata for dynamic registration.
        pub client: ClientInfo = ClientInfo::new(name),
        /// The registrations that this client has already. If there are any, authorization servers without one are not
        /// contacted, as they would learn credentials of another. Default: none.
        pub preregistrations: Vec<Preregistration> = Vec::new(),
        /// The URL of this client's own metadata document, which is its id at every authorization server that supports
        /// such documents. It must be `https` with a path. Default: none.
        pub client_id_document: Option<String> = None,
        /// The redirect URI of authorization pages: `https`, or `http` on loopback.
        pub redirect_uri: String = redirect_uri.into(),
        /// Whether issuers get redirect URIs of their own below that one. Default: they share it.
        pub redirect_paths: RedirectPaths = RedirectPaths::Shared,
        /// The resource to request tokens for, instead of the one in the server's metadata or the server's URL: a URL
        /// without fragment. Metadata that names this resource is accepted, whatever the server's URL is. Default:
        /// none.
        pub resource: Option<String> = None,
        /// Whether the server's metadata may name its URL with one slash more or less at the end. Default: it may, and
        /// [`Event::Tolerated`](super::Event::Tolerated) says so.
        pub trailing_slash: TrailingSlash = TrailingSlash::Accepted,
        /// The scopes to request when a challenge names none, instead of all that the server's metadata lists. Scopes
        /// that challenges name are requested in addition. Default: none.
        pub scopes: Option<Scopes> = None,
        /// The issuers that demand the granted scopes in each renewal of a token, such as Microsoft Entra; others need
        /// none (RFC 6749, section 6). Default: none.
        pub refresh_scope_issuers: Vec<String> = Vec::new(),
        /// The key that tokens may be bound to (RFC 9449). They are bound where the server requires it or the
        /// authorization server supports it. Default: none.
        pub dpop: Option<DpopKey> = None,
        /// How the issuer in metadata is compared with the expected one. Default: exactly.
        pub issuer_match: IssuerMatch = IssuerMatch::Exact,
        /// The only hosts, beside the server's own, that the client contacts to log in, and at which it opens a page:
        /// those of issuers, of the URLs in metadata, and of redirects. Each is a name or an address, without a port.
        ///
        /// Default: any public host, as servers may delegate logins to any
        /// ([RFC 9728](https://www.rfc-editor.org/rfc/rfc9728)). Another host ends the login with
        /// [`UnsafeUrl`](super::AuthError::UnsafeUrl), and nothing was sent to it.
        ///
        /// ```
        /// use mcp_proto::auth::client::AuthConfig;
        ///
        /// let mut config = AuthConfig::new("my host", "http://127.0.0.1/callback");
        /// config.allowed_hosts = Some(vec!["login.example.com".into()]);
        /// ```
        ///
        /// <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>
        pub allowed_hosts: Option<Vec<String>> = None,
        /// Whether URLs in metadata may be in private networks. Default: no.
        pub private_networks: PrivateNetworks = PrivateNetworks::Refused,
        /// Whether servers may behave as in 2025-03-26: without resource metadata, and with an authorization server at
        /// their own origin. Default: yes.
        pub legacy_discovery: LegacyDiscovery = LegacyDiscovery::Accepted,
        /// Timeout of an exchange with an authorization server. Default 15 s: a user may be waiting.
        pub exchange_timeout: Duration = Duration::from_secs(15),
        /// Maximum bytes of a document. Default 256 KiB.
        pub document_bytes: usize = DOCUMENT_BYTES,
    }

    /// The default configuration of a client called `name`, with this redirect URI.
    pub fn new(name: impl Into<String>, redirect_uri: impl Into<String>);
}

impl AuthConfig {
    /// Adds the id of a public client: one that was registered beforehand and has no secret.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.preregistrations.push(Preregistration::public(id));
        self
    }

    /// Adds an id and a secret that `issuer` issued. They are sent only to the endpoints of that issuer; if discovery
    /// finds another, the login ends with [`RegisteredElsewhere`](super::AuthError::RegisteredElsewhere) before
    /// anything is sent.
    #[must_use]
    pub fn client_secret(mut self, issuer: impl Into<String>, id: impl Into<String>, secret: Secret) -> Self {
        self.preregistrations
            .push(Preregistration::for_issuer(issuer, ClientCredentials::with_secret(id, secret)));
        self
    }

    /// Adds an id that `issuer` issued, and the key that signs its assertions (`private_key_jwt`). As with
    /// [`client_secret`](Self::client_secret), no other issuer gets an assertion.
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
        let mut issuers = self
            .preregistrations
            .iter()
            .filter_map(Preregistration::issuer)
            .chain(self.refresh_scope_issuers.iter().map(String::as_str));
        if issuers.any(|issuer| !is_issuer(issuer)) {
            return Err(AuthConfigError::Issuer);
        }
        if self.allowed_hosts.iter().flatten().any(|host| parse_host(host).is_err()) {
            return Err(AuthConfigError::AllowedHost);
        }
        //= C12.11 "no fragment"
        if let Some(resource) = &self.resource
            && (canonical_resource(resource).is_err() || resource.contains('#'))
        {
            return Err(AuthConfigError::Resource);
        }
        if let Some(url) = &self.client_id_document {
            let path = UriStr::new(url).ok().filter(|url| url.scheme_str() == "https").map(UriStr::path_str);
            //= C12.18 "CIMD: https URL with path"
            if path.is_none_or(|path| path.len() < 2) || url.contains('#') {
                return Err(AuthConfigError::ClientIdDocument);
            }
        }
        match &self.grant {
            Grant::AuthorizationCode => {
                //= C12.23 "redirect URIs loopback or https"
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

/// Whether each issuer gets a redirect URI of its own.
///
/// An issuer that does not name itself in redirects (`iss`, RFC 9207) can be impersonated by another one that forwards
/// the browser to it (a mix-up attack). A redirect URI that no other issuer knows identifies the issuer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RedirectPaths {
    /// All issuers share one redirect URI.
    #[default]
    Shared,
    /// Dynamic registration with an issuer that does not announce `iss` adds a segment to the path that is unique to the
    /// issuer. The host must serve every path below the redirect URI, and pass
    /// [`Redirect::parse`](super::Redirect::parse) the URL rather than the query alone: a redirect without `iss` to any
    /// other path ends the login with [`RedirectIssuerMismatch`](super::AuthError::RedirectIssuerMismatch).
    PerIssuer,
}

/// Whether the resource in the server's metadata may differ from its URL by a trailing slash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrailingSlash {
    /// It may, as is common.
    #[default]
    Accepted,
    /// It may not: RFC 9728, section 3.3.
    Refused,
}

/// Whether a user can authorize the client on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoginMode {
    /// Yes.
    #[default]
    Interactive,
    /// No. Stored tokens are used and renewed. An operation that needs a page fails with
    /// [`LoginRequired`](super::AuthError::LoginRequired), before any registration.
    NonInteractive,
}

/// How tokens are requested.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Grant {
    /// The user authorizes the client on a page (the authorization code grant with PKCE).
    #[default]
    AuthorizationCode,
    /// This client acts on its own behalf, with its own credentials.
    ///
    /// <https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials>
    ClientCredentials,
    /// An identity provider decides: it exchanges the host's assertion about the user for an assertion that the
    /// authorization server accepts.
    ///
    /// <https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization>
    Enterprise(IdentityProvider),
    /// The host has an assertion that the authorization server accepts (RFC 7523), as workloads do. A refused assertion
    /// is not tried again.
    JwtBearer,
}

impl Grant {
    /// The identifier of the extension that defines the grant, if an extension does. A client with this grant declares
    /// it among its [extensions](crate::schema::Extension), without settings.
    pub fn extension(&self) -> Option<&'static str> {
        match self {
            //= C14.12 "Declare `io.modelcontextprotocol/oauth-client-credentials` on each request"
            Self::ClientCredentials => Some(OAUTH_CLIENT_CREDENTIALS),
            //= C14.13 "Declare `io.modelcontextprotocol/enterprise-managed-authorization` on each request"
            Self::Enterprise(_) => Some(ENTERPRISE_MANAGED_AUTHORIZATION),
            Self::AuthorizationCode | Self::JwtBearer => None,
        }
    }
}

/// The identity provider of [`Grant::Enterprise`].
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    /// The provider's location.
    pub location: ProviderLocation,
    /// This client's credentials at the provider.
    pub credentials: ClientCredentials,
    /// The kind of the host's assertions.
    pub subject: SubjectKind,
}

/// The location of an identity provider.
#[derive(Clone, Debug)]
pub enum ProviderLocation {
    /// Its issuer, whose metadata names the endpoint.
    Issuer(String),
    /// Its token endpoint.
    TokenEndpoint(String),
}

/// The kind of an assertion about a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SubjectKind {
    /// An OpenID Connect ID token.
    #[default]
    IdToken,
    /// A SAML 2 assertion.
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

/// The client's metadata for dynamic registration (RFC 7591).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The name for display.
    pub name: String,
    /// The URL of its home page.
    pub uri: Option<String>,
    /// The URL of its logo.
    pub logo: Option<String>,
    /// The kind of application.
    pub application_type: ApplicationType,
}

impl ClientInfo {
    /// A native application called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), uri: None, logo: None, application_type: ApplicationType::Native }
    }
}

/// The kind of application, which determines the redirect URIs that an authorization server accepts.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ApplicationType {
    /// It runs on the user's machine, with a redirect URI on loopback.
    #[default]
    Native,
    /// It runs on a web server.
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

/// The credentials of a client that is already registered at an authorization server.
///
/// Credentials with a secret or a key name their issuer: a server names its authorization servers itself, and could
/// otherwise have the secret sent to one of its choice.
#[derive(Clone, Debug)]
pub struct Preregistration {
    issuer: Option<String>,
    credentials: ClientCredentials,
}

impl Preregistration {
    /// The id of a public client. It is pinned to the first authorization server that it is used with.
    pub fn public(id: impl Into<String>) -> Self {
        Self { issuer: None, credentials: ClientCredentials::new(id) }
    }

    /// Credentials that `issuer` issued. Issuers are compared according to [`AuthConfig::issuer_match`].
    pub fn for_issuer(issuer: impl Into<String>, credentials: ClientCredentials) -> Self {
        Self { issuer: Some(issuer.into()), credentials }
    }

    /// The issuer of the credentials. `None` for a public client that may be used with any one issuer.
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// The credentials.
    pub fn credentials(&self) -> &ClientCredentials {
        &self.credentials
    }
}

/// Whether this is a valid issuer: a URL without user name, query and fragment (RFC 8414, section 2).
fn is_issuer(url: &str) -> bool {
    fetch::parse_url(url)
        .is_ok_and(|parts| parts.user.is_none() && parts.query.is_none() && !parts.has_fragment)
}

/// A client id, and the proof of identity that goes with it.
#[derive(Clone, Debug)]
pub struct ClientCredentials {
    /// The client id.
    pub id: String,
    /// The proof of identity.
    pub proof: ClientProof,
    /// The authentication method. Default: chosen by the authorization server's metadata.
    pub method: Option<AuthMethod>,
}

impl ClientCredentials {
    /// A public client, which has no proof.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: ClientProof::None, method: None }
    }

    /// A client with a secret.
    pub fn with_secret(id: impl Into<String>, secret: Secret) -> Self {
        Self { proof: ClientProof::Secret(secret), ..Self::new(id) }
    }

    /// A client with a key whose public half the authorization server knows.
    pub fn with_key(id: impl Into<String>, key: Arc<dyn Signer>) -> Self {
        Self { proof: ClientProof::Key(key), ..Self::new(id) }
    }
}

/// How a client proves its identity.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientProof {
    /// Not at all.
    None,
    /// By a secret.
    Secret(Secret),
    /// By a signature (`private_key_jwt`).
    Key(Arc<dyn Signer>),
}

/// A client authentication method of token endpoints (RFC 7591, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AuthMethod {
    /// `client_secret_basic`: in a header.
    Basic,
    /// `client_secret_post`: in the form.
    Post,
    /// `none`: the id alone.
    None,
    /// `private_key_jwt`: a signed assertion.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// The name in metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// Whether the server supports it, or `unnamed` if it names no methods.
    pub(super) fn is_supported(self, server: &ServerMetadata, unnamed: bool) -> bool {
        let known = server.token_auth_methods.as_ref();
        known.map_or(unnamed, |known| known.iter().any(|name| name == self.as_str()))
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Basic, Self::Post, Self::None, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.as_str() == name)
    }
}

/// The key that tokens are bound to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DpopKey {
    /// A key that the machine generates and stores with the tokens.
    Generated,
    /// The application's own key.
    Provided(Arc<dyn Signer>),
}

/// Whether servers may behave as in 2025-03-26.
///
/// <https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LegacyDiscovery {
    /// They may.
    #[default]
    Accepted,
    /// They must have resource metadata.
    Refused,
}

/// Why a configuration, or the server's URL, is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthConfigError {
    /// Tokens may not be sent to the server's URL: it must be `https`, or `http` on loopback.
    Server(FetchPolicyError),
    /// The configured resource is not a URL, or has a fragment.
    Resource,
    /// The redirect URI is neither `https` nor `http` on loopback.
    RedirectUri,
    /// The URL of the client's metadata document is not `https` with a path.
    ClientIdDocument,
    /// The grant needs credentials, and there are none.
    Credentials,
    /// The issuer of a [registration](AuthConfig::preregistrations), or one of those that [demand
    /// scopes](AuthConfig::refresh_scope_issuers), is not a URL without user name, query and fragment.
    Issuer,
    /// Credentials may not be sent to the identity provider's URL.
    IdentityProvider,
    /// One of the [allowed hosts](AuthConfig::allowed_hosts) is not a host, but a URL, say.
    AllowedHost,
}

error_text! { AuthConfigError:
    Server(error) => "tokens may not be sent to the server: {error}";
    Resource => "the configured resource is not a URL without a fragment";
    RedirectUri => "the redirect URI is neither https nor http on loopback";
    ClientIdDocument => "the URL of the client's metadata document is not https with a path";
    Credentials => "the client credentials grant needs credentials: call `AuthConfig::client_secret`";
    Issuer => "an issuer of the configuration is not a URL without user name, query and fragment";
    IdentityProvider => "the identity provider is neither at https nor at http on loopback";
    AllowedHost => "an allowed host is not a name or an address without a port";
}
