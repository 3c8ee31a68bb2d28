//! Calls that the server does not finish before it has been given what it asks for.

use mcp_proto::front::{Client, Error};
use mcp_proto::schema::{CallTool, CallToolParams, CallToolResult, InputRequiredResult, Json};

use crate::{Outcome, input};

/// How often a server may ask before it is given up.
const ROUNDS: usize = 10;

/// Two calls at once, so that what belongs to the one could slip into the other, and one after them.
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
    let mut params = CallToolParams::new(name).with_arguments(Json::empty_object());
    for _ in 0..ROUNDS {
        match client.request::<CallTool>(params.clone()).await {
            Err(Error::InputRequired(raw)) => {
                let needed: InputRequiredResult = raw.decode()?;
                let requests = needed.input_requests.unwrap_or_default();
                let answers: Option<_> =
                    requests.iter().map(|(key, request)| Some((key, input::answer(request)?))).collect();
                params.input_responses = Some(answers.ok_or("the server asks for something unknown")?);
                params.request_state = needed.request_state;
            }
            other => return Ok(other?),
        }
    }
    Err(format!("{name} still asks for input after {ROUNDS} rounds").into())
}

fn expect(result: &CallToolResult, text: &str) -> Outcome {
    let said = result.text_content();
    if said != text {
        return Err(format!("{said:?} is not {text:?}").into());
    }
    Ok(())
}
