//! Header fields that repeat parts of a request.

use mcp_proto::front::Client;
use mcp_proto::schema::Json;
use serde::Deserialize;
use serde_json::json;

use crate::Outcome;

/// Context that the suite passes with the URL.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderScenario {
    tool_calls: Vec<ToolCall>,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Json,
}

/// Sends a request of each method that has a header of its own.
pub(crate) async fn standard(client: &Client) -> Outcome {
    for tool in client.list_tools().await? {
        client.call_tool(tool.name, json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        client.get_prompt::<String, String>(prompt.name, []).await?;
    }
    Ok(())
}

/// Makes the calls that the suite asks for, of tools that it lists.
pub(crate) async fn custom(client: &Client) -> Outcome {
    let given: HeaderScenario = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    client.list_tools().await?;
    for call in given.tool_calls {
        client.call_tool(call.name, call.arguments).await?;
    }
    Ok(())
}

/// Calls every listed tool. Tools whose headers cannot be sent are not listed.
pub(crate) async fn invalid(client: &Client) -> Outcome {
    for tool in client.list_tools().await? {
        client.call_tool(tool.name, json!({ "region": "us-west1" })).await?;
    }
    Ok(())
}
