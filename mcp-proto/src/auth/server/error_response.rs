//! Responses to refused requests: statuses, challenges and bodies.

use alloc::string::{String, ToString};
use core::fmt::Write as _;

use super::access_error::{AccessError, Scheme};
use super::protection::{Rules, advertised_scopes};
use crate::auth::Scopes;
use crate::rpc::{ErrorId, code};
use crate::transport::http::server::{HttpResponse, RETRY_AFTER_SECS};

/// Maximum bytes of an error description.
const DESCRIPTION: usize = 200;

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

/// Removes characters that are invalid in a description: RFC 6750, section 3.
fn sanitize_description(text: &str) -> String {
    let allowed = |letter: char| matches!(letter, ' ' | '!' | '#'..='[' | ']'..='~');
    text.chars().map(|letter| if allowed(letter) { letter } else { '?' }).take(DESCRIPTION).collect()
}
