//! A client on a hand-written executor of one thread: thirty lines that know nothing of MCP. It starts a server as a
//! child process and has two calls in flight at once: `executor PROGRAM [ARGUMENT…]`.
//!
//! The duty of an executor: a poll after each wake, from whichever thread that comes; here async-io's thread, for
//! pipes and timers. A poll without a wake does no harm. A driver is a task like any other, and calls make progress only
//! while it is polled.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};

use mcp_smol::{Client, Command};
use serde_json::json;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Executor {
    tasks: Vec<(Option<LocalFuture>, Waker)>,
    run_queue: (mpsc::Sender<usize>, mpsc::Receiver<usize>),
}

/// Puts a task into the run queue.
struct TaskWaker(usize, mpsc::Sender<usize>);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        // The send fails if the executor has ended: nothing is left to poll.
        let _ = self.1.send(self.0);
    }
}

impl Executor {
    fn new() -> Self {
        Self { tasks: Vec::new(), run_queue: mpsc::channel() }
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        let waker = Waker::from(Arc::new(TaskWaker(self.tasks.len(), self.run_queue.0.clone())));
        waker.wake_by_ref();
        self.tasks.push((Some(Box::pin(task)), waker));
    }

    /// Polls the tasks that are woken, until all have ended.
    fn run(mut self) {
        while self.tasks.iter().any(|(task, _)| task.is_some())
            && let Ok(index) = self.run_queue.1.recv()
        {
            let (task, waker) = &mut self.tasks[index];
            if let Some(running) = task
                && running.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
            {
                *task = None;
            }
        }
    }
}

async fn print_sums(client: &Client) -> Result<(), Box<dyn Error>> {
    // A call is sent when it is first polled, or by `start`.
    let first = client.call_tool("add", json!({ "a": 2, "b": 3 })).start()?;
    let second = client.call_tool("add", json!({ "a": 3, "b": 4 })).start()?;
    println!("{} {}", first.await?.text_content(), second.await?.text_content());
    adapters::check(client).await
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("usage: executor PROGRAM [ARGUMENT…]")?;
    let (client, driver) = mcp_smol::connect(Command::new(program).args(arguments));
    let mut executor = Executor::new();
    executor.spawn(async {
        if let Err(error) = driver.await {
            eprintln!("The connection failed: {error}");
        }
    });
    executor.spawn(async move {
        if let Err(error) = print_sums(&client).await {
            eprintln!("A call failed: {error}");
        }
        // Returns once the child process has exited.
        client.close().await;
    });
    executor.run();
    Ok(())
}
