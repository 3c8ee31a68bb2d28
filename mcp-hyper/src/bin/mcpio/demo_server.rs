//! The server of `mcpio demo` and `mcpio serve`: one example of each feature.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, Structured};
use mcp_proto::schema::{
    CompleteParams, ElicitParams, ElicitSchema, ElicitValue, LoggingLevel, PrimitiveSchema, Prompt,
    PromptArgument, Reference, Resource, ResourceContents, ResourceTemplate, ServerCapability, StringSchema,
    Tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, json};
use smol::Timer;

/// A blue diamond, 16 × 16: PNG in base64.
const LOGO: &str = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAMAAAAoLQ9TAAAADFBMVEX///8fb+v///8fb+ux+w1zAAAABHRSTlMA\
                    /wD/IAm9+gAAADlJREFUeNpjYMABGBnR+agijIyoIkAOExOSCJiPJALmMzPDRaB8hAiGAIYWTEMxrcV0GKbTMT2HAABY\
                    MAClWTJY0AAAAABJRU5ErkJggg==";

/// Styles of a greeting.
const STYLES: [&str; 4] = ["casual", "formal", "friendly", "pirate"];
/// Names to greet.
const NAMES: [&str; 4] = ["Ada", "Alan", "Barbara", "Grace"];

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to echo.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The one number.
    a: Number,
    /// The other number.
    b: Number,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// The sum of both numbers.
    sum: Number,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The last number.
    #[schemars(range(min = 1, max = 100_000))]
    to: u32,
    /// How long to wait before each number, in milliseconds.
    #[serde(default = "pause")]
    delay_ms: u32,
}

/// Long enough to separate the reports: some clients lose reports that arrive together with the result.
fn pause() -> u32 {
    20
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// How long the call takes, in seconds.
    #[schemars(range(min = 0, max = 3600))]
    seconds: f64,
}

#[derive(Deserialize)]
struct Greet {
    name: String,
    #[serde(default)]
    style: Option<String>,
}

pub(crate) fn router() -> Router {
    Router::new("mcp-demo", env!("CARGO_PKG_VERSION"))
        .instructions("A server for testing clients: its tools have no side effects.")
        .declare(ServerCapability::Logging)
        .tool("echo", "Returns the text", async |Echo { text }, _| text)
        .tool("add", "Adds two numbers", async |numbers: Add, _| {
            add(&numbers).map(|sum| Structured(Sum { sum }))
        })
        .tool("count", "Counts from one, and reports its progress", count)
        .tool("fail", "Always fails, for the sake of an example", async |NoArguments {}, _| {
            Err::<String, _>(HandlerError::new("this tool always fails"))
        })
        .tool("slow", "Runs for a while; meant for testing cancellation", slow)
        .tool("introduce", "Asks the user for their name", introduce)
        .tasks(TaskConfig::default())
        .task_tool(
            Tool::new(
                "bake",
                "Bakes bread, as a task if the client supports tasks",
                json!({ "type": "object" }),
            ),
            TaskChoice::Optional,
            bake,
        )
        .resource(
            described("demo://greeting", "greeting", "A general greeting", "text/plain"),
            async |_, _| greeting("world"),
        )
        .resource(described("demo://logo", "logo", "A small picture", "image/png"), async |uri: String, _| {
            let mut contents = mcp_proto::schema::BlobResourceContents::new(uri, LOGO);
            contents.mime_type = Some("image/png".to_owned());
            ResourceContents::from(contents)
        })
        .template(
            {
                let mut template = ResourceTemplate::new("demo://greeting/{name}", "greeting-for");
                template.description = Some("A greeting by name".to_owned());
                template.mime_type = Some("text/plain".to_owned());
                template
            },
            async |Greet { name, .. }, _| greeting(&name),
        )
        .prompt(greet(), async |Greet { name, style }, _| {
            let style = style.as_deref().unwrap_or("friendly");
            format!("Write a {style} greeting for {name}, in one sentence.")
        })
        .completion(async |params: CompleteParams, _| complete(&params))
}

/// A resource that changes every second, for subscriptions.
pub(crate) const CLOCK: &str = "demo://clock";

