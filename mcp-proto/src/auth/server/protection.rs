//! What a server demands of requests.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::Serialize;

#[cfg(feature = "auth-jwt")]
use super::dpop::DpopConfig;
use super::error_response::{AccessError, Scheme, advertised_scopes};
use super::{Access, GrantedAccess, PresentedToken, ReplayCache, VerifyError};
use crate::auth::url;
use crate::auth::{FetchPolicyError, Now, ResourceMetadata, Scopes, canonical_resource, check_page_url};
#[cfg(feature = "auth-jwt")]
use crate::quota::QuotaOwner;
use crate::transport::http::server::{HttpResponse, RequestHead, unknown_request_id};

/// That a server is protected: by whom tokens for it are issued, what it is called in them, and what they have to be good
/// for.
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

/// What requests are held to.
#[derive(Clone)]
pub(super) struct Rules {
    /// The resource as it is named in tokens, canonical.
    resource: String,
    #[cfg_attr(not(feature = "auth-jwt"), allow(dead_code, reason = "for proofs"))]
    origin: String,
    pub(super) metadata_url: String,
    metadata_path: String,
    issuers: Vec<String>,
    audiences: Vec<String>,
    pub(super) required: Scopes,
    supported: Option<Scopes>,
    name: Option<String>,
    documentation: Option<String>,
    implies: Arc<Implies>,
    issuer_metadata: Option<Bytes>,
    #[cfg(feature = "auth-jwt")]
    dpop: DpopConfig,
}

/// Whether the one scope includes the other.
type Implies = dyn Fn(&str, &str) -> bool + Send + Sync;

/// What becomes of a request by what its head shows.
#[derive(Debug)]
pub enum AccessDecision {
    /// It is answered: it asks for the metadata, or is refused.
    Answer(HttpResponse),
    /// Its token is to be verified.
    Verify(PresentedToken),
}

