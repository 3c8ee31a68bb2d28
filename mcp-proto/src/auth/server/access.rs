//! The token that a request presents, the access that it grants, and the reasons to refuse it.

use core::time::Duration;

use serde::Deserialize;

use crate::UnixTime;
use crate::auth::{Now, Scopes, Secret, TokenKind};
use crate::peer::Principal;
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::ErrorId;
use crate::schema::Json;
use crate::transport::http::read_headers;
use crate::transport::http::server::RequestHead;

//= S10.7 "No acceptance or passthrough of foreign tokens"
//= S9.5 "no token passthrough"
/// The access that a token grants, as its verifier determined. It does not contain the token itself.
///
/// ```
/// use mcp_proto::auth::Scopes;
/// use mcp_proto::auth::server::Access;
/// use mcp_proto::peer::Principal;
///
/// let mut access = Access::new(Principal::new("https://login.example#ada"), "https://mcp.example/mcp");
/// access.scopes = Scopes::parse("files:read");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Access {
    /// The principal of requests with this token.
    pub principal: Principal,
    /// The resources that the token was issued for. One of them must be this server.
    pub audiences: Vec<String>,
    /// The granted scopes. Default: none.
    pub scopes: Scopes,
    /// The client that the token was issued to.
    pub client_id: Option<String>,
    /// When the token expires. Default: unknown.
    pub expires: Option<UnixTime>,
    /// The thumbprint of the key that the token is bound to (RFC 9449): requests must prove that they hold that key.
    /// Default: the token is not bound to a key.
    pub key: Option<String>,
    /// The issuer's further claims, as an object.
    pub claims: Json,
}

impl Access {
    /// Access of `principal`, by a token that was issued for `audience`: a resource as named in
    /// [`Protection`](super::Protection::new).
    pub fn new(principal: Principal, audience: impl Into<String>) -> Self {
        Self {
            principal,
            audiences: [audience.into()].into(),
            scopes: Scopes::default(),
            client_id: None,
            expires: None,
            key: None,
            claims: Json::empty_object(),
        }
    }
}

debug_fields! { Access { principal, audiences, scopes, client_id, expires } }

/// A presented token, with the parts of its request that its verification needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PresentedToken {
    /// The token.
    pub token: Secret,
    /// How the token is presented.
    pub kind: TokenKind,
    /// The method of the request.
    pub method: String,
    /// The path of the request, without its query.
    pub path: String,
    /// When the request arrived.
    pub received: Now,
    /// The owner whose quota the verification uses: the address that the request came from.
    pub owner: QuotaOwner,
    /// The proof of possession of the token's key.
    pub(super) proof: Option<Secret>,
    /// The id of an error that answers the request.
    pub(super) error_id: ErrorId<'static>,
}

impl PresentedToken {
    /// Reads the token from a request's head.
    pub(super) fn from_head(
        head: &RequestHead<'_>,
        unnamed: ErrorId<'static>,
        now: Now,
    ) -> Result<Self, AccessError> {
        let (path, query) = head.path.split_once('?').unwrap_or((head.path, ""));
        if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token") {
            return Err(AccessError::Malformed("a token belongs in the header, never in the URL"));
        }
        let [authorization, dpop] = read_headers(head.fields, ["authorization", "dpop"]);
        if !authorization.others.is_empty() {
            return Err(AccessError::Malformed("there is more than one authorization header"));
        }
        let value = authorization.first.ok_or(AccessError::NoToken)?;
        let malformed = AccessError::Malformed("the authorization header is not a scheme and a token");
        let Ok(value) = core::str::from_utf8(value).map(str::trim) else { return Err(malformed) };
        let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
        // RFC 9110, section 11.6.1: this server supports no other scheme, so there is no token.
        let kind = TokenKind::parse(scheme).filter(|kind| *kind != TokenKind::Assertion);
        let (kind, token) = (kind.ok_or(AccessError::NoToken)?, token.trim_start());
        if !is_token(token) {
            return Err(malformed);
        }
        if kind == TokenKind::Dpop && !dpop.others.is_empty() {
            return Err(AccessError::Proof("there is more than one proof".into()));
        }
        let proof = dpop.first.and_then(|proof| core::str::from_utf8(proof).ok()).map(Secret::new);
        Ok(Self {
            token: Secret::new(token),
            kind,
            method: head.method.into(),
            path: path.into(),
            received: now,
            owner: head.owner(None),
            proof,
            error_id: unnamed,
        })
    }
}

