//! The access rules of a protected server.

use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::access::AccessError;
#[cfg(feature = "auth-jwt")]
use super::dpop::DpopConfig;
use super::{Access, PresentedToken, VerifyError};
use crate::UnixTime;
use crate::auth::{
    Challenge, FetchPolicyError, Now, ResourceMetadata, Scopes, TokenKind, canonical_resource,
    check_page_url, fetch,
};
use crate::prelude::*;
#[cfg(feature = "auth-jwt")]
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorId, code};
use crate::single_use::{Claim, ClaimError, ClaimOutcome};
use crate::transport::http::server::{HttpResponse, RETRY_AFTER_SECS, RequestHead, WWW_AUTHENTICATE};

/// The access rules of a server: the issuers of its tokens, its name in them, and the required scopes.
///
/// ```
/// use mcp_proto::auth::server::Protection;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let protection = Protection::new("https://mcp.example/mcp", "https://login.example")?
///     .required(["mcp"])?
///     .supported(["mcp", "files:read", "files:write"])?
///     .implies(|granted, needed| granted == "files:write" && needed == "files:read");
/// # drop(protection);
/// # Ok(())
/// # }
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>
#[derive(Clone, Debug)]
#[must_use = "a protection does nothing until a server is served with it"]
pub struct Protection {
    rules: Arc<Rules>,
}

/// The rules that requests are checked against.
#[derive(Clone)]
struct Rules {
    /// The canonical identifier of the resource in tokens.
    resource: String,
    origin: String,
    metadata_url: String,
    metadata_path: String,
    issuers: Vec<String>,
    audiences: Vec<String>,
    required: Scopes,
    supported: Option<Scopes>,
    name: Option<String>,
    documentation: Option<String>,
    implies: Arc<Implies>,
    issuer_metadata: Option<Bytes>,
    #[cfg(feature = "auth-jwt")]
    dpop: Option<DpopConfig>,
}

/// Whether the first scope includes the second.
type Implies = dyn Fn(&str, &str) -> bool + Send + Sync;

/// The decision on a request, from its head alone.
#[derive(Debug)]
pub enum AccessDecision {
    /// Send this response: the metadata, or a refusal.
    Answer(HttpResponse),
    /// Verify this token.
    Verify(PresentedToken),
}

/// The decision on a request whose token was verified.
#[derive(Debug)]
pub enum TokenDecision {
    /// Serve the request.
    Granted(GrantedAccess),
    /// Record the use of the request's proof, and then [resolve](ProofClaim::resolve) the claim.
    Claim(Box<ProofClaim>),
}

/// An accepted request whose proof of possession must be used for the first time (RFC 9449, section 11.1).
#[derive(Debug)]
#[must_use = "the request waits for its answer"]
pub struct ProofClaim {
    claim: Claim,
    granted: GrantedAccess,
    error_id: ErrorId<'static>,
}

impl ProofClaim {
    /// The claim for the store of used proofs.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Decides on the request by the answer of the store.
    ///
    /// # Errors
    /// The response to a refused request: 401 for a proof that was used before, 429 for an owner of too many proofs, and
    /// 503 if the store failed. If the store has lost records, it is 401 with a new nonce, or 503 where no nonces are
    /// required.
    pub fn resolve(self, outcome: Result<ClaimOutcome, ClaimError>) -> Result<GrantedAccess, HttpResponse> {
        let rules = &self.granted.0.rules;
        let error = match outcome {
            Ok(ClaimOutcome::First) => return Ok(self.granted),
            Ok(ClaimOutcome::Repeated) => AccessError::Proof("the proof was used before".into()),
            // A nonce of an earlier time would be refused again.
            Ok(ClaimOutcome::Forgotten { before }) if before <= self.claim.now => {
                rules.fresh_nonce(self.claim.now).map_or(AccessError::Unavailable, AccessError::Nonce)
            }
            Ok(ClaimOutcome::Forgotten { .. }) | Err(ClaimError::Failed(_)) => AccessError::Unavailable,
            Err(ClaimError::Full) => AccessError::OverQuota,
        };
        Err(rules.error_response(&error, self.error_id))
    }
}

