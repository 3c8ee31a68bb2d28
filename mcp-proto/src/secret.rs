//! Secret text that is not shown by accident.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::prelude::*;

/// A secret text, such as a token, a password or a code, that is never shown by accident. Dropping it wipes it from
/// memory, and comparisons reveal by their duration nothing but its length.
///
/// ```
/// use mcp_proto::Secret;
///
/// let token = Secret::new("mF_9.B5f-4.1JqM");
/// assert_eq!(format!("{token:?}"), "Secret(..)");
/// assert_eq!(token.expose(), "mF_9.B5f-4.1JqM");
/// ```
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

//= C12.22 "Refresh tokens confidential"
debug_fields! { Secret => "Secret(..)" }
