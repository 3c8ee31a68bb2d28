//! The feature `seal` is missing.
//! Features: client, server, std
//~ any(feature = "seal", feature = "auth")

use mcp_proto::Router;
use mcp_proto::front::UsedIds;

fn main() {
    drop(Router::new("shop", "1.0.0").single_use(std::sync::Arc::new(UsedIds::default())));
}