/// Protected resource metadata. RFC 9728, section 2.
#[derive(Serialize)]
struct MetadataDocument<'a> {
    resource: &'a str,
    authorization_servers: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes_supported: Option<Vec<&'a str>>,
    bearer_methods_supported: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_documentation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dpop_signing_alg_values_supported: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    dpop_bound_access_tokens_required: bool,
}

impl Protection {
    /// Protects the server at the URL `resource`, as clients know it, by tokens of `issuer`.
    ///
    /// Tokens must be issued for `resource`, which is what clients request (RFC 8707).
    ///
    /// # Errors
    /// If either URL is unsuitable for tokens: it must be `https`, or `http` on this machine.
    pub fn new(resource: &str, issuer: &str) -> Result<Self, ProtectionError> {
        check_page_url(resource).map_err(ProtectionError::Resource)?;
        let resource = canonical_resource(resource).map_err(ProtectionError::Resource)?;
        let parts = fetch::parse_url(&resource).map_err(ProtectionError::Resource)?;
        if parts.query.is_some() {
            return Err(ProtectionError::Query);
        }
        let place = ResourceMetadata::well_known_urls(&resource).into_iter().next();
        let metadata_url = place.ok_or(ProtectionError::Resource(FetchPolicyError::Syntax))?;
        let metadata_path = fetch::parse_url(&metadata_url).map_err(ProtectionError::Resource)?.path.into();
        let rules = Rules {
            audiences: [resource.clone()].into(),
            origin: parts.origin(),
            resource,
            metadata_url,
            metadata_path,
            issuers: Vec::new(),
            required: Scopes::default(),
            supported: None,
            name: None,
            documentation: None,
            implies: Arc::new(|_, _| false),
            issuer_metadata: None,
            #[cfg(feature = "auth-jwt")]
            dpop: None,
        };
        Self { rules: Arc::new(rules) }.issuer(issuer)
    }

    fn modify(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }

    /// Adds another issuer of tokens for this server; clients choose one. The verifier must trust it as well.
    ///
    /// # Errors
    /// If the URL may not be opened in a browser.
    pub fn issuer(self, issuer: &str) -> Result<Self, ProtectionError> {
        check_page_url(issuer).map_err(ProtectionError::Issuer)?;
        Ok(self.modify(|rules| rules.issuers.push(issuer.into())))
    }

