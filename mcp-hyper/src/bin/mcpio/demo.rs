//! The demo server: `mcpio demo` shows the features of the protocol on it, and `mcpio serve` serves it, with access
//! tokens if they are asked for.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use mcp_hyper::ServerOptions;
use mcp_hyper::skills::SkillFolder;
use mcp_proto::auth::server::{DpopConfig, JwtConfig, Protection};
use mcp_proto::front::guard::{Guard, JwtVerifier};
use mcp_proto::front::http::HttpServer;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, Structured};
use mcp_proto::schema::{
    CallToolResult, CompleteParams, ElicitParams, ElicitSchema, ElicitValue, LoggingLevel, PrimitiveSchema,
    Prompt, PromptArgument, PromptReference, Reference, Resource, ResourceContents, ResourceTemplate,
    ServerCapability, StringSchema, Tool,
};
use mcp_proto::transport::http::server::{CorsOrigins, Hosts, LegacyPaths};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, json};
use smol::Timer;
use smol::future::or;
use smol::net::TcpListener;

use crate::connect::{Connection, with_server};
use crate::error::{CommandError, Interrupts, Result};
use crate::options::{CommonOptions, variable};
use crate::server_trace::ServerTrace;
use crate::terminal::{GOOD, QUIET, Screen, Text, styled};
use crate::{commands, show};

/// Starts a second process of this program as the server.
pub(crate) async fn demo(common: &CommonOptions, screen: &mut Screen) -> Result {
    let program =
        std::env::current_exe().map_err(CommandError::server_of("the path of this program is unknown"))?;
    let server = [program.into_os_string(), OsString::from("serve")];
    with_server(&server, common, async |connection| tour(connection, screen).await).await
}

/// Serves the demo on a free port and connects to it.
pub(crate) async fn demo_over_http(common: &CommonOptions, screen: &mut Screen) -> Result {
    let failed = CommandError::server_of("serving over HTTP");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(&failed)?;
    let url = format!("http://{}/mcp", listener.local_addr().map_err(failed)?);
    let serving = smol::spawn(mcp_hyper::serve(listener, router()));
    let server = [OsString::from(url)];
    let toured = with_server(&server, common, async |connection| tour(connection, screen).await).await;
    serving.cancel().await;
    toured
}

async fn tour(connection: &Connection, screen: &mut Screen) -> Result {
    let client = &connection.client;

    step(screen, "The server, as it describes itself", "mcpio info")?;
    show::facts(screen, &commands::facts(&connection.server))?;

    step(screen, "Its tools", "mcpio tools")?;
    show::tools(screen, &client.list_tools().await?)?;

    step(screen, "A call with a structured result", "mcpio call add a=2 b=3")?;
    let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await?;
    result(screen, &sum)?;

    step(
        screen,
        "A call that reports its progress and logs",
        "mcpio call count to=20 delay_ms=50 --log info",
    )?;
    let count = client
        .call_tool("count", json!({ "to": 20, "delay_ms": 50 }))
        .log_level(connection.log.unwrap_or(LoggingLevel::Info))
        .on_progress(connection.reports.progress());
    result(screen, &connection.reports.until(count).await?)?;

    step(screen, "A tool that fails reports it to the model, and the session continues", "mcpio call fail")?;
    result(screen, &client.call_tool("fail", json!({})).await?)?;

    step(screen, "Resources", "mcpio read demo://greeting/Ada")?;
    for uri in ["demo://greeting/Ada", "demo://logo"] {
        show::contents(screen, &client.read_resource(uri).await?.contents)?;
    }

    step(screen, "A prompt", "mcpio get greet name=Ada style=pirate")?;
    commands::table(&client.list_prompts().await?).print(screen)?;
    let prompt = client.get_prompt("greet", [("name", "Ada"), ("style", "pirate")]).await?;
    show::messages(screen, &prompt.messages)?;

    step(screen, "Completion of its argument", "mcpio complete greet style f")?;
    let completion = client.complete(PromptReference::new("greet"), "style", "f").await?.completion;
    screen.line(completion.values.join(", "))?;

    screen.line("")?;
    screen.line("The same commands work with any other server, named after the two dashes:")?;
    screen.line(styled(QUIET, "$ mcpio tools -- npx -y @modelcontextprotocol/server-everything"))?;
    Ok(())
}

