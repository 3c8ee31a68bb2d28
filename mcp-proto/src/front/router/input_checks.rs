//! The schemas of tools' arguments.

#[cfg(feature = "schema-validate")]
use alloc::{collections::BTreeMap, string::String, sync::Arc};

use crate::schema::Json;
#[cfg(feature = "schema-validate")]
use crate::validate::{Bounds, Schema};

/// The schema of a tool's arguments, whose `type` is `object`: arguments are nothing else, so it need not be written.
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

/// What the arguments of tools are held to.
#[cfg(feature = "schema-validate")]
#[derive(Default)]
pub(super) struct InputChecks {
    pub(super) bounds: Bounds,
    pub(super) schemas: BTreeMap<String, Arc<Schema>>,
}
