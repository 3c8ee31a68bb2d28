//! Errors of authorization.

use alloc::string::String;
use core::fmt;

use crate::auth::{FetchPolicyError, MetadataError, Scopes, TokenEndpointError};

/// Why there is no token. Texts of other parties in it are shortened and safe to display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthError {
    /// An exchange got no response. It may be tried again.
    Unreachable {
        /// The URL, without its query.
        url: String,
        /// The transport's description of the failure.
        detail: String,
    },
    /// A document could not be fetched: the server answers with this status.
    Status {
        /// The URL, without its query.
        url: String,
        /// The status.
        status: u16,
    },
    /// A document is invalid.
    Metadata {
        /// The URL, without its query.
        url: String,
        /// The error in the document.
        error: MetadataError,
    },
    /// A URL from another party is unsafe, and nothing was sent to it.
    UnsafeUrl {
        /// The URL, without its query.
        url: String,
        /// Why it is unsafe.
        error: FetchPolicyError,
    },
    /// The server has no metadata that names its authorization server.
    NoResourceMetadata,
    /// The server's metadata describes another resource.
    ResourceMismatch {
        /// The resource that it describes.
        resource: String,
    },
    /// The server's metadata names no authorization server.
    NoAuthorizationServer,
    /// The metadata at an authorization server's URL names another issuer.
    IssuerMismatch {
        /// The issuer that it should name.
        expected: String,
    },
    /// The authorization server does not support PKCE with S256, which protects codes.
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// The authorization server has no authorization page.
    NoAuthorizationEndpoint {
        /// The authorization server.
        issuer: String,
    },
    /// This client has no registration at the authorization server and cannot register dynamically: configure its
    /// credentials.
    NotRegistered {
        /// The authorization server.
        issuer: String,
    },
    /// The server trusts another authorization server than the one that issued this client's credentials.
    RegisteredElsewhere {
        /// The authorization server that it trusts.
        issuer: String,
    },
    /// The authorization server refused to register this client.
    RegistrationRefused {
        /// The status of its response.
        status: u16,
        /// The error code, such as `invalid_redirect_uri`.
        error: Option<String>,
        /// Its description.
        description: Option<String>,
    },
    /// The user or the authorization server denied the authorization.
    Denied {
        /// The error code, such as `access_denied`.
        error: String,
        /// Its description.
        description: Option<String>,
    },
    /// The redirect is not of the page's authorization server. Its contents are withheld.
    RedirectIssuerMismatch,
    /// The redirect has neither a code nor an error.
    NoCode,
    /// The user did not finish the authorization in time.
    PageTimedOut,
    /// The application closed the page.
    PageCancelled,
    /// The user must log in, which the configuration [rules out](super::LoginMode::NonInteractive).
    LoginRequired {
        /// The scopes to authorize, if known.
        scopes: Option<Scopes>,
    },
    /// The token endpoint refused to issue a token.
    Token(TokenEndpointError),
    /// The issued token is of a kind that cannot be used.
    UnusableToken,
    /// The server requires tokens that are bound to a key, and the client's configuration does not allow them.
    DpopRequired,
    /// The server refuses a token that was just issued.
    StillRefused {
        /// The status.
        status: u16,
    },
    /// The server demands scopes that the token has already, or demands more scopes each time.
    InsufficientScope {
        /// The demanded scopes.
        scopes: Option<Scopes>,
    },
    /// The server refuses the request with any token.
    Forbidden,
    /// The host has no assertion, for this reason.
    Assertion(String),
    /// The store failed to read or write the record.
    Store(String),
    /// A key could not be used to sign.
    Key,
    /// A logout ended the operation.
    LoggedOut,
}

impl AuthError {
    /// Whether a later attempt may succeed without any change.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Store(_) => true,
            Self::Status { status, .. } | Self::Token(TokenEndpointError::Status(status)) => {
                *status >= 500 || *status == 429
            }
            _ => false,
        }
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { url, detail } => write!(f, "no answer from {url}: {detail}"),
            Self::Status { url, status } => write!(f, "{url} answers with status {status}"),
            Self::Metadata { url, error } => write!(f, "the document at {url} is invalid: {error}"),
            Self::UnsafeUrl { url, error } => write!(f, "{url} is unsafe: {error}"),
            Self::NoResourceMetadata => f.write_str("the server does not name its authorization server"),
            Self::ResourceMismatch { resource } => {
                write!(f, "the server's metadata describes another resource: {resource}")
            }
            Self::NoAuthorizationServer => f.write_str("the server's metadata names no authorization server"),
            Self::IssuerMismatch { expected } => {
                write!(f, "the metadata at {expected} names another issuer")
            }
            Self::NoPkce { issuer } => write!(f, "{issuer} does not support PKCE with S256"),
            Self::NoAuthorizationEndpoint { issuer } => {
                write!(f, "{issuer} has no authorization page")
            }
            Self::NotRegistered { issuer } => {
                write!(f, "this client is not registered at {issuer}, which has no dynamic registration")
            }
            Self::RegisteredElsewhere { issuer } => {
                write!(f, "the server trusts {issuer}, which did not issue this client's credentials")
            }
            Self::RegistrationRefused { status, error, description } => {
                write!(f, "the authorization server refused to register this client: ")?;
                match error {
                    Some(error) => f.write_str(error)?,
                    None => write!(f, "status {status}")?,
                }
                write_description(f, description)
            }
            Self::Denied { error, description } => {
                write!(f, "the authorization was denied: {error}")?;
                write_description(f, description)
            }
            Self::RedirectIssuerMismatch => {
                f.write_str("the redirect is not of the page's authorization server")
            }
            Self::NoCode => f.write_str("the redirect of the authorization server has no code"),
            Self::PageTimedOut => f.write_str("the login was not finished in time"),
            Self::PageCancelled => f.write_str("the login was cancelled"),
            Self::LoginRequired { scopes: None } => f.write_str("login required"),
            Self::LoginRequired { scopes: Some(scopes) } => {
                write!(f, "login required, for {scopes}")
            }
            Self::Token(refusal) => refusal.fmt(f),
            Self::UnusableToken => f.write_str("the authorization server issued a token of another kind"),
            Self::DpopRequired => f.write_str("the server requires tokens that are bound to a key"),
            Self::StillRefused { status } => {
                write!(f, "the server refuses a token that was just issued, with status {status}")
            }
            Self::InsufficientScope { scopes: Some(scopes) } => {
                write!(f, "the server requires a token with more scopes: {scopes}")
            }
            Self::InsufficientScope { scopes: None } => {
                f.write_str("the server requires a token with more scopes")
            }
            Self::Forbidden => f.write_str("the server refuses the request with any token"),
            Self::Assertion(detail) => write!(f, "the host has no assertion: {detail}"),
            Self::Store(detail) => write!(f, "the token store failed: {detail}"),
            Self::Key => f.write_str("a key could not be used to sign"),
            Self::LoggedOut => f.write_str("logged out meanwhile"),
        }
    }
}

fn write_description(f: &mut fmt::Formatter<'_>, description: &Option<String>) -> fmt::Result {
    match description {
        Some(description) => write!(f, ": {description}"),
        None => Ok(()),
    }
}

impl core::error::Error for AuthError {}

/// Why a redirect is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishError {
    /// No page is open.
    NoPage,
    /// The redirect is of another page. The open page stays open.
    StateMismatch,
    /// The authorization failed: [`Event::Failed`](super::Event::Failed) reports it too.
    Failed(AuthError),
}

impl fmt::Display for FinishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPage => f.write_str("no page is open"),
            Self::StateMismatch => f.write_str("the redirect is not of the open page"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FinishError {}
