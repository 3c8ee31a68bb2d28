//! Tools and a prompt that ask the client by their results: 2026-07-28.

use std::sync::Arc;

use mcp_proto::front::{Answered, Context, HandlerError, Router};
use mcp_proto::rpc::{ErrorObject, Raw, code};
use mcp_proto::schema::{
    BooleanSchema, CallToolParams, ClientCapabilities, ClientCapability, CreateMessageParams, ElicitParams,
    ElicitResult, ElicitSchema, ElicitValue, GetPromptParams, InputRequest, InputRequiredResult,
    InputResponse, InputResponses, ListRootsParams, PrimitiveSchema, Prompt, SamplingMessage, StringSchema,
};

use crate::content::plain;
use crate::state::States;

/// A tool's text, or what is needed before there is one.
type Said = Result<Answered<String>, HandlerError>;

pub(crate) fn add(router: Router) -> Router {
    let states = Arc::new(States::default());
    let router = router
        .tool_raw(plain("test_missing_capability", "Needs the client's model"), missing_capability)
        .tool_raw(plain("test_streaming_elicitation", "Asks for a name"), elicitation)
        .tool_raw(plain("test_input_required_result_elicitation", "Asks for a name"), elicitation)
        .tool_raw(plain("test_input_required_result_sampling", "Asks the model"), sampling)
        .tool_raw(plain("test_input_required_result_list_roots", "Asks for the roots"), list_roots)
        .tool_raw(
            plain("test_input_required_result_capabilities", "Asks for whatever the client can be asked for"),
            capabilities,
        );
    let router = with_states(router, &states, "test_input_required_result_request_state", confirmed);
    let router = with_states(router, &states, "test_input_required_result_tampered_state", confirmed);
    let router = with_states(router, &states, "test_input_required_result_multiple_inputs", multiple);
    let router = with_states(router, &states, "test_input_required_result_multi_round", multi_round);
    let mut prompt = Prompt::new("test_input_required_result_prompt");
    prompt.description = Some("A prompt that asks for its context".to_owned());
    router.prompt_raw(prompt, contextual)
}

fn with_states(
    router: Router,
    states: &Arc<States>,
    name: &str,
    handler: fn(&CallToolParams, &Context, &States) -> Said,
) -> Router {
    let states = states.clone();
    router.tool_raw(plain(name, "Asks for input and hands out a state"), move |call, cx| {
        std::future::ready(handler(&call, &cx, &states))
    })
}

// --- Tools ---

async fn missing_capability(_: CallToolParams, cx: Context) -> Result<&'static str, HandlerError> {
    require(&cx, ClientCapability::Sampling)?;
    Ok("The client can be asked for text from a model.")
}

async fn elicitation(call: CallToolParams, cx: Context) -> Said {
    match filled(call.input_responses.as_ref(), "user_name", "name") {
        Some(ElicitValue::String(name)) => Ok(Answered::Result(format!("Hello, {name}!"))),
        _ => {
            require(&cx, ClientCapability::ElicitationForm)?;
            Ok(needed([("user_name", ask_for_text("What is your name?", "name"))], None))
        }
    }
}

async fn sampling(call: CallToolParams, cx: Context) -> Said {
    match response(call.input_responses.as_ref(), "capital_question") {
        Some(InputResponse::CreateMessage(message)) => Ok(Answered::Result(message.content.text_content())),
        _ => {
            require(&cx, ClientCapability::Sampling)?;
            let question = ask_model("What is the capital of France?", 100);
            Ok(needed([("capital_question", question)], None))
        }
    }
}

async fn list_roots(call: CallToolParams, cx: Context) -> Said {
    match response(call.input_responses.as_ref(), "client_roots") {
        Some(InputResponse::ListRoots(result)) => {
            let uris: Vec<_> = result.roots.iter().map(|root| root.uri.as_str()).collect();
            Ok(Answered::Result(format!("The roots: {}", uris.join(", "))))
        }
        _ => {
            require(&cx, ClientCapability::Roots)?;
            Ok(needed([("client_roots", ListRootsParams::new().into())], None))
        }
    }
}

async fn capabilities(call: CallToolParams, cx: Context) -> Said {
    if call.input_responses.is_some() {
        return Ok(Answered::Result("Thank you.".to_owned()));
    }
    let declared = |capability| cx.client_capabilities().has(capability);
    let requests: Vec<(&str, InputRequest)> = [
        (ClientCapability::Sampling, "greeting", ask_model("Generate a greeting", 50)),
        (ClientCapability::ElicitationForm, "user_name", ask_for_text("What is your name?", "name")),
        (ClientCapability::Roots, "client_roots", ListRootsParams::new().into()),
    ]
    .into_iter()
    .filter(|(capability, ..)| declared(*capability))
    .map(|(_, key, request)| (key, request))
    .collect();
    match requests.is_empty() {
        true => Ok(Answered::Result("This client can be asked for nothing.".to_owned())),
        false => Ok(needed(requests, None)),
    }
}

// --- Tools that hand out a state ---

