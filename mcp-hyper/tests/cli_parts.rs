//! Runs the tests that stand in the parts of the command-line client. An example that is tested itself would not be
//! built as the program that `cli_commands` starts.
#![allow(dead_code, missing_docs)]

#[path = "../examples/mcp/about.rs"]
mod about;
#[path = "../examples/mcp/arguments.rs"]
mod arguments;
#[path = "../examples/mcp/asked/mod.rs"]
mod asked;
#[path = "../examples/mcp/connect.rs"]
mod connect;
#[path = "../examples/mcp/demo_server.rs"]
mod demo_server;
#[path = "../examples/mcp/failure.rs"]
mod failure;
#[path = "../examples/mcp/interrupt.rs"]
mod interrupt;
#[path = "../examples/mcp/login.rs"]
mod login;
#[path = "../examples/mcp/names.rs"]
mod names;
#[path = "../examples/mcp/noise.rs"]
mod noise;
#[path = "../examples/mcp/options.rs"]
mod options;
#[path = "../examples/mcp/progress.rs"]
mod progress;
#[path = "../examples/mcp/prompts.rs"]
mod prompts;
#[path = "../examples/mcp/reports.rs"]
mod reports;
#[path = "../examples/mcp/roots.rs"]
mod roots;
#[path = "../examples/mcp/show.rs"]
mod show;
#[path = "../examples/mcp/table.rs"]
mod table;
#[path = "../examples/mcp/terminal.rs"]
mod terminal;
#[path = "../examples/mcp/text.rs"]
mod text;
#[path = "../examples/mcp/trace.rs"]
mod trace;
#[path = "../examples/mcp/watch.rs"]
mod watch;
