//! The feature `seal` is missing.
//! Features: client, server, std
//~ `Router::state_lifetime` needs the feature `seal`
//~ in `Cargo.toml`, add `"seal"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`

use mcp_proto::Router;

fn main() {
    drop(Router::new("shop", "1.0.0").state_lifetime(std::time::Duration::from_secs(60)));
}