/// What a server says of itself. RFC 9728, section 2.
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
    /// Of the server at the URL `resource`, as clients know it, by tokens of `issuer`.
    ///
    /// Tokens have to be issued for `resource`: that is what clients ask for (RFC 8707).
    ///
    /// # Errors
    /// If either is no URL that tokens may be sent to: `https`, or `http` on this machine.
    pub fn new(resource: &str, issuer: &str) -> Result<Self, ProtectionError> {
        check_page_url(resource).map_err(ProtectionError::Resource)?;
        let resource = canonical_resource(resource).map_err(ProtectionError::Resource)?;
        let parts = url::parse(&resource).map_err(ProtectionError::Resource)?;
        if parts.query.is_some() {
            return Err(ProtectionError::Query);
        }
        let place = ResourceMetadata::well_known_urls(&resource).into_iter().next();
        let metadata_url = place.ok_or(ProtectionError::Resource(FetchPolicyError::Syntax))?;
        let metadata_path = url::parse(&metadata_url).map_err(ProtectionError::Resource)?.path.into();
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
            dpop: DpopConfig::default(),
        };
        Self { rules: Arc::new(rules) }.issuer(issuer)
    }

    fn modify(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }

    /// Another issuer of tokens for this server; clients choose. The verifier has to know it as well.
    ///
    /// # Errors
    /// If it is no URL that a person may be sent to.
    pub fn issuer(self, issuer: &str) -> Result<Self, ProtectionError> {
        check_page_url(issuer).map_err(ProtectionError::Issuer)?;
        Ok(self.modify(|rules| rules.issuers.push(issuer.into())))
    }

    /// The scopes that every request needs. They are what clients ask for first. Default: none.
    ///
    /// # Errors
    /// If one is no scope.
    pub fn required<'a>(self, scopes: impl IntoIterator<Item = &'a str>) -> Result<Self, ProtectionError> {
        let scopes = parse_scopes(scopes).map_err(ProtectionError::Scope)?;
        Ok(self.modify(|rules| rules.required = advertised_scopes(&scopes)))
    }

    /// The scopes to tell of: what clients need to get by, at least. Default: those that every request needs.
    ///
    /// `offline_access` is left out: it is between a client and its authorization server.
    ///
    /// # Errors
    /// If one is no scope.
    pub fn supported<'a>(self, scopes: impl IntoIterator<Item = &'a str>) -> Result<Self, ProtectionError> {
        let scopes = parse_scopes(scopes).map_err(ProtectionError::Scope)?;
        Ok(self.modify(|rules| rules.supported = Some(advertised_scopes(&scopes))))
    }

    /// Which scopes include others: whether the first, which was granted, includes the second, which is needed. Default:
    /// none does; a scope always includes itself.
    pub fn implies(self, implies: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.modify(|rules| rules.implies = Arc::new(implies))
    }

    /// Another name of this server in tokens, for authorization servers that know it by one which is no URL.
    pub fn audience(self, audience: impl Into<String>) -> Self {
        self.modify(|rules| rules.audiences.push(audience.into()))
    }

    /// What people call the server.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.modify(|rules| rules.name = Some(name.into()))
    }

    /// A page for developers.
    pub fn documentation(self, url: impl Into<String>) -> Self {
        self.modify(|rules| rules.documentation = Some(url.into()))
    }

    /// Tokens that are bound to keys (RFC 9449). Default: they are refused, since a proof would not be looked at.
    #[cfg(feature = "auth-jwt")]
    pub fn dpop(self, dpop: DpopConfig) -> Self {
        self.modify(|rules| rules.dpop = dpop)
    }

    /// The metadata of the authorization server, a JSON object, for clients of 2025-03-26: they look for it at the origin
    /// of this server. Default: none, they do not find it.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#server-metadata-discovery>
    pub fn issuer_metadata(self, document: impl Into<Bytes>) -> Self {
        self.modify(|rules| rules.issuer_metadata = Some(document.into()))
    }

    /// The server, as it is named in tokens.
    pub fn resource(&self) -> &str {
        &self.rules.resource
    }

    /// Where the metadata is, as clients know it. It has to be served from there, whatever stands before this server.
    pub fn metadata_url(&self) -> &str {
        &self.rules.metadata_url
    }

    /// The metadata.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location>
    #[must_use]
    pub fn metadata(&self) -> Bytes {
        let rules = &*self.rules;
        let supported = rules.supported.as_ref().unwrap_or(&rules.required);
        #[cfg(feature = "auth-jwt")]
        let proofs = rules.dpop.is_enabled().then(|| rules.dpop.algorithms().collect());
        #[cfg(not(feature = "auth-jwt"))]
        let proofs = None;
        let document = MetadataDocument {
            resource: &rules.resource,
            authorization_servers: &rules.issuers,
            scopes_supported: (!supported.is_empty()).then(|| supported.iter().collect()),
            bearer_methods_supported: &["header"],
            resource_name: rules.name.as_deref(),
            resource_documentation: rules.documentation.as_deref(),
            dpop_signing_alg_values_supported: proofs,
            dpop_bound_access_tokens_required: !rules.schemes().contains(&Scheme::Bearer),
        };
        // Strings always encode.
        serde_json::to_vec(&document).unwrap_or_default().into()
    }

    /// Looks at the head of a request.
    #[must_use]
    pub fn check_request(&self, head: &RequestHead<'_>, now: Now) -> AccessDecision {
        let path = head.path.split('?').next().unwrap_or_default();
        if path == self.rules.metadata_path {
            return AccessDecision::Answer(public_document(head.method, || self.metadata()));
        }
        if path == ISSUER_METADATA
            && let Some(document) = &self.rules.issuer_metadata
        {
            return AccessDecision::Answer(public_document(head.method, || document.clone()));
        }
        let unnamed = unknown_request_id(head.fields);
        match PresentedToken::from_head(head, unnamed, now)
            .and_then(|presented| self.rules.check_scheme(presented))
        {
            Ok(presented) => AccessDecision::Verify(presented),
            Err(fault) => AccessDecision::Answer(self.rules.error_response(&fault, unnamed)),
        }
    }

    /// Holds what is known of a token to what every request needs. `proofs` are those that came before.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub fn check_token(
        &self,
        presented: &PresentedToken,
        verified: Result<Access, VerifyError>,
        proofs: &ReplayCache,
    ) -> Result<GrantedAccess, HttpResponse> {
        let rules = &self.rules;
        let settled = verified
            .map_err(|error| match error {
                VerifyError::Invalid(why) => AccessError::Token { scheme: presented.scheme(), why },
                VerifyError::Unavailable(_) => AccessError::Unavailable,
                VerifyError::OverQuota(_) => AccessError::OverQuota,
            })
            .and_then(|access| rules.check_access(presented, &access, proofs).map(|()| access));
        match settled {
            Ok(access) => Ok(GrantedAccess::new(access, rules.clone(), presented.scheme())),
            Err(fault) => Err(rules.error_response(&fault, presented.error_id)),
        }
    }
}

/// Scopes as they were written down here.
///
/// # Errors
/// The first that is none: what was mistyped must not be demanded of nobody.
pub(crate) fn parse_scopes<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Result<Scopes, String> {
    let written: Vec<&str> = scopes.into_iter().collect();
    let read: Scopes = written.iter().copied().collect();
    match written.into_iter().find(|scope| !read.contains(scope)) {
        Some(odd) => Err(odd.into()),
        None => Ok(read),
    }
}

/// Where clients of 2025-03-26 look for the metadata of the authorization server.
const ISSUER_METADATA: &str = "/.well-known/oauth-authorization-server";

