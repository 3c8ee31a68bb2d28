//! A client on the official Rust SDK that tries everything a demo server has.
//!
//! Run: client [--era auto|modern|legacy] -- COMMAND ARGS… | URL

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;

type Outcome = Result<Value, Box<dyn Error>>;

/// Answers the servers' requests, and collects the progress that they report.
#[derive(Clone, Default)]
struct Answers {
    progress: Arc<Mutex<Vec<f64>>>,
}

impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rmcp-client", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(request).unwrap_or_default();
        let fields = request["requestedSchema"]["properties"].as_object().into_iter().flatten();
        let content: serde_json::Map<_, _> = fields.map(|(name, _)| (name.clone(), json!("blue"))).collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::from(content)))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params.progress);
    }
}

type Client = RunningService<RoleClient, Answers>;

async fn call(
    client: &Client,
    name: &'static str,
    arguments: Value,
) -> Result<CallToolResult, Box<dyn Error>> {
    let Value::Object(arguments) = arguments else { return Err("arguments are an object".into()) };
    Ok(client.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await?)
}

/// The text of the first part of a result.
fn text(result: &CallToolResult) -> &str {
    result.content.first().and_then(ContentBlock::as_text).map_or("", |part| &part.text)
}

fn expect(holds: bool, shown: Value) -> Outcome {
    if holds { Ok(shown) } else { Err(format!("not as wanted: {shown}").into()) }
}

fn has_all(found: Vec<String>, wanted: &[&str]) -> Outcome {
    expect(wanted.iter().all(|name| found.iter().any(|other| other == name)), json!(found))
}

async fn list_tools(client: &Client) -> Outcome {
    let tools = client.list_all_tools().await?;
    has_all(tools.into_iter().map(|tool| tool.name.into_owned()).collect(), &["echo", "add", "count", "fail"])
}

async fn list_resources(client: &Client) -> Outcome {
    let resources = client.list_all_resources().await?;
    has_all(resources.into_iter().map(|resource| resource.uri).collect(), &["demo://greeting", "demo://logo"])
}

async fn list_templates(client: &Client) -> Outcome {
    let templates = client.list_all_resource_templates().await?;
    has_all(
        templates.into_iter().map(|template| template.uri_template).collect(),
        &["demo://greeting/{name}"],
    )
}

async fn list_prompts(client: &Client) -> Outcome {
    let prompts = client.list_all_prompts().await?;
    has_all(prompts.into_iter().map(|prompt| prompt.name).collect(), &["greet"])
}

async fn call_echo(client: &Client) -> Outcome {
    let result = call(client, "echo", json!({"text": "hello"})).await?;
    expect(text(&result) == "hello", json!(text(&result)))
}

async fn call_add(client: &Client) -> Outcome {
    let result = call(client, "add", json!({"a": 2, "b": 3})).await?;
    expect(result.structured_content == Some(json!({"sum": 5})), json!(result.structured_content))
}

async fn call_count(client: &Client) -> Outcome {
    call(client, "count", json!({"to": 3})).await?;
    let seen = client.service().progress.lock().unwrap().clone();
    expect(seen == [1.0, 2.0, 3.0], json!(seen))
}

async fn call_fail(client: &Client) -> Outcome {
    let result = call(client, "fail", json!({})).await?;
    expect(result.is_error == Some(true), json!(result.is_error))
}

async fn call_unknown(client: &Client) -> Outcome {
    match call(client, "no-such-tool", json!({})).await {
        Ok(result) => expect(result.is_error == Some(true), json!(result.is_error)),
        Err(error) => Ok(json!(error.to_string())),
    }
}

/// Calls the tool that asks the user for input, under the name that the server gives it.
async fn call_asking(client: &Client) -> Outcome {
    let tools = client.list_all_tools().await?;
    let Some(asking) =
        ["ask", "introduce"].into_iter().find(|asking| tools.iter().any(|tool| tool.name == *asking))
    else {
        return Ok(json!("no such tool"));
    };
    let result = call(client, asking, json!({})).await?;
    expect(text(&result).contains("blue"), json!(text(&result)))
}

async fn read(client: &Client, uri: &str) -> Result<Value, Box<dyn Error>> {
    let result = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
    Ok(serde_json::to_value(result.contents.first())?)
}

async fn read_text(client: &Client) -> Outcome {
    let content = read(client, "demo://greeting").await?;
    expect(content["text"].as_str().is_some_and(|text| !text.is_empty()), content)
}

