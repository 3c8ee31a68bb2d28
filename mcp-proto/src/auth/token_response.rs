//! Responses of token endpoints.

use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::metadata::Members;
use super::sanitize;
use super::{DOCUMENT_BYTES, MetadataError, Scopes, Secret, URL_BYTES};
use crate::prelude::*;

/// How a token is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// By any bearer.
    #[default]
    Bearer,
    /// With a proof of possession of its key (RFC 9449).
    Dpop,
    /// Not at a resource: it is an assertion for another authorization server (RFC 8693, `N_A`).
    Assertion,
}

impl TokenKind {
    /// The name in token responses, and the authentication scheme.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
            Self::Assertion => "N_A",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Bearer, Self::Dpop, Self::Assertion]
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(name))
    }
}

/// A successful response of a token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenResponse {
    /// The access token.
    pub access: Secret,
    /// How the token is used.
    pub kind: TokenKind,
    /// The refresh token.
    pub refresh: Option<Secret>,
    /// The token's lifetime, counted from its request. At most ten years.
    pub lifetime: Option<Duration>,
    /// The granted scopes, if they differ from the requested ones.
    pub scope: Option<Scopes>,
    /// The type of token that a token exchange returned (RFC 8693).
    pub issued_type: Option<String>,
    /// The ID token, which names the user (OpenID Connect).
    pub id_token: Option<Secret>,
}

/// Why a token endpoint issued no token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenEndpointError {
    /// The server refused the request with an OAuth error.
    Refused {
        /// The error code, such as `invalid_grant`.
        error: String,
        /// The description of the error, sanitized for display.
        description: Option<String>,
    },
    /// The server granted the request, but its response is invalid.
    Unreadable(TokenResponseError),
    /// The server responded with this status, and without an OAuth error.
    Status(u16),
}

/// Why a successful token response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenResponseError {
    /// The response is longer than [`DOCUMENT_BYTES`](super::DOCUMENT_BYTES).
    TooLong,
    /// The response is not a JSON object.
    Json,
    /// The response is form-encoded, as of old servers.
    Form,
    /// A member occurs twice.
    Duplicate(&'static str),
    /// A member is missing.
    Missing(&'static str),
    /// A member has the wrong type, is too long, or cannot be sent in a header.
    InvalidMember(&'static str),
    /// The token's type is not supported.
    UnknownKind,
}

const NAMES: [&str; 9] = [
    "access_token",
    "token_type",
    "refresh_token",
    "expires_in",
    "scope",
    "issued_token_type",
    "id_token",
    "error",
    "error_description",
];

/// Maximum bytes of a token: more than any server accepts in a header.
const TOKEN_BYTES: usize = 64 * 1024;

/// Maximum lifetime of a token, in seconds: ten years.
const LIFETIME: u64 = 10 * 365 * 24 * 60 * 60;

/// Parses the response of a token endpoint.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::auth::{TokenKind, parse_token_response};
///
/// let granted = parse_token_response(200, br#"{"access_token": "2YotnFZFEjr1", "token_type": "bearer", "expires_in": 3600}"#)?;
/// assert_eq!((granted.kind, granted.lifetime), (TokenKind::Bearer, Some(Duration::from_secs(3600))));
///
/// let refused = parse_token_response(400, br#"{"error": "invalid_grant"}"#).unwrap_err();
/// assert!(refused.is_definitive());
/// assert!(!parse_token_response(503, b"<html>Come back later</html>").unwrap_err().is_definitive());
/// # Ok::<(), mcp_proto::auth::TokenEndpointError>(())
/// ```
///
/// # Errors
/// If the response contains no usable token.
pub fn parse_token_response(status: u16, body: &[u8]) -> Result<TokenResponse, TokenEndpointError> {
    let granted = (200..300).contains(&status);
    // An overloaded or broken server's response says nothing about the grant.
    if !granted && (!(400..500).contains(&status) || status == 429) {
        return Err(TokenEndpointError::Status(status));
    }
    match Members::parse(body, &NAMES) {
        Ok(members) => match parse_error(&members) {
            // Some servers refuse with a success status.
            Some(refusal) if !granted || members.get("access_token").is_none() => Err(refusal),
            _ if granted => parse_grant(&members).map_err(TokenEndpointError::Unreadable),
            _ => Err(TokenEndpointError::Status(status)),
        },
        Err(fault) if granted => Err(TokenEndpointError::Unreadable(match fault {
            MetadataError::Json if is_form(body) => TokenResponseError::Form,
            fault => fault.into(),
        })),
        Err(_) => Err(TokenEndpointError::Status(status)),
    }
}

/// Parses the error of a refusal: RFC 6749 section 5.2.
fn parse_error(members: &Members<'_>) -> Option<TokenEndpointError> {
    let text = |name, most| members.text(name, most).ok().flatten().and_then(|text| sanitize(&text));
    let (error, description) = (text("error", 256)?, text("error_description", DOCUMENT_BYTES));
    Some(TokenEndpointError::Refused { error, description })
}

fn parse_grant(members: &Members<'_>) -> Result<TokenResponse, TokenResponseError> {
    let access = token_member(members, "access_token")?.ok_or(MetadataError::Missing("access_token"))?;
    // The token is sent in a header, so it must not contain a separator or line break.
    if !access.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenResponseError::InvalidMember("access_token"));
    }
    let kind = members.text("token_type", 64)?.ok_or(MetadataError::Missing("token_type"))?;
    let kind = TokenKind::parse(&kind).ok_or(TokenResponseError::UnknownKind)?;
    let scope = members.text("scope", DOCUMENT_BYTES)?;
    Ok(TokenResponse {
        access,
        kind,
        refresh: token_member(members, "refresh_token")?,
        lifetime: lifetime_member(members)?,
        scope: scope.map(|scope| Scopes::parse(&scope)).filter(|scopes| !scopes.is_empty()),
        issued_type: members.text("issued_token_type", 256)?,
        id_token: token_member(members, "id_token")?,
    })
}