    /// Sets the scopes that every request needs. Clients request these first. Default: none.
    ///
    /// # Errors
    /// If a scope is invalid.
    pub fn required<'a>(self, scopes: impl IntoIterator<Item = &'a str>) -> Result<Self, ProtectionError> {
        let scopes = parse_advertised(scopes)?;
        Ok(self.modify(|rules| rules.required = scopes))
    }

    /// Sets the scopes in the metadata: at least those that clients need for basic use. Default: the required ones.
    ///
    /// `offline_access` is left out: it concerns only the client and its authorization server.
    ///
    /// # Errors
    /// If a scope is invalid.
    pub fn supported<'a>(self, scopes: impl IntoIterator<Item = &'a str>) -> Result<Self, ProtectionError> {
        let scopes = parse_advertised(scopes)?;
        Ok(self.modify(|rules| rules.supported = Some(scopes)))
    }

    /// Sets which scopes include others: whether the first scope, which was granted, includes the second, which is
    /// needed. Default: no scope includes another; each always includes itself.
    pub fn implies(self, implies: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.modify(|rules| rules.implies = Arc::new(implies))
    }

    /// Accepts tokens that are bound to keys (RFC 9449). Default: refuses them, as it would not check their proofs.
    #[cfg(feature = "auth-jwt")]
    pub fn dpop(self, dpop: DpopConfig) -> Self {
        self.modify(|rules| rules.dpop = Some(dpop))
    }

    /// Adds another audience of this server's tokens, for authorization servers that identify it by something other
    /// than a URL.
    pub fn audience(self, audience: impl Into<String>) -> Self {
        self.modify(|rules| rules.audiences.push(audience.into()))
    }

    /// Sets the server's name for display.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.modify(|rules| rules.name = Some(name.into()))
    }

    /// Sets the URL of a page for developers.
    pub fn documentation(self, url: impl Into<String>) -> Self {
        self.modify(|rules| rules.documentation = Some(url.into()))
    }

    /// Sets the authorization server's metadata, a JSON object, to serve at this server's origin. Clients of 2025-03-26
    /// look for it there. Default: none, and they do not find it.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#server-metadata-discovery>
    pub fn issuer_metadata(self, document: impl Into<Bytes>) -> Self {
        self.modify(|rules| rules.issuer_metadata = Some(document.into()))
    }

    /// The server's identifier in tokens.
    pub fn resource(&self) -> &str {
        &self.rules.resource
    }

    /// The URL of the metadata, as clients know it. It must lead to this server, whatever proxy is in front of it.
    pub fn metadata_url(&self) -> &str {
        &self.rules.metadata_url
    }

    /// The protected resource metadata.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location>
    #[must_use]
    pub fn metadata(&self) -> Bytes {
        let rules = &*self.rules;
        let supported = rules.supported.as_ref().unwrap_or(&rules.required);
        let document = MetadataDocument {
            resource: &rules.resource,
            authorization_servers: &rules.issuers,
            scopes_supported: (!supported.is_empty()).then(|| supported.iter().collect()),
            bearer_methods_supported: &["header"],
            resource_name: rules.name.as_deref(),
            resource_documentation: rules.documentation.as_deref(),
            dpop_signing_alg_values_supported: rules.proof_algorithms(),
            dpop_bound_access_tokens_required: !rules.kinds().contains(&TokenKind::Bearer),
        };
        // Strings always encode.
        serde_json::to_vec(&document).unwrap_or_default().into()
    }

    /// Checks the head of a request: answers it, or returns the token to verify.
    #[must_use]
    pub fn check_request(&self, head: &RequestHead<'_>, now: Now) -> AccessDecision {
        let path = head.path.split('?').next().unwrap_or_default();
        //= S10.1 "Serve RFC 9728 PRM with ≥1 authorization_servers; via header or well-known"
        if path == self.rules.metadata_path {
            return AccessDecision::Answer(public_document(head.method, || self.metadata()));
        }
        //= R3 "Authorization metadata at the origin of the MCP URL"
        if path == ISSUER_METADATA
            && let Some(document) = &self.rules.issuer_metadata
        {
            return AccessDecision::Answer(public_document(head.method, || document.clone()));
        }
        let unnamed = head.error_id();
        match PresentedToken::from_head(head, unnamed, now)
            .and_then(|presented| self.rules.check_kind(presented))
        {
            Ok(presented) => AccessDecision::Verify(presented),
            Err(fault) => AccessDecision::Answer(self.rules.error_response(&fault, unnamed)),
        }
    }

    /// Checks a verified token against the rules for every request.
    ///
    /// # Errors
    /// The response to a refused request.
    pub fn check_token(
        &self,
        presented: &PresentedToken,
        verified: Result<Access, VerifyError>,
    ) -> Result<TokenDecision, HttpResponse> {
        let rules = &self.rules;
        let checked = verified
            .map_err(|error| match error {
                VerifyError::Invalid(why) => AccessError::Token { kind: presented.kind, why },
                VerifyError::Unavailable(_) => AccessError::Unavailable,
                VerifyError::OverQuota(_) => AccessError::OverQuota,
            })
            .and_then(|access| {
                rules.check_access(presented, &access)?;
                Ok((rules.check_proof(presented, &access)?, access))
            });
        let (claim, access) = checked.map_err(|error| rules.error_response(&error, presented.error_id))?;
        let granted = GrantedAccess::new(access, rules.clone(), presented.kind);
        Ok(match claim {
            None => TokenDecision::Granted(granted),
            Some(claim) => {
                TokenDecision::Claim(Box::new(ProofClaim { claim, granted, error_id: presented.error_id }))
            }
        })
    }

    /// Whether the access of an accepted token, which was verified again, still fulfils the rules. The proof of the
    /// request was checked when it was accepted.
    pub(crate) fn still_accepts(&self, presented: &PresentedToken, access: &Access) -> bool {
        self.rules.check_access(presented, access).is_ok()
    }
}

