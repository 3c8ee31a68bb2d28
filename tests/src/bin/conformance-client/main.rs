//! The client that the official conformance suite tests: `tests/conformance` runs it.
//!
//! The suite starts it once for each scenario, with the URL of a server as the last argument and the scenario's name in
//! `MCP_CONFORMANCE_SCENARIO`.

mod auth;
mod basics;
mod headers;
mod input;
mod rounds;
mod skills;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use mcp_hyper::ClientOptions;
use mcp_hyper::host::ConnectionTrace;
use mcp_proto::front::Client;
use mcp_proto::redact::Redactor;
use smol::Timer;

/// Outcome of a scenario.
type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Time limit of a scenario: the suite kills the shell that it started, but not the shell's children.
const DEADLINE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match smol::block_on(run()) {
        Ok(scenario) => {
            // Distinguishes a scenario that passed from one that did nothing.
            println!("completed {scenario}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("conformance-client: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome<String> {
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let url = std::env::args().next_back().ok_or("no URL")?;
    let deadline = async {
        Timer::after(DEADLINE).await;
        Err(format!("not done within {DEADLINE:?}").into())
    };
    smol::future::or(connected(&url, &scenario), deadline).await?;
    Ok(scenario)
}

async fn connected(url: &str, scenario: &str) -> Outcome {
    let trace = mcp_tests::trace("conformance-client");
    let traced = trace.as_ref().map(|file| file.connection(scenario, "http", Redactor::new()));
    let mut options = ClientOptions::new("conformance-client", env!("CARGO_PKG_VERSION"))
        .configure(|config| config.client.recorder = traced.as_ref().and_then(ConnectionTrace::recorder));
    if let Some(mut observer) = traced.as_ref().map(ConnectionTrace::observer) {
        options = options.on_wire(move |event| observer.handle_event(event));
    }
    let (authorization, pages) = auth::authorization(scenario, url).await?;
    let (client, driver) = options.handlers(input::handlers()).authorization(authorization).connect(url)?;
    let _person = driver.auth().map(|handle| smol::spawn(auth::agree(pages, handle)));
    let driver = smol::spawn(driver);
    let outcome = perform(&client, scenario).await;
    client.close().await;
    let _ = driver.await;
    trace.map_or(Ok(()), |file| file.flush())?;
    outcome
}

async fn perform(client: &Client, scenario: &str) -> Outcome {
    match scenario {
        "initialize" | "request-metadata" => basics::introduction(client).await,
        "tools_call" => basics::addition(client).await,
        "elicitation-sep1034-client-defaults" => {
            basics::call_listed(client, "test_client_elicitation_defaults").await
        }
        "sse-retry" => basics::call_listed(client, "test_reconnection").await,
        "json-schema-ref-no-deref" => basics::listing(client).await,
        "json-schema-2020-12-preservation" => basics::schema_echo(client).await,
        "http-standard-headers" => headers::standard(client).await,
        "http-custom-headers" => headers::custom(client).await,
        "http-invalid-tool-headers" => headers::invalid(client).await,
        "sep-2640-client-no-prefetch" => client.list_skills().await.map(drop).map_err(Into::into),
        _ if scenario.starts_with("sep-2640-client-verify-") => skills::refuse(client).await,
        "sep-2322-client-request-state" => rounds::request_state(client).await,
        _ if scenario.starts_with("auth/") => auth::use_server(client, scenario).await,
        _ => basics::introduction(client).await,
    }
}
