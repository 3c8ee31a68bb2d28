//! Cost of a `tools/call` between a client and its child process over pipes, both on this machine.
//!
//! `cargo bench -p mcp-smol --bench stdio`. The program starts itself as the child. With `--repeat N "row"` it makes N
//! calls of that row, for a profiler: the difference between runs of 2 N and N calls, divided by N, is the cost of one.
//! `strace -f -c` counts the system calls of both processes in this way. Tracing makes a call last longer, which lets
//! async-io's helper thread take part (see below): `--seccomp-bpf -e trace=NAME`, one name at a time, disturbs least.
//!
//! # System calls per sequential call, both sides
//!
//! | | total | waits | operations |
//! |---|---|---|---|
//! | raw echo: the floor | 4 | | 2 reads, 2 writes |
//! | tokio | 6 | 2 `epoll_wait` | 2 reads, 2 writes |
//! | server on `run_stdio`, client on tokio | 6 | 1 `ppoll`, 1 `epoll_wait` | 2 reads, 2 writes |
//! | server on `run_stdio`, client on async-io | 11 | 1 `ppoll`, 1 × 6 of async-io | 2 reads, 2 writes |
//! | async-io | 16 | 2 × 6 of async-io | 2 reads, 2 writes |
//!
//! # What only async-io and polling can change
//!
//! Measured with async-io 2.6.0 and polling 3.11.0 on Linux.
//!
//! - Each wait of polling takes five system calls instead of one: `timerfd_settime`, `epoll_ctl` of the timer,
//!   `epoll_wait`, a `read` of the eventfd that finds nothing, and `epoll_ctl` of the eventfd. `epoll_pwait2` takes a
//!   timeout in nanoseconds, and both descriptors need to be armed again only after they have fired: 8 fewer calls here.
//! - async-io watches descriptors in one-shot mode, so that each wait for one costs an `epoll_ctl`: 2 calls here.
//! - A future that wakes itself while `async_io::block_on` polls it makes the reactor look for events without waiting,
//!   five system calls, before the future is polled again. Drivers avoid that by polling such work again themselves.
//! - Setting a timer writes to the eventfd, which ends the next wait at once: another five calls. Drivers avoid that by
//!   keeping a timer that fires early.
//! - While `block_on` runs, the thread `async-io` looks every 50 µs, then less often, whether the reactor has been idle
//!   since, and then takes it. A call that lasts longer than that, as in a debug build under `strace`, costs up to 16
//!   calls more: both threads wait in turns, and wake each other by futexes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_lite::future::poll_once;
use mcp_proto::front::{NoArguments, Router};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::Tool;
use mcp_smol::{Client, ClientOptions, Command, mcp_proto};
#[cfg(feature = "tokio")]
use mcp_smol::{RuntimeKind, ServerOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// About 100 bytes, as in the other benchmarks.
const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog, then turns around and looks at the dog once more.";
/// Rounds of each row; the table shows their medians.
const ROUNDS: usize = 9;
/// Calls per round.
const CALLS: usize = 2_000;

/// The server on tokio.
#[cfg(feature = "tokio")]
const TOKIO: &str = "serve_stdio on tokio";

struct Row {
    name: &'static str,
    /// The function that serves.
    server: &'static str,
    era: EraPolicy,
    in_flight: usize,
    #[cfg(feature = "tokio")]
    client: RuntimeKind,
}

const fn row(name: &'static str, server: &'static str, era: EraPolicy, in_flight: usize) -> Row {
    Row {
        name,
        server,
        era,
        in_flight,
        #[cfg(feature = "tokio")]
        client: RuntimeKind::Smol,
    }
}

/// A row whose client runs on tokio.
#[cfg(feature = "tokio")]
const fn tokio_row(name: &'static str, server: &'static str, era: EraPolicy, in_flight: usize) -> Row {
    Row { client: RuntimeKind::Tokio, ..row(name, server, era, in_flight) }
}

const ROWS: &[Row] = &[
    row("sequential, legacy", "serve_stdio", EraPolicy::LegacyOnly, 1),
    row("sequential, modern", "serve_stdio", EraPolicy::ModernOnly, 1),
    row("64 in flight, legacy", "serve_stdio", EraPolicy::LegacyOnly, 64),
    row("64 in flight, modern", "serve_stdio", EraPolicy::ModernOnly, 64),
    row("sequential, legacy, run_stdio", "run_stdio", EraPolicy::LegacyOnly, 1),
    row("sequential, modern, run_stdio", "run_stdio", EraPolicy::ModernOnly, 1),
    row("64 in flight, legacy, run_stdio", "run_stdio", EraPolicy::LegacyOnly, 64),
    row("64 in flight, modern, run_stdio", "run_stdio", EraPolicy::ModernOnly, 64),
    #[cfg(feature = "tokio")]
    tokio_row("sequential, modern, run_stdio, client on tokio", "run_stdio", EraPolicy::ModernOnly, 1),
    #[cfg(feature = "tokio")]
    tokio_row("sequential, legacy, tokio", TOKIO, EraPolicy::LegacyOnly, 1),
    #[cfg(feature = "tokio")]
    tokio_row("sequential, modern, tokio", TOKIO, EraPolicy::ModernOnly, 1),
    #[cfg(feature = "tokio")]
    tokio_row("64 in flight, legacy, tokio", TOKIO, EraPolicy::LegacyOnly, 64),
    #[cfg(feature = "tokio")]
    tokio_row("64 in flight, modern, tokio", TOKIO, EraPolicy::ModernOnly, 64),
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--server", name] => serve(name),
        ["--repeat", calls, name] => {
            let row = ROWS.iter().find(|row| row.name == name).expect("a row's name");
            run(row, async |client| call(&client, row.in_flight, calls.parse().expect("a number")).await);
        }
        _ => measure(),
    }
}