fn confirmed(call: &CallToolParams, cx: &Context, states: &States) -> Said {
    let state = call.request_state.as_deref().map(|state| states.open(state)).transpose()?;
    match (state, filled(call.input_responses.as_ref(), "confirm", "ok")) {
        (Some("confirming"), Some(ElicitValue::Bool(true))) => {
            Ok(Answered::Result("Confirmed: state-ok".to_owned()))
        }
        (Some("confirming"), Some(_)) => Ok(Answered::Result("Not confirmed.".to_owned())),
        _ => {
            require(cx, ClientCapability::ElicitationForm)?;
            let form = ElicitSchema {
                required: Some(vec!["ok".to_owned()]),
                ..ElicitSchema::new([("ok", PrimitiveSchema::from(BooleanSchema::new()))])
            };
            let request = ElicitParams::form("Please confirm", form).into();
            Ok(needed([("confirm", request)], Some(states.seal("confirming"))))
        }
    }
}

fn multiple(call: &CallToolParams, cx: &Context, states: &States) -> Said {
    let state = call.request_state.as_deref().map(|state| states.open(state)).transpose()?;
    let responses = call.input_responses.as_ref();
    match (
        state,
        filled(responses, "user_name", "name"),
        response(responses, "greeting"),
        response(responses, "client_roots"),
    ) {
        (
            Some("asked for three things"),
            Some(ElicitValue::String(name)),
            Some(InputResponse::CreateMessage(greeting)),
            Some(InputResponse::ListRoots(result)),
        ) => {
            let (greeting, roots) = (greeting.content.text_content(), result.roots.len());
            Ok(Answered::Result(format!("{greeting} {name}, you have shared {roots} roots.")))
        }
        _ => {
            for capability in
                [ClientCapability::ElicitationForm, ClientCapability::Sampling, ClientCapability::Roots]
            {
                require(cx, capability)?;
            }
            let requests = [
                ("user_name", ask_for_text("What is your name?", "name")),
                ("greeting", ask_model("Generate a greeting", 50)),
                ("client_roots", ListRootsParams::new().into()),
            ];
            Ok(needed(requests, Some(states.seal("asked for three things"))))
        }
    }
}

/// The name that was given in the first round is kept by the state of the second.
fn multi_round(call: &CallToolParams, cx: &Context, states: &States) -> Said {
    require(cx, ClientCapability::ElicitationForm)?;
    let responses = call.input_responses.as_ref();
    let state = call.request_state.as_deref().map(|state| states.open(state)).transpose()?;
    if let Some(name) = state.and_then(|state| state.strip_prefix("name:")) {
        return Ok(match filled(responses, "step2", "color") {
            Some(ElicitValue::String(color)) => {
                Answered::Result(format!("{name}'s favourite colour is {color}."))
            }
            _ => second_round(name, states),
        });
    }
    Ok(match (state, filled(responses, "step1", "name")) {
        (Some("begun"), Some(ElicitValue::String(name))) => second_round(name, states),
        _ => needed(
            [("step1", ask_for_text("Step 1: What is your name?", "name"))],
            Some(states.seal("begun")),
        ),
    })
}

fn second_round(name: &str, states: &States) -> Answered<String> {
    let question = ask_for_text("Step 2: What is your favorite color?", "color");
    needed([("step2", question)], Some(states.seal(&format!("name:{name}"))))
}

// --- The prompt ---

async fn contextual(get: GetPromptParams, cx: Context) -> Said {
    match filled(get.input_responses.as_ref(), "user_context", "context") {
        Some(ElicitValue::String(context)) => {
            Ok(Answered::Result(format!("Answer in this context: {context}")))
        }
        _ => {
            require(&cx, ClientCapability::ElicitationForm)?;
            let question = ask_for_text("What context should the prompt use?", "context");
            Ok(needed([("user_context", question)], None))
        }
    }
}

// --- What they have in common ---

/// Refuses the request unless the client can be asked for this.
fn require(cx: &Context, capability: ClientCapability) -> Result<(), HandlerError> {
    if cx.client_capabilities().has(capability) {
        return Ok(());
    }
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Missing {
        required_capabilities: ClientCapabilities,
    }
    let missing = Missing { required_capabilities: ClientCapabilities::new().with(capability) };
    let message = format!("this needs the client's capability {}", capability.path());
    let error = ErrorObject::new(code::MISSING_REQUIRED_CLIENT_CAPABILITY, message);
    Err(error.with_data(Raw::encode(&missing)?).into())
}

fn needed<R>(
    requests: impl IntoIterator<Item = (&'static str, InputRequest)>,
    state: Option<String>,
) -> Answered<R> {
    let mut needed =
        InputRequiredResult::requests(requests.into_iter().collect::<mcp_proto::schema::Map<_>>());
    needed.request_state = state;
    Answered::InputRequired(needed)
}

fn ask_for_text(message: &str, field: &str) -> InputRequest {
    let form = ElicitSchema {
        required: Some(vec![field.to_owned()]),
        ..ElicitSchema::new([(field, PrimitiveSchema::from(StringSchema::new()))])
    };
    ElicitParams::form(message, form).into()
}

fn ask_model(question: &str, max_tokens: u64) -> InputRequest {
    CreateMessageParams::new([SamplingMessage::user(question)], max_tokens).into()
}

fn response<'a>(responses: Option<&'a InputResponses>, key: &str) -> Option<&'a InputResponse> {
    responses?.get(key)
}

/// What stands in a field of a form that was filled in.
fn filled<'a>(responses: Option<&'a InputResponses>, key: &str, field: &str) -> Option<&'a ElicitValue> {
    match response(responses, key)? {
        InputResponse::Elicit(ElicitResult { content: Some(content), .. }) => content.get(field),
        _ => None,
    }
}
