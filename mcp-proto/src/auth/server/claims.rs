//! The claims that signed tokens and introspection responses share.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::Deserialize;

use crate::UnixTime;
use crate::auth::Scopes;
use crate::peer::Principal;

/// The key or certificate that a token is bound to (RFC 7800).
#[derive(Deserialize)]
pub(super) struct Confirmation {
    /// The thumbprint of a key.
    pub(super) jkt: Option<String>,
    /// The hash of a certificate, which this server cannot check.
    #[serde(rename = "x5t#S256")]
    pub(super) certificate: Option<String>,
}

impl Confirmation {
    /// Whether the token is bound to anything except a key.
    pub(super) fn is_unsupported(&self) -> bool {
        self.certificate.is_some() || self.jkt.is_none()
    }
}

/// One string or several.
#[derive(Default)]
pub(super) struct OneOrMany(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a string or several")
            }

            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany([text.into()].into()))
            }

            fn visit_unit<E>(self) -> Result<OneOrMany, E> {
                Ok(OneOrMany::default())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut strings = Vec::new();
                while let Some(string) = seq.next_element()? {
                    strings.push(string);
                }
                Ok(OneOrMany(strings))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl OneOrMany {
    /// The scopes of all strings, each of which may be a space-separated list.
    pub(super) fn scopes(&self) -> Scopes {
        self.0.iter().flat_map(|scopes| scopes.split_ascii_whitespace()).collect()
    }
}

/// The principal: the subject at an issuer, or a client on its own behalf.
pub(super) fn principal(issuer: &str, subject: Option<&str>, client: Option<&str>) -> Option<Principal> {
    let named = |name: &&str| !name.is_empty();
    match (subject.filter(named), client.filter(named)) {
        //= S9.3 "verified user identity (sub)"
        (Some(subject), _) => Some(Principal::new(format!("{issuer}#{subject}"))),
        (None, Some(client)) => Some(Principal::new(format!("{issuer}?client_id={client}"))),
        (None, None) => None,
    }
}

/// Converts a claim's seconds since 1970.
pub(super) fn unix_time(seconds: f64) -> Option<UnixTime> {
    Duration::try_from_secs_f64(seconds).ok().map(UnixTime::from_epoch)
}
