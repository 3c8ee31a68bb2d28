//! Parsing of signed texts (JWS).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::JwtAlgorithm;

/// Maximum bytes of a signed text: no longer one fits the header limit of most servers.
const BYTES: usize = 16 * 1024;

/// A JWS in compact form (RFC 7515, section 3.1). Its contents are untrusted until the signature is verified.
pub(super) struct Jws<'a> {
    pub(super) header: Header,
    pub(super) algorithm: JwtAlgorithm,
    payload: Vec<u8>,
    /// The signed part.
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
    /// The kind of text, for errors.
    subject: &'static str,
}

#[derive(Deserialize)]
pub(super) struct Header {
    alg: String,
    pub(super) typ: Option<String>,
    pub(super) kid: Option<String>,
    pub(super) jwk: Option<Box<RawValue>>,
    /// Critical extensions, none of which are supported.
    crit: Option<IgnoredAny>,
}

impl<'a> Jws<'a> {
    /// Parses a signed text: `subject`, such as "the token". Returns the reason if it is invalid, or its algorithm is
    /// not among `allowed`.
    pub(super) fn parse(
        subject: &'static str,
        text: &'a str,
        allowed: &[JwtAlgorithm],
    ) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("{subject} is too long"));
        }
        let malformed = || format!("{subject} is no signed token");
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| BASE64.decode(part).map_err(|_| malformed());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        if header.crit.is_some() {
            return Err(format!("{subject} has extensions that are not understood"));
        }
        let algorithm = JwtAlgorithm::parse(&header.alg).filter(|algorithm| allowed.contains(algorithm));
        let algorithm = algorithm.ok_or_else(|| format!("{subject}'s algorithm is not accepted"))?;
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        Ok(Self { header, algorithm, payload, signed, signature, subject })
    }

    /// Deserializes the claims.
    pub(super) fn claims<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.payload).map_err(|_| format!("{}'s claims cannot be read", self.subject))
    }

    /// The payload as text, which parsing has already validated.
    pub(super) fn payload(&self) -> &str {
        core::str::from_utf8(&self.payload).unwrap_or("{}")
    }
}
