//! The handler of a `Router::new` holds the guard of a lock while it waits.
//~ not `Send`: `Router::local`

use mcp_proto::{Context, Router};

static COUNT: std::sync::Mutex<u32> = std::sync::Mutex::new(0);

async fn count(_: mcp_proto::front::NoArguments, _: Context) -> String {
    let mut count = COUNT.lock().unwrap();
    *count += 1;
    std::future::ready(()).await;
    count.to_string()
}

fn main() {
    drop(Router::new("counter", "1.0.0").tool("count", "Counts", count));
}
