//! Calls that the server finishes only after input from the client.

use mcp_proto::front::Client;
use mcp_proto::schema::{CallToolResult, Json};

use crate::Outcome;

/// Makes two calls at once, so that state of one could leak into the other, and one after them.
pub(crate) async fn request_state(client: &Client) -> Outcome {
    client.list_tools().await?;
    let (echoed, unrelated) =
        smol::future::zip(call(client, "test_mrtr_echo_state"), call(client, "test_mrtr_unrelated")).await;
    expect(&echoed?, "echo-state-ok")?;
    expect(&unrelated?, "unrelated-ok")?;
    expect(&call(client, "test_mrtr_no_state").await?, "no-state-ok")?;
    expect(&call(client, "test_mrtr_unrelated").await?, "unrelated-ok")?;
    expect(&call(client, "test_mrtr_no_result_type").await?, "no-result-type-test-ok")
}

async fn call(client: &Client, name: &str) -> Outcome<CallToolResult> {
    Ok(client.call_tool(name, Json::empty_object()).await?)
}

fn expect(result: &CallToolResult, text: &str) -> Outcome {
    let said = result.text_content();
    if said != text {
        return Err(format!("{said:?} is not {text:?}").into());
    }
    Ok(())
}
