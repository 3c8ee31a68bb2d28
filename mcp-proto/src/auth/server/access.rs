//! The access that a verified token grants.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use super::access_error::Scheme;
use super::protection::Rules;
use crate::UnixTime;
use crate::auth::{Now, Scopes};
use crate::peer::Principal;
use crate::schema::Json;

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

/// The access of an accepted request, and the check of its scopes against those that an operation needs.
#[derive(Clone)]
pub struct GrantedAccess(Arc<Inner>);

struct Inner {
    access: Access,
    rules: Arc<Rules>,
    scheme: Scheme,
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
    pub(super) fn new(access: Access, rules: Arc<Rules>, scheme: Scheme) -> Self {
        Self(Arc::new(Inner { access, rules, scheme, reverifier: None }))
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
    #[must_use]
    pub fn challenge(&self, needed: &Scopes) -> String {
        self.0.rules.insufficient_scope(self.0.scheme, needed)
    }
}

impl fmt::Debug for GrantedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrantedAccess").field(&self.0.access).finish()
    }
}
