//! Commands for one server: `mcpio info`, `tools`, `call`, `prompts`, `prompt`, `resources`, `read`, `skills` and `watch`; `mcpio login`, `logout` and
//! `whoami`.

use std::future;
use std::path::Path;
use std::time::{Duration, Instant};

use mcp_hyper::ClientOptions;
use mcp_hyper::auth::{AuthDriver, AuthHandle, Authorization};
use mcp_proto::front::WatchUpdate;
use mcp_proto::host::tools::ItemKind;
use mcp_proto::peer::client::{Change, ChangeEvidence, ServerInfo, WatchFilter};
use mcp_proto::redact::url_without_secrets;
use mcp_proto::schema::{
    CallToolResult, Discover, DiscoverParams, Era, ListResourceTemplatesResult, ListToolsResult, Prompt,
    PromptReference, Reference, Resource, ResourceReference, ResourceTemplate, ServerCapabilities, Tool,
};
use serde_json::{Map, Value, json};
use smol::Timer;
use smol::future::or;
use smol::stream::{Stream, StreamExt as _};

use crate::connect::Connection;
use crate::error::{CommandError, Interrupts, Result};
use crate::options::{CommonOptions, LoginOptions, ServerCommand};
use crate::show::{self, Table};
use crate::terminal::{GOOD, QUIET, Screen, Text, styled, styled_block};
use crate::{arguments, connect, login, skills};

/// Runs a command for the server of this connection, with its words but for the name of the server.
pub(crate) async fn run(
    command: &ServerCommand,
    words: &[String],
    connection: &Connection,
    screen: &mut Screen,
) -> Result {
    match (command, words) {
        (ServerCommand::Resources(_), []) => resources(connection, screen).await,
        (ServerCommand::Read { raw, output, .. }, [uri]) => {
            read(connection, uri, *raw, output.as_deref(), screen).await
        }
        (ServerCommand::Watch { changes, .. }, uris) => watch(connection, uris, *changes, screen).await,
        (ServerCommand::Skills { verify, .. }, [] | [_]) => {
            skills::run(connection, words.first().map(String::as_str), *verify, screen).await
        }
        (ServerCommand::Prompts(_), []) => prompts(connection, screen).await,
        (ServerCommand::Get { .. }, [name, arguments @ ..]) => get(connection, name, arguments, screen).await,
        (ServerCommand::Complete { .. }, [reference, argument, typed @ ..]) if typed.len() < 2 => {
            let typed = typed.first().map_or("", String::as_str);
            complete(connection, reference, argument, typed, screen).await
        }
        (ServerCommand::Ping(_), []) => ping(connection, screen).await,
        (ServerCommand::Info(_), []) => info(connection, screen),
        (ServerCommand::Read { .. }, _) => Err(CommandError::usage("name one resource: URI")),
        (ServerCommand::Skills { .. }, _) => Err(CommandError::usage("name at most one skill: URI or NAME")),
        (ServerCommand::Get { .. }, _) => Err(CommandError::usage("name a prompt: PROMPT KEY=VALUE…")),
        (ServerCommand::Complete { .. }, _) => {
            Err(CommandError::usage("write PROMPT ARGUMENT VALUE, or TEMPLATE VARIABLE VALUE"))
        }
        (_, [word, ..]) => {
            let why = format_args!("{word:?} has no meaning here: the server is named already");
            Err(CommandError::usage(why))
        }
    }
}

fn info(connection: &Connection, screen: &mut Screen) -> Result {
    let server = &connection.server;
    let json = json!({
        "era": era(server),
        "revision": server.revision.as_str(),
        "server": server.implementation,
        "capabilities": server.capabilities,
        "instructions": server.instructions,
    });
    show::result(screen, &json, |screen| show::facts(screen, &facts(server)))
}

fn era(server: &ServerInfo) -> &'static str {
    match server.era {
        Era::Modern => "modern",
        Era::Legacy => "legacy",
    }
}

/// The server's description of itself, line by line.
pub(crate) fn facts(server: &ServerInfo) -> Vec<(&'static str, String)> {
    let name = match &server.implementation {
        Some(it) if it.display_name() != it.name => {
            format!("{} ({} {})", it.display_name(), it.name, it.version)
        }
        Some(it) => format!("{} {}", it.name, it.version),
        None => "unknown".to_owned(),
    };
    let mut facts = vec![
        ("server", name),
        ("protocol", format!("{}, {} era", server.revision.as_str(), era(server))),
        ("offers", server.capabilities.as_ref().map_or_else(|| "unknown".to_owned(), offers)),
    ];
    facts.extend(server.instructions.clone().map(|instructions| ("instructions", instructions)));
    facts
}

