//! A server whose handlers are not `Send`: they share state through `Rc` and spawn tasks on smol's `LocalExecutor`, all
//! on one thread. It serves its standard streams: a client starts it.
//!
//! The duties of the driver: it polls them, so it is not `Send` either and stays on the thread of the
//! executor. A handler that computes for long blocks the connection; work that waits is a task of its own, as here.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use mcp_proto::front::NoArguments;
use mcp_smol::{Router, Tool};
use serde::Deserialize;
use serde_json::json;
use smol::LocalExecutor;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn main() -> io::Result<()> {
    let executor = Rc::new(LocalExecutor::new());
    let history = Rc::new(RefCell::new(Vec::new()));
    let number = json!({ "type": "number" });
    let schema =
        json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
    let add = {
        let (executor, history) = (executor.clone(), history.clone());
        move |Add { a, b }, _| {
            let (executor, history) = (executor.clone(), history.clone());
            async move {
                // A task that is not `Send`. Its handle cancels it when it is dropped, and the handler of a cancelled
                // request is dropped.
                let sum = executor.spawn(async move {
                    smol::future::yield_now().await;
                    history.borrow_mut().push(a + b);
                    a + b
                });
                sum.await.to_string()
            }
        }
    };
    let empty = json!({ "type": "object" });
    let router = Router::local("local", "1.0.0")
        .tool_with(Tool::new("add", "Adds two numbers", schema), add)
        .tool_with(Tool::new("history", "Lists the sums so far", empty), move |NoArguments {}, _| {
            let history = history.clone();
            async move { format!("{:?}", history.borrow()) }
        });
    Ok(smol::block_on(executor.run(mcp_smol::serve_stdio(router)))?)
}
