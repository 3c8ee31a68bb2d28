//! JSON Schemas of Rust types.

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};

use crate::schema::Json;

/// The schema of the JSON that `T` serializes to: an output.
pub(crate) fn of_output<T: JsonSchema>() -> Option<Json> {
    of::<T>(Contract::Serialize).ok()
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