fn token_member(members: &Members<'_>, name: &'static str) -> Result<Option<Secret>, MetadataError> {
    Ok(members.text(name, TOKEN_BYTES)?.map(Secret::new))
}

/// The subject of an ID token that `issuer` issued. Its signature is not verified: the token came from the token
/// endpoint itself, over TLS (OpenID Connect Core, section 3.1.3.7).
pub(crate) fn id_token_subject(token: &Secret, issuer: &str) -> Option<String> {
    const NAMES: [&str; 2] = ["iss", "sub"];
    let payload = URL_SAFE_NO_PAD.decode(token.expose().split('.').nth(1)?).ok()?;
    let claims = Members::parse(&payload, &NAMES).ok()?;
    claims.text("iss", URL_BYTES).ok()?.filter(|named| named == issuer)?;
    claims.text("sub", 255).ok()?
}

/// A number of seconds, or one in a string, as some servers send it. Anything else counts as absent.
fn lifetime_member(members: &Members<'_>) -> Result<Option<Duration>, MetadataError> {
    let Some(written) = members.get("expires_in") else { return Ok(None) };
    let text = match written.as_bytes() {
        [b'"', ..] => members.text("expires_in", 64)?.unwrap_or_default(),
        [b'-' | b'0'..=b'9', ..] => String::from(written),
        _ => return Err(MetadataError::InvalidMember("expires_in")),
    };
    let plain = text.trim().bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let seconds = text.trim().parse::<f64>().ok().filter(|_| plain);
    // The conversion saturates: a negative lifetime becomes zero.
    Ok(seconds.map(|seconds| Duration::from_secs((seconds as u64).min(LIFETIME))))
}

/// Whether the body looks like `application/x-www-form-urlencoded`.
fn is_form(body: &[u8]) -> bool {
    let body = body.get(..DOCUMENT_BYTES).unwrap_or(body);
    form_urlencoded::parse(body).any(|(name, _)| name == "access_token" || name == "error")
}

impl TokenEndpointError {
    /// Whether repeating the same request is certain to fail, so that the presented grant is useless. A server that is
    /// overloaded, broken or otherwise unintelligible may succeed the next time.
    pub fn is_definitive(&self) -> bool {
        const DEFINITIVE: [&str; 8] = [
            "invalid_request",
            "invalid_client",
            "invalid_grant",
            "unauthorized_client",
            "unsupported_grant_type",
            "invalid_scope",
            "invalid_target",
            "access_denied",
        ];
        matches!(self, Self::Refused { error, .. } if DEFINITIVE.contains(&error.as_str()))
    }

    /// Whether the server asks for the same request with the nonce of its response.
    pub fn is_use_dpop_nonce(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error == "use_dpop_nonce")
    }
}

error_text! { TokenEndpointError:
    Refused { error, description: None } => "the authorization server refuses: {error}";
    Refused { error, description: Some(description) } =>
        "the authorization server refuses: {error}: {description}";
    Unreadable(fault) => "{fault}";
    Status(status) => "the token endpoint answers with status {status}";
}

error_text! { TokenResponseError:
    TooLong => "the answer of the token endpoint is too long";
    Json => "the answer of the token endpoint is no JSON object";
    Form => "the token endpoint answers with a form rather than JSON";
    Duplicate(name) => "the token endpoint says twice what {name} is";
    Missing(name) => "the answer of the token endpoint lacks {name}";
    InvalidMember(name) => "in the response of the token endpoint, {name} is invalid";
    UnknownKind => "the token is of a kind that is not known here";
}

impl From<MetadataError> for TokenResponseError {
    fn from(fault: MetadataError) -> Self {
        match fault {
            MetadataError::TooLong => Self::TooLong,
            MetadataError::Json | MetadataError::Url(_) => Self::Json,
            MetadataError::Duplicate(name) => Self::Duplicate(name),
            MetadataError::Missing(name) => Self::Missing(name),
            MetadataError::InvalidMember(name) => Self::InvalidMember(name),
        }
    }
}
