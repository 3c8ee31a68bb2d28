//! Responses to refused requests: statuses, challenges and bodies.

use alloc::string::{String, ToString};
use core::fmt::Write as _;

use super::protection::Rules;
use crate::auth::Scopes;
use crate::rpc::{ErrorId, code};
use crate::transport::http::server::{HttpResponse, RETRY_AFTER_SECS};

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
    #[cfg_attr(not(feature = "auth-jwt"), allow(dead_code, reason = "there are no proofs"))]
    Proof(&'static str),
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

/// Maximum bytes of an error description.
const DESCRIPTION: usize = 200;

impl AccessError {
    fn status(&self) -> u16 {
        match self {
            Self::NoToken | Self::Token { .. } | Self::Proof(_) | Self::Nonce(_) => 401,
            Self::Malformed(_) => 400,
            Self::Scope { .. } => 403,
            Self::Unavailable => 503,
            Self::OverQuota => 429,
        }
    }

    fn error(&self) -> Option<&'static str> {
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

    fn description(&self) -> &str {
        match self {
            Self::NoToken => "a token is needed",
            Self::Malformed(what) | Self::Proof(what) => what,
            Self::Token { why, .. } => why,
            Self::Nonce(_) => "the proof needs the nonce that comes with this answer",
            Self::Scope { .. } => "the token is not good for this",
            Self::Unavailable => "tokens cannot be checked at the moment",
            Self::OverQuota => "too many requests are being authenticated for you",
        }
    }
}

impl Rules {
    /// The response to a refused request. `error_id` is the id of a JSON-RPC error that answers no particular request.
    pub(super) fn error_response(&self, fault: &AccessError, error_id: ErrorId<'static>) -> HttpResponse {
        let status = fault.status();
        let mut answer = HttpResponse::refusal(
            status,
            error_id,
            code::INVALID_REQUEST,
            sanitize_description(fault.description()),
        );
        match fault {
            AccessError::Unavailable | AccessError::OverQuota => {
                return answer.with_header("retry-after", RETRY_AFTER_SECS);
            }
            AccessError::Nonce(nonce) => answer = answer.with_header("dpop-nonce", nonce.clone()),
            _ => {}
        }
        let schemes: &[Scheme] = match fault {
            AccessError::Token { scheme, .. } | AccessError::Scope { scheme } => &[*scheme],
            AccessError::Proof(_) | AccessError::Nonce(_) => &[Scheme::Dpop],
            AccessError::NoToken
            | AccessError::Malformed(_)
            | AccessError::Unavailable
            | AccessError::OverQuota => self.schemes(),
        };
        for scheme in schemes {
            let challenge = self.challenge(*scheme, fault, &self.required);
            answer = answer.with_header(crate::transport::http::server::WWW_AUTHENTICATE, challenge);
        }
        answer
    }

    /// The challenge for a request whose operation needs scopes that its token lacks.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#runtime-insufficient-scope-errors>
    pub(super) fn insufficient_scope(&self, scheme: Scheme, needed: &Scopes) -> String {
        self.challenge(
            scheme,
            &AccessError::Scope { scheme },
            &self.required.union(&advertised_scopes(needed)),
        )
    }

    fn challenge(&self, scheme: Scheme, fault: &AccessError, scopes: &Scopes) -> String {
        let mut text = String::from(match scheme {
            Scheme::Bearer => "Bearer",
            Scheme::Dpop => "DPoP",
        });
        let mut separator = " ";
        let mut say = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = write!(text, "{separator}{name}=\"{value}\"");
            separator = ", ";
        };
        if let Some(error) = fault.error() {
            say("error", error);
            say("error_description", &sanitize_description(fault.description()));
        }
        if !scopes.is_empty() {
            say("scope", &scopes.to_string());
        }
        say("resource_metadata", &self.metadata_url);
        if scheme == Scheme::Dpop {
            say("algs", &self.proof_algorithms());
        }
        text
    }
}

/// The scopes that a server may request: never `offline_access`, which concerns only the client and its authorization
/// server.
pub(super) fn advertised_scopes(scopes: &Scopes) -> Scopes {
    scopes.iter().filter(|scope| *scope != "offline_access").collect()
}

/// Removes characters that are invalid in a description: RFC 6750, section 3.
fn sanitize_description(text: &str) -> String {
    let allowed = |letter: char| matches!(letter, ' ' | '!' | '#'..='[' | ']'..='~');
    text.chars().map(|letter| if allowed(letter) { letter } else { '?' }).take(DESCRIPTION).collect()
}
