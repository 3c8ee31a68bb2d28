//! Signed texts, taken apart.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::JwtAlgorithm;

/// The longest text that is looked at, in bytes: no longer one fits the headers that most servers take.
const BYTES: usize = 16 * 1024;

/// A signed text in three parts (RFC 7515, section 3.1). Nothing of it is true before the signature is verified.
pub(in super::super) struct Jws<'a> {
    pub(in super::super) header: Header,
    pub(in super::super) algorithm: JwtAlgorithm,
    payload: Vec<u8>,
    /// What is signed.
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
pub(in super::super) struct Header {
    alg: String,
    pub(in super::super) typ: Option<String>,
    pub(in super::super) kid: Option<String>,
    pub(in super::super) jwk: Option<Box<RawValue>>,
    /// What has to be understood: nothing is here.
    crit: Option<IgnoredAny>,
}

impl<'a> Jws<'a> {
    /// Takes a text apart. The reason if it is none, or is signed in a way that is not among `allowed`.
    pub(in super::super) fn parse(text: &'a str, allowed: &[JwtAlgorithm]) -> Result<Self, &'static str> {
        if text.len() > BYTES {
            return Err("it is too long");
        }
        let malformed = "it is no signed token";
        let (signed, signature) = text.rsplit_once('.').ok_or(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(malformed)?;
        let decode = |part: &str| BASE64.decode(part).map_err(|_| malformed);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed)?;
        if header.crit.is_some() {
            return Err("it has extensions that are not understood");
        }
        let algorithm = JwtAlgorithm::parse(&header.alg).filter(|algorithm| allowed.contains(algorithm));
        let algorithm = algorithm.ok_or("its algorithm is not accepted")?;
        Ok(Self { header, algorithm, payload: decode(payload)?, signed, signature: decode(signature)? })
    }

    /// What it says.
    pub(in super::super) fn claims<T: DeserializeOwned>(&self) -> Result<T, &'static str> {
        serde_json::from_slice(&self.payload).map_err(|_| "what it says can not be read")
    }

    /// The same as text, which it is once it was read.
    pub(super) fn payload(&self) -> &str {
        core::str::from_utf8(&self.payload).unwrap_or("{}")
    }
}