/// Parses the application's scopes.
///
/// # Errors
/// Returns the first invalid scope: a mistyped one must not be left out of the requirements.
pub(crate) fn parse_scopes<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Result<Scopes, String> {
    let written: Vec<&str> = scopes.into_iter().collect();
    let read: Scopes = written.iter().copied().collect();
    match written.into_iter().find(|scope| !read.contains(scope)) {
        Some(odd) => Err(odd.into()),
        None => Ok(read),
    }
}

fn parse_advertised<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Result<Scopes, ProtectionError> {
    parse_scopes(scopes).map(|scopes| advertised_scopes(&scopes)).map_err(ProtectionError::Scope)
}

/// The scopes that a server may request: never `offline_access`, which concerns only the client and its authorization
/// server.
fn advertised_scopes(scopes: &Scopes) -> Scopes {
    scopes.iter().filter(|scope| *scope != "offline_access").collect()
}

/// Path at which clients of 2025-03-26 look for the metadata of the authorization server.
const ISSUER_METADATA: &str = "/.well-known/oauth-authorization-server";

impl Rules {
    /// Checks that the server accepts tokens of this kind.
    fn check_kind(&self, presented: PresentedToken) -> Result<PresentedToken, AccessError> {
        if self.kinds().contains(&presented.kind) {
            Ok(presented)
        } else if presented.kind == TokenKind::Dpop {
            // This server cannot check proofs, so there is no usable token.
            Err(AccessError::NoToken)
        } else {
            let why = "only tokens that are bound to a key are taken".into();
            Err(AccessError::Token { kind: TokenKind::Dpop, why })
        }
    }

    /// Checks all but the proof of possession.
    fn check_access(&self, presented: &PresentedToken, access: &Access) -> Result<(), AccessError> {
        let kind = presented.kind;
        let invalid = |why: &str| Err(AccessError::Token { kind, why: why.into() });
        //= S10.2 "audience = this server; else 401"
        //= S10.7 "No acceptance or passthrough of foreign tokens"
        if !access.audiences.iter().any(|audience| self.is_audience(audience)) {
            return invalid("the token was not issued for this server");
        }
        //= S10.2 "expiry"
        if access.expires.is_some_and(|expires| expires <= presented.received.unix) {
            return invalid("the token has expired");
        }
        match (kind == TokenKind::Dpop, &access.key) {
            (false, None) | (true, Some(_)) => {}
            // RFC 9449, section 7.2: no sender may use a bound token without a proof.
            (false, Some(_)) => return invalid("the token is bound to a key, and comes without a proof"),
            (true, None) => return invalid("the token is not bound to a key"),
        }
        if !self.covers_scopes(&access.scopes, &self.required) {
            return Err(AccessError::Scope { kind });
        }
        Ok(())
    }

    /// Checks the proof that a token bound to a key needs. Returns the claim of its only use.
    #[cfg_attr(not(feature = "auth-jwt"), allow(unused_variables, reason = "all proofs are refused"))]
    fn check_proof(&self, presented: &PresentedToken, access: &Access) -> Result<Option<Claim>, AccessError> {
        if access.key.is_none() {
            return Ok(None);
        }
        let proof = presented.proof.as_ref();
        let proof = proof.ok_or_else(|| AccessError::Proof("the proof is missing".into()))?;
        #[cfg(feature = "auth-jwt")]
        if let (Some(dpop), Some(key)) = (&self.dpop, &access.key) {
            let owner = QuotaOwner::from(access.principal.clone());
            let server = (&*self.origin, &*self.resource);
            return dpop.check(server, (presented, proof), (owner, key)).map(Some);
        }
        Err(AccessError::NoToken)
    }

