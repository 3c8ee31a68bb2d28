//! What handlers take: their contexts, and parameters, which are also encoded from any value for methods that are known
//! by their names alone.

use alloc::sync::Arc;
use core::fmt;

use serde::Serialize;

use super::Error;
use crate::peer::RequestError;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{CustomParams, Method, Params, meta};
#[cfg(feature = "server")]
use crate::schema::{Json, LoggingLevel, LoggingMessageParams};

/// A context that handlers take: the one that the driver makes, completed with the router's state.
#[doc(hidden)]
pub trait HandlerContext: Sized + 'static {
    /// The context that the driver makes.
    type Plain: 'static;
    /// The state that completes it.
    type State: 'static;

    fn with_state(plain: Self::Plain, state: &Arc<Self::State>) -> Self;
}

/// Decodes the parameters of `M`; absent parameters count as an empty object.
pub(crate) fn decode_params<M: Method>(params: Option<Raw>) -> Result<M::Params, ErrorObject> {
    decode_as(M::NAME, params)
}

/// Decodes the parameters of a method given by its name.
pub(crate) fn decode_as<P: Params>(method: &str, params: Option<Raw>) -> Result<P, ErrorObject> {
    let decoded = params.as_ref().map_or_else(|| P::from_json("{}"), P::from_raw);
    decoded.map_err(|error| params_error(method, &error))
}

/// The error for parameters that do not match the method.
pub(crate) fn params_error(method: &str, error: &dyn fmt::Display) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, format!("invalid parameters for {method}: {error}"))
}

/// A request of a method that has no handler of its own, for a fallback handler.
///
/// A proxy passes it on with [`Client::request_custom`](crate::front::Client::request_custom).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CustomRequest {
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: CustomParams,
}

impl CustomRequest {
    pub(super) fn new(method: String, params: CustomParams) -> Self {
        Self { method, params }
    }
}

/// Converts a value that serializes to a JSON object, or to `null` for none, into parameters.
///
/// # Errors
/// If it serializes to anything else.
pub(super) fn custom_params(params: impl Serialize) -> Result<CustomParams, Error> {
    let unencodable = |error: serde_json::Error| RequestError::Encode(error.to_string());
    let raw = Raw::encode(&params).map_err(unencodable)?;
    if raw.as_str() == "null" {
        return Ok(CustomParams::new());
    }
    Ok(raw.decode().map_err(unencodable)?)
}

/// Converts the parameters of a request. Its progress token is this side's to choose: one of another connection, in a
/// request that is passed on, would stand for a different request here.
pub(super) fn request_params(params: impl Serialize) -> Result<CustomParams, Error> {
    let mut params = custom_params(params)?;
    params.meta.remove(meta::PROGRESS_TOKEN);
    Ok(params)
}

/// The parameters of a log message; `None` for data that does not serialize, which cannot be sent.
#[cfg(feature = "server")]
pub(super) fn log_params(
    level: LoggingLevel,
    logger: Option<String>,
    data: &impl Serialize,
) -> Option<LoggingMessageParams> {
    let mut params = LoggingMessageParams::new(level, Json::encode(data).ok()?);
    params.logger = logger;
    Some(params)
}
