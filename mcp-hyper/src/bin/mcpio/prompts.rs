//! `mcpio prompts`, `mcpio get` and `mcpio complete`.

use mcp_proto::schema::{Prompt, PromptReference, Reference, ResourceReference};

use crate::arguments;
use crate::connect::Connection;
use crate::error::CommandError;
use crate::show;
use crate::table::Table;
use crate::terminal::Screen;
use crate::text::{QUIET, styled_block};

pub(crate) async fn prompts(
    connection: &Connection,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let mut result = connection.client.list_prompts_page(None).await?;
    if result.next_cursor.take().is_some() {
        result.prompts = connection.client.list_prompts().await?;
    }
    if json {
        return show::json(screen, &result);
    }
    if result.prompts.is_empty() {
        screen.line("The server has no prompts.")?;
        return Ok(());
    }
    Ok(table(&result.prompts).print(screen)?)
}

pub(crate) fn table(prompts: &[Prompt]) -> Table {
    let mut table = Table::new(&["name", "arguments", "description"]);
    for prompt in prompts {
        let name = |argument: &mcp_proto::schema::PromptArgument| match argument.required {
            Some(true) => argument.name.clone(),
            _ => format!("[{}]", argument.name),
        };
        let arguments: Vec<String> = prompt.arguments.iter().flatten().map(name).collect();
        let about = prompt.description.as_deref().unwrap_or_else(|| prompt.display_name());
        table.row([&prompt.name, &arguments.join(" "), about]);
    }
    table
}

pub(crate) async fn get(
    connection: &Connection,
    name: &str,
    typed: &[String],
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let arguments = arguments::for_prompt(typed).map_err(CommandError::Usage)?;
    let arguments = arguments.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
    let request = connection.client.get_prompt(name, arguments).on_progress(connection.reports.progress());
    let result = request.await;
    connection.reports.clear();
    let result = result?;
    if json {
        return show::json(screen, &result);
    }
    if let Some(description) = &result.description {
        screen.line(styled_block(QUIET, description))?;
    }
    Ok(show::messages(screen, &result.messages)?)
}

pub(crate) async fn complete(
    connection: &Connection,
    reference: &str,
    argument: &str,
    typed: &str,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let result = connection.client.complete(self::reference(reference), argument, typed).await?;
    if json {
        return show::json(screen, &result);
    }
    for value in &result.completion.values {
        screen.line(value)?;
    }
    Ok(())
}

/// A text with `://` is a resource template, any other a prompt; the prefixes `prompt:` and `resource:` override this.
fn reference(text: &str) -> Reference {
    let resource = |uri: &str| Reference::Resource(ResourceReference::new(uri));
    let prompt = |name: &str| Reference::Prompt(PromptReference::new(name));
    match (text.strip_prefix("prompt:"), text.strip_prefix("resource:")) {
        (Some(name), _) => prompt(name),
        (None, Some(uri)) => resource(uri),
        (None, None) if text.contains("://") => resource(text),
        (None, None) => prompt(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_recognised_by_scheme_or_explicit_prefix() {
        assert!(matches!(reference("greet"), Reference::Prompt(prompt) if prompt.name == "greet"));
        assert!(matches!(reference("demo://a/{b}"), Reference::Resource(it) if it.uri == "demo://a/{b}"));
        assert!(matches!(reference("prompt:a://b"), Reference::Prompt(prompt) if prompt.name == "a://b"));
        assert!(matches!(reference("resource:x"), Reference::Resource(it) if it.uri == "x"));
    }
}
