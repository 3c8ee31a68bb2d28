//! Parameters of the server's messages.

use alloc::string::{String, ToString};

use crate::rpc::Raw;

/// The size in bytes of parameters.
pub(super) fn bytes_of(params: Option<&Raw>) -> usize {
    params.map_or(0, |params| params.as_bytes().len())
}

/// Decodes a notification's parameters, or returns why they are invalid.
pub(super) fn decode<'a, T: serde::Deserialize<'a>>(params: Option<&'a Raw>) -> Result<T, String> {
    match params {
        Some(params) => params.decode().map_err(|error| error.to_string()),
        None => Err("it has no parameters".into()),
    }
}
