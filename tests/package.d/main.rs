//! A client of two servers: this program as a child process, and one over HTTP.

use mcp_proto::front::Client;
use mcp_smol::{Command, Router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: u32,
    b: u32,
}

fn router() -> Router {
    Router::new("calculator", "1.0.0").tool("add", "Adds two numbers", async |Add { a, b }, _| a + b)
}

async fn add(client: Client) -> Result<String, Box<dyn std::error::Error>> {
    let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await?.text_content();
    client.close().await;
    Ok(sum.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return Ok(mcp_smol::run_stdio(router())?);
    }
    smol::block_on(async {
        let (client, driver) = mcp_smol::connect(Command::new(std::env::current_exe()?).args(["serve"]));
        smol::spawn(driver).detach();
        println!("child process: {}", add(client).await?);

        let listener = smol::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        smol::spawn(mcp_hyper::serve(listener, router())).detach();
        let (client, driver) = mcp_hyper::connect(&url)?;
        smol::spawn(driver).detach();
        println!("HTTP: {}", add(client).await?);
        Ok(())
    })
}
