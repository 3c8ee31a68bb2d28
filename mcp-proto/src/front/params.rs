//! What handlers take: their contexts, and parameters, which are also encoded from any value for methods that are known
//! by their names alone.

use alloc::sync::Arc;
use core::fmt;

use serde::Serialize;

use super::Error;
use crate::peer::RequestError;
use crate::prelude::*;
#[cfg(feature = "server")]
use crate::rpc::Text;
use crate::rpc::{ErrorObject, Raw, code};
#[cfg(feature = "server")]
use crate::schema::{
    CallTool, CallToolParams, Json, LoggingLevel, LoggingMessageParams, tasks::legacy::TaskMetadata,
};
use crate::schema::{CustomParams, Method, Params, meta};

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

/// A call of a tool, decoded as far as every tool needs it.
#[cfg(feature = "server")]
#[derive(Clone)]
pub(in crate::front) struct ToolCall {
    /// The tool, as the router that runs its handler knows it.
    pub(in crate::front) name: Text,
    pub(in crate::front) arguments: Option<Raw>,
    pub(in crate::front) task: Option<TaskMetadata>,
    params: Raw,
}

#[cfg(feature = "server")]
impl ToolCall {
    /// Reads the parameters of a call; absent ones count as an empty object.
    pub(in crate::front) fn read(params: Option<Raw>) -> Result<Self, ErrorObject> {
        let params = params.unwrap_or_else(|| Raw::from_scan(Text::from_static("{}")));
        if let Some((name, arguments)) = params.plain_call() {
            return Ok(Self { name, arguments, task: None, params });
        }
        let CallToolParams { name, arguments, task, .. } = decode_params::<CallTool>(Some(params.clone()))?;
        Ok(Self { name: name.into(), arguments: arguments.map(Raw::from), task, params })
    }

    /// All parameters, for a tool that takes them undecoded.
    pub(in crate::front) fn into_params(self) -> Result<CallToolParams, ErrorObject> {
        let params = decode_params::<CallTool>(Some(self.params))?;
        Ok(CallToolParams { name: self.name.to_string(), ..params })
    }

    /// Copies the call into memory of its own, for a task, which outlives the message.
    pub(in crate::front) fn detached(&self) -> Self {
        let arguments = self.arguments.as_ref().map(Raw::detached);
        Self {
            name: (&*self.name).into(),
            arguments,
            task: self.task.clone(),
            params: self.params.detached(),
        }
    }
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
    let mut params: CustomParams = raw.decode().map_err(unencodable)?;
    // Of repeated names the last counts, so that a header cannot repeat another.
    params.extra = params.extra.into_iter().collect();
    Ok(params)
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

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use crate::Bytes;
    use crate::rpc::{self, Frame, Message};

    fn call(params: &str) -> Result<ToolCall, ErrorObject> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let Ok(Frame::Single(Message::Request(request))) = rpc::read(&Bytes::from(text), 64) else {
            panic!()
        };
        ToolCall::read(request.params)
    }

    #[test]
    fn tool_call_is_the_same_with_and_without_parameters_that_tools_do_not_take() {
        for members in [
            r#""name":"a""#,
            r#""arguments":{"b":[1]},"name":"a","_meta":{"progressToken":1}"#,
            r#""name":"a","arguments":null"#,
            r#""name":"\u0061","arguments":{}"#,
        ] {
            let (plain, other) = (format!("{{{members}}}"), format!("{{{members},\"other\":1}}"));
            let [plain, other] = [plain, other].map(|params| call(&params).unwrap());
            assert_eq!((&*plain.name, &plain.arguments), ("a", &other.arguments), "{members}");
            let whole = plain.detached().into_params().unwrap();
            assert_eq!((whole.name, whole.meta), ("a".into(), other.into_params().unwrap().meta));
        }
    }

    #[test]
    fn custom_parameters_have_the_last_of_repeated_members() {
        let params: Json = serde_json::from_str(r#"{"name":"a","uri":"c","name":"b"}"#).unwrap();
        let params = serde_json::to_string(&custom_params(params).unwrap()).unwrap();
        assert_eq!(params, r#"{"name":"b","uri":"c"}"#);
    }

    /// S8.7
    #[test]
    fn malformed_tool_call_is_an_error_of_the_protocol() {
        for params in
            ["{}", r#"{"name":1}"#, r#"{"name":"a","arguments":[]}"#, r#"{"name":"a","arguments":"b"}"#]
        {
            assert_eq!(call(params).err().map(|error| error.code), Some(code::INVALID_PARAMS), "{params}");
        }
    }
}
