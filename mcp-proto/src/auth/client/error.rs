//! Errors of authorization.

use core::fmt;

use crate::auth::{FetchPolicyError, MetadataError, Scopes, TokenEndpointError};
use crate::prelude::*;

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
    /// The login was finished before, by this or another process.
    LoginUsed,
    /// The login was finished too late, or too many were within ten minutes: begin another one.
    LoginRefused,
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

error_text! { AuthError:
    Unreachable { url, detail } => "no answer from {url}: {detail}";
    Status { url, status } => "{url} answers with status {status}";
    Metadata { url, error } => "the document at {url} is invalid: {error}";
    UnsafeUrl { url, error } => "{url} is unsafe: {error}";
    NoResourceMetadata => "the server does not name its authorization server";
    ResourceMismatch { resource } => "the server's metadata describes another resource: {resource}";
    NoAuthorizationServer => "the server's metadata names no authorization server";
    IssuerMismatch { expected } => "the metadata at {expected} names another issuer";
    NoPkce { issuer } => "{issuer} does not support PKCE with S256";
    NoAuthorizationEndpoint { issuer } => "{issuer} has no authorization page";
    NotRegistered { issuer } =>
        "this client is not registered at {issuer}, which has no dynamic registration";
    RegisteredElsewhere { issuer } =>
        "the server trusts {issuer}, which did not issue this client's credentials";
    RegistrationRefused { status, error: None, description } =>
        "the authorization server refused to register this client: status {status}{}", Suffix(description);
    RegistrationRefused { error: Some(error), description, .. } =>
        "the authorization server refused to register this client: {error}{}", Suffix(description);
    Denied { error, description } => "the authorization was denied: {error}{}", Suffix(description);
    RedirectIssuerMismatch => "the redirect is not of the page's authorization server";
    NoCode => "the redirect of the authorization server has no code";
    PageTimedOut => "the login was not finished in time";
    PageCancelled => "the login was cancelled";
    LoginRequired { scopes: None } => "login required";
    LoginRequired { scopes: Some(scopes) } => "login required, for {scopes}";
    Token(refusal) => "{refusal}";
    UnusableToken => "the authorization server issued a token of another kind";
    DpopRequired => "the server requires tokens that are bound to a key";
    StillRefused { status } =>
        "the server refuses a token that was just issued, with status {status}";
    InsufficientScope { scopes: None } => "the server requires a token with more scopes";
    InsufficientScope { scopes: Some(scopes) } =>
        "the server requires a token with more scopes: {scopes}";
    Forbidden => "the server refuses the request with any token";
    Assertion(detail) => "the host has no assertion: {detail}";
    Store(detail) => "the token store failed: {detail}";
    Key => "a key could not be used to sign";
    LoggedOut => "logged out meanwhile";
    LoginUsed => "this login was finished before: begin another one";
    LoginRefused => "this login has expired, or too many were finished within ten minutes: begin another one";
}

/// The description of an error behind its code.
struct Suffix<'a>(&'a Option<String>);

impl fmt::Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|description| write!(f, ": {description}"))
    }
}

/// Why a redirect is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishError {
    /// No page is open.
    NoPage,
    /// The redirect is of another page. The open page stays open, and a [stored login](super::PendingLogin) usable.
    StateMismatch,
    /// The stored login is not one of this server and resource, or was not sealed with these keys for
    /// this session.
    OtherLogin,
    /// The stored login has expired.
    Expired,
    /// Another operation is in progress: finish the stored login after its end.
    Busy,
    /// The authorization failed: [`Event::Failed`](super::Event::Failed) reports it too.
    Failed(AuthError),
}

error_text! { FinishError:
    NoPage => "no page is open";
    StateMismatch => "the redirect is not of this page";
    OtherLogin => "the login is not one of this server and of this session: begin another one";
    Expired => "the login was not finished in time: begin another one";
    Busy => "another operation with the tokens is in progress";
    Failed(error) => "{error}";
}
