//! Input rounds: the server requires input, the client gathers it and sends the request again with it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

mod cancelling;
mod ends;
mod limits;
mod modern_pages;
mod pages;
mod retries;

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{ClientConfig, CloseReason, Event};
use mcp_proto::peer::{
    InboundId, InputError, InputMode, InvalidAnswerError, LostReason, Outcome, RequestId, RequestOptions,
};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitAction, ElicitResult, GetPrompt, GetPromptParams,
    InputResponse, ListRootsResult, ReadResource, ReadResourceParams, Root,
};
use serde_json::{Value, json};

/// A client that answers every kind of input request.
fn open_config() -> ClientConfig {
    let mut config = config();
    let all = [
        ClientCapability::Roots,
        ClientCapability::Sampling,
        ClientCapability::ElicitationForm,
        ClientCapability::ElicitationUrl,
    ];
    config.capabilities = all.into_iter().fold(config.capabilities, |declared, one| declared.with(one));
    config
}

fn modern() -> ClientHarness {
    ClientHarness::modern(open_config())
}

/// Calls a tool and returns the request's id on the wire.
fn call(s: &mut ClientHarness, options: RequestOptions) -> (RequestId, Value) {
    let params = CallToolParams::new("slow").with_arguments(json!({"b": 1, "a": [null, "x"]}));
    let request = s.client.at(s.now).request::<CallTool>(&params, options).unwrap();
    (request, s.expect("tools/call"))
}

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn roots() -> Value {
    json!({"method": "roots/list"})
}

/// The server answers with the input requests `requests`.
fn require(s: &mut ClientHarness, id: &Value, requests: &Value) {
    s.answer(id, json!({"resultType": "input_required", "inputRequests": requests, "requestState": "S"}));
}

fn require_nothing(s: &mut ClientHarness, id: &Value) {
    s.answer(id, json!({"resultType": "input_required", "requestState": "S"}));
}

/// The input requests delivered to the application since the last call.
fn input_requests(s: &mut ClientHarness) -> Vec<(InboundId, &'static str, Value)> {
    let (requests, others): (Vec<_>, Vec<_>) =
        s.take_events().into_iter().partition(|event| matches!(event, Event::Request { .. }));
    s.events = others;
    let asked = requests.into_iter().filter_map(|event| match event {
        Event::Request { id, method, params } => {
            let params = params.map_or(Value::Null, |params| params.decode().unwrap());
            Some((id, method.name, params))
        }
        _ => None,
    });
    asked.collect()
}

fn single_input_request(s: &mut ClientHarness) -> InboundId {
    let asked = input_requests(s);
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0].0
}

/// The input requests cancelled since the last call.
fn cancelled_inputs(s: &mut ClientHarness) -> Vec<InboundId> {
    let ids = s.take_events().into_iter().filter_map(|event| match event {
        Event::RequestCancelled { id, .. } => Some(id),
        other => {
            s.events.push(other);
            None
        }
    });
    ids.collect()
}

fn respond(s: &mut ClientHarness, id: InboundId, name: &str) {
    let answer = ElicitResult::accept([("name", name.into())]);
    s.client.at(s.now).respond(id, Ok(&answer));
}

fn done() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
}

fn expect_done(s: &mut ClientHarness, request: RequestId) {
    assert_eq!(s.outcome(request).decode::<CallTool>().unwrap().text_content(), "done");
}

fn ended(s: &mut ClientHarness, request: RequestId) -> bool {
    let events = s.take_events();
    let found = events
        .iter()
        .any(|event| matches!(event, Event::Outcome { request: ended, .. } if *ended == request));
    s.events = events;
    found
}
