//! JSON Schemas of Rust types.

use alloc::borrow::Cow;

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::arguments::NoArguments;
use super::output::{ToolOutput, ToolResult};
use crate::schema::{CallToolResult, Json};

/// Structured content: any serializable value, with its schema declared as the tool's output schema.
///
/// Programs read it as `structuredContent`; for other clients the result includes its JSON as text. Before 2026-07-28
/// it must be an object.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#structured-content>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: serde::Serialize + JsonSchema> ToolOutput for Structured<T> {
    fn output_schema() -> Option<Json> {
        of::<T>(Contract::Serialize).ok()
    }

    fn into_tool_result(self) -> ToolResult {
        CallToolResult::from_structured(&self.0)?.into_tool_result()
    }
}

impl JsonSchema for NoArguments {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        //= S8.5 "no-parameter tool"
        json_schema!({ "type": "object", "additionalProperties": false })
    }
}

/// The schema of the JSON that `A` deserializes from, if that is an object: the arguments of a tool.
pub(crate) fn of_arguments<A: JsonSchema>() -> Option<Json> {
    let schema = of::<A>(Contract::Deserialize).ok()?;
    let is_object = schema
        .decode::<serde_json::Value>()
        .is_ok_and(|schema| schema.get("type").and_then(serde_json::Value::as_str) == Some("object"));
    is_object.then_some(schema)
}

/// Generates a schema in the dialect that the protocol assumes (2020-12).
fn of<T: JsonSchema>(contract: Contract) -> Result<Json, serde_json::Error> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        // The default dialect need not be named, and older revisions have no field for it.
        settings.meta_schema = None;
        // Many models cannot follow references; only recursive types still use them.
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    if let Some(object) = schema.as_object_mut() {
        // The name of the Rust type means nothing to the client.
        object.remove("title");
    }
    Json::encode(&schema)
}
