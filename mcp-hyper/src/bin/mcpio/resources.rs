//! `mcpio resources` and `mcpio read`.

use mcp_proto::schema::{ListResourceTemplatesResult, ListResourcesResult};

use crate::connect::Connection;
use crate::error::CommandError;
use crate::show;
use crate::table::Table;
use crate::terminal::Screen;

/// Lists resources and resource templates in one object: both can be read.
pub(crate) async fn resources(
    connection: &Connection,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let client = &connection.client;
    let mut resources = client.list_resources_page(None).await?;
    if resources.next_cursor.take().is_some() {
        resources.resources = client.list_resources().await?;
    }
    let templates = templates(connection).await?;
    if json {
        let mut both = serde_json::to_value(&resources)?;
        let templates = serde_json::to_value(&templates)?;
        if let Some(both) = both.as_object_mut() {
            both.insert("resourceTemplates".to_owned(), templates["resourceTemplates"].clone());
        }
        return show::json(screen, &both);
    }
    if resources.resources.is_empty() && templates.resource_templates.is_empty() {
        screen.line("The server has no resources.")?;
    }
    Ok(print(screen, &resources, &templates)?)
}

/// Lists the templates; empty if the server has resources but does not know the method.
async fn templates(connection: &Connection) -> Result<ListResourceTemplatesResult, CommandError> {
    let unknown = i64::from(-32601);
    let mut templates = match connection.client.list_resource_templates_page(None).await {
        Err(error) if error.code() == Some(unknown) => ListResourceTemplatesResult::new([]),
        other => other?,
    };
    if templates.next_cursor.take().is_some() {
        templates.resource_templates = connection.client.list_resource_templates().await?;
    }
    Ok(templates)
}

fn print(
    screen: &mut Screen,
    resources: &ListResourcesResult,
    templates: &ListResourceTemplatesResult,
) -> std::io::Result<()> {
    if !resources.resources.is_empty() {
        let mut table = Table::new(&["uri", "type", "description"]);
        for resource in &resources.resources {
            let about = resource.description.as_deref().unwrap_or_else(|| resource.display_name());
            table.row([&resource.uri, resource.mime_type.as_deref().unwrap_or_default(), about]);
        }
        table.print(screen)?;
    }
    if !templates.resource_templates.is_empty() {
        if !resources.resources.is_empty() {
            screen.line("")?;
        }
        let mut table = Table::new(&["template", "type", "description"]);
        for template in &templates.resource_templates {
            let about = template.description.as_deref().unwrap_or_else(|| template.display_name());
            table.row([&template.uri_template, template.mime_type.as_deref().unwrap_or_default(), about]);
        }
        table.print(screen)?;
    }
    Ok(())
}

pub(crate) async fn read(
    connection: &Connection,
    uri: &str,
    raw: bool,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let request = connection.client.read_resource(uri).on_progress(connection.reports.progress());
    let result = request.await;
    connection.reports.clear();
    let result = result?;
    if json {
        return show::json(screen, &result);
    }
    if raw {
        return Ok(show::raw_contents(screen, &result.contents)?);
    }
    Ok(show::contents(screen, &result.contents)?)
}
