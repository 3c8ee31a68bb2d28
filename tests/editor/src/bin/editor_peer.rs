//! The servers of the test: on the standard streams, or over HTTP with the argument `http`, until the input ends.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_lite::future::block_on;
use mcp_hyper::ServerOptions;
use mcp_proto::front::NoArguments;
use mcp_smol::{Context, ElicitAction, ElicitParams, ElicitSchema, HandlerError, Router, Tool};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// Counts the calls that are cancelled: their handlers are dropped.
struct CancelCounter(Arc<AtomicUsize>);

impl Drop for CancelCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

async fn confirm(NoArguments {}: NoArguments, cx: Context) -> Result<&'static str, HandlerError> {
    let question = ElicitParams::form("Delete everything?", ElicitSchema::empty());
    let answer = cx.elicit("sure", question).await?;
    Ok(if answer.action == ElicitAction::Accept { "Deleted." } else { "Nothing was deleted." })
}

fn main() -> io::Result<()> {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let waiting = cancelled.clone();
    let empty = json!({ "type": "object" });
    let router = Router::new("peer", "1.0.0")
        .tool_with(Tool::new("add", "Adds two numbers", empty.clone()), async |Add { a, b }, _| {
            (a + b).to_string()
        })
        .tool_with(Tool::new("confirm", "Asks the user", empty.clone()), confirm)
        .tool_with(Tool::new("wait", "Does not end", empty.clone()), move |NoArguments {}, _| {
            let counter = CancelCounter(waiting.clone());
            async move {
                let _counter = counter;
                std::future::pending::<&str>().await
            }
        })
        .tool_with(Tool::new("cancelled", "Counts cancelled calls", empty), move |NoArguments {}, _| {
            let count = cancelled.load(Ordering::Relaxed);
            async move { format!("{count} cancelled") }
        });
    if std::env::args().nth(1).as_deref() != Some("http") {
        return Ok(mcp_smol::run_stdio(router)?);
    }
    block_on(async {
        let listener = async_net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/mcp", listener.local_addr()?);
        let (server, driver) = ServerOptions::new(router).listen(listener);
        let handle = server.handle().clone();
        std::thread::spawn(move || {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            handle.close();
        });
        driver.await
    })
}
