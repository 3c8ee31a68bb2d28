//! Handlers that send requests: the same code serves clients of either era.

mod capabilities;
mod content;
mod eras;
mod input_rounds;
mod pages;
mod single_use;
mod states;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front_http::{HttpHarness, field};
use crate::common::polling::{CountingEntropy, TestClock};
use crate::common::router::ServerHarness;
use crate::common::tools::{prompt, tool};
use futures_lite::future::{poll_once, yield_now, zip};
use mcp_proto::UnixTime;
use mcp_proto::adapter;
use mcp_proto::front::ClientHandlers;
use mcp_proto::front::{
    Claim, ClaimError, ClaimFuture, ClaimOutcome, Context, ElicitationCompletion, Error, HandlerError,
    NoArguments, ResultOrInput, Router, SingleUse, UsedIds,
};
use mcp_proto::peer::client::{EraPolicy, LinkAction};
use mcp_proto::peer::server::{SealKey, Sealer};
use mcp_proto::peer::{Principal, RequestError};
use mcp_proto::schema::ElicitResult;
use mcp_proto::schema::{
    CallToolParams, CompleteParams, CreateMessageParams, ElicitParams, ElicitSchema, ElicitValue,
    InputRequiredResult, NumberKind, NumberSchema, Prompt, Resource, SamplingMessage, StringSchema,
};
use mcp_proto::transport::{StreamClient, StreamServer};
use serde_json::{Value, json};

fn form(field: &str) -> ElicitParams {
    ElicitParams::form(format!("Your {field}?"), ElicitSchema::new([(field, StringSchema::new().into())]))
}

/// Requests one input, and returns the answer.
async fn question(cx: &Context, field: &str) -> Result<String, HandlerError> {
    let answer = cx.elicit(field, form(field)).await?;
    Ok(match answer.content.as_ref().and_then(|content| content.get(field)) {
        Some(ElicitValue::String(text)) => text.clone(),
        _ => answer.action.as_str().to_owned(),
    })
}

fn sampling(text: &str) -> CreateMessageParams {
    CreateMessageParams::new([SamplingMessage::user(text)], 10_u64)
}

/// A server with a tool for each kind of request.
fn router() -> Router {
    Router::new("asker", "1")
        .tool_with(tool("greet"), async |NoArguments {}, cx: Context| {
            Ok::<_, HandlerError>(format!("Hello, {}!", question(&cx, "name").await?))
        })
        .tool_with(tool("other"), async |NoArguments {}, cx: Context| question(&cx, "name").await)
        .tool_with(tool("three"), async |NoArguments {}, cx: Context| {
            let (name, (word, roots)) =
                zip(question(&cx, "name"), zip(cx.sample("word", sampling("A word?")), cx.roots("roots")))
                    .await;
            Ok::<_, HandlerError>(format!(
                "{} {} {}",
                name?,
                word?.content.text_content(),
                roots?.roots.len()
            ))
        })
        .tool_with(tool("steps"), async |NoArguments {}, cx: Context| {
            let first = question(&cx, "first").await?;
            let second = question(&cx, "second").await?;
            let third = question(&cx, "third").await?;
            Ok::<_, HandlerError>(format!("{first} {second} {third}"))
        })
}

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// One attempt at a call: the whole response.
fn attempt(web: &mut HttpHarness, tool: &str, state: Option<&Value>, responses: Option<Value>) -> Value {
    attempt_with(web, json!({"name": tool, "arguments": {}}), state, responses)
}

fn attempt_with(
    web: &mut HttpHarness,
    mut params: Value,
    state: Option<&Value>,
    responses: Option<Value>,
) -> Value {
    if let Some(state) = state {
        params["requestState"] = state.clone();
    }
    if let Some(responses) = responses {
        params["inputResponses"] = responses;
    }
    web.ask_with("tools/call", params, everything()).json()
}

fn accepted(field: &str, text: &str) -> Value {
    json!({"action": "accept", "content": {field: text}})
}

/// The input requests of a result, and its state.
#[track_caller]
fn required_input(answer: &Value) -> (Vec<String>, Value) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert!(result["requestState"].is_string(), "{answer}");
    let requests = result["inputRequests"].as_object().expect("requests");
    let mut keys: Vec<_> = requests.keys().cloned().collect();
    keys.sort();
    (keys, result["requestState"].clone())
}

#[track_caller]
fn text_of(answer: &Value) -> &str {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete", "{answer}");
    result["content"][0]["text"].as_str().unwrap()
}

#[track_caller]
fn refused(answer: &Value) -> &str {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    answer["error"]["message"].as_str().unwrap()
}

/// The state of `greet` after its first attempt.
#[track_caller]
fn greet_state(web: &mut HttpHarness) -> Value {
    required_input(&attempt(web, "greet", None, None)).1
}

fn alice() -> Option<Value> {
    Some(json!({"name": accepted("name", "Alice")}))
}

fn key(byte: u8) -> SealKey {
    SealKey::new([byte; 32])
}