async fn read_blob(client: &Client) -> Outcome {
    let content = read(client, "demo://logo").await?;
    expect(content["blob"].as_str().is_some_and(|blob| blob.starts_with("iVBORw0KGgo")), content)
}

async fn read_template(client: &Client) -> Outcome {
    let content = read(client, "demo://greeting/Ada").await?;
    expect(content["text"].as_str().is_some_and(|text| text.contains("Ada")), content)
}

async fn read_unknown(client: &Client) -> Outcome {
    match read(client, "demo://no-such-resource").await {
        Ok(content) => Err(format!("an unknown resource was read: {content}").into()),
        Err(error) => Ok(json!(error.to_string())),
    }
}

async fn get_prompt(client: &Client) -> Outcome {
    let Value::Object(arguments) = json!({"name": "Ada", "style": "formal"}) else {
        return Err("no object".into());
    };
    let result = client.get_prompt(GetPromptRequestParams::new("greet").with_arguments(arguments)).await?;
    let message = serde_json::to_value(result.messages.first())?;
    expect(message["content"]["text"].as_str().is_some_and(|text| text.contains("Ada")), message)
}

async fn complete_prompt(client: &Client) -> Outcome {
    let values = client.complete_prompt_simple("greet", "style", "").await?;
    expect(!values.is_empty(), json!(values))
}

async fn complete_template(client: &Client) -> Outcome {
    let values = client.complete_resource_simple("demo://greeting/{name}", "name", "A").await?;
    expect(!values.is_empty(), json!(values))
}

/// Prints one JSON line; returns whether the step succeeded.
fn report(step: &str, outcome: Outcome) -> bool {
    let (ok, line) = match outcome {
        Ok(shown) => (true, json!({"step": step, "ok": true, "shown": shown})),
        Err(error) => (false, json!({"step": step, "ok": false, "error": error.to_string()})),
    };
    println!("{line}");
    ok
}

fn usage() -> ExitCode {
    eprintln!("usage: client [--era auto|modern|legacy] -- COMMAND ARGS… | URL");
    ExitCode::from(2)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let era = if words.first().is_some_and(|word| word == "--era") && words.len() > 1 {
        words.drain(..2).nth(1).unwrap_or_default()
    } else {
        "auto".into()
    };
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = match era.as_str() {
        "auto" => ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: None },
        "modern" => ClientLifecycleMode::Discover { preferred_versions: modern },
        "legacy" => ClientLifecycleMode::Initialize,
        _ => return usage(),
    };
    let [separator, program, arguments @ ..] = words.as_slice() else { return usage() };
    if separator != "--" {
        return usage();
    }
    let connected = async {
        let answers = Answers::default();
        Ok::<_, Box<dyn Error>>(if program.starts_with("http") {
            let server = StreamableHttpClientTransport::from_uri(program.as_str());
            answers.serve_with_lifecycle(server, lifecycle).await?
        } else {
            let mut command = Command::new(program);
            command.args(arguments);
            answers.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
        })
    };
    let client = match connected.await {
        Ok(client) => client,
        Err(error) => {
            report("connect", Err(error));
            return ExitCode::FAILURE;
        }
    };
    let revision = client.peer_info().map(|server| server.protocol_version.to_string());
    println!("{}", json!({"step": "connect", "ok": true, "revision": revision}));

    let mut ok = true;
    ok &= report("list tools", list_tools(&client).await);
    ok &= report("list resources", list_resources(&client).await);
    ok &= report("list templates", list_templates(&client).await);
    ok &= report("list prompts", list_prompts(&client).await);
    ok &= report("call echo", call_echo(&client).await);
    ok &= report("call add", call_add(&client).await);
    ok &= report("call count", call_count(&client).await);
    ok &= report("call fail", call_fail(&client).await);
    ok &= report("call an unknown tool", call_unknown(&client).await);
    ok &= report("call what asks", call_asking(&client).await);
    ok &= report("read text", read_text(&client).await);
    ok &= report("read blob", read_blob(&client).await);
    ok &= report("read template", read_template(&client).await);
    ok &= report("read an unknown resource", read_unknown(&client).await);
    ok &= report("get prompt", get_prompt(&client).await);
    ok &= report("complete prompt argument", complete_prompt(&client).await);
    ok &= report("complete template variable", complete_template(&client).await);
    ok &= report("close", client.cancel().await.map(|_| Value::Null).map_err(Into::into));
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