/// The same router with a clock, for servers that send change notifications.
pub(crate) fn with_clock() -> Router {
    let clock = described(CLOCK, "clock", "Seconds since 1970", "text/plain");
    router().declare(ServerCapability::ResourcesSubscribe).resource(clock, async |_, _| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().to_string()
    })
}

fn described(uri: &str, name: &str, description: &str, mime_type: &str) -> Resource {
    let mut resource = Resource::new(uri, name);
    resource.description = Some(description.to_owned());
    resource.mime_type = Some(mime_type.to_owned());
    resource
}

fn greet() -> Prompt {
    let argument = |name: &str, description: &str, required| {
        let mut argument = PromptArgument::new(name);
        argument.description = Some(description.to_owned());
        argument.required = Some(required);
        argument
    };
    let mut prompt = Prompt::new("greet");
    prompt.description = Some("Makes the model greet a person".to_owned());
    prompt.arguments = Some(vec![
        argument("name", "Who is greeted", true),
        argument("style", "Style: casual, formal, friendly or pirate", false),
    ]);
    prompt
}

/// Adds two numbers; the sum of integers is an integer.
fn add(Add { a, b }: &Add) -> Result<Number, HandlerError> {
    if let Some(sum) = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b)) {
        return Ok(sum.into());
    }
    let sum = a.as_f64().zip(b.as_f64()).and_then(|(a, b)| Number::from_f64(a + b));
    sum.ok_or_else(|| HandlerError::new("the sum is too large"))
}

async fn count(Count { to, delay_ms }: Count, cx: Context) -> String {
    cx.log(LoggingLevel::Info, format!("counting to {to}"));
    for number in 1..=to {
        Timer::after(Duration::from_millis(delay_ms.into())).await;
        cx.progress(Progress::new(number).total(to).message("counting"));
    }
    cx.log(LoggingLevel::Info, "done");
    format!("Counted to {to}.")
}

async fn slow(Slow { seconds }: Slow, cx: Context) -> Result<String, HandlerError> {
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| HandlerError::new(error.to_string()))?;
    cx.log(LoggingLevel::Debug, format!("this takes {seconds} s, unless it is cancelled"));
    Timer::after(time).await;
    Ok(format!("That took {seconds} s."))
}

/// Works in both eras: the server sends a request, or returns an input-required result and runs the handler again.
async fn introduce(NoArguments {}: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let name = StringSchema { title: Some("Your name".to_owned()), ..StringSchema::new() };
    let mut form = ElicitSchema::new([("name", PrimitiveSchema::from(name))]);
    form.required = Some(vec!["name".to_owned()]);
    let answer = cx.elicit("name", ElicitParams::form("Who are you?", form)).await?;
    match answer.content.as_ref().and_then(|content| content.get("name")) {
        Some(ElicitValue::String(name)) => Ok(greeting(name)),
        _ => Ok("A stranger, then.".to_owned()),
    }
}

async fn bake(NoArguments {}: NoArguments, cx: Context) -> &'static str {
    for step in ["kneading", "waiting for the dough to rise", "baking"] {
        cx.status(step);
        Timer::after(Duration::from_millis(500)).await;
    }
    "The bread is done."
}

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

fn complete(params: &CompleteParams) -> Vec<String> {
    let known: &[&str] = match (&params.reference, params.argument.name.as_str()) {
        (Reference::Prompt(prompt), "style") if prompt.name == "greet" => &STYLES,
        (Reference::Prompt(prompt), "name") if prompt.name == "greet" => &NAMES,
        (Reference::Resource(template), "name") if template.uri == "demo://greeting/{name}" => &NAMES,
        _ => &[],
    };
    let typed = params.argument.value.to_lowercase();
    let begins = |value: &&&str| value.to_lowercase().starts_with(&typed);
    known.iter().filter(begins).map(|value| (*value).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let number = |text| serde_json::from_str(text).unwrap();
        add(&Add { a: number(a), b: number(b) }).unwrap().to_string()
    }

    #[test]
    fn demo_router_is_valid() {
        with_clock().check().unwrap();
    }

    #[test]
    fn sum_of_integers_is_an_integer() {
        assert_eq!(sum("2", "3"), "5");
        assert_eq!(sum("2", "0.5"), "2.5");
        assert_eq!(sum("9223372036854775807", "1"), "9.223372036854776e+18");
    }
}
