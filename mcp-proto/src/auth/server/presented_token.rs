//! The token that a request presents.

use alloc::string::String;

use super::access_error::{AccessError, Scheme};
use crate::auth::{Now, Secret, TokenKind};
use crate::quota::QuotaOwner;
use crate::rpc::ErrorId;
use crate::transport::http::server::RequestHead;
use crate::transport::http::{HeaderValues, read_headers};

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
