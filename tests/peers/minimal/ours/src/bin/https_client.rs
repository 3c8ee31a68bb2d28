//! Connects to a server, lists its tools and calls one.
//!
//! Run: https_client URL

use futures_lite::future;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: https_client URL")?;
    let (client, driver) = mcp_hyper::connect(url)?;
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
