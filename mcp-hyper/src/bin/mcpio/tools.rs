//! `mcpio tools` and `mcpio call`.

use mcp_proto::schema::{ListToolsResult, Tool};
use serde_json::Value;

use crate::arguments;
use crate::connect::Connection;
use crate::error::CommandError;
use crate::show;
use crate::suggestions;
use crate::terminal::Screen;

/// Lists the tools, all pages in one result.
async fn list(connection: &Connection) -> Result<ListToolsResult, CommandError> {
    let mut result = connection.client.list_tools_page(None).await?;
    if result.next_cursor.take().is_some() {
        result.tools = connection.client.list_tools().await?;
    }
    Ok(result)
}

pub(crate) async fn tools(
    connection: &Connection,
    name: Option<&str>,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let result = list(connection).await?;
    match name {
        Some(name) => {
            let tool = find(&result, name)?;
            if json { show::json(screen, tool)? } else { show::tool(screen, tool)? }
        }
        None if json => show::json(screen, &result)?,
        None if result.tools.is_empty() => screen.line("The server has no tools.")?,
        None => show::tools(screen, &result.tools)?,
    }
    Ok(())
}

fn find<'a>(result: &'a ListToolsResult, name: &str) -> Result<&'a Tool, CommandError> {
    result.tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let known = result.tools.iter().map(|tool| tool.name.as_str());
        CommandError::Usage(format!("the server has no tool {name:?}{}", suggestions::suggest(name, known)))
    })
}

pub(crate) async fn call(
    connection: &Connection,
    name: &str,
    typed: &[String],
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let listed = list(connection).await?;
    let schema: Value = find(&listed, name)?.input_schema.decode().unwrap_or_default();
    let arguments = arguments::for_tool(typed, &schema).map_err(CommandError::Usage)?;
    let mut request = connection.client.call_tool(name, arguments).on_progress(connection.reports.progress());
    if let Some(level) = connection.log {
        request = request.log_level(level);
    }
    let result = request.await;
    connection.reports.clear();
    let result = result?;
    if json {
        show::json(screen, &result)?;
    } else {
        show::content(screen, &result.content, result.structured_content.as_ref())?;
    }
    if result.failed() { Err(CommandError::Tool) } else { Ok(()) }
}