/// The capabilities, each with its settings.
fn offers(capabilities: &ServerCapabilities) -> String {
    let capabilities: Map<String, Value> = serde_json::to_value(capabilities)
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default();
    if capabilities.is_empty() {
        return "nothing".to_owned();
    }
    let described = capabilities.iter().map(|(name, settings)| {
        let on =
            settings.as_object().into_iter().flatten().filter(|(_, value)| **value != Value::Bool(false));
        let on: Vec<&str> = on.map(|(setting, _)| setting.as_str()).collect();
        if on.is_empty() { name.clone() } else { format!("{name} ({})", on.join(", ")) }
    });
    described.collect::<Vec<_>>().join(", ")
}

/// Measures the time of one request: `ping`, or `server/discover` in revisions without ping.
async fn ping(connection: &Connection, screen: &mut Screen) -> Result {
    let start = Instant::now();
    let (method, result) = match connection.server.era {
        Era::Legacy => ("ping", serde_json::to_value(connection.client.ping().await?)?),
        Era::Modern => {
            let result = connection.client.request::<Discover>(DiscoverParams::new()).await?;
            ("server/discover", serde_json::to_value(result)?)
        }
    };
    let elapsed = start.elapsed();
    show::result(screen, &result, |screen| {
        screen.line(format!("{method} answered in {:.1} ms", elapsed.as_secs_f64() * 1000.0))
    })
}

/// Lists the tools, all pages in one result.
async fn list(connection: &Connection) -> Result<ListToolsResult> {
    let mut result = connection.client.list_tools_page(None).await?;
    if result.next_cursor.take().is_some() {
        result.tools = connection.client.list_tools().await?;
    }
    Ok(result)
}

pub(crate) async fn tools(connection: &Connection, name: Option<&str>, screen: &mut Screen) -> Result {
    let result = list(connection).await?;
    if let Some(name) = name {
        let tool = find(&result, name)?;
        return show::result(screen, tool, |screen| show::tool(screen, tool));
    }
    show::result(screen, &result, |screen| match &result.tools[..] {
        [] => screen.line("The server has no tools."),
        tools => show::tools(screen, tools),
    })
}

fn find<'a>(result: &'a ListToolsResult, name: &str) -> Result<&'a Tool> {
    result.tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let known = result.tools.iter().map(|tool| tool.name.as_str());
        CommandError::usage(format_args!(
            "the server has no tool {name:?}{}",
            arguments::suggest(name, known)
        ))
    })
}

pub(crate) async fn call(connection: &Connection, name: &str, typed: &[String]) -> Result<CallToolResult> {
    let listed = list(connection).await?;
    let schema: Value = find(&listed, name)?.input_schema.decode().unwrap_or_default();
    let arguments = arguments::for_tool(typed, &schema).map_err(CommandError::usage)?;
    let mut request = connection.client.call_tool(name, arguments).on_progress(connection.reports.progress());
    if let Some(level) = connection.log {
        request = request.log_level(level);
    }
    Ok(connection.reports.until(request).await?)
}

