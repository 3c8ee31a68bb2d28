//! The features `tokio` of both crates in use: a client of a program and a client of a URL on one Tokio runtime, each
//! driver a task of it: `tokio URL PROGRAM [ARGUMENT…]`.
//!
//! Where only the feature `tokio` is enabled, it is the default, and `runtime` need not be called. The drivers use the
//! sockets and timers of the runtime that polls them: both must be enabled there, as `enable_all` does.

use std::error::Error;

use mcp_smol::{Client, Command, RuntimeKind};
use serde_json::json;

async fn print_sum(client: Client, a: f64, b: f64) -> Result<(), mcp_smol::Error> {
    println!("{}", client.call_tool("add", json!({ "a": a, "b": b })).await?.text_content());
    // Returns once the child process has exited, or the connections are closed.
    client.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tokio URL PROGRAM [ARGUMENT…]".into());
    };
    let command = Command::new(program).args(arguments);
    let options = mcp_smol::ClientOptions::new("tokio", "1.0.0").runtime(RuntimeKind::Tokio);
    let (client, driver) = options.connect(command);
    let driver = tokio::spawn(driver);
    print_sum(client, 2.0, 3.0).await?;
    driver.await??;

    let options = mcp_hyper::ClientOptions::new("tokio", "1.0.0").runtime(mcp_hyper::Tokio);
    let (client, driver) = options.connect(&url)?;
    let driver = tokio::spawn(driver);
    print_sum(client, 3.0, 4.0).await?;
    driver.await??;
    Ok(())
}
