//! Connecting, listing and calling.

use mcp_proto::front::Client;
use mcp_proto::schema::{ServerCapability, Tool};
use serde_json::json;

use crate::Outcome;

/// Lists the tools, as any client does first.
pub(crate) async fn introduction(client: &Client) -> Outcome {
    let server = client.ready().await?;
    let declared = server.capabilities.as_ref();
    if declared.is_some_and(|declared| declared.has(ServerCapability::Tools)) {
        client.list_tools().await?;
    }
    Ok(())
}

pub(crate) async fn listing(client: &Client) -> Outcome {
    client.list_tools().await?;
    Ok(())
}

pub(crate) async fn addition(client: &Client) -> Outcome {
    listed(client, "add_numbers").await?;
    let sum = client.call_tool("add_numbers", json!({ "a": 5, "b": 3 })).await?.text_content();
    if !sum.ends_with('8') {
        return Err(format!("5 and 3 are not {sum:?}").into());
    }
    Ok(())
}

/// Looks a tool up and calls it without arguments.
pub(crate) async fn call_listed(client: &Client, name: &str) -> Outcome {
    listed(client, name).await?;
    let result = client.call_tool(name, json!({})).await?;
    if result.failed() {
        return Err(format!("{name} failed: {}", result.text_content()).into());
    }
    Ok(())
}

/// Passes the schema of one tool to another unchanged.
pub(crate) async fn schema_echo(client: &Client) -> Outcome {
    let tool = listed(client, "json_schema_2020_12_tool").await?;
    client.call_tool("json_schema_echo", json!({ "schema": tool.input_schema })).await?;
    Ok(())
}

async fn listed(client: &Client, name: &str) -> Outcome<Tool> {
    let tools = client.list_tools().await?;
    let tool = tools.into_iter().find(|tool| tool.name == name);
    tool.ok_or_else(|| format!("the server lists no tool {name}").into())
}
