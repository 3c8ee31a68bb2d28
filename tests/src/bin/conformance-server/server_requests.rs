//! Tools that send requests to clients of 2025-11-25 and earlier.

use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::schema::{
    BooleanSchema, CreateMessageParams, ElicitParams, ElicitResult, ElicitSchema, EnumOption, EnumSchema,
    Map, MultiSelectSchema, NumberKind, NumberSchema, PrimitiveSchema, SamplingMessage, StringSchema,
    TitledEnumSchema, TitledItems, Tool, UntitledItems,
};
use serde::Deserialize;
use serde_json::json;

use crate::content::plain;

#[derive(Deserialize)]
struct Sampling {
    prompt: String,
}

#[derive(Deserialize)]
struct Elicitation {
    message: String,
}

pub(crate) fn add(router: Router) -> Router {
    router
        .tool_with(
            with_text("test_sampling", "Asks the client's model", "prompt"),
            async |Sampling { prompt }, cx: Context| {
                let question = CreateMessageParams::new([SamplingMessage::user(prompt.as_str())], 100_u64);
                let answer = cx.sample("answer", question).await?;
                Ok::<_, HandlerError>(format!("LLM response: {}", answer.content.text_content()))
            },
        )
        .tool_with(
            with_text("test_elicitation", "Asks the user", "message"),
            async |Elicitation { message }, cx: Context| {
                let form = [
                    ("username", described("User's response")),
                    ("email", described("User's email address")),
                ];
                let answer = elicit(&cx, &message, form, &["username", "email"]).await?;
                Ok::<_, HandlerError>(format!("User response: {}", describe_answer(&answer)?))
            },
        )
        .tool_with(
            plain("test_elicitation_sep1034_defaults", "Asks the user with a form that has defaults"),
            async |NoArguments {}, cx: Context| {
                let answer = elicit(&cx, "Please review what is filled in", defaults(), &[]).await?;
                Ok::<_, HandlerError>(format!("Elicitation completed: {}", describe_answer(&answer)?))
            },
        )
        .tool_with(
            plain("test_elicitation_sep1330_enums", "Asks the user to choose, with every kind of choice"),
            async |NoArguments {}, cx: Context| {
                let answer = elicit(&cx, "Please choose", choices(), &[]).await?;
                Ok::<_, HandlerError>(format!("Elicitation completed: {}", describe_answer(&answer)?))
            },
        )
}

/// A tool with one argument, a text.
fn with_text(name: &str, description: &str, argument: &str) -> Tool {
    let schema = json!({
        "type": "object", "properties": { (argument): { "type": "string" } }, "required": [argument],
    });
    Tool::new(name, description, schema)
}

async fn elicit(
    cx: &Context,
    message: &str,
    fields: impl Into<Map<PrimitiveSchema>>,
    required: &[&str],
) -> Result<ElicitResult, HandlerError> {
    let mut form = ElicitSchema::new(fields);
    form.required = (!required.is_empty()).then(|| required.iter().map(|name| (*name).to_owned()).collect());
    Ok(cx.elicit("form", ElicitParams::form(message, form)).await?)
}

fn describe_answer(answer: &ElicitResult) -> Result<String, HandlerError> {
    let content = serde_json::to_string(&answer.content)?;
    Ok(format!("action={}, content={content}", answer.action.as_str()))
}

fn described(description: &str) -> PrimitiveSchema {
    StringSchema { description: Some(description.to_owned()), ..StringSchema::new() }.into()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn defaults() -> [(&'static str, PrimitiveSchema); 5] {
    let statuses = strings(&["active", "inactive", "pending"]);
    [
        ("name", StringSchema { default: Some("John Doe".to_owned()), ..StringSchema::new() }.into()),
        ("age", NumberSchema { default: Some(30.into()), ..NumberSchema::new(NumberKind::Integer) }.into()),
        (
            "score",
            NumberSchema { default: Some(95.5.into()), ..NumberSchema::new(NumberKind::Number) }.into(),
        ),
        ("status", EnumSchema { default: Some("active".to_owned()), ..EnumSchema::new(statuses) }.into()),
        ("verified", BooleanSchema { default: Some(true), ..BooleanSchema::new() }.into()),
    ]
}

fn choices() -> [(&'static str, PrimitiveSchema); 5] {
    let plain = ["option1", "option2", "option3"];
    let options = |titles: [&str; 3]| -> Vec<EnumOption> {
        let values = ["value1", "value2", "value3"];
        values.iter().zip(titles).map(|(value, title)| EnumOption::new(*value, title)).collect()
    };
    let legacy = EnumSchema {
        names: Some(strings(&["Option One", "Option Two", "Option Three"])),
        ..EnumSchema::new(strings(&["opt1", "opt2", "opt3"]))
    };
    let single = TitledEnumSchema::new(options(["First Option", "Second Option", "Third Option"]));
    let multi = TitledItems::new(options(["First Choice", "Second Choice", "Third Choice"]));
    [
        ("untitledSingle", EnumSchema::new(strings(&plain)).into()),
        ("titledSingle", single.into()),
        ("legacyEnum", legacy.into()),
        ("untitledMulti", MultiSelectSchema::new(UntitledItems::new(strings(&plain))).into()),
        ("titledMulti", MultiSelectSchema::new(multi).into()),
    ]
}
