//! The schemas of tools' arguments.

#[cfg(feature = "schema-validate")]
use alloc::{collections::BTreeMap, string::String, sync::Arc};

use crate::schema::Json;
#[cfg(feature = "schema-validate")]
use crate::validate::{Bounds, Schema};

/// Adds `type: object` to the schema of a tool's arguments, which may omit it because arguments are always objects.
pub(super) fn object_schema(schema: &Json) -> Option<Json> {
    let mut fields: serde_json::Map<_, _> = schema.decode().ok()?;
    match fields.get("type") {
        Some(kind) => (kind == "object").then(|| schema.clone()),
        None => {
            fields.insert("type".into(), "object".into());
            Some(serde_json::Value::from(fields).into())
        }
    }
}

/// The schemas that check the arguments of tools.
#[cfg(feature = "schema-validate")]
#[derive(Default)]
pub(super) struct InputChecks {
    pub(super) bounds: Bounds,
    pub(super) schemas: BTreeMap<String, Arc<Schema>>,
}