async fn prompts(connection: &Connection, screen: &mut Screen) -> Result {
    let mut result = connection.client.list_prompts_page(None).await?;
    if result.next_cursor.take().is_some() {
        result.prompts = connection.client.list_prompts().await?;
    }
    result.prompts.retain(|prompt| (connection.offers)(ItemKind::Prompt, &prompt.name));
    show::result(screen, &result, |screen| match &result.prompts[..] {
        [] => screen.line("The server has no prompts."),
        prompts => table(prompts).print(screen),
    })
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

async fn get(connection: &Connection, name: &str, typed: &[String], screen: &mut Screen) -> Result {
    connection.check(ItemKind::Prompt, name)?;
    let arguments = arguments::for_prompt(typed).map_err(CommandError::usage)?;
    let arguments = arguments.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
    let request = connection.client.get_prompt(name, arguments).on_progress(connection.reports.progress());
    let result = connection.reports.until(request).await?;
    show::result(screen, &result, |screen| {
        if let Some(description) = &result.description {
            screen.line(styled_block(QUIET, description))?;
        }
        show::messages(screen, &result.messages)
    })
}

async fn complete(
    connection: &Connection,
    reference: &str,
    argument: &str,
    typed: &str,
    screen: &mut Screen,
) -> Result {
    let result = connection.client.complete(self::reference(reference), argument, typed).await?;
    show::result(screen, &result, |screen| {
        result.completion.values.iter().try_for_each(|value| screen.line(value))
    })
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

/// Lists resources and resource templates in one object: both can be read.
async fn resources(connection: &Connection, screen: &mut Screen) -> Result {
    let client = &connection.client;
    let mut resources = client.list_resources_page(None).await?;
    if resources.next_cursor.take().is_some() {
        resources.resources = client.list_resources().await?;
    }
    resources.resources.retain(|it| (connection.offers)(ItemKind::Resource, &it.uri));
    let templates = templates(connection).await?;
    let mut both = serde_json::to_value(&resources)?;
    if let Some(both) = both.as_object_mut() {
        let templates = serde_json::to_value(&templates)?;
        both.insert("resourceTemplates".to_owned(), templates["resourceTemplates"].clone());
    }
    show::result(screen, &both, |screen| print(screen, &resources.resources, &templates.resource_templates))
}

/// Lists the templates; empty if the server has resources but does not know the method.
async fn templates(connection: &Connection) -> Result<ListResourceTemplatesResult> {
    let unknown = i64::from(-32601);
    let mut templates = match connection.client.list_resource_templates_page(None).await {
        Err(error) if error.code() == Some(unknown) => ListResourceTemplatesResult::new([]),
        other => other?,
    };
    if templates.next_cursor.take().is_some() {
        templates.resource_templates = connection.client.list_resource_templates().await?;
    }
    let is_offered = |uri: &str| (connection.offers)(ItemKind::ResourceTemplate, uri);
    templates.resource_templates.retain(|it| is_offered(&it.uri_template));
    Ok(templates)
}

fn print(screen: &mut Screen, resources: &[Resource], templates: &[ResourceTemplate]) -> std::io::Result<()> {
    let mut listed = Table::new(&["uri", "type", "description"]);
    for it in resources {
        let about = it.description.as_deref().unwrap_or_else(|| it.display_name());
        listed.row([&it.uri, it.mime_type.as_deref().unwrap_or_default(), about]);
    }
    let mut patterns = Table::new(&["template", "type", "description"]);
    for it in templates {
        let about = it.description.as_deref().unwrap_or_else(|| it.display_name());
        patterns.row([&it.uri_template, it.mime_type.as_deref().unwrap_or_default(), about]);
    }
    match (resources, templates) {
        ([], []) => screen.line("The server has no resources."),
        (_, []) => listed.print(screen),
        ([], _) => patterns.print(screen),
        _ => {
            listed.print(screen)?;
            screen.line("")?;
            patterns.print(screen)
        }
    }
}

async fn read(
    connection: &Connection,
    uri: &str,
    raw: bool,
    output: Option<&Path>,
    screen: &mut Screen,
) -> Result {
    connection.check(ItemKind::Resource, uri)?;
    let request = connection.client.read_resource(uri).on_progress(connection.reports.progress());
    let result = connection.reports.until(request).await?;
    if let Some(output) = output {
        show::save(output, result.contents.iter().map(show::content_of))?;
        return if screen.is_json() { show::json(screen, &result) } else { Ok(()) };
    }
    // Not with `--json`.
    if raw {
        return show::raw_contents(screen, &result.contents);
    }
    show::result(screen, &result, |screen| show::contents(screen, &result.contents))
}

/// How long a watch may take to begin, without `--timeout`.
const BEGINNING: Duration = Duration::from_secs(30);

/// Prints changes until the given number of them.
///
/// # Errors
/// If the watch ends before, or nothing happens for so long as `--timeout` allows.
async fn watch(connection: &Connection, uris: &[String], most: Option<u64>, screen: &mut Screen) -> Result {
    let mut watch = connection.client.watch().filter(watch_filter(uris)).open()?;
    if print_updates(&mut watch, connection.timeout, false, most, screen).await? {
        return Ok(());
    }
    Err(match watch.outcome() {
        Some(Err(error)) => error.into(),
        _ => watch_ended(),
    })
}

/// All lists, and these resources.
pub(crate) fn watch_filter(uris: &[String]) -> WatchFilter {
    let lists = WatchFilter::new().tools().prompts().resources();
    uris.iter().fold(lists, WatchFilter::resource)
}

/// The end of a watch for which the server gives no reason.
pub(crate) fn watch_ended() -> CommandError {
    CommandError::server("the server ended the watch").with_kind("connection")
}

/// Prints updates until the given number of changes; returns `false` if the watch ends before. Whether it `outlives` the
/// connection says who knows that it begins again: the host, or the limit for its beginning.
pub(crate) async fn print_updates(
    watch: &mut (impl Stream<Item = WatchUpdate> + Unpin),
    timeout: Option<Duration>,
    outlives: bool,
    most: Option<u64>,
    screen: &mut Screen,
) -> Result<bool> {
    let (mut count, mut is_active, mut has_begun) = (0, false, false);
    while most.is_none_or(|most| count < most) {
        let is_under_way = if outlives { has_begun } else { is_active };
        let limit = timeout.or((!is_under_way).then_some(BEGINNING));
        let late = async {
            match limit {
                Some(limit) => Timer::after(limit).await,
                None => future::pending().await,
            };
            let what = if is_active { "nothing changed" } else { "the watch did not begin" };
            let limit = limit.unwrap_or_default().as_secs_f64();
            Err(CommandError::server(format_args!("{what} within {limit} s")).timed_out())
        };
        let Some(update) = or(async { Ok(watch.next().await) }, late).await? else { return Ok(false) };
        count += u64::from(matches!(update, WatchUpdate::Changed { .. }));
        is_active = !matches!(update, WatchUpdate::Interrupted);
        has_begun |= is_active;
        screen.line(match screen.is_json() {
            true => Text::json(&as_json(&update).to_string()),
            false => in_words(&update),
        })?;
    }
    Ok(true)
}

/// The lists and resources in a filter.
fn parts(interest: &WatchFilter) -> Vec<String> {
    let lists = [
        (interest.has_tools(), "tools"),
        (interest.has_prompts(), "prompts"),
        (interest.has_resources(), "resources"),
    ];
    let lists = lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, list)| list.to_owned());
    lists.chain(interest.resource_uris().map(str::to_owned)).collect()
}

