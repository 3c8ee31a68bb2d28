//! A client with a layer, and one with an extension that its server does not know, for `tests/interop`:
//! `interop-client auto|legacy COMMAND ARGS…` or `interop-client auto|legacy URL`.
//!
//! The server is one of `tests/peers` with the tools `echo` and `seen`. Each step is a line of JSON; a step that failed makes
//! the exit code 1.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::process::ExitCode;

use mcp_hyper::host::{ConnectionTrace, TraceFile};
use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next, Reply};
use mcp_proto::front::{Client, ClientHandlers, Error};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::redact::Redactor;
use mcp_proto::schema::{CallTool, CallToolResult, Method as _};
use mcp_test_extension::client::{PrintError, install, print};
use mcp_test_extension::{Job, PRINT};
use serde::Deserialize;
use serde_json::{Value, json};

type Outcome<T = Value> = Result<T, Box<dyn StdError>>;

/// Adds the tenant to the metadata of each call, and answers `echo` in place of the server.
struct Tenant;

impl Layer for Tenant {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        match (request.method(), request.item().as_deref()) {
            (CallTool::NAME, Some("echo")) => {
                next.answer(Reply::result(CallToolResult::text("by the layer")))
            }
            (CallTool::NAME, _) => match request.set_meta("com.example/tenant", json!("blue")) {
                Ok(()) => next.run(request),
                Err(error) => next.answer(error.into()),
            },
            _ => next.run(request),
        }
    }
}

/// What a server says of its requests.
#[derive(Debug, PartialEq, Deserialize)]
struct Seen {
    /// The entry of the metadata of the call of `seen`.
    tenant: Option<String>,
    /// How often `echo` was called.
    echoes: u64,
}

async fn seen(client: &Client) -> Outcome<Seen> {
    let result = client.call_tool("seen", json!({})).await?;
    Ok(result.structured_content.ok_or("no structured content")?.decode()?)
}

async fn echo(client: &Client) -> Outcome<String> {
    Ok(client.call_tool("echo", json!({ "text": "hello" })).await?.text_content())
}

fn expect(holds: bool, found: impl Debug) -> Outcome {
    if holds { Ok(format!("{found:?}").into()) } else { Err(format!("{found:?}").into()) }
}

/// Connects to a server by its command line or its URL.
fn connect(
    server: &[String],
    policy: EraPolicy,
    handlers: ClientHandlers,
    trace: Option<&TraceFile>,
) -> Outcome<Client> {
    let traced = trace.map(|file| file.connection("server", "", Redactor::new()));
    let recorder = traced.as_ref().and_then(ConnectionTrace::recorder);
    let observer = traced.as_ref().map(ConnectionTrace::observer);
    let (program, arguments) = server.split_first().ok_or("no server")?;
    if program.starts_with("http") {
        let options = mcp_hyper::ClientOptions::new("interop-client", "1").era_policy(policy);
        let mut options = options.configure(|config| config.client.recorder = recorder);
        if let Some(mut observer) = observer {
            options = options.on_wire(move |event| observer.handle_event(event));
        }
        let (client, driver) = options.handlers(handlers).connect(program)?;
        smol::spawn(driver).detach();
        return Ok(client);
    }
    let options = mcp_smol::ClientOptions::new("interop-client", "1").era_policy(policy);
    let mut options = options.configure(|config| config.recorder = recorder);
    if let Some(mut observer) = observer {
        options = options.on_wire(move |direction, bytes| observer.handle_bytes(direction, bytes));
    }
    let command = mcp_smol::Command::new(program).args(arguments);
    let (client, driver) = options.handlers(handlers).connect(command);
    smol::spawn(driver).detach();
    Ok(client)
}

async fn ready(client: &Client) -> Outcome {
    Ok(client.ready().await?.revision.to_string().into())
}

/// A layer adds an entry to the metadata of a call.
async fn add_meta(client: &Client) -> Outcome {
    let seen = seen(client).await?;
    expect(seen.tenant.as_deref() == Some("blue"), seen)
}

/// A layer answers early: the server sees no request.
async fn answer_early(client: &Client) -> Outcome {
    let before = seen(client).await?;
    let text = echo(client).await?;
    let after = seen(client).await?;
    expect(text == "by the layer" && before == after, (text, before, after))
}

/// The package of the extension does not call a server that does not know it. The connection goes on.
async fn print_nothing(client: &Client) -> Outcome {
    let job = Job { printer: "hall".into(), uri: "demo://greeting".into() };
    let printed = print(client, &job).await;
    seen(client).await?;
    expect(matches!(printed, Err(PrintError::Unsupported)), printed)
}

/// A client without layers reaches the server, whose count therefore counts.
async fn call_without_layers(client: &Client) -> Outcome {
    let before = seen(client).await?;
    let text = echo(client).await?;
    let after = seen(client).await?;
    let counts = after.echoes == before.echoes.saturating_add(1) && after.tenant.is_none();
    expect(text == "hello" && counts, (text, before, after))
}

/// A client without the package sends the method all the same, and gets an error of the server. The connection goes on.
async fn send_unknown_method(client: &Client) -> Outcome {
    let refused = client.request_custom(PRINT, json!({ "printer": "hall", "uri": "demo://greeting" })).await;
    seen(client).await?;
    expect(matches!(refused, Err(Error::Peer(_))), refused)
}

/// Prints how a step ended, and whether it succeeded.
fn report(step: &str, outcome: Outcome) -> bool {
    let succeeded = outcome.is_ok();
    let shown = outcome.unwrap_or_else(|error| json!(error.to_string()));
    println!("{}", json!({ "step": step, "ok": succeeded, "shown": shown }));
    succeeded
}

async fn run(server: &[String], policy: EraPolicy) -> Outcome<bool> {
    let trace = mcp_tests::trace("interop-client");
    let with_layer = install(ClientHandlers::new().layer(Tenant), |_| {})?;
    let client = connect(server, policy, with_layer, trace.as_ref())?;
    let mut succeeded = report("connect", ready(&client).await);
    succeeded &= report("add metadata in a layer", add_meta(&client).await);
    succeeded &= report("answer early in a layer", answer_early(&client).await);
    succeeded &= report("print without printers", print_nothing(&client).await);
    client.close().await;
    let client = connect(server, policy, ClientHandlers::new(), trace.as_ref())?;
    succeeded &= report("call without layers", call_without_layers(&client).await);
    succeeded &= report("send a method of the extension", send_unknown_method(&client).await);
    client.close().await;
    trace.map_or(Ok(()), |file| file.flush())?;
    Ok(succeeded)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let policy = match arguments.next().as_deref() {
        Some("auto") => EraPolicy::default(),
        Some("legacy") => EraPolicy::LegacyOnly,
        other => {
            eprintln!("usage: interop-client auto|legacy COMMAND ARGS… | URL, not {other:?}");
            return ExitCode::FAILURE;
        }
    };
    let server: Vec<String> = arguments.collect();
    match smol::block_on(run(&server, policy)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop-client: {error}");
            ExitCode::FAILURE
        }
    }
}
