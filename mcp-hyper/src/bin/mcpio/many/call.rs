//! `mcpio call` with many servers.

use std::time::Duration;

use mcp_hyper::host::{CallError, Host, HostTool, ServerReport};
use mcp_proto::host::config::Config;
use mcp_proto::host::control::Status;
use mcp_proto::host::tools::NameScheme;
use serde_json::Value;

use super::files::Configuration;
use super::hints;
use super::options::ConfigOptions;
use super::session::{Session, wake_idle};
use super::tools::print_missing;
use crate::arguments;
use crate::error::{CommandError, ErrorReport};
use crate::options::CommonOptions;
use crate::reports::Reports;
use crate::server_requests::is_person_present;
use crate::show;
use crate::suggestions;
use crate::terminal::Screen;

/// Calls a tool: `SERVER TOOL KEY=VALUE…`, or by its name for a model.
pub(crate) async fn call(
    options: &ConfigOptions,
    common: &CommonOptions,
    name: &str,
    typed: &[String],
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let configuration = Configuration::read(options)?;
    let config = configuration.merged_with_messages()?;
    let target = Target::read(&config, name, typed)?;
    // The other servers need not start.
    let started = match target.server {
        Some(server) => configuration.only(&[server]),
        None => config.clone(),
    };
    let session = Session { answers_requests: true, ..Session::new(options, common, &configuration) };
    session
        .run(started, async |host| {
            host.ready().await;
            wake_idle(host).await;
            if target.server.is_none() {
                print_missing(host, &config, options)?;
            }
            let tool = target.find(host, &config, options)?;
            let schema: Value = tool.tool.input_schema.decode().unwrap_or_default();
            let arguments = arguments::for_tool(target.typed, &schema).map_err(CommandError::Usage)?;
            let reports = Reports::without_messages();
            let mut request = host.call_tool(&tool.name, arguments).on_progress(reports.progress());
            if common.timeout.is_none() && is_person_present() {
                // The user sees the progress, answers the server's questions, and can end the call.
                request = request.timeout(Duration::MAX);
            }
            let called = request.await;
            reports.clear();
            let result = called.map_err(CommandError::from)?;
            if common.json {
                show::json(screen, &result)?;
            } else {
                show::content(screen, &result.content, result.structured_content.as_ref())?;
            }
            if result.failed() { Err(CommandError::Tool) } else { Ok(()) }
        })
        .await
}

/// The tool that the command line names.
#[derive(Debug, PartialEq)]
struct Target<'a> {
    /// The server, if it is known before the tools are.
    server: Option<&'a str>,
    tool: ToolName<'a>,
    typed: &'a [String],
}

#[derive(Debug, PartialEq)]
enum ToolName<'a> {
    /// As the server names it.
    Own(&'a str),
    ForModel(&'a str),
}

impl<'a> Target<'a> {
    fn read(config: &'a Config, name: &'a str, typed: &'a [String]) -> Result<Self, CommandError> {
        if let Some(entry) = config.find(name) {
            let Some((tool, typed)) = typed.split_first() else {
                return Err(CommandError::Usage(format!(
                    "{name:?} is a server: name one of its tools after it"
                )));
            };
            return Ok(Self { server: Some(entry.name()), tool: ToolName::Own(tool), typed });
        }
        Ok(Self { server: server_of(config, name), tool: ToolName::ForModel(name), typed })
    }

    fn find(&self, host: &Host, config: &Config, options: &ConfigOptions) -> Result<HostTool, CommandError> {
        let tools = host.tools();
        let (name, found) = match self.tool {
            ToolName::Own(name) => (name, tools.iter().find(|tool| tool.tool.name == name)),
            ToolName::ForModel(name) => (name, tools.iter().find(|tool| tool.name == name)),
        };
        // Without its server, a tool is known at most from an earlier run.
        let server = found.map(|tool| tool.server.as_str()).or(self.server);
        if let Some(server) = server.and_then(|server| host.server(server))
            && server.status != Status::Connected
        {
            return Err(unavailable(server, config, options));
        }
        if let Some(found) = found {
            return Ok(found.clone());
        }
        let known = tools.iter().map(|tool| match self.tool {
            ToolName::Own(_) => tool.tool.name.as_str(),
            ToolName::ForModel(_) => tool.name.as_str(),
        });
        let of =
            self.server.map(|server| format!("the server {server:?} has")).unwrap_or("there is".to_owned());
        Err(CommandError::Usage(format!("{of} no tool {name:?}{}", suggestions::suggest(name, known))))
    }
}

pub(super) fn unavailable(server: ServerReport, config: &Config, options: &ConfigOptions) -> CommandError {
    let entry = config.find(&server.name);
    let hint = entry.and_then(|entry| hints::for_status(options, entry, server.status));
    let kind = if server.status == Status::NeedsAuthorization { "unauthorized" } else { "connection" };
    let failure = server.failure.map(Box::new);
    let error = CallError::Unavailable { server: server.name, status: server.status, failure };
    let report = ErrorReport::new(error.to_string()).with_kind(kind);
    CommandError::Server(report.with_hint(hint.map(|hint| format!("To mend it: {hint}"))))
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
            CallError::Name(_) | CallError::UnknownServer => Self::Usage(error.to_string()),
            CallError::TimedOut => {
                let report = ErrorReport::new(error.to_string()).with_kind("timeout");
                Self::Server(report.with_hint("To wait longer: --timeout SECONDS".to_owned()))
            }
            _ => Self::Server(ErrorReport::new(error.to_string()).with_kind("connection")),
        }
    }
}
