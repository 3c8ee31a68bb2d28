//! A command-line client for MCP servers, child processes and URLs alike, and a server to try other clients on.
//!
//! ```text
//! cargo run --example mcp -- demo
//! cargo run --example mcp -- tools -- npx -y @modelcontextprotocol/server-everything
//! ```

mod about;
mod arguments;
mod asked;
mod connect;
mod demo;
mod demo_server;
mod failure;
mod login;
mod names;
mod options;
mod progress;
mod prompts;
mod protect;
mod reports;
mod resources;
mod serve;
mod show;
mod table;
mod terminal;
mod tools;
mod trace;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use connect::with_server;
use failure::Failure;
use options::{Command, Common, Options};
use terminal::{BAD, Screen, styled};

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return usage(&error),
    };
    match smol::block_on(run(options.command.unwrap_or(Command::Demo { http: false }), &options.common)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure.is_worth_telling() {
                let _ = writeln!(anstream::stderr(), "{} {failure}", styled(BAD, "mcp:"));
            }
            failure.exit_code()
        }
    }
}

/// Help and version are no mistakes; of the mistakes, one is made by everybody once.
fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.kind() == ErrorKind::MissingRequiredArgument && error.to_string().contains("<COMMAND|URL>") {
        let _ = writeln!(
            anstream::stderr(),
            "\nThe command that starts the server, or its URL, goes after two dashes:\n\n    \
             mcp tools -- npx -y @modelcontextprotocol/server-everything"
        );
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

async fn run(command: Command, common: &Common) -> Result<(), Failure> {
    let mut screen = Screen::new();
    let (screen, json) = (&mut screen, common.json);
    match command {
        Command::Demo { http: false } => demo::demo(common, screen).await,
        Command::Demo { http: true } => demo::demo_over_http(common, screen).await,
        Command::Serve { http: None, .. } => serve::stdio().await,
        Command::Serve { http: Some(address), legacy_sse, demands } => {
            serve::http(address, legacy_sse, &demands).await
        }
        Command::Login { url, login } => login::login(&url, &login, common, screen).await,
        Command::Logout { url } => login::logout(&url, common, screen).await,
        Command::Whoami { url } => login::whoami(&url, common, screen, json).await,
        Command::Tools { name, server } => {
            with_server(&server.command, common, async |connection| {
                tools::tools(connection, name.as_deref(), screen, json).await
            })
            .await
        }
        Command::Call { name, arguments, server } => {
            with_server(&server.command, common, async |connection| {
                tools::call(connection, &name, &arguments, screen, json).await
            })
            .await
        }
        Command::Resources { server } => {
            with_server(&server.command, common, async |connection| {
                resources::resources(connection, screen, json).await
            })
            .await
        }
        Command::Read { uri, server } => {
            with_server(&server.command, common, async |connection| {
                resources::read(connection, &uri, screen, json).await
            })
            .await
        }
        Command::Watch { uris, changes, server } => {
            with_server(&server.command, common, async |connection| {
                watch::watch(connection, &uris, changes, screen, json).await
            })
            .await
        }
        Command::Prompts { server } => {
            with_server(&server.command, common, async |connection| {
                prompts::prompts(connection, screen, json).await
            })
            .await
        }
        Command::Get { name, arguments, server } => {
            with_server(&server.command, common, async |connection| {
                prompts::get(connection, &name, &arguments, screen, json).await
            })
            .await
        }
        Command::Complete { reference, argument, value, server } => {
            with_server(&server.command, common, async |connection| {
                prompts::complete(connection, &reference, &argument, &value, screen, json).await
            })
            .await
        }
        Command::Ping { server } => {
            with_server(&server.command, common, async |connection| {
                about::ping(connection, screen, json).await
            })
            .await
        }
        Command::Info { server } => {
            with_server(&server.command, common, async |connection| about::info(connection, screen, json))
                .await
        }
    }
}
