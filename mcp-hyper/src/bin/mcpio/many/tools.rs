//! `mcpio tools` and `mcpio search` with many servers.

use std::io;

use mcp_hyper::host::{Host, HostTool};
use mcp_proto::host::config::Config;
use mcp_proto::host::control::Status;
use mcp_proto::host::tools::ToolIndex;
use serde_json::{Value, json};

use super::files::Configuration;
use super::hints;
use super::options::ConfigOptions;
use super::servers::rows;
use super::session::{Session, wake_idle};
use crate::error::CommandError;
use crate::options::CommonOptions;
use crate::show;
use crate::suggestions;
use crate::terminal::Screen;
use crate::text::{BAD, QUIET, Text, styled};

/// Lists the tools of all servers under their names for a model, or of one; or describes one.
pub(crate) async fn tools(
    options: &ConfigOptions,
    common: &CommonOptions,
    name: Option<&str>,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    with_tools(options, common, async |host, config| {
        let tools = host.tools();
        let Some(name) = name else { return list(&tools, screen, common.json) };
        if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
            return describe(tool, screen, common.json);
        }
        if config.find(name).is_some() {
            let of_server: Vec<_> = tools.into_iter().filter(|tool| tool.server == name).collect();
            return list(&of_server, screen, common.json);
        }
        let known = tools.iter().map(|tool| tool.name.as_str());
        let suggested = suggestions::suggest(name, known);
        Err(CommandError::Usage(format!("no server and no tool is named {name:?}{suggested}")))
    })
    .await
}

/// Searches the tools of all servers as a model does.
pub(crate) async fn search(
    options: &ConfigOptions,
    common: &CommonOptions,
    words: &[String],
    limit: usize,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    with_tools(options, common, async |host, _| {
        let tools = host.tools();
        let hits = host.catalogue(|catalogue| {
            let mut index = ToolIndex::default();
            index.refresh(catalogue);
            index.search(&words.join(" "), limit, |name| tools.iter().any(|tool| tool.name == name))
        });
        let found = hits.iter().filter_map(|hit| tools.iter().find(|tool| tool.name == hit.name));
        let found: Vec<_> = found.cloned().collect();
        if found.is_empty() && !common.json {
            screen.line("No tool matches. Try other words, or fewer.")?;
            return Ok(());
        }
        list(&found, screen, common.json)
    })
    .await
}

/// Starts all servers, and waits until each has listed its tools or failed.
async fn with_tools(
    options: &ConfigOptions,
    common: &CommonOptions,
    work: impl AsyncFnOnce(&Host, &Config) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let configuration = Configuration::read(options)?;
    let config = configuration.merged_with_messages()?;
    let session = Session::new(options, common, &configuration);
    session
        .run(config.clone(), async |host| {
            host.ready().await;
            wake_idle(host).await;
            print_missing(host, &config, options)?;
            work(host, &config).await
        })
        .await
}

/// Names the servers whose tools are missing or as of an earlier run.
pub(super) fn print_missing(host: &Host, config: &Config, options: &ConfigOptions) -> io::Result<()> {
    let mut messages = Screen::messages();
    for row in rows(host, config) {
        let (name, status) = (&*row.report.name, row.report.status);
        if matches!(status, Status::Connected | Status::Disabled) {
            continue;
        }
        let reason = row.failure().map(|failure| format!(": {}", failure.reason)).unwrap_or_default();
        let line = format!("the server \"{name}\" is not connected{reason}");
        messages.labelled(styled(BAD, "mcpio:"), Text::block(&line))?;
        let entry = config.find(name);
        if let Some(hint) = entry.and_then(|entry| hints::for_status(options, entry, status)) {
            messages.line(format!("To mend it: {hint}"))?;
        }
    }
    Ok(())
}

fn list(tools: &[HostTool], screen: &mut Screen, json: bool) -> Result<(), CommandError> {
    if json {
        let tools: Vec<Value> = tools.iter().map(as_json).collect::<Result<_, _>>()?;
        return show::json(screen, &json!({ "tools": tools }));
    }
    if tools.is_empty() {
        screen.line("There are no tools.")?;
        return Ok(());
    }
    let named = |tool: &HostTool| {
        let mut named = tool.tool.clone();
        named.name.clone_from(&tool.name);
        named
    };
    let named: Vec<_> = tools.iter().map(named).collect();
    Ok(show::tools(screen, &named)?)
}

fn describe(tool: &HostTool, screen: &mut Screen, json: bool) -> Result<(), CommandError> {
    if json {
        return show::json(screen, &as_json(tool)?);
    }
    screen.line(styled(QUIET, format_args!("server {}", tool.server)))?;
    Ok(show::tool(screen, &tool.tool)?)
}

/// The tool, its name for a model and its server.
fn as_json(tool: &HostTool) -> Result<Value, CommandError> {
    Ok(json!({ "name": tool.name, "server": tool.server, "tool": serde_json::to_value(&tool.tool)? }))
}