    /// A nonce that a proof may have from now on, if nonces are required.
    #[cfg_attr(not(feature = "auth-jwt"), allow(unused_variables, reason = "there are no nonces"))]
    fn fresh_nonce(&self, now: UnixTime) -> Option<String> {
        #[cfg(feature = "auth-jwt")]
        return self.dpop.as_ref()?.fresh_nonce(now);
        #[cfg(not(feature = "auth-jwt"))]
        None
    }

    /// Whether `audience` names this server.
    fn is_audience(&self, audience: &str) -> bool {
        let same = |known: &String| known == audience;
        self.audiences.iter().any(same)
            || canonical_resource(audience).is_ok_and(|audience| audience == self.resource)
    }

    //= S10.5 "Scope hierarchies taken into account"
    /// Whether the granted scopes include the needed ones.
    fn covers_scopes(&self, granted: &Scopes, needed: &Scopes) -> bool {
        needed.iter().all(|needed| {
            granted.contains(needed) || granted.iter().any(|granted| (self.implies)(granted, needed))
        })
    }

    /// The kinds of tokens that the server accepts.
    fn kinds(&self) -> &'static [TokenKind] {
        #[cfg(feature = "auth-jwt")]
        if let Some(dpop) = &self.dpop {
            return dpop.kinds();
        }
        &[TokenKind::Bearer]
    }

    /// The algorithms for proofs, if the server accepts any.
    fn proof_algorithms(&self) -> Option<Vec<&'static str>> {
        #[cfg(feature = "auth-jwt")]
        return self.dpop.as_ref().map(DpopConfig::algorithms);
        #[cfg(not(feature = "auth-jwt"))]
        None
    }

    /// The response to a refused request. `error_id` is the id of a JSON-RPC error that answers no particular request.
    fn error_response(&self, fault: &AccessError, error_id: ErrorId<'static>) -> HttpResponse {
        let (status, _, why) = fault.parts();
        let why = sanitize_description(why);
        let mut answer = HttpResponse::refusal(status, error_id, code::INVALID_REQUEST, why);
        let kinds: &[TokenKind] = match fault {
            AccessError::Unavailable | AccessError::OverQuota => {
                return answer.with_header("retry-after", RETRY_AFTER_SECS);
            }
            AccessError::Token { kind, .. } | AccessError::Scope { kind } => core::slice::from_ref(kind),
            AccessError::Proof(_) => &[TokenKind::Dpop],
            AccessError::Nonce(nonce) => {
                answer = answer.with_header("dpop-nonce", nonce.clone());
                &[TokenKind::Dpop]
            }
            AccessError::NoToken | AccessError::Malformed(_) => self.kinds(),
        };
        for kind in kinds {
            answer = answer.with_header(WWW_AUTHENTICATE, self.challenge(*kind, fault, &self.required));
        }
        answer
    }

    fn challenge(&self, kind: TokenKind, fault: &AccessError, scopes: &Scopes) -> String {
        let mut challenge = Challenge::new(kind.as_str());
        if let (_, Some(error), why) = fault.parts() {
            challenge = challenge.with("error", error).with("error_description", &sanitize_description(why));
        }
        if !scopes.is_empty() {
            challenge = challenge.with("scope", &scopes.to_string());
        }
        challenge = challenge.with("resource_metadata", &self.metadata_url);
        if kind == TokenKind::Dpop {
            challenge = challenge.with("algs", &self.proof_algorithms().unwrap_or_default().join(" "));
        }
        challenge.to_string()
    }
}

