//! Elicitation: a server asks the person, by a form or by a page on the web.

use alloc::string::String;

use serde::de::MapAccess;
use serde::ser::{SerializeMap, Serializer};

use super::json::{Json, Number};
use super::list::List;
use super::map::Map;
use super::meta::Meta;
use super::method::Params;
use super::object::{Object, names, object};
use super::primitive::PrimitiveSchema;
use super::read::{Attempt, Fields, Odd, Read};
use super::revision::Revision;
use super::tasks::legacy::TaskMetadata;
use super::write::{Projection, WriteAt, serde_impls};

/// The parameters of `elicitation/create`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitParams {
    /// By a form. What has no `mode` is a form.
    Form(ElicitFormParams),
    /// By a page on the web (since 2025-11-25).
    Url(ElicitUrlParams),
}

names! {
    /// How the person is asked.
    pub enum ElicitMode {
        /// By a form.
        Form = "form",
        /// By a page on the web.
        Url = "url",
    }
}

object! {
    /// Asks the person to fill in a form.
    pub params ElicitFormParams {
        required {
            /// What the person is told.
            message: String = "message";
            /// The fields of the form.
            requested_schema: ElicitSchema = "requestedSchema";
        }
        optional {
            /// `form`, where it is said.
            mode: Option<ElicitMode> = "mode" since V2025_11_25 odd refused check is_form;
            /// Asks for the request to become a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

fn is_form(mode: &Option<ElicitMode>) -> Result<(), &'static str> {
    if *mode == Some(ElicitMode::Url) { Err("`form`") } else { Ok(()) }
}

object! {
    /// Asks the person to visit a page on the web.
    pub params ElicitUrlParams as "mode" = "url" {
        required {
            /// What the person is told.
            message: String = "message";
            /// The page. Not to be opened without consent, nor fetched by the client.
            url: String = "url";
        }
        optional {
            /// By which `notifications/elicitation/complete` tells that the person is done: required by 2025-11-25,
            /// unknown to others.
            elicitation_id: Option<String> = "elicitationId" until V2025_11_25;
            /// Asks for the request to become a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

object! {
    /// The fields of a form.
    pub struct ElicitSchema as "type" = "object" {
        required {
            /// The fields by their names, in order.
            properties: Map<PrimitiveSchema> = "properties";
        }
        optional {
            /// The dialect of JSON Schema.
            dialect: Option<String> = "$schema" since V2025_11_25;
            /// The fields that must be filled in.
            required: Option<alloc::vec::Vec<String>> = "required";
        }
    }
}

impl ElicitParams {
    /// Asks the person to fill in a form.
    pub fn form(message: impl Into<String>, schema: impl Into<ElicitSchema>) -> Self {
        Self::Form(ElicitFormParams {
            mode: Some(ElicitMode::Form),
            ..ElicitFormParams::new(message, schema)
        })
    }

    /// Asks the person to visit a page on the web.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrlParams::new(message, url))
    }

    /// How the person is asked.
    pub fn mode(&self) -> ElicitMode {
        match self {
            Self::Form(_) => ElicitMode::Form,
            Self::Url(_) => ElicitMode::Url,
        }
    }

    /// What the person is told.
    pub fn message(&self) -> &str {
        match self {
            Self::Form(params) => &params.message,
            Self::Url(params) => &params.message,
        }
    }
}

impl From<ElicitFormParams> for ElicitParams {
    fn from(params: ElicitFormParams) -> Self {
        Self::Form(params)
    }
}

impl From<ElicitUrlParams> for ElicitParams {
    fn from(params: ElicitUrlParams) -> Self {
        Self::Url(params)
    }
}

impl Read for ElicitParams {
    const EXPECTED: &'static str = "an object";

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        let mut fields = Fields::new(map);
        let form = |fields| Ok(ElicitFormParams::read_fields(fields)?.map(Self::Form));
        if fields.decide(|name| (name == "mode").then_some(()))?.is_none() {
            return form(fields);
        }
        match fields.decisive::<ElicitMode>()? {
            Ok(ElicitMode::Form) => Ok(ElicitFormParams::read_fields(fields)?
                .map(|params| Self::Form(ElicitFormParams { mode: Some(ElicitMode::Form), ..params }))),
            Ok(ElicitMode::Url) => Ok(ElicitUrlParams::read_fields(fields)?.map(Self::Url)),
            Err(Odd { json, .. }) if json.is_null() => form(fields),
            Err(Odd { json, .. }) => fields.into_odd_with("mode", &json, "unknown `mode`").map(Err),
        }
    }
}

impl WriteAt for ElicitParams {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Form(params) => params.write(view, serializer),
            Self::Url(params) => params.write(view, serializer),
        }
    }
}

serde_impls!(ElicitParams);

impl Params for ElicitParams {
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