fn step(screen: &mut Screen, title: &str, command: &str) -> Result {
    screen.line("")?;
    show::heading(screen, title)?;
    screen.line(styled(QUIET, format_args!("$ {command} -- mcpio serve")))?;
    Ok(())
}

fn result(screen: &mut Screen, result: &CallToolResult) -> Result {
    let mark = if result.failed() { styled(QUIET, "failed:") } else { styled(GOOD, "→") };
    screen.labelled(mark, Text::block(&result.text_content()))?;
    Ok(())
}

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

fn router() -> Router {
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
            ResourceTemplate {
                description: Some("A greeting by name".to_owned()),
                mime_type: Some("text/plain".to_owned()),
                ..ResourceTemplate::new("demo://greeting/{name}", "greeting-for")
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
const CLOCK: &str = "demo://clock";

/// The same router with a clock, for servers that send change notifications.
fn with_clock() -> Router {
    let clock = described(CLOCK, "clock", "Seconds since 1970", "text/plain");
    router().declare(ServerCapability::ResourcesSubscribe).resource(clock, async |_, _| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().to_string()
    })
}

fn described(uri: &str, name: &str, description: &str, mime_type: &str) -> Resource {
    let (description, mime_type) = (Some(description.to_owned()), Some(mime_type.to_owned()));
    Resource { description, mime_type, ..Resource::new(uri, name) }
}

fn greet() -> Prompt {
    let argument = |name: &str, description: &str, required| PromptArgument {
        description: Some(description.to_owned()),
        required: Some(required),
        ..PromptArgument::new(name)
    };
    Prompt {
        description: Some("Makes the model greet a person".to_owned()),
        arguments: Some(vec![
            argument("name", "Who is greeted", true),
            argument("style", "Style: casual, formal, friendly or pirate", false),
        ]),
        ..Prompt::new("greet")
    }
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

/// Adds the skills of a folder, and says which are not served.
fn with_skills(router: Router, folder: Option<&Path>) -> Result<Router> {
    let Some(folder) = folder else { return Ok(router) };
    let skills = SkillFolder::new(folder);
    let problems = skills.problems().map_err(CommandError::usage_of(folder.display()))?;
    problems.iter().for_each(|problem| _ = Screen::messages().line(problem.to_string()));
    Ok(router.skills_from(skills))
}

/// Serves the demo: `mcpio serve`.
pub(crate) async fn serve(
    skills: Option<&Path>,
    listen: &ListenOptions,
    demands: &ProtectionOptions,
    common: &CommonOptions,
) -> Result {
    let Some(address) = &listen.http else {
        return serve_stdio(with_skills(router(), skills)?, common).await;
    };
    let router = with_scopes(with_skills(with_clock(), skills)?, demands);
    let ticking = async |server: HttpServer| loop {
        Timer::after(Duration::from_secs(1)).await;
        server.resource_updated(CLOCK);
    };
    serve_http(router, address, (listen, demands, common), ticking).await
}

/// Serves a router on standard input and output.
pub(crate) async fn serve_stdio(router: Router, common: &CommonOptions) -> Result {
    if std::io::stdin().is_terminal() {
        let hint = match common.stdio_v2 {
            true => "This is a server: it expects a client that speaks HTTP/2. Ctrl-D ends it.",
            false => {
                "This is a server: it expects a client's messages, one JSON object to a line. Ctrl-D ends it."
            }
        };
        let _ = Screen::messages().line(hint);
    }
    let failed = CommandError::server_of("serving standard input and output");
    if common.stdio_v2 {
        let trace = ServerTrace::new(common, "stdio-v2", router.redactor());
        let options = trace.of_http(ServerOptions::new(router));
        return options.stdio_v2().await.map_err(failed);
    }
    let trace = ServerTrace::new(common, "stdio", router.redactor());
    let options = trace.of_stream(mcp_smol::ServerOptions::new(router));
    let (_handle, driver) = options.stdio().map_err(&failed)?;
    driver.await.map_err(failed)
}

/// Serves a router over HTTP, beside `work` with its handle.
pub(crate) async fn serve_http(
    router: Router,
    address: &str,
    (listen, demands, common): (&ListenOptions, &ProtectionOptions, &CommonOptions),
    work: impl AsyncFnOnce(HttpServer) -> (),
) -> Result {
    let failed = CommandError::server_of(format!("serving {address}"));
    let addresses = smol::net::resolve(address).await.map_err(CommandError::usage_of(address))?;
    let listener = TcpListener::bind(&addresses[..]).await.map_err(&failed)?;
    let at = listener.local_addr().map_err(&failed)?;
    let (hosts, authority) = hosts(address, at, &listen.hosts);
    let url = format!("http://{authority}/mcp");
    let protected = protection(&url, hosts.clone(), demands)?;
    // Who reads the URL may send a signal at once.
    let interrupts = Interrupts::listen();
    let mut messages = Screen::messages();
    // Nothing follows a URL without a space, so that the user can select it. If this fails, it serves all the same.
    let _ = messages.line(format!("Serving {url} until Ctrl-C"));
    if let Some(resource) = &demands.resource {
        let _ = messages.line(format!("Clients reach it at {resource}"));
    }
    let trace = ServerTrace::new(common, "http", router.redactor());
    let mut options = ServerOptions::new(router).configure(|config| config.hosts = hosts);
    if let Some((guard, hosts)) = protected {
        options = options.protect(guard).configure(|config| config.hosts = hosts);
    }
    options = trace.of_http(options).configure(|config| {
        config.legacy_sse = listen.legacy_sse.then(LegacyPaths::default);
        config.cors = (!listen.cors.is_empty()).then(|| CorsOrigins::only(listen.cors.iter().cloned()));
    });
    if listen.websocket {
        options = options.websocket();
    }
    let (server, driver) = options.health("/healthz", || true).listen(listener);
    let closing = server.clone();
    let working = async {
        work(server).await;
        std::future::pending().await
    };
    let serving = async { or(driver, working).await.map_err(failed) };
    interrupts.drain(serving, || closing.drain(Duration::from_secs(listen.drain))).await
}

/// The hosts that requests may name, and one of them with the port. A page of another site cannot name an address, but
/// any name that it lets lead to this machine.
fn hosts(address: &str, at: SocketAddr, names: &[String]) -> (Hosts, String) {
    let port = at.port();
    let is_any = at.ip().is_unspecified();
    let mut allowed = names.to_vec();
    if !is_any && !at.ip().is_loopback() {
        allowed.push(SocketAddr::new(at.ip(), 0).to_string().trim_end_matches(":0").to_owned());
    }
    let authority = match allowed.first() {
        Some(name) if name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
            name.clone()
        }
        Some(name) => format!("{name}:{port}"),
        None if is_any || address.to_ascii_lowercase().starts_with("localhost:") => {
            format!("localhost:{port}")
        }
        None => at.to_string(),
    };
    if allowed.is_empty() {
        return (Hosts::Local, authority);
    }
    allowed.extend(LOCAL.map(str::to_owned));
    (Hosts::Only(allowed), authority)
}

/// This machine's names for itself.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The protection of a server at `url` and the hosts that requests may name, if the options require access tokens.
fn protection(url: &str, hosts: Hosts, demands: &ProtectionOptions) -> Result<Option<(Guard, Hosts)>> {
    let Some(issuer) = &demands.issuer else { return Ok(None) };
    let resource = demands.resource.as_deref().unwrap_or(url);
    let mut protection = Protection::new(resource, issuer)
        .and_then(|protection| protection.required(demands.scope.iter().map(String::as_str)))
        .map_err(CommandError::usage_of("access tokens"))?
        .name("mcpio demo");
    for audience in &demands.audience {
        protection = protection.audience(audience);
    }
    protection = protection.dpop(if demands.dpop { DpopConfig::required() } else { DpopConfig::accepted() });
    let hosts = with_resource(hosts, demands.resource.as_deref());
    Ok(Some((Guard::new(protection, JwtVerifier::new(JwtConfig::new(issuer))), hosts)))
}

/// The hosts with the one of the URL by which clients reach this server. The printed address stays one of them.
fn with_resource(hosts: Hosts, resource: Option<&str>) -> Hosts {
    let Some(host) = resource.and_then(|url| url.split_once("://")?.1.split('/').next()) else {
        return hosts;
    };
    let mut names = match hosts {
        Hosts::Only(names) => names,
        _ => LOCAL.map(str::to_owned).into(),
    };
    names.push(host.to_owned());
    Hosts::Only(names)
}

/// The same tools with their required scopes, and one that reports the caller.
fn with_scopes(router: Router, demands: &ProtectionOptions) -> Router {
    if demands.issuer.is_none() {
        return router;
    }
    let whoami =
        Tool::new("whoami", "Reports who you are according to your token", json!({ "type": "object" }));
    let mut router = router.tool_with(whoami, async |NoArguments {}, cx: Context| match cx.access() {
        Some(access) => {
            let client = access.client_id.as_deref().unwrap_or("an unnamed client");
            let scopes = if access.scopes.is_empty() { "none".to_owned() } else { access.scopes.to_string() };
            format!("{}, by {client}; scopes: {scopes}", access.principal.as_str())
        }
        None => "an anonymous caller".to_owned(),
    });
    for (tool, _) in &demands.tool_scope {
        let scopes = demands.tool_scope.iter().filter(|(other, _)| other == tool);
        router = router.tool_scopes(tool, scopes.map(|(_, scope)| scope.as_str()));
    }
    router
}

// The options of a server.

/// Where a server of this program listens.
#[derive(Debug, Default, Args)]
pub(crate) struct ListenOptions {
    /// Serve HTTP at this address, such as localhost:8080; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// A name by which clients reach this machine; requests for other hosts are refused, except for this machine's own
    /// names for itself. May be repeated
    #[arg(long = "host", requires = "http", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Serve HTTP+SSE of 2024-11-05 as well, for the oldest clients
    #[arg(long, requires = "http")]
    pub(crate) legacy_sse: bool,
    /// Accept WebSocket connections as well, at ws://ADDR/mcp
    #[arg(long, requires = "http")]
    pub(crate) websocket: bool,
    /// Let web pages of another origin call this server from a browser (CORS), such as https://app.example. May be
    /// repeated
    #[arg(long, requires = "http", value_name = "ORIGIN", value_parser = origin)]
    pub(crate) cors: Vec<String>,
    /// At SIGTERM or Ctrl-C, serve for this many seconds more, in which a balancer learns from /healthz that this server
    /// ends; a second signal ends it at once
    #[arg(long, requires = "http", value_name = "SECONDS", default_value_t = 0)]
    pub(crate) drain: u64,
}

/// Access tokens that the server requires of its clients.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Access tokens")]
pub(crate) struct ProtectionOptions {
    /// Require an access token of this issuer: a JWT, signed by a key that the issuer publishes
    #[arg(long, value_name = "URL", requires = "http")]
    pub(crate) issuer: Option<String>,
    /// The URL by which clients reach this server and issuers name it in tokens [default: its own address]
    #[arg(long, value_name = "URL", requires = "issuer")]
    pub(crate) resource: Option<String>,
    /// Another name of this server in tokens; may be repeated
    #[arg(long, value_name = "NAME", requires = "issuer")]
    pub(crate) audience: Vec<String>,
    /// A scope that every request needs; may be repeated
    #[arg(long, value_name = "SCOPE", requires = "issuer")]
    pub(crate) scope: Vec<String>,
    /// A scope that calls of one tool need in addition; may be repeated
    #[arg(long, value_name = "TOOL=SCOPE", value_parser = variable, requires = "issuer")]
    pub(crate) tool_scope: Vec<(String, String)>,
    /// Accept only tokens bound to a key, with a proof that the client holds it (DPoP)
    #[arg(long, requires = "issuer")]
    pub(crate) dpop: bool,
}

/// An origin as browsers write it, without the slash at the end that addresses have.
fn origin(text: &str) -> Result<String, String> {
    let origin = text.strip_suffix('/').unwrap_or(text);
    match origin.split_once("://") {
        Some((scheme, host)) if !scheme.is_empty() && !host.is_empty() && !host.contains('/') => {
            Ok(origin.to_owned())
        }
        _ => Err("write an origin without a path, such as https://app.example".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_has_a_scheme_and_no_path() {
        assert_eq!(origin("https://app.example/"), Ok("https://app.example".to_owned()));
        assert_eq!(origin("http://localhost:3000"), Ok("http://localhost:3000".to_owned()));
        for bad in ["app.example", "*", "null", "https://app.example/page", "https://", "://a"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    fn sum(a: &str, b: &str) -> String {
        let number = |text| serde_json::from_str(text).unwrap();
        add(&Add { a: number(a), b: number(b) }).unwrap().to_string()
    }

    #[test]
    fn demo_router_is_valid() {
        with_clock().check().unwrap();
    }

    #[test]
    fn printed_address_is_one_that_is_served() {
        let printed = |address: &str, at: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            hosts(address, at.parse().unwrap(), &names)
        };
        let served = |(hosts, printed): (Hosts, String)| (matches!(hosts, Hosts::Local), printed);
        let local = [
            ("127.0.0.1:0", "127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:8080", "localhost:8080"),
            ("[::1]:0", "[::1]:8080", "[::1]:8080"),
            ("0.0.0.0:0", "0.0.0.0:8080", "localhost:8080"),
        ];
        for (address, at, expected) in local {
            assert_eq!(served(printed(address, at, &[])), (true, expected.to_owned()));
        }
        for (at, names, expected) in [
            ("0.0.0.0:8080", &["mcp.lan"][..], "mcp.lan:8080"),
            ("0.0.0.0:8080", &["mcp.lan:80"], "mcp.lan:80"),
            ("192.0.2.1:8080", &[], "192.0.2.1:8080"),
            ("[2001:db8::1]:8080", &[], "[2001:db8::1]:8080"),
        ] {
            let (hosts, printed) = printed(at, at, names);
            let Hosts::Only(hosts) = hosts else { panic!("{at}") };
            let host = printed.strip_suffix(":8080").unwrap_or(&printed);
            assert!(printed == expected && hosts.iter().any(|name| name == host), "{printed}: {hosts:?}");
        }
    }

    #[test]
    fn printed_address_is_served_beside_that_of_the_resource() {
        let resource = Some("https://mcp.example/mcp");
        for (address, names) in [("127.0.0.1:8080", &[][..]), ("0.0.0.0:8080", &["mcp.lan".to_owned()][..])] {
            let (served, printed) = hosts(address, address.parse().unwrap(), names);
            let Hosts::Only(served) = with_resource(served, resource) else { panic!("{address}") };
            let printed = printed.strip_suffix(":8080").unwrap();
            for host in [printed, "localhost", "mcp.example"] {
                assert!(served.iter().any(|name| name == host), "{host}: {served:?}");
            }
        }
        assert!(matches!(with_resource(Hosts::Local, None), Hosts::Local));
    }

    #[test]
    fn sum_of_integers_is_an_integer() {
        assert_eq!(sum("2", "3"), "5");
        assert_eq!(sum("2", "0.5"), "2.5");
        assert_eq!(sum("9223372036854775807", "1"), "9.223372036854776e+18");
    }
}