/// `token68` of RFC 9110, section 11.2.
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !body.is_empty() && body.bytes().all(allowed)
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AccessError {
    /// The request has no token.
    NoToken,
    /// The request's authorization is malformed.
    Malformed(&'static str),
    /// The token is invalid.
    Token { kind: TokenKind, why: String },
    /// The proof of possession is invalid.
    Proof(String),
    /// The proof needs this nonce.
    Nonce(String),
    /// The token lacks scopes that every request needs.
    Scope { kind: TokenKind },
    /// The token or its proof cannot be verified at present.
    Unavailable,
    /// The owner has too many tokens under verification, or too many recorded proofs.
    OverQuota,
}

impl AccessError {
    //= S10.3 "401 no/invalid token, 403 insufficient scope, 400 malformed"
    /// The status, the error code and the description of the response.
    pub(super) fn parts(&self) -> (u16, Option<&'static str>, &str) {
        match self {
            // RFC 6750, section 3.1: a request without credentials gets no error code.
            Self::NoToken => (401, None, "a token is needed"),
            Self::Malformed(what) => (400, Some("invalid_request"), what),
            Self::Token { why, .. } => (401, Some("invalid_token"), why),
            Self::Proof(why) => (401, Some("invalid_dpop_proof"), why),
            Self::Nonce(_) => {
                (401, Some("use_dpop_nonce"), "the proof needs the nonce that comes with this answer")
            }
            Self::Scope { .. } => (403, Some("insufficient_scope"), "the token is not good for this"),
            Self::Unavailable => (503, None, "tokens cannot be checked at the moment"),
            Self::OverQuota => (429, None, "too many requests are being authenticated for you"),
        }
    }
}

/// The claims of a signed token (RFC 9068, section 2.2), or those in a response about a token (RFC 7662, section 2.2).
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: Option<String>,
    sub: Option<String>,
    #[serde(default)]
    aud: OneOrMany,
    pub(super) exp: Option<f64>,
    pub(super) nbf: Option<f64>,
    pub(super) client_id: Option<String>,
    /// The client's id in OpenID Connect.
    pub(super) azp: Option<String>,
    #[serde(default)]
    pub(super) scope: OneOrMany,
    /// The scopes in tokens of some servers.
    #[serde(default)]
    pub(super) scp: OneOrMany,
    cnf: Option<Confirmation>,
}

/// The key or certificate that a token is bound to (RFC 7800).
#[derive(Deserialize)]
struct Confirmation {
    /// The thumbprint of a key.
    jkt: Option<String>,
    /// The hash of a certificate, which this server cannot check.
    #[serde(rename = "x5t#S256")]
    certificate: Option<String>,
}

/// One string or several.
#[derive(Default, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(text) => core::slice::from_ref(text),
            Self::Many(list) => list,
        }
    }

    /// The scopes of all strings, each of which may be a space-separated list.
    pub(super) fn scopes(&self) -> Scopes {
        self.as_slice().iter().flat_map(|scopes| scopes.split_ascii_whitespace()).collect()
    }
}

impl Claims {
    /// The access of a token of `issuer` with these claims, whose JSON is `text`.
    pub(super) fn into_access(
        self,
        issuer: &str,
        scopes: Scopes,
        expires: Option<UnixTime>,
        text: &str,
    ) -> Result<Access, &'static str> {
        let key = match self.cnf {
            None => None,
            Some(Confirmation { jkt: Some(key), certificate: None }) => Some(key),
            Some(_) => return Err("the token is bound to something that this server cannot check"),
        };
        let principal = principal(issuer, self.sub.as_deref(), self.client_id.as_deref())
            .ok_or("the token names neither a subject nor a client")?;
        let claims = Json::new(text).unwrap_or_else(|_| Json::empty_object());
        let audiences = self.aud.as_slice().to_vec();
        Ok(Access { principal, audiences, scopes, client_id: self.client_id, expires, key, claims })
    }
}

/// The principal: the subject at an issuer, or a client on its own behalf.
fn principal(issuer: &str, subject: Option<&str>, client: Option<&str>) -> Option<Principal> {
    let named = |name: &&str| !name.is_empty();
    match (subject.filter(named), client.filter(named)) {
        //= S9.3 "verified user identity (sub)"
        (Some(subject), _) => Some(Principal::new(format!("{issuer}#{subject}"))),
        (None, Some(client)) => Some(Principal::new(format!("{issuer}?client_id={client}"))),
        (None, None) => None,
    }
}

/// Converts a claim's seconds since 1970.
pub(super) fn unix_time(seconds: f64) -> Option<UnixTime> {
    Duration::try_from_secs_f64(seconds).ok().map(UnixTime::from_epoch)
}
