//! Elicitation: a server asks the user for input, by a form or a web page.

use alloc::borrow::Cow;

use crate::prelude::*;
use crate::rpc::Raw;
use crate::rpc::json_reader::{NotJson, ReadNumber, Reader};

use super::object::{from_variants, names, object, read_variant, tagged, union};
use super::read::{Fields, Fit, Items, Read, ReadResult, UnexpectedJson, expected, read_raw, read_text};
use super::tasks::legacy::TaskMetadata;
use super::write::{member, serde_impls};
use super::{
    CreateMessage, CreateMessageParams, CreateMessageResult, Elicit, Json, List, ListRoots, ListRootsParams,
    ListRootsResult, Map, Meta, Method, Number, Params, PrimitiveSchema, Projection, ResultType, Revision,
    WriteAt,
};

union! {
    /// The parameters of `elicitation/create`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    pub enum ElicitParams {
        /// Form mode; a request without `mode` is in form mode.
        Form(ElicitFormParams),
        /// URL mode (since 2025-11-25).
        Url(ElicitUrlParams),
    }
    //= C10.2 "Absent `mode` = form"
    read |fields| match fields.look_at::<Option<ElicitMode>>("mode")? {
        None | Some(Ok(None | Some(ElicitMode::Form))) => read_variant(fields, Self::Form),
        Some(Ok(Some(ElicitMode::Url))) => read_variant(fields, Self::Url),
        Some(Err(_)) => Ok(Err("unknown `mode`".into())),
    }
}

names! {
    /// Mode of an elicitation.
    pub enum ElicitMode {
        /// The user fills in a form.
        Form = "form",
        /// The user visits a web page.
        Url = "url",
    }
}

object! {
    /// Asks the user to fill in a form.
    pub params ElicitFormParams {
        required {
            /// Message to show to the user.
            message: String = "message";
            /// The fields of the form.
            requested_schema: ElicitSchema = "requestedSchema";
        }
        optional {
            /// `form`, if the field is present.
            mode: Option<ElicitMode> = "mode" since V2025_11_25 type strict check is_form;
            /// Asks the client to run the request as a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

fn is_form(mode: &Option<ElicitMode>) -> Result<(), &'static str> {
    if *mode == Some(ElicitMode::Url) { Err("`form`") } else { Ok(()) }
}

object! {
    /// Asks the user to visit a web page.
    pub params ElicitUrlParams as "mode" = "url" {
        required {
            /// Message to show to the user.
            message: String = "message";
            /// URL of the page. The client must not open it without the user's consent, nor prefetch it.
            url: String = "url";
        }
        optional {
            /// Id by which `notifications/elicitation/complete` reports that the user has finished: required by
            /// 2025-11-25, absent in other revisions.
            //= S9.4 "no elicitationId (own id goes in requestState)"
            elicitation_id: Option<String> = "elicitationId" until V2025_11_25;
            /// Asks the client to run the request as a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }

    /// Schema of a form: its fields.
    pub struct ElicitSchema as "type" = "object" {
        required {
            /// The fields by name, in order.
            properties: Map<PrimitiveSchema> = "properties";
        }
        optional {
            /// The JSON Schema dialect.
            dialect: Option<String> = "$schema" since V2025_11_25;
            /// The names of the required fields.
            required: Option<Vec<String>> = "required";
        }
    }
}

impl ElicitSchema {
    /// Creates a form without fields, which the user only accepts or declines.
    ///
    /// ```
    /// use mcp_proto::schema::{ElicitParams, ElicitSchema};
    ///
    /// let question = ElicitParams::form("Delete everything?", ElicitSchema::empty());
    /// # drop(question);
    /// ```
    #[must_use]
    pub fn empty() -> Self {
        Self::new(Map::new())
    }
}

impl ElicitParams {
    /// Asks the user to fill in a form.
    pub fn form(message: impl Into<String>, schema: impl Into<ElicitSchema>) -> Self {
        Self::Form(ElicitFormParams {
            mode: Some(ElicitMode::Form),
            ..ElicitFormParams::new(message, schema)
        })
    }

    /// Asks the user to visit a web page.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrlParams::new(message, url))
    }

    /// Mode of the elicitation.
    pub fn mode(&self) -> ElicitMode {
        match self {
            Self::Form(_) => ElicitMode::Form,
            Self::Url(_) => ElicitMode::Url,
        }
    }

    /// Message to show to the user.
    pub fn message(&self) -> &str {
        match self {
            Self::Form(params) => &params.message,
            Self::Url(params) => &params.message,
        }
    }
}

impl Params for ElicitParams {
    fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        read_text(text)
    }

    fn from_raw(raw: &Raw) -> Result<Self, serde_json::Error> {
        read_raw(raw)
    }

    fn meta(&self) -> &Meta {
        match self {
            Self::Form(params) => &params.meta,
            Self::Url(params) => &params.meta,
        }
    }

    fn meta_mut(&mut self) -> &mut Meta {
        match self {
            Self::Form(params) => &mut params.meta,
            Self::Url(params) => &mut params.meta,
        }
    }

    fn write_fields(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Form(params) => params.write_own(view, out),
            Self::Url(params) => params.write_own(view, out),
        }
    }
}

object! {
    /// The result of `elicitation/create`.
    pub result ElicitResult {
        required {
            /// The user's action.
            action: ElicitAction = "action";
        }
        optional {
            /// The submitted values by field name.
            content: Option<Map<ElicitValue>> = "content";
        }
    }
}

impl ElicitResult {
    /// The user submitted the form.
    pub fn accept(content: impl Into<Map<ElicitValue>>) -> Self {
        Self { content: Some(content.into()), ..Self::new(ElicitAction::Accept) }
    }

