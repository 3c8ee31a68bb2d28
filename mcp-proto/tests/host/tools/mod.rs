//! The tools of many servers as a model sees them: names, filters, pins, search, deferral, results.

mod catalogue;
mod conversation;
mod names;
mod pins;
mod results;
mod search;
mod typescript;

use mcp_proto::host::tools::{Catalogue, ServerSettings, UpdateReport};
use mcp_proto::schema::Tool;
use serde_json::json;

fn tool(name: &str) -> Tool {
    described(name, "A tool")
}

fn described(name: &str, description: &str) -> Tool {
    Tool::new(name, description, json!({ "type": "object", "properties": {} }))
}

/// Reads a value as a server sends it.
#[track_caller]
fn read<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_str(&json.to_string()).unwrap()
}

#[track_caller]
fn add(catalogue: &mut Catalogue, server: &str, tools: Vec<Tool>) -> UpdateReport {
    catalogue.add_server(server, ServerSettings::default());
    catalogue.update(server, tools).unwrap()
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.tools().map(|tool| tool.name).collect()
}