debug_fields! { Rules { resource, issuers, required, supported } }

/// The response to a request for a public document, which web pages of any origin may read.
fn public_document(method: &str, document: impl FnOnce() -> Bytes) -> HttpResponse {
    let answer = match method {
        "GET" | "HEAD" => HttpResponse::json(200, document()).with_header("cache-control", "max-age=300"),
        // Some clients send their revision's header even here, so that browsers send a preflight request first.
        "OPTIONS" => HttpResponse::empty(204)
            .with_header("access-control-allow-methods", "GET")
            .with_header("access-control-allow-headers", "*"),
        _ => HttpResponse::empty(405).with_header("allow", "GET, HEAD, OPTIONS"),
    };
    answer.with_header("access-control-allow-origin", "*")
}

/// The access of an accepted request, and the check of its scopes against those that an operation needs.
#[derive(Clone)]
pub struct GrantedAccess(Arc<Inner>);

struct Inner {
    access: Access,
    rules: Arc<Rules>,
    kind: TokenKind,
    reverifier: Option<Box<dyn Reverifier>>,
}

/// Verifies the token of an accepted request again, while a stream of that request is open.
pub(crate) trait Reverifier: Send + Sync {
    /// The time between two verifications.
    fn interval(&self) -> Duration;

    fn verify(&self, now: Now) -> Reverification;
}

/// The future of the access that a token still grants, if it would be accepted now.
pub(crate) type Reverification = Pin<Box<dyn Future<Output = Option<Access>> + Send>>;

impl GrantedAccess {
    fn new(access: Access, rules: Arc<Rules>, kind: TokenKind) -> Self {
        Self(Arc::new(Inner { access, rules, kind, reverifier: None }))
    }

    /// Adds the verifier for streams of the request. `self` has no clones yet.
    pub(crate) fn with_reverifier(mut self, reverifier: Box<dyn Reverifier>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.reverifier = Some(reverifier);
        }
        self
    }

    pub(crate) fn reverifier(&self) -> Option<&dyn Reverifier> {
        self.0.reverifier.as_deref()
    }

    /// The access that the token grants.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// Whether the token grants all of these scopes, broader ones [included](super::Protection::implies).
    pub fn grants(&self, needed: &Scopes) -> bool {
        self.0.rules.covers_scopes(&self.0.access.scopes, needed)
    }

    /// The `WWW-Authenticate` value if it does not: the scopes that the operation needs, and those that every request
    /// needs.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#runtime-insufficient-scope-errors>
    #[must_use]
    pub fn challenge(&self, needed: &Scopes) -> String {
        let Inner { rules, kind, .. } = &*self.0;
        let scopes = rules.required.union(&advertised_scopes(needed));
        rules.challenge(*kind, &AccessError::Scope { kind: *kind }, &scopes)
    }
}

impl fmt::Debug for GrantedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrantedAccess").field(&self.0.access).finish()
    }
}

/// Why a server's protection is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectionError {
    /// The server's URL is unsuitable for tokens.
    Resource(FetchPolicyError),
    /// The server's URL has a query.
    Query,
    /// The issuer's URL may not be opened in a browser.
    Issuer(FetchPolicyError),
    /// The scope is invalid.
    Scope(String),
}

error_text! { ProtectionError:
    Resource(error) => "the URL of the server cannot be protected: {error}";
    Query => "the URL of the server has a query";
    Scope(scope) => "{scope:?} is no scope";
    Issuer(error) => "the URL of the issuer is not usable: {error}";
}

/// Maximum bytes of an error description.
const DESCRIPTION: usize = 200;

/// Removes characters that are invalid in a description: RFC 6750, section 3.
fn sanitize_description(text: &str) -> String {
    let allowed = |letter: char| matches!(letter, ' ' | '!' | '#'..='[' | ']'..='~');
    text.chars().map(|letter| if allowed(letter) { letter } else { '?' }).take(DESCRIPTION).collect()
}
