//! Input that a server needs before it can finish: asked for in its result, answered by asking again.

use alloc::string::String;

use serde::de::{Deserializer, MapAccess};
use serde::ser::{SerializeMap, Serializer};

use super::elicitation::{ElicitParams, ElicitResult};
use super::json::Json;
use super::map::Map;
use super::method::{CreateMessage, Elicit, ListRoots, Method};
use super::object::{Object as _, object};
use super::read::{Attempt, Fields, Read, read_shape};
use super::roots::ListRootsResult;
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::write::{Projection, Viewed, WriteAt, serde_impls};
use crate::schema::{ListRootsParams, ResultType};

/// Requests of a server, each under a key of its choice.
pub type InputRequests = Map<InputRequest>;

/// The answers to [`InputRequests`], each under the key of its request.
pub type InputResponses = Map<InputResponse>;

object! {
    /// The result of a request that cannot be finished without further input.
    ///
    /// The client gets the input and sends the request again, with the answers and with `request_state` as it came.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
    pub result InputRequiredResult {
        required {}
        optional {
            /// What the server asks for; if absent, only that the request be sent again.
            input_requests: Option<InputRequests> = "inputRequests" odd refused;
            /// What the client hands back unread.
            request_state: Option<String> = "requestState" odd refused;
        }
    }
}

impl InputRequiredResult {
    /// Asks for input.
    pub fn requests(requests: impl Into<InputRequests>) -> Self {
        Self {
            input_requests: Some(requests.into()),
            result_type: Some(ResultType::InputRequired),
            ..Self::new()
        }
    }
}

/// One thing that a server asks for.
///
/// On the wire it has a `method` and `params`; what else stands beside them, as in any JSON-RPC envelope, is not kept.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum InputRequest {
    /// Ask the person.
    Elicit(ElicitParams),
    /// Ask the model.
    CreateMessage(CreateMessageParams),
    /// Tell where the server may work.
    ListRoots(ListRootsParams),
    /// Something unknown here: written as it came.
    Unknown(Json),
}

impl InputRequest {
    /// The method, if it is known here.
    pub fn method(&self) -> Option<&'static str> {
        match self {
            Self::Elicit(_) => Some(Elicit::NAME),
            Self::CreateMessage(_) => Some(CreateMessage::NAME),
            Self::ListRoots(_) => Some(ListRoots::NAME),
            Self::Unknown(_) => None,
        }
    }
}

impl From<ElicitParams> for InputRequest {
    fn from(params: ElicitParams) -> Self {
        Self::Elicit(params)
    }
}

impl From<CreateMessageParams> for InputRequest {
    fn from(params: CreateMessageParams) -> Self {
        Self::CreateMessage(params)
    }
}

impl From<ListRootsParams> for InputRequest {
    fn from(params: ListRootsParams) -> Self {
        Self::ListRoots(params)
    }
}

impl Read for InputRequest {
    const EXPECTED: &'static str = "an object";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        let read = read_shape(deserializer)?;
        Ok(Ok(read.unwrap_or_else(|odd| Self::Unknown(odd.json))))
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        let mut fields = Fields::new(map);
        // The parameters may stand before the method that says what they are.
        fields.decide::<()>(|_| None)?;
        let method = match fields.held::<String>("method") {
            Some(method) => method?.ok(),
            None => None,
        };
        let read = match method.as_deref() {
            Some(Elicit::NAME) => params(&fields)?.map(|params| params.map(Self::Elicit)),
            Some(CreateMessage::NAME) => params(&fields)?.map(|params| params.map(Self::CreateMessage)),
            Some(ListRoots::NAME) => {
                let params = params(&fields)?;
                Some(params.unwrap_or_else(|| Ok(ListRootsParams::new())).map(Self::ListRoots))
            }
            _ => None,
        };
        match read {
            Some(Ok(request)) => Ok(Ok(request)),
            Some(Err(odd)) => fields.into_odd(odd.reason).map(Err),
            None => fields.into_odd("no known method with parameters").map(Err),
        }
    }
}

fn params<'de, A: MapAccess<'de>, P: Read>(fields: &Fields<'de, A>) -> Result<Option<Attempt<P>>, A::Error> {
    fields.held("params").transpose()
}

impl WriteAt for InputRequest {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = match self {
            Self::Unknown(json) => return json.write(view, serializer),
            _ => serializer.serialize_map(None)?,
        };
        map.serialize_entry("method", &self.method())?;
        match self {
            Self::Elicit(params) => map.serialize_entry("params", &Viewed(params, view))?,
            Self::CreateMessage(params) => map.serialize_entry("params", &Viewed(params, view))?,
            Self::ListRoots(params) if *params == ListRootsParams::new() => {}
            Self::ListRoots(params) => map.serialize_entry("params", &Viewed(params, view))?,
            Self::Unknown(_) => {}
        }
        map.end()
    }
}

/// The answer to an [`InputRequest`].
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum InputResponse {
    /// What the person answered.
    Elicit(ElicitResult),
    /// What the model answered.
    CreateMessage(CreateMessageResult),
    /// Where the server may work.
    ListRoots(ListRootsResult),
    /// Something unknown here: written as it came.
    Unknown(Json),
}

impl From<ElicitResult> for InputResponse {
    fn from(result: ElicitResult) -> Self {
        Self::Elicit(result)
    }
}

impl From<CreateMessageResult> for InputResponse {
    fn from(result: CreateMessageResult) -> Self {
        Self::CreateMessage(result)
    }
}

impl From<ListRootsResult> for InputResponse {
    fn from(result: ListRootsResult) -> Self {
        Self::ListRoots(result)
    }
}

enum Form {
    Elicit,
    CreateMessage,
    ListRoots,
}

impl Read for InputResponse {
    const EXPECTED: &'static str = "an object";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        let read = read_shape(deserializer)?;
        Ok(Ok(read.unwrap_or_else(|odd| Self::Unknown(odd.json))))
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        let mut fields = Fields::new(map);
        // Each result is told by a field that it must have and the others do not.
        let form = fields.decide(|name| match name {
            "action" => Some(Form::Elicit),
            "model" => Some(Form::CreateMessage),
            "roots" => Some(Form::ListRoots),
            _ => None,
        })?;
        match form {
            Some(Form::Elicit) => Ok(ElicitResult::read_fields(fields)?.map(Self::Elicit)),
            Some(Form::CreateMessage) => {
                Ok(CreateMessageResult::read_fields(fields)?.map(Self::CreateMessage))
            }
            Some(Form::ListRoots) => Ok(ListRootsResult::read_fields(fields)?.map(Self::ListRoots)),
            None => fields.into_odd("the answer to no known request").map(Err),
        }
    }
}

impl WriteAt for InputResponse {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Elicit(result) => result.write(view, serializer),
            Self::CreateMessage(result) => result.write(view, serializer),
            Self::ListRoots(result) => result.write(view, serializer),
            Self::Unknown(json) => json.write(view, serializer),
        }
    }
}

serde_impls!(InputRequest, InputResponse);
