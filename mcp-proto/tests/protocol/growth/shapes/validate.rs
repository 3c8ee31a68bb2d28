//! Output schemas of a server, and values to check.

use std::hint::black_box;

use mcp_proto::schema::{Json, Tool};
use mcp_proto::validate::{Bounds, OutputSchemas, Schema};
use serde_json::json;

use super::{Shape, commas, repeat, shape};

pub const SHAPES: [Shape; 3] = [
    shape("validate: listed output schemas", |bytes| {
        let tools: Vec<Tool> = repeat(bytes, " ", "tool@").split(' ').map(tool).collect();
        Box::new(move || {
            let mut schemas = OutputSchemas::default();
            schemas.learn(&tools);
            black_box(schemas);
        })
    }),
    shape("validate: a schema", |bytes| {
        let schema = Json::new(format!(r#"{{"properties":{{{}}}}}"#, commas(bytes, "\"p@\":{}"))).unwrap();
        Box::new(move || drop(black_box(Schema::compile(&schema, &Bounds::default()))))
    }),
    shape("validate: a value", |bytes| {
        let value = Json::new(format!("[{}]", commas(bytes, "{\"a\":@}"))).unwrap();
        let schema = json!({"items": {"properties": {"a": {"type": "integer"}}}, "uniqueItems": true});
        let schema = Schema::compile(&schema.into(), &Bounds::default()).unwrap();
        Box::new(move || drop(black_box(schema.check(&value))))
    }),
];

fn tool(name: &str) -> Tool {
    Tool::new(name, "", json!({"type": "object"})).with_output_schema(json!({}))
}
