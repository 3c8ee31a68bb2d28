//! The tools of a hostile server, and its results.

use std::hint::black_box;

use mcp_proto::host::tools::{
    Catalogue, CatalogueLimits, Conversion, Glob, NameScheme, ResultLimits, ServerSettings, ToolIndex,
};
use mcp_proto::schema::{CallToolResult, ContentBlock, Json, Tool};
use serde_json::json;

use super::{Shape, Work, commas, repeat, shape};

pub const SHAPES: [Shape; 8] = [
    shape("host: tools", |bytes| update(tools(bytes, "tool@"))),
    shape("host: tools with hashes in their names", |bytes| update(tools(bytes, "tool.@"))),
    shape("host: one definition with many members", |bytes| {
        let schema = Json::new(format!("{{{}}}", commas(bytes, "\"p@\":{}"))).unwrap();
        update(vec![Tool::new("tool", "", schema)])
    }),
    shape("host: a deep definition", |bytes| {
        let depth = "{\"a\":[".repeat(50);
        let close = "]}".repeat(50);
        let schema = Json::new(format!("{depth}\"{}\"{close}", "x".repeat(bytes))).unwrap();
        update(vec![Tool::new("tool", "", schema)])
    }),
    shape("host: search", |bytes| {
        let mut catalogue = unlimited();
        catalogue.update("server", tools(bytes, "tool@"));
        Box::new(move || {
            let mut index = ToolIndex::default();
            index.refresh(&catalogue);
            black_box(index.search("tool server tools", 10, |_| true));
        })
    }),
    shape("host: a pattern and a long name", |bytes| {
        let glob = Glob::new(&format!("{}b", "*a".repeat(100))).unwrap();
        let name = "a".repeat(bytes);
        Box::new(move || assert!(!glob.matches(black_box(&name))))
    }),
    shape("host: a result of many texts", |bytes| {
        let texts = repeat(bytes, " ", "text@");
        let blocks = texts.split(' ').map(ContentBlock::text).collect();
        convert(CallToolResult { content: blocks, ..CallToolResult::new() })
    }),
    shape("host: a result of many images", |bytes| {
        let images = repeat(bytes, " ", "AAA@");
        let blocks = images.split(' ').map(|data| ContentBlock::image(data, "image/png")).collect();
        convert(CallToolResult { content: blocks, ..CallToolResult::new() })
    }),
];

fn unlimited() -> Catalogue {
    let limits = CatalogueLimits {
        items: usize::MAX,
        definition_bytes: usize::MAX,
        list_bytes: usize::MAX,
        ..CatalogueLimits::default()
    };
    let mut catalogue = Catalogue::new(NameScheme::default(), limits);
    catalogue.add_server("server", ServerSettings::default());
    catalogue
}

fn tools(bytes: usize, name: &str) -> Vec<Tool> {
    let names = repeat(bytes, " ", name);
    names.split(' ').map(|name| Tool::new(name, "A tool", json!({"type": "object"}))).collect()
}

fn update(tools: Vec<Tool>) -> Work {
    Box::new(move || {
        let mut catalogue = unlimited();
        catalogue.update("server", tools.clone());
        catalogue.update("server", tools);
        assert!(catalogue.tools().count() > 0);
        black_box(catalogue);
    })
}

fn convert(result: CallToolResult) -> Work {
    Box::new(move || drop(black_box(Conversion::of_tool_result("tool", result, &ResultLimits::default()))))
}
