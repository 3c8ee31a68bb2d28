//! Starts a server, lists its tools and calls one.
//!
//! Run: stdio_client COMMAND ARGS…

use futures_lite::future;
use mcp_smol::Command;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let program = words.next().ok_or("usage: stdio_client COMMAND ARGS…")?;
    let (client, driver) = mcp_smol::connect(Command::new(program).args(words));
    let work = async {
        for tool in client.list_tools().await? {
            println!("{}: {}", tool.name, tool.description.unwrap_or_default());
        }
        let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await?;
        println!("{}", sum.text_content());
        client.close().await;
        Ok(())
    };
    async_io::block_on(future::zip(work, driver)).0
}
