//! Parameters of the server's messages.

use alloc::string::{String, ToString};

use crate::rpc::Raw;
use crate::schema::Params;

/// The size in bytes of parameters.
pub(super) fn bytes_of(params: Option<&Raw>) -> usize {
    params.map_or(0, |params| params.as_bytes().len())
}

/// Decodes a notification's parameters, or returns why they are invalid.
pub(super) fn decode<P: Params>(params: Option<&Raw>) -> Result<P, String> {
    match params {
        Some(params) => P::from_json(params.as_str()).map_err(|error| error.to_string()),
        None => Err("it has no parameters".into()),
    }
}
