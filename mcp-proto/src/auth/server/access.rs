//! The token that a request presents, the access that it grants, and the reasons to refuse it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::Deserialize;

use crate::UnixTime;
use crate::auth::{Now, Scopes, Secret, TokenKind};
use crate::peer::Principal;
use crate::quota::QuotaOwner;
use crate::rpc::ErrorId;
use crate::schema::Json;
use crate::transport::http::server::RequestHead;
use crate::transport::http::{HeaderValues, read_headers};

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

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("principal", &self.principal)
            .field("audiences", &self.audiences)
            .field("scopes", &self.scopes)
            .field("client_id", &self.client_id)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

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
    pub(super) fn scheme(&self) -> Scheme {
        match self.kind {
            TokenKind::Dpop => Scheme::Dpop,
            _ => Scheme::Bearer,
        }
    }

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
        let value = single_header(&authorization).map_err(|DuplicateHeaderError| {
            AccessError::Malformed("there is more than one authorization header")
        })?;
        let Some(value) = value else { return Err(AccessError::NoToken) };
        let malformed = AccessError::Malformed("the authorization header is not a scheme and a token");
        let value = core::str::from_utf8(value).map_err(|_| malformed.clone())?.trim();
        let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
        let kind = match () {
            () if scheme.eq_ignore_ascii_case("Bearer") => TokenKind::Bearer,
            () if scheme.eq_ignore_ascii_case("DPoP") => TokenKind::Dpop,
            // RFC 9110, section 11.6.1: this server supports no other scheme, so there is no token.
            () => return Err(AccessError::NoToken),
        };
        let token = token.trim_start();
        if !is_token(token) {
            return Err(malformed);
        }
        let proof = match single_header(&dpop) {
            Ok(proof) => proof.and_then(|proof| core::str::from_utf8(proof).ok()).map(Secret::new),
            Err(DuplicateHeaderError) if kind == TokenKind::Dpop => {
                return Err(AccessError::Proof("there is more than one proof".into()));
            }
            Err(DuplicateHeaderError) => None,
        };
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

/// A header that must be unique occurs several times.
struct DuplicateHeaderError;

fn single_header<'a>(values: &HeaderValues<'a>) -> Result<Option<&'a [u8]>, DuplicateHeaderError> {
    if values.others.is_empty() { Ok(values.first) } else { Err(DuplicateHeaderError) }
}

/// `token68` of RFC 9110, section 11.2.
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !body.is_empty() && body.bytes().all(allowed)
}

/// How a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Bearer,
    Dpop,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AccessError {
    /// The request has no token.
    NoToken,
    /// The request's authorization is malformed.
    Malformed(&'static str),
    /// The token is invalid.
    Token { scheme: Scheme, why: String },
    /// The proof of possession is invalid.
    Proof(String),
    /// The proof needs this nonce.
    #[cfg_attr(not(feature = "auth-jwt"), allow(dead_code, reason = "there are no proofs"))]
    Nonce(String),
    /// The token lacks scopes that every request needs.
    Scope { scheme: Scheme },
    /// The token cannot be verified at present.
    Unavailable,
    /// The owner has too many tokens under verification, or too many recorded proofs.
    OverQuota,
}

impl AccessError {
    //= S10.3 "401 no/invalid token, 403 insufficient scope, 400 malformed"
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::NoToken | Self::Token { .. } | Self::Proof(_) | Self::Nonce(_) => 401,
            Self::Malformed(_) => 400,
            Self::Scope { .. } => 403,
            Self::Unavailable => 503,
            Self::OverQuota => 429,
        }
    }

    pub(super) fn error(&self) -> Option<&'static str> {
        match self {
            // RFC 6750, section 3.1: a request without credentials gets no error code.
            Self::NoToken | Self::Unavailable | Self::OverQuota => None,
            Self::Malformed(_) => Some("invalid_request"),
            Self::Token { .. } => Some("invalid_token"),
            Self::Proof(_) => Some("invalid_dpop_proof"),
            Self::Nonce(_) => Some("use_dpop_nonce"),
            Self::Scope { .. } => Some("insufficient_scope"),
        }
    }

    pub(super) fn description(&self) -> &str {
        match self {
            Self::NoToken => "a token is needed",
            Self::Malformed(what) => what,
            Self::Token { why, .. } | Self::Proof(why) => why,
            Self::Nonce(_) => "the proof needs the nonce that comes with this answer",
            Self::Scope { .. } => "the token is not good for this",
            Self::Unavailable => "tokens cannot be checked at the moment",
            Self::OverQuota => "too many requests are being authenticated for you",
        }
    }
}

/// The key or certificate that a token is bound to (RFC 7800).
#[derive(Deserialize)]
pub(super) struct Confirmation {
    /// The thumbprint of a key.
    pub(super) jkt: Option<String>,
    /// The hash of a certificate, which this server cannot check.
    #[serde(rename = "x5t#S256")]
    pub(super) certificate: Option<String>,
}

impl Confirmation {
    /// Whether the token is bound to anything except a key.
    pub(super) fn is_unsupported(&self) -> bool {
        self.certificate.is_some() || self.jkt.is_none()
    }
}

/// One string or several.
#[derive(Default)]
pub(super) struct OneOrMany(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a string or several")
            }

            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany([text.into()].into()))
            }

            fn visit_unit<E>(self) -> Result<OneOrMany, E> {
                Ok(OneOrMany::default())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut strings = Vec::new();
                while let Some(string) = seq.next_element()? {
                    strings.push(string);
                }
                Ok(OneOrMany(strings))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl OneOrMany {
    /// The scopes of all strings, each of which may be a space-separated list.
    pub(super) fn scopes(&self) -> Scopes {
        self.0.iter().flat_map(|scopes| scopes.split_ascii_whitespace()).collect()
    }
}

/// The principal: the subject at an issuer, or a client on its own behalf.
pub(super) fn principal(issuer: &str, subject: Option<&str>, client: Option<&str>) -> Option<Principal> {
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
