//! The OAuth client as a machine, against simulated servers.

mod clocks;
mod contexts;
mod discovery;
mod dpop;
mod faults;
mod flow;
mod grants;
mod hostile;
mod pages;
#[cfg(feature = "seal")]
mod pending_logins;
mod properties;
#[cfg(all(feature = "client", feature = "server", feature = "testing"))]
mod refresh;
mod registration;
mod renewal;
mod scopes;
mod sharing;
mod sim;

use mcp_proto::auth::client::AuthConfig;
use sim::REDIRECT;

fn config() -> AuthConfig {
    AuthConfig::new("a host", REDIRECT)
}
