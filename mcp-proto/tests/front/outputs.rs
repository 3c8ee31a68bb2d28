//! What handlers may return.

use mcp_proto::front::{HandlerError, NoArguments, Router};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::{ImageContent, Resource};
use serde_json::{Value, json};

use crate::common::router::ServerHarness;
use crate::common::tools::{prompt, tool};

fn texts(result: &Value) -> Vec<&str> {
    result["content"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap()).collect()
}

#[test]
fn tool_returns_number_as_text() {
    let router = Router::new("outputs", "1.0.0")
        .tool_with(tool("sum"), async |NoArguments {}, _| 1.5_f64 + 2.0)
        .tool_with(tool("count"), async |NoArguments {}, _| 7)
        .tool_with(tool("even"), async |NoArguments {}, _| false);
    let mut server = ServerHarness::modern(router);
    for (name, text) in [("sum", "3.5"), ("count", "7"), ("even", "false")] {
        assert_eq!(texts(&server.call(name, json!({}))), [text]);
    }
}

#[test]
fn tool_returns_each_item_of_list_as_block() {
    let router = Router::new("outputs", "1.0.0")
        .tool_with(tool("names"), async |NoArguments {}, _| vec!["Ada".to_owned(), "Grace".to_owned()])
        .tool_with(tool("images"), async |NoArguments {}, _| vec![ImageContent::new("AAEC", "image/png")]);
    let mut server = ServerHarness::modern(router);
    assert_eq!(texts(&server.call("names", json!({}))), ["Ada", "Grace"]);
    assert_eq!(server.call("images", json!({}))["content"][0]["type"], "image");
}

#[test]
fn resource_returns_bytes_as_blob_of_its_media_type() {
    let mut image = Resource::new("image:///dot", "dot");
    image.mime_type = Some("image/png".to_owned());
    let router = Router::new("outputs", "1.0.0").resource(image, async |_, _| vec![0_u8, 1, 2]);
    let mut server = ServerHarness::modern(router);
    let result = server.result("resources/read", json!({"uri": "image:///dot"}));
    assert_eq!(result["contents"], json!([{"uri": "image:///dot", "mimeType": "image/png", "blob": "AAEC"}]));
}

#[test]
fn completion_returns_borrowed_texts() {
    let router = Router::new("outputs", "1.0.0")
        .prompt(prompt("p", "day"), async |NoArguments {}, _| "")
        .completion(async |_, _| vec!["today", "tomorrow"]);
    let mut server = ServerHarness::modern(router);
    let params =
        json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "day", "value": "to"}});
    let result = server.result("completion/complete", params);
    assert_eq!(result["completion"]["values"], json!(["today", "tomorrow"]));
}

#[test]
fn handler_error_displays_its_message() {
    let boxed: Box<dyn std::error::Error> = "no such note".into();
    assert_eq!(HandlerError::new(boxed).to_string(), "no such note");
    assert_eq!(HandlerError::no_resource("note:///7").to_string(), "there is no resource note:///7");
    let object = ErrorObject::new(-32000, "busy");
    assert_eq!(HandlerError::from(object.clone()).to_string(), object.to_string());
}