    fn write_fields<M: SerializeMap>(&self, view: Projection, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Form(params) => params.write_own(view, map),
            Self::Url(params) => params.write_own(view, map),
        }
    }
}

object! {
    /// The result of `elicitation/create`.
    pub result ElicitResult {
        required {
            /// What the person did.
            action: ElicitAction = "action";
        }
        optional {
            /// What the person filled in, by the names of the fields.
            content: Option<Map<ElicitValue>> = "content";
        }
    }
}

impl ElicitResult {
    /// The person filled in the form.
    pub fn accept(content: impl Into<Map<ElicitValue>>) -> Self {
        Self { content: Some(content.into()), ..Self::new(ElicitAction::Accept) }
    }

    /// The person said no.
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The person did not answer.
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

names! {
    /// What the person did.
    pub enum ElicitAction {
        /// Agreed.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Went away.
        Cancel = "cancel",
    }
}

/// What stands in a field of a form.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitValue {
    /// A text, or the one that was chosen.
    String(String),
    /// A number.
    Number(Number),
    /// Yes or no.
    Bool(bool),
    /// Those that were chosen (since 2025-11-25; before that they are written as one string, with commas between).
    Strings(alloc::vec::Vec<String>),
    /// Something unknown here: written as it came.
    Unknown(Json),
}

impl From<&str> for ElicitValue {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<bool> for ElicitValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for ElicitValue {
    fn from(value: f64) -> Self {
        Self::Number(value.into())
    }
}

impl From<i64> for ElicitValue {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl Read for ElicitValue {
    const EXPECTED: &'static str = "a string, number, boolean or list of strings";

    fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        let read = super::read::read_shape(deserializer)?;
        Ok(Ok(read.unwrap_or_else(|odd| Self::Unknown(odd.json))))
    }

    fn from_bool(value: bool) -> Attempt<Self> {
        Ok(Self::Bool(value))
    }

    fn from_i64(value: i64) -> Attempt<Self> {
        Number::from_i64(value).map(Self::Number)
    }

    fn from_u64(value: u64) -> Attempt<Self> {
        Number::from_u64(value).map(Self::Number)
    }

    fn from_f64(value: f64) -> Attempt<Self> {
        Number::from_f64(value).map(Self::Number)
    }

    fn from_text(value: &str) -> Attempt<Self> {
        Ok(value.into())
    }

    fn from_seq<'de, A: serde::de::SeqAccess<'de>>(seq: A) -> Result<Attempt<Self>, A::Error> {
        alloc::vec::Vec::from_seq(seq).map(|read| read.map(Self::Strings))
    }
}

impl WriteAt for ElicitValue {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::String(value) => value.write(view, serializer),
            Self::Number(value) => value.write(view, serializer),
            Self::Bool(value) => value.write(view, serializer),
            Self::Strings(values) if view.since(Revision::V2025_11_25) => values.write(view, serializer),
            Self::Strings(values) => values.join(", ").write(view, serializer),
            Self::Unknown(json) => json.write(view, serializer),
        }
    }
}

serde_impls!(ElicitValue);

object! {
    /// The parameters of `notifications/elicitation/complete` (2025-11-25).
    pub params ElicitationCompleteParams {
        required {
            /// The elicitation that the person is done with.
            elicitation_id: String = "elicitationId";
        }
        optional {}
    }
}

object! {
    /// What goes with the error `URL_ELICITATION_REQUIRED` (2025-11-25).
    pub struct UrlElicitationData {
        required {
            /// The pages to visit before the request is sent again.
            elicitations: List<ElicitUrlParams> = "elicitations";
        }
        optional {}
    }
}
