//! What an idle host of 100 servers holds and uses, beside 100 clients without a host, each measured in a process of its
//! own.
//!
//! `cargo bench -p mcp-hyper --bench idle_host`. The servers are child processes: this program again, each with ten tools
//! whose lists both sides have read. Memory is counted before the servers start and when all are connected; processor time
//! and the times that a thread woke up are those of half a minute without a call.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

use futures_util::future::join_all;
use mcp_hyper::host::HostOptions;
use mcp_hyper::mcp_proto::front::{NoArguments, Router};
use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Source};
use mcp_hyper::mcp_proto::host::control::Status;
use mcp_hyper::mcp_proto::schema::Tool;
use serde_json::{Map, Value, json};

const SERVERS: usize = 100;
const TOOLS: usize = 10;
/// A host counts a start as an attempt until the connection has lived for 30 seconds.
const SETTLING: Duration = Duration::from_secs(35);
const IDLE: Duration = Duration::from_secs(30);

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--server", _] => Ok(mcp_smol::run_stdio(router())?),
        ["--clients"] => smol::block_on(clients()),
        ["--host"] => smol::block_on(host()),
        _ => compare(),
    }
}

fn router() -> Router {
    (0..TOOLS).fold(Router::new("idle", "1.0.0"), |router, number| {
        let schema =
            json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
        let description = "Reads the file at the path, which must be inside of the folder of the server.";
        router
            .tool_with(Tool::new(format!("read-{number}"), description, schema), async |NoArguments {}, _| "")
    })
}

/// Runs both rows, each in a process of its own, and prints them.
fn compare() -> std::io::Result<()> {
    println!("{SERVERS} servers, {TOOLS} tools each; idle for {} s", IDLE.as_secs());
    println!("{:24} {:>12} {:>12} {:>14} {:>14}", "", "heap, kB", "RSS, kB", "CPU, ms/min", "wakes/min");
    let mut rows = Vec::new();
    for (name, row) in [("clients without a host", "--clients"), ("host", "--host")] {
        let output = Command::new(env::current_exe()?).arg(row).stderr(Stdio::inherit()).output()?;
        assert!(output.status.success(), "{name}: {}", output.status);
        let figures: Vec<f64> = String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        println!(
            "{name:24} {:>12.0} {:>12.0} {:>14.1} {:>14.1}",
            figures[0], figures[1], figures[2], figures[3]
        );
        rows.push(figures);
    }
    println!("{:24} {:>11.2}x {:>11.2}x", "host / clients", rows[1][0] / rows[0][0], rows[1][1] / rows[0][1]);
    Ok(())
}

async fn clients() -> std::io::Result<()> {
    let before = Figures::now();
    let program = env::current_exe()?;
    let clients: Vec<_> = (0..SERVERS)
        .map(|number| {
            let server = mcp_smol::Command::new(&program).args(["--server", &number.to_string()]);
            let (client, driver) = mcp_smol::connect(server);
            smol::spawn(driver).detach();
            client
        })
        .collect();
    let lists = join_all(clients.iter().map(async |client| client.list_tools().await.unwrap())).await;
    assert!(lists.iter().all(|tools| tools.len() == TOOLS));
    report(&before).await;
    join_all(clients.iter().map(|client| client.close())).await;
    drop(lists);
    Ok(())
}

async fn host() -> std::io::Result<()> {
    let before = Figures::now();
    let program = env::current_exe()?;
    // Entries with the same command and arguments would be one server.
    let servers: Map<String, Value> = (0..SERVERS)
        .map(|number| number.to_string())
        .map(|number| {
            (format!("server-{number}"), json!({ "command": program, "args": ["--server", number] }))
        })
        .collect();
    let text = json!({ "mcpServers": servers }).to_string();
    let file = ConfigFile::parse(Source::user("/idle.json"), text.as_bytes());
    let options = HostOptions::new("benchmark", "1.0.0").config(Config::merge([file]));
    let (host, driver) = options.start();
    smol::spawn(driver).detach();
    host.ready().await;
    assert!(host.servers().iter().all(|server| server.status == Status::Connected));
    assert_eq!(host.tools().len(), SERVERS * TOOLS);
    report(&before).await;
    host.close().await;
    Ok(())
}

/// Prints what was added to the heap and to memory since `before`, then the processor time and the wakes per minute of an
/// idle period.
async fn report(before: &Figures) {
    smol::Timer::after(SETTLING).await;
    let (idle, begin) = (Figures::now(), Instant::now());
    smol::Timer::after(IDLE).await;
    let (after, minutes) = (Figures::now(), begin.elapsed().as_secs_f64() / 60.0);
    println!(
        "{} {} {} {}",
        (idle.heap - before.heap) as f64 / 1e3,
        (idle.resident_kilobytes - before.resident_kilobytes) as f64,
        (after.processor_milliseconds - idle.processor_milliseconds) / minutes,
        (after.wakes - idle.wakes) as f64 / minutes,
    );
}

struct Figures {
    heap: i64,
    resident_kilobytes: i64,
    processor_milliseconds: f64,
    /// Voluntary context switches of all threads: each is one wait that ended.
    wakes: i64,
}

impl Figures {
    fn now() -> Self {
        let field = |text: &str, name: &str| -> i64 {
            let line = text.lines().find(|line| line.starts_with(name)).expect("a field of the status");
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let status = fs::read_to_string("/proc/self/status").expect("the status of this process");
        let threads = fs::read_dir("/proc/self/task").expect("the threads of this process");
        let statuses =
            threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Self {
            heap: HEAP.load(Ordering::Relaxed),
            resident_kilobytes: field(&status, "VmRSS:"),
            processor_milliseconds: time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6,
            wakes: statuses.map(|status| field(&status, "voluntary_ctxt_switches:")).sum(),
        }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes that are allocated now.
static HEAP: AtomicI64 = AtomicI64::new(0);

struct CountingAllocator;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HEAP.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HEAP.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
