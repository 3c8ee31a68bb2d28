//! Arguments that handlers take, and JSON Schemas of Rust types.

#[cfg(feature = "schemars")]
use alloc::borrow::Cow;

#[cfg(feature = "schemars")]
use schemars::generate::{Contract, SchemaSettings};
#[cfg(feature = "schemars")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;

#[cfg(feature = "schemars")]
use super::output::{ToolOutput, ToolResult};
#[cfg(feature = "schemars")]
use crate::schema::CallToolResult;
use crate::schema::Json;

/// The arguments of a handler: owned data that implements [`Deserialize`](serde::Deserialize). The trait has a blanket
/// implementation.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` as its arguments",
    label = "the first parameter of the handler is `{Self}`",
    note = "take a struct that derives `serde::Deserialize`, by value (`add: Add`, not `add: &Add`)",
    note = "its fields are owned (`String`, not `&str`)",
    note = "without arguments, take `NoArguments {{}}`"
)]
pub trait Arguments: DeserializeOwned + 'static {}

#[diagnostic::do_not_recommend]
impl<A: DeserializeOwned + 'static> Arguments for A {}

/// The arguments of a tool's handler: [`Arguments`] with a derived JSON Schema. The trait has a blanket implementation.
#[cfg(feature = "schemars")]
#[diagnostic::on_unimplemented(
    message = "the handler of a tool cannot take `{Self}` as its arguments",
    label = "the first parameter of the handler is `{Self}`",
    note = "take a struct that derives `serde::Deserialize` and `schemars::JsonSchema`, by value (`add: Add`, not `add: &Add`)",
    note = "its fields are owned (`String`, not `&str`)",
    note = "without arguments, take `NoArguments {{}}`; to write the schema yourself, use `tool_with`"
)]
pub trait DescribedArguments: Arguments + schemars::JsonSchema {}

#[cfg(feature = "schemars")]
#[diagnostic::do_not_recommend]
impl<A: Arguments + schemars::JsonSchema> DescribedArguments for A {}

/// Has no implementation: without the feature `schemars` the schema of a tool cannot come from the type of its arguments.
#[cfg(not(feature = "schemars"))]
#[diagnostic::on_unimplemented(
    message = "`Router::tool` needs the feature `schemars`",
    label = "the schema of `{Self}` is unknown without the feature",
    note = "in `Cargo.toml`, add `\"schemars\"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`; the first two have it by default",
    note = "to write the schema yourself, use `tool_with`"
)]
pub trait DescribedArguments: Arguments {}

/// The arguments of a tool that takes none. Arguments that a client sends are ignored. [`without_arguments`] registers
/// functions that take only the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct NoArguments {}

/// Turns a handler that takes only the context into one of a tool, or a prompt, without arguments.
///
/// ```
/// use mcp_proto::front::{Context, Router, without_arguments};
/// use mcp_proto::schema::{Json, Tool};
///
/// async fn whoami(cx: Context) -> String {
///     cx.principal().map_or("an unknown caller", |principal| principal.as_str()).to_owned()
/// }
///
/// let tool = Tool::new("whoami", "Says who calls", Json::empty_object());
/// let router = Router::new("names", "1.0.0").tool_with(tool, without_arguments(whoami));
/// assert!(router.check().is_ok());
/// ```
pub fn without_arguments<C, F>(handler: impl Fn(C) -> F) -> impl Fn(NoArguments, C) -> F {
    move |NoArguments {}, context| handler(context)
}

/// Structured content: any serializable value, with its schema declared as the tool's output schema.
///
/// Programs read it as `structuredContent`; for other clients the result includes its JSON as text. Before 2026-07-28
/// it must be an object.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#structured-content>
#[cfg(feature = "schemars")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

#[cfg(feature = "schemars")]
impl<T: serde::Serialize + JsonSchema> ToolOutput for Structured<T> {
    fn output_schema() -> Option<Json> {
        json_schema::<T>(Contract::Serialize).ok()
    }

    fn into_tool_result(self) -> ToolResult {
        CallToolResult::from_structured(&self.0)?.into_tool_result()
    }
}

#[cfg(feature = "schemars")]
impl JsonSchema for NoArguments {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        //= S8.5 "no-parameter tool"
        schemars::json_schema!({ "type": "object", "additionalProperties": false })
    }
}

/// The schema of the JSON that `A` deserializes from, if that is an object: the arguments of a tool.
#[cfg(feature = "schemars")]
pub(crate) fn arguments_schema<A: JsonSchema>() -> Option<Json> {
    let schema = json_schema::<A>(Contract::Deserialize).ok()?;
    let is_object = schema
        .decode::<serde_json::Value>()
        .is_ok_and(|schema| schema.get("type").and_then(serde_json::Value::as_str) == Some("object"));
    is_object.then_some(schema)
}

/// Has no types to be called with, as [`DescribedArguments`] has no implementation.
#[cfg(not(feature = "schemars"))]
pub(crate) fn arguments_schema<A: DescribedArguments>() -> Option<Json> {
    None
}

/// Generates a schema in the dialect that the protocol assumes (2020-12).
#[cfg(feature = "schemars")]
fn json_schema<T: JsonSchema>(contract: Contract) -> Result<Json, serde_json::Error> {
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
