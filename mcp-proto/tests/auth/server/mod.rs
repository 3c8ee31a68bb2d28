//! The resource server.

mod admission;
#[cfg(feature = "auth-jwt")]
mod dpop;
mod handlers;
mod introspection;
#[cfg(feature = "auth-jwt")]
mod jwt;
mod layers;
#[cfg(feature = "auth-jwt")]
mod openssl_tokens;
mod streams;
mod waiting;

use core::time::Duration;

use mcp_proto::auth::server::{
    Access, AccessDecision, GrantedAccess, PresentedToken, Protection, TokenDecision, VerifyError,
};
use mcp_proto::auth::{Now, Requirement, Scopes};
use mcp_proto::peer::Principal;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead};
use mcp_proto::{Instant, UnixTime};

const RESOURCE: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://login.example";
const METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

/// This many seconds after the start.
fn at(seconds: u64) -> Now {
    let elapsed = Duration::from_secs(seconds);
    Now {
        instant: Instant::from_origin(elapsed),
        unix: UnixTime::from_epoch(Duration::from_secs(1_785_240_000)) + elapsed,
    }
}

fn protection() -> Protection {
    Protection::new(RESOURCE, ISSUER).unwrap()
}

fn access(scopes: &str) -> Access {
    let mut access = Access::new(Principal::new("https://login.example#ada"), RESOURCE);
    access.scopes = Scopes::parse(scopes);
    access
}

fn admit(protection: &Protection, method: &str, path: &str, fields: &[(&str, &str)]) -> AccessDecision {
    protection.check_request(&RequestHead { method, path, fields: &fields, client: None }, at(0))
}

/// The response to a request that is refused by its head.
#[track_caller]
fn answer(protection: &Protection, fields: &[(&str, &str)]) -> HttpResponse {
    match admit(protection, "POST", "/mcp", fields) {
        AccessDecision::Answer(answer) => answer,
        AccessDecision::Verify(presented) => panic!("{presented:?}"),
    }
}

#[track_caller]
fn present(protection: &Protection, fields: &[(&str, &str)]) -> PresentedToken {
    match admit(protection, "POST", "/mcp", fields) {
        AccessDecision::Verify(presented) => presented,
        AccessDecision::Answer(answer) => panic!("{answer:?}"),
    }
}

/// The outcome of a request whose token has this access.
fn settle(protection: &Protection, access: Access) -> Result<GrantedAccess, HttpResponse> {
    check_bearer(protection, &present(protection, &[("authorization", "Bearer abc")]), Ok(access))
}

/// The outcome of a request whose token needs no proof.
fn check_bearer(
    protection: &Protection,
    presented: &PresentedToken,
    verified: Result<Access, VerifyError>,
) -> Result<GrantedAccess, HttpResponse> {
    match protection.check_token(presented, verified)? {
        TokenDecision::Granted(granted) => Ok(granted),
        TokenDecision::Claim(proof) => panic!("{proof:?}"),
    }
}

fn header<'a>(answer: &'a HttpResponse, name: &str) -> Vec<&'a str> {
    let headers = answer.headers.iter().filter(|(candidate, _)| *candidate == name);
    headers.map(|(_, value)| &**value).collect()
}

/// The requirement of a response as this crate's client reads it.
#[track_caller]
fn demand(answer: &HttpResponse) -> Requirement {
    let challenges = header(answer, "www-authenticate").join(", ");
    Requirement::parse(&challenges).unwrap_or_else(|| panic!("no challenge: {answer:?}"))
}
