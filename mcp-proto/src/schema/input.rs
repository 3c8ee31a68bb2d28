//! Input requests: a server asks for input in its result, and the client sends the request again with the answers.

use alloc::string::String;
use alloc::vec::Vec;

use super::containers::Map;
use super::elicitation::{ElicitParams, ElicitResult};
use super::json::Json;
use super::method::{CreateMessage, Elicit, ListRoots, Method};
use super::object::{Object as _, from_variants, object};
use super::read::{Fields, Fit, Read, ReadResult, UnexpectedJson};
use super::roots::ListRootsResult;
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::write::{Projection, WriteAt, member, serde_impls};
use crate::rpc::json_reader::{NotJson, Reader};
use crate::schema::{ListRootsParams, ResultType};

/// Requests for input from the server, each under a key that the server chooses.
pub type InputRequests = Map<InputRequest>;

/// The answers to [`InputRequests`], each under the key of its request.
pub type InputResponses = Map<InputResponse>;

object! {
    /// The result of a request that cannot be finished without further input.
    ///
    /// The client obtains the input and sends the request again, with the answers and the unchanged `request_state`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
    pub result InputRequiredResult {
        required {}
        optional {
            /// The input that the server needs; if absent, the client just sends the request again.
            input_requests: Option<InputRequests> = "inputRequests" type strict;
            /// Opaque state that the client returns unchanged.
            request_state: Option<String> = "requestState" type strict;
        }
    }
}

impl InputRequiredResult {
    /// Creates a result that asks for input.
    pub fn requests(requests: impl Into<InputRequests>) -> Self {
        Self {
            input_requests: Some(requests.into()),
            result_type: Some(ResultType::InputRequired),
            ..Self::new()
        }
    }
}

/// One request for input from the server.
///
/// On the wire it has a `method` and `params`; other members, such as those of a JSON-RPC envelope, are not kept.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum InputRequest {
    /// Elicitation: asks the user.
    Elicit(ElicitParams),
    /// Sampling: asks the client's model.
    CreateMessage(CreateMessageParams),
    /// Asks for the client's roots.
    ListRoots(ListRootsParams),
    /// A request of unknown kind, written back verbatim.
    Unknown(Json),
}

impl InputRequest {
    /// Name of the method, if the kind is known.
    pub fn method(&self) -> Option<&'static str> {
        match self {
            Self::Elicit(_) => Some(Elicit::NAME),
            Self::CreateMessage(_) => Some(CreateMessage::NAME),
            Self::ListRoots(_) => Some(ListRoots::NAME),
            Self::Unknown(_) => None,
        }
    }
}

from_variants!(InputRequest { Elicit(ElicitParams), CreateMessage(CreateMessageParams), ListRoots(ListRootsParams) });

impl Read for InputRequest {
    const EXPECTED: &'static str = "an object";

    fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
        Ok(Self::Unknown(unexpected.json))
    }

    fn from_object(mut fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        // `params` may come before `method`, which determines their type.
        let (mut method, mut params) = (None, None);
        while let Some(name) = fields.name()? {
            match &*name {
                "method" => method = fields.value::<String>()?.ok(),
                "params" => params = Some(fields.skip()?),
                _ => _ = fields.skip()?,
            }
        }
        let mut params = params.map(Reader::new);
        let params = params.as_mut();
        let read = match method.as_deref() {
            Some(Elicit::NAME) => params.map(Read::read).transpose()?.map(|read| read.map(Self::Elicit)),
            Some(CreateMessage::NAME) => {
                params.map(Read::read).transpose()?.map(|read| read.map(Self::CreateMessage))
            }
            Some(ListRoots::NAME) => {
                let read = params.map(Read::read).transpose()?;
                Some(read.unwrap_or_else(|| Ok(ListRootsParams::new())).map(Self::ListRoots))
            }
            _ => None,
        };
        match read {
            Some(Ok(request)) => Ok(Ok(request)),
            Some(Err(UnexpectedJson { reason, .. })) => Ok(Err(reason)),
            None => Ok(Err("unknown `method` or missing `params`".into())),
        }
    }
}

impl WriteAt for InputRequest {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        let params: Option<&dyn WriteAt> = match self {
            Self::Elicit(params) => Some(params),
            Self::CreateMessage(params) => Some(params),
            Self::ListRoots(params) if *params == ListRootsParams::new() => None,
            Self::ListRoots(params) => Some(params),
            Self::Unknown(json) => return json.write(view, out),
        };
        out.push(b'{');
        member(out, "method", &self.method(), view);
        if let Some(params) = params {
            member(out, "params", params, view);
        }
        out.push(b'}');
    }
}

/// The answer to an [`InputRequest`].
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum InputResponse {
    /// The user's answer.
    Elicit(ElicitResult),
    /// The model's answer.
    CreateMessage(CreateMessageResult),
    /// The client's roots.
    ListRoots(ListRootsResult),
    /// An answer of unknown kind, written back verbatim.
    Unknown(Json),
}

from_variants!(InputResponse { Elicit(ElicitResult), CreateMessage(CreateMessageResult), ListRoots(ListRootsResult) });

enum ResponseKind {
    Elicit,
    CreateMessage,
    ListRoots,
}

impl Read for InputResponse {
    const EXPECTED: &'static str = "an object";

    fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
        Ok(Self::Unknown(unexpected.json))
    }

    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        // Each kind of result has a required field that the others lack.
        let kind = fields.look(|name| match name {
            "action" => Some(ResponseKind::Elicit),
            "model" => Some(ResponseKind::CreateMessage),
            "roots" => Some(ResponseKind::ListRoots),
            _ => None,
        })?;
        match kind {
            Some(ResponseKind::Elicit) => Ok(ElicitResult::read_fields(fields)?.map(Self::Elicit)),
            Some(ResponseKind::CreateMessage) => {
                Ok(CreateMessageResult::read_fields(fields)?.map(Self::CreateMessage))
            }
            Some(ResponseKind::ListRoots) => Ok(ListRootsResult::read_fields(fields)?.map(Self::ListRoots)),
            None => Ok(Err("not the result of a known input request".into())),
        }
    }
}

impl WriteAt for InputResponse {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Elicit(result) => result.write(view, out),
            Self::CreateMessage(result) => result.write(view, out),
            Self::ListRoots(result) => result.write(view, out),
            Self::Unknown(json) => json.write(view, out),
        }
    }
}

serde_impls!(InputRequest, InputResponse);