fn subject(change: &Change) -> String {
    match change {
        Change::Tools => "tools".to_owned(),
        Change::Prompts => "prompts".to_owned(),
        Change::Resources => "resources".to_owned(),
        Change::Resource(uri) => uri.clone(),
        Change::Task { id, .. } => format!("task {id}"),
        _ => "other".to_owned(),
    }
}

fn in_words(update: &WatchUpdate) -> Text {
    match update {
        WatchUpdate::Active { missing } if missing.is_empty() => styled(QUIET, "watching"),
        WatchUpdate::Active { missing } => {
            let missing = parts(missing).join(", ");
            styled(QUIET, format_args!("watching; the server does not notify of {missing}"))
        }
        WatchUpdate::Interrupted => styled(QUIET, "the watch was interrupted; starting it again"),
        WatchUpdate::Changed { change, evidence: ChangeEvidence::Notified } => {
            styled(GOOD, "changed:").and(" ").and(subject(change))
        }
        WatchUpdate::Changed { change, evidence: ChangeEvidence::MaybeMissed } => {
            styled(QUIET, "may have changed:").and(" ").and(subject(change))
        }
        WatchUpdate::Missed { count } => Text::from(format!("{count} changes were missed")),
        _ => styled(QUIET, "other"),
    }
}

fn as_json(update: &WatchUpdate) -> Value {
    match update {
        WatchUpdate::Active { missing } => json!({ "update": "on", "missing": parts(missing) }),
        WatchUpdate::Interrupted => json!({ "update": "interrupted" }),
        WatchUpdate::Changed { change, evidence: why } => {
            json!({ "update": "changed", "what": subject(change), "told": *why == ChangeEvidence::Notified })
        }
        WatchUpdate::Missed { count } => json!({ "update": "missed", "count": count }),
        _ => json!({ "update": "other" }),
    }
}

// `mcpio login`, `mcpio logout` and `mcpio whoami`.

