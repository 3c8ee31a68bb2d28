//! Starts a server, lists its tools and calls one.
//!
//! Run: stdio_client COMMAND ARGS…

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ContentBlock};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};
use tokio::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut command = Command::new(words.next().ok_or("usage: stdio_client COMMAND ARGS…")?);
    command.args(words);
    let client = ().serve(TokioChildProcess::new(command)?).await?;
    for tool in client.list_all_tools().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let Value::Object(arguments) = json!({ "a": 2, "b": 3 }) else { return Err("not an object".into()) };
    let sum = client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments)).await?;
    println!("{}", sum.content.first().and_then(ContentBlock::as_text).map_or("", |part| &part.text));
    client.cancel().await?;
    Ok(())
}
