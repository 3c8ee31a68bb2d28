//! What the clients here have in common.

use std::error::Error;

use mcp_proto::front::Client;
use mcp_proto::testing::check_transport;

/// Checks the adapter by its client, if the server has the tools for that; the client is closed then.
///
/// # Errors
/// What the transport does not keep.
pub async fn check(client: &Client) -> Result<(), Box<dyn Error>> {
    let server = client.ready().await?;
    if server.implementation.as_ref().is_some_and(|it| it.name == "transport") {
        check_transport(client, async |time| _ = smol::Timer::after(time).await).await?;
    }
    Ok(())
}
