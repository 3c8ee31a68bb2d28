//! `WWW-Authenticate`.

use alloc::string::String;
use alloc::vec::Vec;

use super::Scopes;

/// One challenge of a `WWW-Authenticate` header.
///
/// RFC 9110 section 11.6.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The scheme, as it was written: compare with [`is`](Self::is).
    pub scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// All challenges of a header, or of several that are joined by commas. What can not be read is skipped.
    pub fn read_all(header: &str) -> Vec<Self> {
        let _ = header;
        Vec::new()
    }

    /// Whether it is of this scheme. Schemes are compared without regard to case.
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The value of a parameter. Names are compared without regard to case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What the challenges of a resource server say together.
///
/// RFC 6750 section 3, RFC 9728 section 5.1, RFC 9449 section 7.1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Where the metadata of the resource is.
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scope: Option<Scopes>,
    /// What is wrong with the token.
    pub error: Option<String>,
    /// The same for people, fit to be shown.
    pub error_description: Option<String>,
    /// Whether tokens bound to a key are taken: there is a `DPoP` challenge.
    pub wants_dpop: bool,
}

impl Demand {
    /// Of a `WWW-Authenticate` header, or of several that are joined by commas. `None` if there is neither a `Bearer`
    /// nor a `DPoP` challenge.
    pub fn read(header: &str) -> Option<Self> {
        let challenges = Challenge::read_all(header);
        challenges.iter().any(|challenge| challenge.is("Bearer") || challenge.is("DPoP")).then(Self::default)
    }

    /// Whether the token is good, but not for this.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether the same request is wanted again with the nonce that came with the answer.
    pub fn is_use_dpop_nonce(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }
}
