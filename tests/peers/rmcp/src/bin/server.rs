//! The demo server on the official Rust SDK: one process speaks both eras.
//!
//! Run: server [--http PORT]

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler, ServiceExt, prompt, prompt_handler, prompt_router, tool,
    tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;

/// One pixel.
const LOGO: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const STYLES: [&str; 3] = ["casual", "formal", "pirate"];
const NAMES: [&str; 3] = ["Ada", "Alan", "Grace"];
/// A pause after each progress, so that a client sees it before the result.
const PACE: Duration = Duration::from_millis(50);

#[derive(Clone)]
struct Demo;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Summands {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Limit {
    to: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    colour: String,
}
rmcp::elicit_safe!(Colour);

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    name: String,
    style: Option<String>,
}

#[tool_router]
impl Demo {
    #[tool(description = "Give the text back.")]
    fn echo(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text
    }

    #[tool(description = "Add two numbers; the sum is structured.")]
    fn add(&self, Parameters(Summands { a, b }): Parameters<Summands>) -> Json<Sum> {
        Json(Sum { sum: a + b })
    }

    #[tool(description = "Count from 1, reporting progress at each step.")]
    async fn count(
        &self,
        Parameters(Limit { to }): Parameters<Limit>,
        meta: RequestMetaObject,
        client: Peer<RoleServer>,
    ) -> Result<String, ErrorData> {
        if let Some(token) = meta.get_progress_token() {
            for step in 1..=to {
                let progress = ProgressNotificationParam::new(token.clone(), f64::from(step))
                    .with_total(f64::from(to))
                    .with_message(format!("{step} of {to}"));
                client.notify_progress(progress).await.map_err(|error| internal(&error))?;
                tokio::time::sleep(PACE).await;
            }
        }
        Ok(format!("counted to {to}"))
    }

    #[tool(description = "Fail on purpose.")]
    fn fail(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text("this tool always fails")])
    }

    #[tool(description = "Ask the person for a colour.")]
    async fn ask(
        &self,
        InputResponses(answers): InputResponses,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        const QUESTION: &str = "Which colour?";
        let answer = if context.protocol_version().is_some_and(|version| version.has_initialize()) {
            context.peer.elicit::<Colour>(QUESTION).await.map_err(|error| internal(&error))?
        } else if let Some(answer) = answers.as_ref().and_then(|answers| answers.get("colour")) {
            serde_json::from_value(answer["content"].clone()).map_err(|error| internal(&error))?
        } else {
            let question = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
                meta: None,
                message: QUESTION.into(),
                requested_schema: ElicitationSchema::from_type::<Colour>()
                    .map_err(|error| internal(&error))?,
            });
            let questions = InputRequests::from([("colour".to_owned(), InputRequest::Elicitation(question))]);
            return Ok(InputRequiredResult::new(Some(questions), None).into());
        };
        let colour = answer.map_or("nothing".to_owned(), |answer| answer.colour);
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("you said {colour}"))]).into())
    }
}

#[prompt_router]
impl Demo {
    #[prompt(description = "Ask for a greeting.")]
    fn greet(&self, Parameters(Greeting { name, style }): Parameters<Greeting>) -> Vec<PromptMessage> {
        let style = style.as_deref().unwrap_or("casual");
        vec![PromptMessage::new_text(Role::User, format!("Greet {name} in a {style} way."))]
    }
}

#[tool_handler]
#[prompt_handler(router = Self::prompt_router())]
impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_tools()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rmcp-demo", "1.0.0"))
            .with_instructions("A server to try a client on.")
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new("demo://greeting", "greeting").with_mime_type("text/plain"),
            Resource::new("demo://logo", "logo").with_mime_type("image/png"),
        ]))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template =
            ResourceTemplate::new("demo://greeting/{name}", "greeting_for").with_mime_type("text/plain");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let contents = if uri == "demo://greeting" {
            ResourceContents::text("Hello, world!", uri)
        } else if uri == "demo://logo" {
            ResourceContents::blob(LOGO, uri).with_mime_type("image/png")
        } else if let Some(name) = uri.strip_prefix("demo://greeting/") {
            ResourceContents::text(format!("Hello, {name}!"), uri.clone())
        } else {
            return Err(ErrorData::resource_not_found("no such resource", Some(json!({"uri": uri}))));
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = match request.argument.name.as_str() {
            "style" => STYLES,
            "name" => NAMES,
            _ => return Ok(CompleteResult::default()),
        };
        let fitting = known.iter().filter(|value| value.starts_with(&request.argument.value));
        let values = fitting.map(|value| (*value).to_owned()).collect();
        Ok(CompleteResult::new(CompletionInfo::with_all_values(values).map_err(|error| internal(&error))?))
    }
}

fn internal(error: &dyn std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => _ = Demo.serve(rmcp::transport::stdio()).await?.waiting().await?,
        ["--http", port] => serve_http(port.parse()?).await?,
        _ => return Err("usage: server [--http PORT]".into()),
    }
    Ok(())
}

/// Serves `/mcp` on the loopback interface.
async fn serve_http(port: u16) -> std::io::Result<()> {
    let service = StreamableHttpService::new(
        || Ok(Demo),
        Arc::<LocalSessionManager>::default(),
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            // Ignores how the connection ends.
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
