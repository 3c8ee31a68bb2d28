//! What a request shows.

use alloc::string::String;
use alloc::vec::Vec;

use super::refusal::{Fault, Scheme};
use crate::auth::{Now, Secret, TokenKind};
use crate::quota::QuotaOwner;
use crate::rpc::ErrorId;
use crate::transport::http::Fields;
use crate::transport::http::server::RequestHead;

/// A token, with what it takes to verify it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Presented {
    /// The token.
    pub token: Secret,
    /// How it is presented.
    pub kind: TokenKind,
    /// The method of the request.
    pub method: String,
    /// The path of the request, without its query.
    pub path: String,
    /// When it came.
    pub now: Now,
    /// Whose quota its verification uses: the address that the request came from.
    pub owner: QuotaOwner,
    /// The proof that the key of the token is held.
    #[cfg_attr(not(feature = "auth-jwt"), allow(dead_code, reason = "proofs are not looked at"))]
    pub(super) proof: Option<Secret>,
    /// The id of an error that answers the request.
    pub(super) unnamed: ErrorId<'static>,
}

impl Presented {
    pub(super) fn scheme(&self) -> Scheme {
        match self.kind {
            TokenKind::Dpop => Scheme::Dpop,
            _ => Scheme::Bearer,
        }
    }

    /// Reads what a request shows.
    pub(super) fn read(head: &RequestHead<'_>, unnamed: ErrorId<'static>, now: Now) -> Result<Self, Fault> {
        let (path, query) = head.path.split_once('?').unwrap_or((head.path, ""));
        if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token") {
            return Err(Fault::Malformed("a token belongs in the header, never in the URL"));
        }
        let value = single(head.fields, "authorization")
            .map_err(|Several| Fault::Malformed("there is more than one authorization header"))?;
        let Some(value) = value else { return Err(Fault::Missing) };
        let malformed = Fault::Malformed("the authorization header is not a scheme and a token");
        let value = core::str::from_utf8(value).map_err(|_| malformed.clone())?.trim();
        let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
        let kind = match () {
            () if scheme.eq_ignore_ascii_case("Bearer") => TokenKind::Bearer,
            () if scheme.eq_ignore_ascii_case("DPoP") => TokenKind::Dpop,
            // RFC 9110, section 11.6.1: there is nothing here that this server could check.
            () => return Err(Fault::Missing),
        };
        let token = token.trim_start();
        if !is_token(token) {
            return Err(malformed);
        }
        let proof = match single(head.fields, "dpop") {
            Ok(proof) => proof.and_then(|proof| core::str::from_utf8(proof).ok()).map(Secret::new),
            Err(Several) if kind == TokenKind::Dpop => {
                return Err(Fault::Proof("there is more than one proof"));
            }
            Err(Several) => None,
        };
        Ok(Self {
            token: Secret::new(token),
            kind,
            method: head.method.into(),
            path: path.into(),
            now,
            owner: head.owner(None),
            proof,
            unnamed,
        })
    }
}

/// There are several headers of which one counts.
struct Several;

fn single<'a>(fields: &'a dyn Fields, name: &str) -> Result<Option<&'a [u8]>, Several> {
    let mut values = Vec::new();
    fields.each(name, &mut |value| values.push(value));
    match *values.as_slice() {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(Several),
    }
}

/// `token68` of RFC 9110, section 11.2.
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !body.is_empty() && body.bytes().all(allowed)
}
