//! `mcpio demo`: shows the features of the protocol on a built-in server.

use std::ffi::OsString;
use std::net::Ipv4Addr;

use mcp_proto::schema::{CallToolResult, LoggingLevel, PromptReference, ResourceContents};
use serde_json::json;
use smol::net::TcpListener;

use crate::connect::{Connection, with_server};
use crate::error::CommandError;
use crate::options::CommonOptions;
use crate::terminal::Screen;
use crate::text::{GOOD, QUIET, Text, styled};
use crate::{demo_server, prompts, server_info, show};

/// Starts a second process of this program as the server.
pub(crate) async fn demo(common: &CommonOptions, screen: &mut Screen) -> Result<(), CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::server(format!("the path of this program is unknown: {error}")))?;
    let server = [program.into_os_string(), OsString::from("serve")];
    with_server(&server, common, async |connection| tour(connection, screen).await).await
}

/// Serves the demo on a free port and connects to it.
pub(crate) async fn demo_over_http(common: &CommonOptions, screen: &mut Screen) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| CommandError::server(format!("serving over HTTP: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let url = format!("http://{}/mcp", listener.local_addr().map_err(failed)?);
    let serving = smol::spawn(mcp_hyper::serve(listener, demo_server::router()));
    let server = [OsString::from(url)];
    let toured = with_server(&server, common, async |connection| tour(connection, screen).await).await;
    serving.cancel().await;
    toured
}

async fn tour(connection: &Connection, screen: &mut Screen) -> Result<(), CommandError> {
    let client = &connection.client;

    step(screen, "The server, as it describes itself", "mcpio info")?;
    show::facts(screen, &server_info::facts(&connection.server))?;

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
        .on_progress(connection.reports.progress())
        .await;
    connection.reports.clear();
    result(screen, &count?)?;

    step(screen, "A tool that fails reports it to the model, and the session continues", "mcpio call fail")?;
    result(screen, &client.call_tool("fail", json!({})).await?)?;

    step(screen, "Resources", "mcpio read demo://greeting/Ada")?;
    for uri in ["demo://greeting/Ada", "demo://logo"] {
        for contents in client.read_resource(uri).await?.contents {
            match &contents {
                ResourceContents::Text(text) => screen.line(Text::block(&text.text))?,
                other => screen.line(styled(QUIET, format_args!("[{}]", show::description(other))))?,
            }
        }
    }

    step(screen, "A prompt", "mcpio get greet name=Ada style=pirate")?;
    prompts::table(&client.list_prompts().await?).print(screen)?;
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

fn step(screen: &mut Screen, title: &str, command: &str) -> Result<(), CommandError> {
    screen.line("")?;
    show::heading(screen, title)?;
    screen.line(styled(QUIET, format_args!("$ {command} -- mcpio serve")))?;
    Ok(())
}

fn result(screen: &mut Screen, result: &CallToolResult) -> Result<(), CommandError> {
    let mark = if result.failed() { styled(QUIET, "failed:") } else { styled(GOOD, "→") };
    screen.labelled(mark, Text::block(&result.text_content()))?;
    Ok(())
}
