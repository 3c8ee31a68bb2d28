//! `mcpio tools` and `mcpio search` with many servers.

use std::io;
use std::time::Duration;

use mcp_hyper::host::{CallError, Host, HostTool};
use mcp_proto::host::config::Config;
use mcp_proto::host::control::Status;
use mcp_proto::host::tools::{Entry, LookupError, NameScheme, ToolIndex, TypeScriptLimits};
use mcp_proto::schema::{CallToolResult, Tool};
use serde_json::{Value, json};

use super::servers::connected;
use super::{Session, wake_idle};
use crate::error::{CommandError, Result};
use crate::options::{CommonOptions, ConfigOptions};
use crate::reports::Reports;
use crate::server_requests::is_person_present;
use crate::terminal::{BAD, QUIET, Screen, Text, styled};
use crate::{arguments, show};

/// Lists the tools of all servers under their names for a model, or of one; or describes one.
pub(crate) async fn tools(
    options: &ConfigOptions,
    common: &CommonOptions,
    name: Option<&str>,
    screen: &mut Screen,
) -> Result {
    with_tools(options, common, async |host, session, missing| {
        let tools = host.tools();
        let Some(name) = name else { return list(&tools, missing, screen) };
        if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
            return describe(tool, screen);
        }
        if session.config.find(name).is_some() {
            let of_server: Vec<_> = tools.into_iter().filter(|tool| tool.server == name).collect();
            return match host.server(name).filter(|server| server.status != Status::Connected) {
                Some(server) if of_server.is_empty() => Err(session.unavailable(server)),
                _ => list(&of_server, missing, screen),
            };
        }
        let known = tools.iter().map(|tool| tool.name.as_str());
        let suggested = arguments::suggest(name, known);
        Err(CommandError::usage(format_args!("no server and no tool is named {name:?}{suggested}")))
    })
    .await
}