impl Rules {
    /// Whether tokens are taken that are presented like this.
    fn check_scheme(&self, presented: PresentedToken) -> Result<PresentedToken, AccessError> {
        let scheme = presented.scheme();
        if self.schemes().contains(&scheme) {
            return Ok(presented);
        }
        match scheme {
            // Nothing that this server could check.
            Scheme::Dpop => Err(AccessError::NoToken),
            Scheme::Bearer => {
                let why = "only tokens that are bound to a key are taken".into();
                Err(AccessError::Token { scheme: Scheme::Dpop, why })
            }
        }
    }

    fn check_access(
        &self,
        presented: &PresentedToken,
        access: &Access,
        proofs: &ReplayCache,
    ) -> Result<(), AccessError> {
        let scheme = presented.scheme();
        let invalid = |why: &str| Err(AccessError::Token { scheme, why: why.into() });
        if !access.audiences.iter().any(|audience| self.is_audience(audience)) {
            return invalid("it was not issued for this server");
        }
        if access.expires.is_some_and(|expires| expires <= presented.received.unix) {
            return invalid("it has expired");
        }
        match (scheme, &access.key) {
            (Scheme::Bearer, None) => {}
            // RFC 9449, section 7.2: nor without proof, whoever has it.
            (Scheme::Bearer, Some(_)) => return invalid("it is bound to a key, and comes without a proof"),
            (Scheme::Dpop, None) => return invalid("it is not bound to a key"),
            (Scheme::Dpop, Some(key)) => self.check_proof(presented, access, key, proofs)?,
        }
        if !self.covers_scopes(&access.scopes, &self.required) {
            return Err(AccessError::Scope { scheme });
        }
        Ok(())
    }

    #[cfg(feature = "auth-jwt")]
    fn check_proof(
        &self,
        presented: &PresentedToken,
        access: &Access,
        key: &str,
        proofs: &ReplayCache,
    ) -> Result<(), AccessError> {
        let owner = QuotaOwner::from(access.principal.clone());
        self.dpop.check((&self.origin, &self.resource), presented, (&owner, key), proofs)
    }

    /// They are not taken.
    #[cfg(not(feature = "auth-jwt"))]
    fn check_proof(
        &self,
        _: &PresentedToken,
        _: &Access,
        _: &str,
        _: &ReplayCache,
    ) -> Result<(), AccessError> {
        Err(AccessError::NoToken)
    }

    /// Whether this is how tokens name the server.
    fn is_audience(&self, audience: &str) -> bool {
        let same = |known: &String| known == audience;
        self.audiences.iter().any(same)
            || canonical_resource(audience).is_ok_and(|audience| audience == self.resource)
    }

    /// S10.5. Whether what was granted includes what is needed.
    pub(super) fn covers_scopes(&self, granted: &Scopes, needed: &Scopes) -> bool {
        needed.iter().all(|needed| {
            granted.contains(needed) || granted.iter().any(|granted| (self.implies)(granted, needed))
        })
    }

    /// How tokens may be presented.
    pub(super) fn schemes(&self) -> &'static [Scheme] {
        #[cfg(feature = "auth-jwt")]
        return self.dpop.schemes();
        #[cfg(not(feature = "auth-jwt"))]
        &[Scheme::Bearer]
    }

    /// The algorithms of proofs, with spaces between them.
    pub(super) fn proof_algorithms(&self) -> String {
        #[cfg(feature = "auth-jwt")]
        return self.dpop.algorithms().collect::<Vec<_>>().join(" ");
        #[cfg(not(feature = "auth-jwt"))]
        String::new()
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("resource", &self.resource)
            .field("issuers", &self.issuers)
            .field("required", &self.required)
            .field("supported", &self.supported)
            .finish_non_exhaustive()
    }
}

/// The answer to a request for a document that anybody may read, web pages too.
fn public_document(method: &str, document: impl FnOnce() -> Bytes) -> HttpResponse {
    let answer = match method {
        "GET" | "HEAD" => HttpResponse::json(200, document()).with_header("cache-control", "max-age=300"),
        // Some clients name their revision even here, which browsers ask about first.
        "OPTIONS" => HttpResponse::empty(204)
            .with_header("access-control-allow-methods", "GET")
            .with_header("access-control-allow-headers", "*"),
        _ => HttpResponse::empty(405).with_header("allow", "GET, HEAD, OPTIONS"),
    };
    answer.with_header("access-control-allow-origin", "*")
}

/// Why a server can not be protected like this.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectionError {
    /// The URL of the server is none that tokens may be sent to.
    Resource(FetchPolicyError),
    /// The URL of the server has a query.
    Query,
    /// The URL of an issuer is none that a person may be sent to.
    Issuer(FetchPolicyError),
    /// This is no scope.
    Scope(String),
}

impl fmt::Display for ProtectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(error) => write!(f, "the URL of the server can not be protected: {error}"),
            Self::Query => f.write_str("the URL of the server has a query"),
            Self::Scope(scope) => write!(f, "{scope:?} is no scope"),
            Self::Issuer(error) => write!(f, "the URL of the issuer is not usable: {error}"),
        }
    }
}

impl core::error::Error for ProtectionError {}
