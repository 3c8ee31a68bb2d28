//! Tools and a prompt that ask clients of 2026-07-28 for input, by input-required results.

use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::peer::server::missing_capabilities;
use mcp_proto::schema::{
    BooleanSchema, ClientCapabilities, ClientCapability, CreateMessageParams, ElicitParams, ElicitSchema,
    ElicitValue, PrimitiveSchema, Prompt, SamplingMessage, StringSchema,
};
use smol::future::zip;

use crate::content::plain;

type TextResult = Result<String, HandlerError>;

pub(crate) fn add(router: Router) -> Router {
    let mut prompt = Prompt::new("test_input_required_result_prompt");
    prompt.description = Some("A prompt that asks for its context".to_owned());
    router
        .tool_with(plain("test_missing_capability", "Needs the client's model"), missing_capability)
        .tool_with(plain("test_streaming_elicitation", "Asks for a name"), greeting)
        .tool_with(plain("test_input_required_result_elicitation", "Asks for a name"), greeting)
        .tool_with(plain("test_input_required_result_sampling", "Asks the model"), sampling)
        .tool_with(plain("test_input_required_result_list_roots", "Asks for the roots"), list_roots)
        .tool_with(
            plain("test_input_required_result_capabilities", "Asks for every input that the client supports"),
            capabilities,
        )
        .tool_with(plain("test_input_required_result_request_state", "Asks for consent"), confirmed)
        .tool_with(plain("test_input_required_result_tampered_state", "Asks for consent"), confirmed)
        .tool_with(plain("test_input_required_result_multiple_inputs", "Asks for three things"), multiple)
        .tool_with(plain("test_input_required_result_multi_round", "Asks twice"), multi_round)
        .prompt(prompt, contextual)
}

async fn missing_capability(_: NoArguments, cx: Context) -> Result<&'static str, HandlerError> {
    let needed = ClientCapability::Sampling;
    if !cx.client_capabilities().has(needed) {
        return Err(missing_capabilities(ClientCapabilities::new().with(needed)).into());
    }
    Ok("The client can be asked for text from a model.")
}

async fn greeting(_: NoArguments, cx: Context) -> TextResult {
    let name = ask_for_text(&cx, "user_name", "What is your name?", "name").await?;
    Ok(format!("Hello, {name}!"))
}

async fn sampling(_: NoArguments, cx: Context) -> TextResult {
    ask_model(&cx, "capital_question", "What is the capital of France?").await
}

async fn list_roots(_: NoArguments, cx: Context) -> TextResult {
    let roots = cx.roots("client_roots").await?.roots;
    let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
    Ok(format!("The roots: {}", uris.join(", ")))
}

async fn capabilities(_: NoArguments, cx: Context) -> TextResult {
    let can = |capability| cx.client_capabilities().has(capability);
    let greeting = async {
        match can(ClientCapability::Sampling) {
            true => ask_model(&cx, "greeting", "Generate a greeting").await,
            false => Ok("Hello".to_owned()),
        }
    };
    let name = async {
        match can(ClientCapability::ElicitationForm) {
            true => ask_for_text(&cx, "user_name", "What is your name?", "name").await,
            false => Ok("stranger".to_owned()),
        }
    };
    let (greeting, name) = zip(greeting, name).await;
    Ok(format!("{} {}.", greeting?, name?))
}

async fn confirmed(_: NoArguments, cx: Context) -> TextResult {
    let form = ElicitSchema {
        required: Some(vec!["ok".to_owned()]),
        ..ElicitSchema::new([("ok", PrimitiveSchema::from(BooleanSchema::new()))])
    };
    let answer = cx.elicit("confirm", ElicitParams::form("Please confirm", form)).await?;
    Ok(match answer.content.as_ref().and_then(|content| content.get("ok")) {
        Some(ElicitValue::Bool(true)) => "Confirmed: state-ok",
        _ => "Not confirmed.",
    }
    .to_owned())
}

async fn multiple(_: NoArguments, cx: Context) -> TextResult {
    let name = ask_for_text(&cx, "user_name", "What is your name?", "name");
    let greeting = ask_model(&cx, "greeting", "Generate a greeting");
    let (name, (greeting, roots)) = zip(name, zip(greeting, cx.roots("client_roots"))).await;
    Ok(format!("{} {}, you have shared {} roots.", greeting?, name?, roots?.roots.len()))
}

async fn multi_round(_: NoArguments, cx: Context) -> TextResult {
    let name = ask_for_text(&cx, "step1", "Step 1: What is your name?", "name").await?;
    let color = ask_for_text(&cx, "step2", "Step 2: What is your favorite color?", "color").await?;
    Ok(format!("{name}'s favourite colour is {color}."))
}

async fn contextual(_: NoArguments, cx: Context) -> TextResult {
    let context = ask_for_text(&cx, "user_context", "What context should the prompt use?", "context").await?;
    Ok(format!("Answer in this context: {context}"))
}

// --- Helpers ---

async fn ask_for_text(cx: &Context, key: &str, message: &str, field: &str) -> TextResult {
    let form = ElicitSchema {
        required: Some(vec![field.to_owned()]),
        ..ElicitSchema::new([(field, PrimitiveSchema::from(StringSchema::new()))])
    };
    let answer = cx.elicit(key, ElicitParams::form(message, form)).await?;
    match answer.content.as_ref().and_then(|content| content.get(field)) {
        Some(ElicitValue::String(text)) => Ok(text.clone()),
        _ => Err(HandlerError::new(format!("the user did not give {field}"))),
    }
}

async fn ask_model(cx: &Context, key: &str, question: &str) -> TextResult {
    let params = CreateMessageParams::new([SamplingMessage::user(question)], 100_u64);
    Ok(cx.sample(key, params).await?.content.text_content())
}
