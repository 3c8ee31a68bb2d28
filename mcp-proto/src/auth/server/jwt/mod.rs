//! Tokens that are signed texts (RFC 9068, RFC 7519), held to the keys of their issuers.

mod algorithm;
mod checker;
mod config;
mod issuer;
mod jws;
mod key;
mod signed;

pub use algorithm::JwtAlgorithm;
pub use checker::JwtChecker;
pub use config::{JwtConfig, KeySource, TokenTypes, TrustedIssuer};
pub use signed::Signed;

pub(super) use jws::Jws;
pub(super) use key::PublicKey;
pub(super) use signed::WRONG_SIGNATURE;