/// Logs in: opens the authorization page in a browser and waits for the user.
pub(crate) async fn log_in(
    url: &str,
    chosen: &LoginOptions,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result {
    let (authorization, login) = login::on_page(chosen, common)?;
    let options = connect::options(url, common)?.authorization(authorization);
    let (client, driver) = options.connect(url).map_err(CommandError::usage)?;
    let handle = driver.auth();
    if let Some(handle) = &handle {
        login.handle.get_or_init(|| handle.clone());
    }
    let logging_in = async {
        client.ready().await?;
        let Some(handle) = handle else { return Ok(None) };
        handle.ensure_token().await.map_err(CommandError::server)
    };
    let status = Interrupts::listen().run(logging_in, client.close(), driver, None).await;
    let status = status?;
    if let Some(why) = login.save_error.get() {
        let failed =
            format_args!("no later command can use this login: its tokens could not be stored: {why}");
        return Err(CommandError::server(failed));
    }
    login::print_status(&url_without_secrets(url), status.as_ref(), screen)
}

/// Revokes the tokens and deletes them from the store.
pub(crate) async fn log_out(url: &str, common: &CommonOptions, screen: &mut Screen) -> Result {
    let (handle, driver) = token_handle(url, common)?;
    driver.run_until(handle.logout()).await.map_err(CommandError::server)?;
    screen.line(styled(GOOD, "Logged out").and(" ").and(styled(QUIET, url_without_secrets(url))))?;
    Ok(())
}

/// Prints the stored token's properties.
pub(crate) async fn whoami(url: &str, common: &CommonOptions, screen: &mut Screen) -> Result {
    let (handle, driver) = token_handle(url, common)?;
    let token = driver.run_until(handle.token_status()).await;
    let Some(status) = token.ok().or_else(|| handle.status()) else {
        let failure = CommandError::server(format_args!("not logged in at {}", url_without_secrets(url)));
        return Err(failure.with_kind("unauthorized").with_login_hint(url));
    };
    let json = json!({
        "issuer": status.issuer,
        "clientId": status.client_id,
        "scope": status.scopes.as_ref().map(ToString::to_string),
        "expires": status.expires.map(|end| end.since_epoch().as_secs()),
        "renewable": status.has_refresh,
        "tokenType": login::token_kind(&status),
        "resource": status.resource,
    });
    show::result(screen, &json, |screen| show::facts(screen, &login::token_facts(&status)))
}

fn token_handle(url: &str, common: &CommonOptions) -> Result<(AuthHandle, AuthDriver)> {
    let authorization = Authorization::new(login::config(common, login::UNUSED_REDIRECT.to_owned())?)
        .store(login::store(common)?);
    let options: ClientOptions = connect::options(url, common)?.authorization(authorization);
    options.authorize(url).map_err(CommandError::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_listed_with_their_enabled_settings() {
        let json = r#"{"tools":{"listChanged":true},"resources":{"subscribe":false},"logging":{}}"#;
        let capabilities: ServerCapabilities = serde_json::from_str(json).unwrap();
        let text = offers(&capabilities);
        for part in ["tools (listChanged)", "resources", "logging"] {
            assert!(text.contains(part) && !text.contains("subscribe"), "{text}");
        }
        assert_eq!(offers(&ServerCapabilities::new()), "nothing");
    }

    #[test]
    fn references_are_recognised_by_scheme_or_explicit_prefix() {
        assert!(matches!(reference("greet"), Reference::Prompt(prompt) if prompt.name == "greet"));
        assert!(matches!(reference("demo://a/{b}"), Reference::Resource(it) if it.uri == "demo://a/{b}"));
        assert!(matches!(reference("prompt:a://b"), Reference::Prompt(prompt) if prompt.name == "a://b"));
        assert!(matches!(reference("resource:x"), Reference::Resource(it) if it.uri == "x"));
    }

    #[test]
    fn updates_are_printed_as_text_and_as_json() {
        let missing = WatchFilter::new().prompts().resource("demo://logo");
        let on = WatchUpdate::Active { missing };
        assert!(in_words(&on).plain().contains("does not notify of prompts, demo://logo"));
        assert_eq!(as_json(&on), json!({ "update": "on", "missing": ["prompts", "demo://logo"] }));
        let change = Change::Resource("demo://\x1b[2Jlogo".to_owned());
        let changed = WatchUpdate::Changed { change, evidence: ChangeEvidence::Notified };
        assert!(in_words(&changed).plain().ends_with("demo://\\u{1b}[2Jlogo"));
        assert_eq!(as_json(&changed)["told"], true);
    }
}
