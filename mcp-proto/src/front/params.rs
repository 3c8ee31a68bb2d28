//! The parameters of requests, decoded for their handlers.

use alloc::format;
use core::fmt;

use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{Method, Params};

/// Decodes the parameters of `M`; absent parameters count as an empty object.
pub(crate) fn decode_params<M: Method>(params: Option<Raw>) -> Result<M::Params, ErrorObject> {
    decode_as(M::NAME, params)
}

/// Decodes the parameters of a method given by its name.
pub(crate) fn decode_as<P: Params>(method: &str, params: Option<Raw>) -> Result<P, ErrorObject> {
    P::from_json(params.as_ref().map_or("{}", Raw::as_str)).map_err(|error| params_error(method, &error))
}

/// The error for parameters that do not match the method.
pub(crate) fn params_error(method: &str, error: &dyn fmt::Display) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, format!("invalid parameters for {method}: {error}"))
}
