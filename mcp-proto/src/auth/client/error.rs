//! Why there is no token.

use alloc::string::String;
use core::fmt;

use crate::auth::{FetchPolicyError, MetadataError, Scopes, TokenEndpointError};

/// Why there is no token. What others wrote in it is short and fit to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthError {
    /// An exchange got no answer; whoever asked may ask again.
    Unreachable {
        /// With whom: without the query.
        url: String,
        /// What the transport knows about it.
        detail: String,
    },
    /// A document could not be had: the server answers with that status.
    Status {
        /// From where: without the query.
        url: String,
        /// The status.
        status: u16,
    },
    /// A document says nothing that can be used.
    Metadata {
        /// From where: without the query.
        url: String,
        /// What is wrong with it.
        error: MetadataError,
    },
    /// A URL that somebody named is not visited.
    UnsafeUrl {
        /// Which: without the query.
        url: String,
        /// Why.
        error: FetchPolicyError,
    },
    /// The server tells nowhere which authorization server it trusts.
    NoResourceMetadata,
    /// What is said of the resource is said of another one.
    ResourceMismatch {
        /// Which.
        resource: String,
    },
    /// The resource names no authorization server.
    NoAuthorizationServer,
    /// The metadata is of another authorization server than the one it was looked for under.
    IssuerMismatch {
        /// Whose it should be.
        expected: String,
    },
    /// Codes cannot be protected there: the authorization server does not offer PKCE with S256.
    NoPkce {
        /// Which authorization server.
        issuer: String,
    },
    /// The authorization server has no page on which a person could agree.
    NoAuthorizationEndpoint {
        /// Which authorization server.
        issuer: String,
    },
    /// This client is unknown there and cannot register by itself: someone has to give it credentials.
    NotRegistered {
        /// Which authorization server.
        issuer: String,
    },
    /// The server trusts another authorization server now than the one that this client has credentials of.
    RegisteredElsewhere {
        /// Which it trusts now.
        issuer: String,
    },
    /// The authorization server does not register this client.
    RegistrationRefused {
        /// The status of its answer.
        status: u16,
        /// The code, as `invalid_redirect_uri`.
        error: Option<String>,
        /// The same for people.
        description: Option<String>,
    },
    /// The person did not agree, or the authorization server did not let them.
    Denied {
        /// The code, as `access_denied`.
        error: String,
        /// The same for people.
        description: Option<String>,
    },
    /// Where the page led is not of the authorization server that it belonged to. What it says is not shown.
    RedirectIssuerMismatch,
    /// Where the page led has neither a code nor an error.
    NoCode,
    /// Nobody agreed in time.
    PageTimedOut,
    /// The application gave the page up.
    PageCancelled,
    /// Somebody has to agree on a page, to these scopes as far as they are known, and [nobody is
    /// there](super::LoginMode::NonInteractive).
    LoginRequired {
        /// What there has to be agreed to.
        scopes: Option<Scopes>,
    },
    /// The token endpoint does not give a token.
    Token(TokenEndpointError),
    /// The token that came is of no use here.
    UnusableToken,
    /// Tokens have to be bound to a key there, and this client is configured not to.
    DpopRequired,
    /// The server refuses what it has just been shown.
    StillRefused {
        /// The status.
        status: u16,
    },
    /// The token allows what the server asks for, as far as anyone said, and it refuses all the same; or it asks for
    /// more each time.
    InsufficientScope {
        /// What it asks for.
        scopes: Option<Scopes>,
    },
    /// The server refuses, and no token would help.
    Forbidden,
    /// The host has no assertion.
    Assertion(String),
    /// What is kept cannot be read or written.
    Store(String),
    /// A key could not be used.
    Key,
    /// Meanwhile everything was forgotten.
    LoggedOut,
}

impl AuthError {
    /// Whether the same may go well later, with nobody doing anything about it.
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
            Self::Metadata { url, error } => write!(f, "{url} is of no use: {error}"),
            Self::UnsafeUrl { url, error } => write!(f, "{url} is not visited: {error}"),
            Self::NoResourceMetadata => {
                f.write_str("the server does not tell which authorization server it trusts")
            }
            Self::ResourceMismatch { resource } => {
                write!(f, "the server's metadata is about another resource: {resource}")
            }
            Self::NoAuthorizationServer => f.write_str("the server trusts no authorization server"),
            Self::IssuerMismatch { expected } => {
                write!(f, "the metadata found for {expected} is of another authorization server")
            }
            Self::NoPkce { issuer } => write!(f, "{issuer} does not offer PKCE with S256"),
            Self::NoAuthorizationEndpoint { issuer } => {
                write!(f, "{issuer} has no page on which anyone could agree")
            }
            Self::NotRegistered { issuer } => {
                write!(f, "this client is not known at {issuer} and cannot register there by itself")
            }
            Self::RegisteredElsewhere { issuer } => {
                write!(f, "the server trusts {issuer} now, and this client's credentials are of another")
            }
            Self::RegistrationRefused { status, error, description } => {
                write!(f, "the authorization server does not register this client: ")?;
                match error {
                    Some(error) => f.write_str(error)?,
                    None => write!(f, "status {status}")?,
                }
                write_description(f, description)
            }
            Self::Denied { error, description } => {
                write!(f, "the authorization server refuses: {error}")?;
                write_description(f, description)
            }
            Self::RedirectIssuerMismatch => {
                f.write_str("the answer is not of the authorization server that was asked")
            }
            Self::NoCode => f.write_str("the answer of the authorization server has no code"),
            Self::PageTimedOut => f.write_str("nobody agreed in time"),
            Self::PageCancelled => f.write_str("the authorization was given up"),
            Self::LoginRequired { scopes: None } => f.write_str("somebody has to agree first"),
            Self::LoginRequired { scopes: Some(scopes) } => {
                write!(f, "somebody has to agree first, to {scopes}")
            }
            Self::Token(refusal) => refusal.fmt(f),
            Self::UnusableToken => f.write_str("the authorization server gave a token of another kind"),
            Self::DpopRequired => f.write_str("the server wants tokens that are bound to a key"),
            Self::StillRefused { status } => {
                write!(f, "the server refuses a token that was just issued, with status {status}")
            }
            Self::InsufficientScope { scopes: Some(scopes) } => {
                write!(f, "the server wants a token that allows more: {scopes}")
            }
            Self::InsufficientScope { scopes: None } => {
                f.write_str("the server wants a token that allows more")
            }
            Self::Forbidden => f.write_str("the server refuses, whoever asks"),
            Self::Assertion(detail) => write!(f, "there is no assertion: {detail}"),
            Self::Store(detail) => write!(f, "what is kept cannot be had: {detail}"),
            Self::Key => f.write_str("a key could not be used"),
            Self::LoggedOut => f.write_str("meanwhile somebody logged out"),
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

/// Why where a page led is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishError {
    /// No page is open.
    NoPage,
    /// It is the answer to another page, or to none: this one stays open.
    StateMismatch,
    /// It ends the authorization, as [`Event::Failed`](super::Event::Failed) tells too.
    Failed(AuthError),
}

impl fmt::Display for FinishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPage => f.write_str("no page is open"),
            Self::StateMismatch => f.write_str("this is no answer to the page that is open"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FinishError {}
