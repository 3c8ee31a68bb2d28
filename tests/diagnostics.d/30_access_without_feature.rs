//! The feature `auth` is missing.
//! Features: client, server, std
//~ access and its scopes need the feature `auth`
//~ in `Cargo.toml`, add `"auth"` to the features of `mcp-hyper` or `mcp-proto`

use mcp_proto::Context;

fn is_known(cx: &Context) -> bool {
    cx.access().is_some()
}

fn main() {
    let _ = is_known;
}
