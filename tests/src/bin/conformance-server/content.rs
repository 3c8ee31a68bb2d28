//! Tools that return each kind of content.

use mcp_proto::front::{HandlerError, NoArguments, Router};
use mcp_proto::schema::{ContentBlock, Json, ResourceContents, TextResourceContents, Tool};
use serde::Deserialize;

#[derive(Deserialize)]
struct Greet {
    name: String,
}

/// One red pixel: PNG in base64.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// Silence: WAV in base64.
const SILENCE: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

/// A tool without arguments.
pub(crate) fn plain(name: &str, description: &str) -> Tool {
    Tool::new(name, description, serde_json::json!({ "type": "object", "properties": {} }))
}

/// Text of a media type.
pub(crate) fn text(uri: &str, mime_type: &str, text: impl Into<String>) -> ResourceContents {
    let mut contents = TextResourceContents::new(uri, text);
    contents.mime_type = Some(mime_type.to_owned());
    contents.into()
}

/// Adds the tools. Scenarios that need any tool at all call the first of the list without arguments.
pub(crate) fn add(router: Router) -> Router {
    router
        .tool_with(
            plain("test_simple_text", "Returns a text"),
            async |NoArguments {}, _| "This is a simple text response for testing.",
        )
        .tool_with(plain("test_image_content", "Returns an image"), async |NoArguments {}, _| {
            ContentBlock::image(PIXEL, "image/png")
        })
        .tool_with(plain("test_audio_content", "Returns sound"), async |NoArguments {}, _| {
            ContentBlock::audio(SILENCE, "audio/wav")
        })
        .tool_with(plain("test_embedded_resource", "Returns a resource"), async |NoArguments {}, _| {
            let contents =
                text("test://embedded-resource", "text/plain", "This is an embedded resource content.");
            ContentBlock::resource(contents)
        })
        .tool_with(
            plain("test_multiple_content_types", "Returns several kinds of content"),
            async |NoArguments {}, _| {
                let resource = text(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                );
                vec![
                    ContentBlock::text("Multiple content types test:"),
                    ContentBlock::image(PIXEL, "image/png"),
                    ContentBlock::resource(resource),
                ]
            },
        )
        .tool_with(plain("test_error_handling", "Always fails"), async |NoArguments {}, _| {
            Err::<String, _>(HandlerError::new("This tool intentionally returns an error for testing"))
        })
        .tool_with(greet(), async |Greet { name }, _| format!("Hello, {name}!"))
        .tool_raw(json_schema(), async |call, _| {
            call.arguments.as_ref().map_or("{}", Json::as_str).to_owned()
        })
        .tool_raw(mirrored(), async |call, _| call.arguments.as_ref().map_or("{}", Json::as_str).to_owned())
}

fn greet() -> Tool {
    let schema = serde_json::json!({
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
    });
    Tool::new("greet", "Greets a person by name", schema)
}

/// A tool whose schema uses features of JSON Schema 2020-12 that simpler parsers would drop.
fn json_schema() -> Tool {
    let schema = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    Tool::new("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", schema)
}

/// A tool with an argument that HTTP requests repeat in a header.
fn mirrored() -> Tool {
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
    });
    Tool::new("test_x_mcp_header", "Returns its arguments, of which one is also a header", schema)
}
