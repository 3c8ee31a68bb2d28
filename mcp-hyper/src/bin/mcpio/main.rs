//! A command-line client for MCP servers (child processes and URLs), and a demo server to try clients on.
//!
//! ```text
//! cargo mcpio demo
//! cargo mcpio tools -- npx -y @modelcontextprotocol/server-everything
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "all output goes through the screen")]

mod arguments;
mod bridge;
mod command_line;
mod commands;
mod connect;
mod demo;
mod error;
mod files;
mod login;
mod many;
mod options;
mod reports;
mod server_requests;
mod show;
mod skills;
mod tap;
mod terminal;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use command_line::{is_url, url_tip};
use connect::with_server;
use error::{CommandError, Result};
use options::{Command, CommonOptions, Options};
use terminal::{Screen, Text};

fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    let (mut output, mut messages) = (Screen::output(), Screen::messages());
    let mut options = match Options::read(&line) {
        Ok(options) => options,
        Err(error) => return usage(&error, &line, &mut output, &mut messages),
    };
    if options.common.json {
        output.use_json();
    }
    let command = options.command.take().unwrap_or(Command::Demo { http: false });
    let opened = trace::open(&mut options.common);
    // If the reactor cannot start here, a helper thread would panic later.
    let started = opened.and_then(|()| mcp_smol::start_reactor().map_err(CommandError::server));
    let ended = started.and_then(|()| smol::block_on(run(command, &options.common, &mut output)));
    trace::flush(&options.common, &mut messages);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = failure.with_usage_hint(address_tip(&line));
            failure.print(&mut output, &mut messages);
            failure.exit_code()
        }
    }
}

/// Prints help and version to standard output, and usage errors to standard error.
fn usage(error: &clap::Error, line: &[OsString], output: &mut Screen, messages: &mut Screen) -> ExitCode {
    let text = error.to_string();
    if !error.use_stderr() {
        // If this fails, nothing can be done about it.
        let _ = output.line(Text::block(text.trim_end()));
        return ExitCode::SUCCESS;
    }
    let _ = messages.line(Text::block(text.trim_end()));
    if let Some(tip) = address_tip(line) {
        let _ = messages.line(tip);
    }
    let ours = line.iter().take_while(|word| *word != "--");
    if ours.into_iter().any(|word| word == "--json") {
        let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = output.line(CommandError::usage(message).as_json());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Says how to write an address of the command line as a URL, if there is one.
fn address_tip(line: &[OsString]) -> Option<String> {
    line.iter().skip(2).find_map(|word| url_tip(word.to_str()?))
}

async fn run(command: Command, common: &CommonOptions, screen: &mut Screen) -> Result {
    match command {
        Command::Demo { http: false } => demo::demo(common, screen).await,
        Command::Demo { http: true } => demo::demo_over_http(common, screen).await,
        Command::Serve { http: None, skills, .. } => demo::serve_stdio(skills.as_deref()).await,
        Command::Serve { http: Some(address), skills, hosts, legacy_sse, websocket, demands } => {
            demo::serve_http(&address, skills.as_deref(), &hosts, legacy_sse, websocket, &demands).await
        }
        Command::Connect { login, server } => bridge::connect(&server, &login, common).await,
        Command::Trace { file, mermaid } => trace::show(&file, mermaid, screen),
        Command::Tap { server } => tap::run(&server, common).await,
        Command::Completions { shell } => Ok(screen.line(Text::block(&Options::completions(shell)))?),
        Command::Login { server, login, config } if config.is_used() || !is_url(server.as_ref()) => {
            many::login(&config, common, &server, &login, screen).await
        }
        Command::Login { server, login, .. } => login::login(&server, &login, common, screen).await,
        Command::Logout { url } => login::logout(&url, common, screen).await,
        Command::Whoami { url } => login::whoami(&url, common, screen).await,
        Command::Tools { typescript: true, server, .. } if server.is_configured() => {
            many::call::typescript(&server.config, common, screen).await
        }
        Command::Tools { typescript: true, .. } => {
            Err(CommandError::usage("--typescript is for the servers of configuration files"))
        }
        Command::Tools { name, server, .. } if server.is_configured() => {
            many::call::tools(&server.config, common, name.as_deref(), screen).await
        }
        Command::Tools { name, server, .. } => {
            with_server(&server.command, common, async |connection| {
                commands::tools(connection, name.as_deref(), screen).await
            })
            .await
        }
        Command::Call { name, arguments, output, server } if server.is_configured() => {
            let show = |screen: &mut Screen, result: &_| show::tool_result(screen, result, output.as_deref());
            many::call::call(&server.config, common, (&name, &arguments), show, screen).await
        }
        Command::Servers { watch, config } => many::servers::servers(&config, common, watch, screen).await,
        Command::Doctor { config } => many::servers::doctor(&config, common, screen).await,
        Command::Approve { approve } => many::approve::approve(&approve, common, screen).await,
        Command::Import { disabled } => many::import::import(disabled, screen),
        Command::Search { words, limit, config } => {
            many::call::search(&config, common, &words, limit, screen).await
        }
        Command::Call { name, arguments, output, server } => {
            with_server(&server.command, common, async |connection| {
                let result = commands::call(connection, &name, &arguments).await?;
                show::tool_result(screen, &result, output.as_deref())
            })
            .await
        }
        Command::OfServer(command) if command.server().is_configured() => {
            many::of_server(&command, common, screen).await
        }
        Command::OfServer(command) => {
            with_server(&command.server().command, common, async |connection| {
                commands::run(&command, command.words(), connection, screen).await
            })
            .await
        }
    }
}
