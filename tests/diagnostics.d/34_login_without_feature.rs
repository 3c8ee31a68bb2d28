//! The feature `auth` of `mcp-hyper` is missing.
//! Crate: mcp-hyper
//! Features: client, server, smol
//~ gated behind the `auth` feature

use mcp_hyper::ClientOptions;
use mcp_hyper::auth::Authorization;

fn login(authorization: Authorization) {
    drop(ClientOptions::new("my-host", "1.0.0").authorization(authorization));
}

fn main() {
    let _ = login;
}