#[derive(Deserialize)]
struct Echo {
    message: String,
}

#[derive(Serialize)]
struct EchoArguments {
    message: &'static str,
}

fn serve(name: &str) {
    let tool = |name| Tool::new(name, "", json!({ "type": "object" }));
    let router = Router::new("echo", "1.0.0")
        .tool_with(tool("echo"), async |Echo { message }, _| message)
        .tool_with(tool("allocations"), async |NoArguments {}, _| ALLOCATOR.count().to_string());
    match name {
        "serve_stdio" => smol::block_on(mcp_smol::serve_stdio(router)),
        "run_stdio" => mcp_smol::run_stdio(router),
        #[cfg(feature = "tokio")]
        TOKIO => on_tokio(async {
            let (_, driver) = ServerOptions::new(router).runtime(RuntimeKind::Tokio).stdio()?;
            Ok(driver.await?)
        }),
        name => panic!("no such server: {name}"),
    }
    .unwrap();
}

/// Starts the row's server and runs `work` with its client.
fn run<T>(row: &Row, work: impl AsyncFnOnce(Client) -> T) -> T {
    let server = Command::new(env::current_exe().unwrap()).args(["--server", row.server]);
    let options = ClientOptions::new("benchmark", "1.0.0").era_policy(row.era);
    #[cfg(feature = "tokio")]
    let options = options.runtime(row.client);
    let (client, driver) = options.connect(server);
    let work = async {
        client.ready().await.unwrap();
        let result = work(client.clone()).await;
        client.close().await;
        result
    };
    #[cfg(feature = "tokio")]
    if row.client == RuntimeKind::Tokio {
        return on_tokio(driver.run_until(work));
    }
    smol::block_on(driver.run_until(work))
}

#[cfg(feature = "tokio")]
fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn call(client: &Client, in_flight: usize, calls: usize) {
    let mut requests = VecDeque::with_capacity(in_flight);
    for left in (0..calls + in_flight - 1).rev() {
        if left + 1 >= in_flight {
            let mut request = client.call_tool("echo", EchoArguments { message: MESSAGE });
            if in_flight == 1 {
                request.await.unwrap();
                continue;
            }
            assert!(poll_once(&mut request).await.is_none());
            requests.push_back(request);
        }
        if requests.len() == in_flight || left + 1 < in_flight {
            requests.pop_front().unwrap().await.unwrap();
        }
    }
}

/// Allocations of the client and the server so far.
async fn allocations(client: &Client) -> u64 {
    let server = client.call_tool("allocations", json!({})).await.unwrap();
    ALLOCATOR.count() + server.text_content().parse::<u64>().unwrap()
}

fn measure() {
    println!("{:46} {:>10} {:>10} {:>12}", "tools/call", "calls/s", "µs", "allocations");
    for row in ROWS {
        run(row, async |client| {
            call(&client, row.in_flight, CALLS).await;
            // The counting call has a cost of its own.
            let before = allocations(&client).await;
            let counting = allocations(&client).await - before;
            let before = allocations(&client).await;
            call(&client, row.in_flight, CALLS).await;
            let allocations = allocations(&client).await - before - counting;
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                call(&client, row.in_flight, CALLS).await;
                times.push(start.elapsed().as_secs_f64() / CALLS as f64);
            }
            times.sort_by(f64::total_cmp);
            let time = times[ROUNDS / 2];
            let allocations = allocations as f64 / CALLS as f64;
            println!("{:46} {:>10.0} {:>10.1} {allocations:>12.1}", row.name, 1.0 / time, time * 1e6);
        });
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator(AtomicU64::new(0));

struct CountingAllocator(AtomicU64);

impl CountingAllocator {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
