//! Verification of signed tokens (RFC 9068, RFC 7519) and of proofs of possession (RFC 9449).

mod algorithm;
mod checker;
mod claims;
mod config;
mod dpop;
mod issuer;
mod jws;
mod key;
mod replay_cache;
mod unverified_token;

pub use algorithm::JwtAlgorithm;
pub use checker::JwtChecker;
pub use config::{JwtConfig, KeySource, TokenTypes, TrustedIssuer};
pub use dpop::{DpopConfig, DpopPolicy};
pub use replay_cache::ReplayCache;
pub use unverified_token::UnverifiedToken;

use jws::Jws;
use key::PublicKey;
