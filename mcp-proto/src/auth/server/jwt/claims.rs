//! The claims of signed tokens.

use alloc::string::String;

use serde::Deserialize;

use crate::auth::Scopes;
use crate::auth::server::claims::{Confirmation, OneOrMany};

/// The claims of a token (RFC 9068, section 2.2), which are untrusted until its signature is verified.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: Option<String>,
    pub(super) sub: Option<String>,
    #[serde(default)]
    pub(super) aud: OneOrMany,
    pub(super) exp: Option<f64>,
    pub(super) nbf: Option<f64>,
    pub(super) client_id: Option<String>,
    /// The client's id in OpenID Connect.
    pub(super) azp: Option<String>,
    #[serde(default)]
    scope: OneOrMany,
    /// The scopes in tokens of some servers.
    #[serde(default)]
    scp: OneOrMany,
    pub(super) cnf: Option<Confirmation>,
}

impl Claims {
    pub(super) fn scopes(&self) -> Scopes {
        self.scope.scopes().union(&self.scp.scopes())
    }
}