/// Declares the tools of all servers in TypeScript.
pub(crate) async fn typescript(
    options: &ConfigOptions,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result {
    with_tools(options, common, async |host, _, missing| {
        let declared = host.typescript(&TypeScriptLimits::default());
        let json = json!({ "typescript": declared.text, "leftOut": declared.left_out, "missing": missing });
        show::result(screen, &json, |screen| screen.line(Text::block(&declared.text)))
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
) -> Result {
    with_tools(options, common, async |host, _, missing| {
        let tools = host.tools();
        let hits = host.catalogue(|catalogue| {
            let mut index = ToolIndex::default();
            index.refresh(catalogue);
            index.search(&words.join(" "), limit, |name| tools.iter().any(|tool| tool.name == name))
        });
        let found = hits.iter().filter_map(|hit| tools.iter().find(|tool| tool.name == hit.name));
        let found: Vec<_> = found.cloned().collect();
        if found.is_empty() && !tools.is_empty() && !screen.is_json() {
            screen.line("No tool matches. Try other words, or fewer.")?;
            return Ok(());
        }
        list(&found, missing, screen)
    })
    .await
}

/// Starts all servers, and waits until each has listed its tools or failed.
async fn with_tools(
    options: &ConfigOptions,
    common: &CommonOptions,
    work: impl AsyncFnOnce(&Host, &Session<'_>, &[Value]) -> Result,
) -> Result {
    let session = Session::open(options, common)?;
    session
        .run(session.config.clone(), async |host| {
            wake_idle(host).await;
            let missing = session.print_missing(host)?;
            work(host, &session, &missing).await?;
            connected(&session.rows(host))
        })
        .await
}

impl Session<'_> {
    /// Names the servers that are not connected, or hide changed definitions; returns them for programs.
    pub(super) fn print_missing(&self, host: &Host) -> io::Result<Vec<Value>> {
        let (mut messages, mut missing) = (Screen::messages(), Vec::new());
        for row in self.rows(host) {
            let (name, status) = (&*row.report.name, row.report.status);
            let reason = || row.failure().map(|failure| format!(": {}", failure.reason)).unwrap_or_default();
            let (what, hint) = match status {
                Status::Disabled => continue,
                Status::Connected => match row.hidden() {
                    Some(hidden) => {
                        (format!("the server \"{name}\": {hidden}"), Some(self.changes_hint(name)))
                    }
                    None => continue,
                },
                Status::Unapproved => {
                    (format!("the server \"{name}\" waits for your approval"), self.hint(name, status))
                }
                _ => (format!("the server \"{name}\" is not connected{}", reason()), self.hint(name, status)),
            };
            messages.labelled(styled(BAD, "mcpio:"), Text::block(&what))?;
            if let Some(hint) = hint {
                messages.line(format!("To mend it: {hint}"))?;
            }
            missing.push(row.as_json(false));
        }
        Ok(missing)
    }
}

fn list(tools: &[HostTool], missing: &[Value], screen: &mut Screen) -> Result {
    let json: Vec<Value> = tools.iter().map(as_json).collect::<Result<_, _>>()?;
    show::result(screen, &json!({ "tools": json, "missing": missing }), |screen| {
        if tools.is_empty() {
            return screen.line(no_tools(missing));
        }
        let named = tools.iter().map(|tool| Tool { name: tool.name.clone(), ..tool.tool.clone() });
        show::tools(screen, &named.collect::<Vec<_>>())
    })
}

/// Says that there is no tool, and for which servers that is the user's choice.
fn no_tools(missing: &[Value]) -> String {
    let is_unapproved = |row: &&Value| row["status"] == Status::Unapproved.to_string();
    let waiting: Vec<&str> =
        missing.iter().filter(is_unapproved).filter_map(|row| row["server"].as_str()).collect();
    match (missing, &waiting[..]) {
        ([], _) => "There are no tools.".to_owned(),
        (_, []) => "There are no tools that can be used.".to_owned(),
        (_, [one]) => format!("There are no tools that can be used: \"{one}\" waits for your approval."),
        (_, several) => {
            format!("There are no tools that can be used: {} wait for your approval.", several.join(", "))
        }
    }
}

fn describe(tool: &HostTool, screen: &mut Screen) -> Result {
    show::result(screen, &as_json(tool)?, |screen| {
        screen.line(styled(QUIET, format_args!("server {}", tool.server)))?;
        show::tool(screen, &tool.tool)
    })
}

/// The tool, its name for a model and its server.
fn as_json(tool: &HostTool) -> Result<Value> {
    Ok(json!({ "name": tool.name, "server": tool.server, "tool": serde_json::to_value(&tool.tool)? }))
}

/// Calls a tool: `SERVER TOOL KEY=VALUE…`, `SERVER.TOOL KEY=VALUE…`, or by its name for a model.
pub(crate) async fn call(
    options: &ConfigOptions,
    common: &CommonOptions,
    (name, typed): (&str, &[String]),
    show: impl FnOnce(&mut Screen, &CallToolResult) -> Result,
    screen: &mut Screen,
) -> Result {
    let session = Session { answers_requests: true, ..Session::open(options, common)? };
    let target = Target::read(&session.config, name, typed)?;
    // The other servers need not start.
    let started = match target.server {
        Some(server) => session.only(&[server]),
        None => session.config.clone(),
    };
    session
        .run(started, async |host| {
            wake_idle(host).await;
            if target.server.is_none() {
                session.print_missing(host)?;
            }
            let tool = target.find(host, &session)?;
            let schema: Value = tool.tool.input_schema.decode().unwrap_or_default();
            let arguments = arguments::for_tool(target.typed, &schema).map_err(CommandError::usage)?;
            let reports = Reports::without_messages();
            let mut request = host.call_tool(&tool.name, arguments).on_progress(reports.progress());
            if common.timeout.is_none() && is_person_present() {
                // The user sees the progress, answers the server's questions, and can end the call.
                request = request.timeout(Duration::MAX);
            }
            let result = reports.until(request).await?;
            show(screen, &result)
        })
        .await
}

/// The tool that the command line names.
struct Target<'a> {
    /// The server, if it is known before the tools are.
    server: Option<&'a str>,
    name: &'a str,
    /// Whether the name is the server's own, and not one for a model.
    is_own: bool,
    typed: &'a [String],
}

impl<'a> Target<'a> {
    fn read(config: &'a Config, name: &'a str, typed: &'a [String]) -> Result<Self> {
        let Some(entry) = config.find(name) else {
            let parts =
                name.rmatch_indices('.').filter_map(|(at, _)| Some((name.get(..at)?, name.get(at + 1..)?)));
            let mut dotted = parts.filter_map(|(server, tool)| Some((config.find(server)?.name(), tool)));
            if let Some((server, tool)) = dotted.next() {
                return Ok(Self { server: Some(server), name: tool, is_own: true, typed });
            }
            let is_of = |server: &str| {
                name.strip_prefix(server).is_some_and(|rest| matches!(rest.chars().next(), None | Some('.')))
            };
            if let Some(omitted) = config.omitted().iter().find(|omitted| is_of(omitted.server.name())) {
                let server = omitted.server.name();
                return Err(CommandError::usage(format_args!(
                    "the server {server:?} is left out: {omitted}"
                )));
            }
            return Ok(Self { server: server_of(config, name), name, is_own: false, typed });
        };
        let Some((tool, typed)) = typed.split_first() else {
            let why = format_args!("{name:?} is a server: name one of its tools after it");
            return Err(CommandError::usage(why));
        };
        Ok(Self { server: Some(entry.name()), name: tool, is_own: true, typed })
    }

    fn find(&self, host: &Host, session: &Session<'_>) -> Result<HostTool> {
        let mut tools = host.tools();
        let name = self.name;
        let name_of: fn(&HostTool) -> &str = match self.is_own {
            true => |tool| &tool.tool.name,
            false => |tool| &tool.name,
        };
        let found = tools.iter().position(|tool| name_of(tool) == name);
        // Without its server, a tool is known at most from an earlier run.
        let server = found.and_then(|at| tools.get(at)).map(|tool| tool.server.as_str()).or(self.server);
        if let Some(server) = server.and_then(|server| host.server(server))
            && server.status != Status::Connected
        {
            return Err(session.unavailable(server));
        }
        if let Some(found) = found {
            return Ok(tools.swap_remove(found));
        }
        let hides = |server: &str| {
            host.catalogue(|catalogue| {
                catalogue.pending_changes(server).any(|change| match self.is_own {
                    true => change.item == name,
                    false => catalogue.scheme().name(server, &change.item) == name,
                })
            })
        };
        let servers = session.config.servers().iter().map(|entry| entry.name());
        if let Some(server) =
            servers.filter(|server| self.server.is_none_or(|it| it == *server)).find(|server| hides(server))
        {
            let why = format_args!(
                "the tool {name:?} of {server:?} has changed since you approved it, and is hidden"
            );
            let hint = format!("To see the change: {}", session.changes_hint(server));
            return Err(CommandError::server(why).with_hint(hint));
        }
        let is_it = |tool: Entry<'_, Tool>| match self.is_own {
            true => tool.item.name == name && self.server == Some(tool.server),
            false => tool.name == name,
        };
        if host.catalogue(|catalogue| catalogue.items().any(is_it)) {
            return Err(CommandError::usage(format_args!("{name:?}: {}", LookupError::ForPages)));
        }
        let of =
            self.server.map(|server| format!("the server {server:?} has")).unwrap_or("there is".to_owned());
        let suggested = arguments::suggest(name, tools.iter().map(name_of));
        Err(CommandError::usage(format_args!("{of} no tool {name:?}{suggested}")))
    }
}

/// The server of a tool by the tool's name for a model, if the name is plain.
fn server_of<'a>(config: &'a Config, name: &str) -> Option<&'a str> {
    let scheme = NameScheme::default();
    let is_of = |server: &str| {
        let tool = name.strip_prefix("mcp__")?.strip_prefix(server)?.strip_prefix("__")?;
        (scheme.name(server, tool) == name).then_some(())
    };
    config.servers().iter().map(|entry| entry.name()).find(|server| is_of(server).is_some())
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Call(error) => error.into(),
            CallError::Name(_) | CallError::UnknownServer => Self::usage(error),
            CallError::TimedOut => Self::server(error).timed_out(),
            _ => Self::server(error).with_kind("connection"),
        }
    }
}
