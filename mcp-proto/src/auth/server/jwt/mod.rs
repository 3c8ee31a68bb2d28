//! Verification of signed tokens (RFC 9068, RFC 7519) with the keys of their issuers.

mod algorithm;
mod checker;
mod config;
mod issuer;
mod jws;
mod key;
mod unverified_token;

pub use algorithm::JwtAlgorithm;
pub use checker::JwtChecker;
pub use config::{JwtConfig, KeySource, TokenTypes, TrustedIssuer};
pub use unverified_token::UnverifiedToken;

pub(super) use jws::Jws;
pub(super) use key::PublicKey;
pub(super) use unverified_token::WRONG_SIGNATURE;
