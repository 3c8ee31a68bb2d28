//! Input requests: a server asks for input in its result, and the client sends the request again with the answers.

use super::object::{from_variants, object, tagged};
use super::read::{Fields, Fit, Read, ReadResult, UnexpectedJson, expected};
use super::write::{member, serde_impls};
use super::{
    CreateMessage, CreateMessageParams, CreateMessageResult, Elicit, ElicitParams, ElicitResult, Json,
    ListRoots, ListRootsParams, ListRootsResult, Map, Method, Projection, ResultType, WriteAt,
};
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};

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
        let mut params = Reader::new(params.unwrap_or("{}"));
        match method.as_deref() {
            Some(Elicit::NAME) => read_params(&mut params, Self::Elicit),
            Some(CreateMessage::NAME) => read_params(&mut params, Self::CreateMessage),
            Some(ListRoots::NAME) => read_params(&mut params, Self::ListRoots),
            _ => Ok(expected(Self::EXPECTED)),
        }
    }
}

fn read_params<T: Read>(
    params: &mut Reader<'_>,
    request: fn(T) -> InputRequest,
) -> Result<Fit<InputRequest>, NotJson> {
    Ok(T::read(params)?.map(request).map_err(|unexpected| unexpected.reason))
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

tagged! {
    /// The answer to an [`InputRequest`]. Each kind of result has a required field that the others lack.
    #[allow(clippy::large_enum_variant)]
    pub enum InputResponse as ResponseMember {
        /// The user's answer.
        Elicit(ElicitResult) = "action",
        /// The model's answer.
        CreateMessage(CreateMessageResult) = "model",
        /// The client's roots.
        ListRoots(ListRootsResult) = "roots",
    } chosen |fields| fields.look(ResponseMember::parse)?
}

serde_impls!(InputRequest);
