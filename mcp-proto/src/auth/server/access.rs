//! What a token allows.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::error_response::Scheme;
use super::protection::Rules;
use crate::UnixTime;
use crate::auth::Scopes;
use crate::peer::Principal;
use crate::schema::Json;

/// What a token allows, as whoever has verified it says. The token itself is not among it.
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
    /// On whose behalf requests with it are made.
    pub principal: Principal,
    /// The resources that it was issued for. One of them has to be this server.
    pub audiences: Vec<String>,
    /// What it is good for. Default: nothing in particular.
    pub scopes: Scopes,
    /// The client that it was issued to.
    pub client_id: Option<String>,
    /// When it lapses. Default: nobody knows.
    pub expires: Option<UnixTime>,
    /// The thumbprint of the key that it is bound to (RFC 9449): only who holds that key may use it. Default: it is not.
    pub key: Option<String>,
    /// What else its issuer says: an object.
    pub claims: Json,
}

impl Access {
    /// Access on behalf of somebody, by a token that was issued for `audience`: a resource as it is named in
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

/// A request whose token is good: what the token allows, and how that is held against what is needed.
#[derive(Clone)]
pub struct GrantedAccess(Arc<Inner>);

struct Inner {
    access: Access,
    rules: Arc<Rules>,
    scheme: Scheme,
}

impl GrantedAccess {
    pub(super) fn new(access: Access, rules: Arc<Rules>, scheme: Scheme) -> Self {
        Self(Arc::new(Inner { access, rules, scheme }))
    }

    /// What the token allows.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// Whether it allows all of this, broader scopes [included](super::Protection::implies).
    pub fn grants(&self, needed: &Scopes) -> bool {
        self.0.rules.covers_scopes(&self.0.access.scopes, needed)
    }

    /// What to answer if it does not, as `WWW-Authenticate`: all that the operation needs, with what every request does.
    #[must_use]
    pub fn challenge(&self, needed: &Scopes) -> String {
        self.0.rules.insufficient_scope(self.0.scheme, needed)
    }
}

impl fmt::Debug for GrantedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorized").field(&self.0.access).finish()
    }
}
