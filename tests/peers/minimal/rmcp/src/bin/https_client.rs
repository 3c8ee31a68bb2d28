//! Connects to a server, lists its tools and calls one.
//!
//! Run: https_client URL

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ContentBlock};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: https_client URL")?;
    let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await?;
    for tool in client.list_all_tools().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let Value::Object(arguments) = json!({ "a": 2, "b": 3 }) else { return Err("not an object".into()) };
    let sum = client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments)).await?;
    println!("{}", sum.content.first().and_then(ContentBlock::as_text).map_or("", |part| &part.text));
    client.cancel().await?;
    Ok(())
}
