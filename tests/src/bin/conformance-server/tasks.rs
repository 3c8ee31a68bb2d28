//! Tools whose calls become tasks.

use std::time::Duration;

use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    BooleanSchema, ElicitAction, ElicitParams, ElicitResult, ElicitSchema, ElicitValue, PrimitiveSchema,
    StringSchema, Tool,
};
use serde::Deserialize;
use serde_json::json;
use smol::Timer;
use smol::future::try_zip;

use crate::content::plain;

#[derive(Deserialize)]
struct Compute {
    seconds: f64,
}

#[derive(Deserialize)]
struct Delete {
    filename: String,
}

pub(crate) fn add(router: Router) -> Router {
    let compute = json!({
        "type": "object",
        "properties": {
            "seconds": { "type": "number", "minimum": 0, "maximum": 3600 }, "label": { "type": "string" },
        },
        "required": ["seconds"],
    });
    let delete = json!({
        "type": "object", "properties": { "filename": { "type": "string" } }, "required": ["filename"],
    });
    router
        .tasks(TaskConfig::default())
        .task_tool(
            Tool::new("slow_compute", "Takes so many seconds", compute),
            TaskChoice::Optional,
            slow_compute,
        )
        .task_tool(plain("failing_job", "Fails after a second"), TaskChoice::Required, failing_job)
        .task_tool(
            plain("protocol_error_job", "Fails by an error of the protocol"),
            TaskChoice::Optional,
            async |NoArguments {}, _| {
                let error = ErrorObject::new(code::INTERNAL_ERROR, "the job broke down, as it always does");
                Err::<(), HandlerError>(error.into())
            },
        )
        .task_tool(
            Tool::new("confirm_delete", "Asks whether to delete a file, and does not", delete),
            TaskChoice::Optional,
            confirm_delete,
        )
        .task_tool(plain("multi_input", "Asks two things at once"), TaskChoice::Optional, multi_input)
        .detaching_tool(
            plain("test_tool_with_task", "Asks for a name, then greets in a task"),
            TaskChoice::Required,
            greet_later,
        )
}

async fn slow_compute(Compute { seconds }: Compute, cx: Context) -> Result<String, HandlerError> {
    let duration = Duration::try_from_secs_f64(seconds)?;
    cx.status("computing");
    Timer::after(duration).await;
    Ok(format!("Computed for {seconds} s."))
}

async fn failing_job(_: NoArguments, _: Context) -> Result<(), HandlerError> {
    Timer::after(Duration::from_secs(1)).await;
    Err(HandlerError::new("The job failed, as it always does."))
}

async fn confirm_delete(Delete { filename }: Delete, cx: Context) -> Result<String, HandlerError> {
    let answer = cx.elicit("confirm", ask_whether(&format!("Delete {filename}?"))).await?;
    let confirmed = field(&answer, "confirm") == Some(&ElicitValue::Bool(true));
    Ok(format!("{filename} would{} be deleted.", if confirmed { "" } else { " not" }))
}

async fn multi_input(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let name = cx.elicit("name", ask_for_name());
    let sure = cx.elicit("confirm", ask_whether("Are you sure?"));
    let (name, sure) = try_zip(name, sure).await?;
    Ok(format!("{} and {}.", name.action.as_str(), sure.action.as_str()))
}

async fn greet_later(_: NoArguments, cx: Context) -> Result<DetachedWork, HandlerError> {
    let answer = cx.elicit("user_name", ask_for_name()).await?;
    let name = match field(&answer, "name") {
        Some(ElicitValue::String(name)) => name.clone(),
        _ => "stranger".to_owned(),
    };
    Ok(DetachedWork::new(async move |_| format!("Hello, {name}!")))
}

fn ask_whether(question: &str) -> ElicitParams {
    let confirm: PrimitiveSchema = BooleanSchema::new().into();
    ElicitParams::form(question, ElicitSchema::new([("confirm", confirm)]))
}

fn ask_for_name() -> ElicitParams {
    let name: PrimitiveSchema = StringSchema::new().into();
    ElicitParams::form("What is your name?", ElicitSchema::new([("name", name)]))
}

/// A field of a form that the user accepted.
fn field<'a>(answer: &'a ElicitResult, name: &str) -> Option<&'a ElicitValue> {
    let content = answer.content.as_ref().filter(|_| answer.action == ElicitAction::Accept)?;
    content.get(name)
}