    /// The user declined explicitly.
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The user dismissed the request without a choice.
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

names! {
    /// A user's response to an elicitation.
    pub enum ElicitAction {
        /// The user agreed or submitted the form.
        Accept = "accept",
        /// The user declined explicitly.
        Decline = "decline",
        /// The user dismissed the request without a choice.
        Cancel = "cancel",
    }
}

/// Value of a form field.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitValue {
    /// A text, or the chosen option.
    String(String),
    /// A number.
    Number(Number),
    /// A boolean.
    Bool(bool),
    /// The chosen options (since 2025-11-25; before that they are written as one string, separated by commas).
    Strings(Vec<String>),
    /// A value of unknown kind, written back verbatim.
    Unknown(Json),
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),*) => { $(
        impl From<$type> for ElicitValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )* };
}

value_from!(&str => String, bool => Bool, f64 => Number, i64 => Number);

impl Read for ElicitValue {
    const EXPECTED: &'static str = "a string, number, boolean or list of strings";

    fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
        Ok(Self::Unknown(unexpected.json))
    }

    fn from_bool(value: bool) -> Fit<Self> {
        Ok(Self::Bool(value))
    }

    fn from_number(number: ReadNumber) -> Fit<Self> {
        Number::from_number(number).map(Self::Number)
    }

    fn from_text(value: Cow<'_, str>) -> Fit<Self> {
        Ok(Self::String(value.into_owned()))
    }

    fn from_list(list: Items<'_, '_>) -> Result<Fit<Self>, NotJson> {
        Vec::from_list(list).map(|read| read.map(Self::Strings))
    }
}

impl WriteAt for ElicitValue {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::String(value) => value.write(view, out),
            Self::Number(value) => value.write(view, out),
            Self::Bool(value) => value.write(view, out),
            Self::Strings(values) if view.since(Revision::V2025_11_25) => values.write(view, out),
            Self::Strings(values) => values.join(", ").write(view, out),
            Self::Unknown(json) => json.write(view, out),
        }
    }
}

serde_impls!(ElicitValue);

object! {
    /// The parameters of `notifications/elicitation/complete` (2025-11-25).
    pub params ElicitationCompleteParams {
        required {
            /// Id of the elicitation that the user has finished.
            elicitation_id: String = "elicitationId";
        }
    }

    /// The data of the error `URL_ELICITATION_REQUIRED` (2025-11-25).
    pub struct UrlElicitationData {
        required {
            /// The pages that the user must visit before the client sends the request again.
            elicitations: List<ElicitUrlParams> = "elicitations";
        }
    }
}

// Input requests: a server asks for input in its result, and the client sends the request again with the answers.

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
#[non_exhaustive]
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
