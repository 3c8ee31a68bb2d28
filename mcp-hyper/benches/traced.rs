//! What tracing adds to the processor time of a `tools/call` to a child process, in both processes.
//!
//! `cargo bench -p mcp-hyper --bench traced`. The program starts itself as the child. It makes calls one after the other, by
//! turns without a trace and with one, and prints the median of each and their ratio. With `--repeat N "row"` it makes N calls
//! of that row, for a profiler.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark")]

use std::{env, fs};

use mcp_hyper::host::TraceFile;
use mcp_hyper::mcp_proto::front::{Client, NoArguments, Router};
use mcp_hyper::mcp_proto::redact::Redactor;
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_smol::{ClientOptions, Command};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// About 100 bytes, as in the other benchmarks.
const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog, then turns around and looks at the dog once more.";
const ROUNDS: usize = 15;
const CALLS: usize = 1000;

/// The most that tracing may add.
const BOUND: f64 = 1.3;

#[derive(Deserialize)]
struct Echo {
    message: String,
}

#[derive(Serialize)]
struct EchoArguments {
    message: &'static str,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--server"] => serve(),
        ["--repeat", calls, row] => {
            smol::block_on(calling(row == "traced", calls.parse().expect("a number")));
        }
        _ => compare(),
    }
}

fn serve() {
    let tool = |name| Tool::new(name, "", json!({ "type": "object" }));
    let router = Router::new("echo", "1.0.0")
        .tool_with(tool("echo"), async |Echo { message }, _| message)
        .tool_with(tool("time"), async |NoArguments {}, _| cpu().to_string());
    mcp_smol::run_stdio(router).expect("the client closes the connection");
}

/// The processor time of this process so far, in nanoseconds.
fn cpu() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Makes calls, and returns the microseconds of one in the client and in the server.
async fn calling(is_traced: bool, calls: usize) -> [f64; 2] {
    let path = env::temp_dir().join(format!("mcp-bench-{}.trace", std::process::id()));
    let trace = is_traced.then(|| TraceFile::create(&path, "bench").expect("a file"));
    let mut options = ClientOptions::new("bench", "1.0.0");
    if let Some(trace) = &trace {
        let redactor = Redactor::new().known("a-key-of-some-length");
        let mut observer = trace.connection("echo", "stdio", redactor).observer();
        options = options.on_wire(move |direction, bytes| observer.handle_bytes(direction, bytes));
    }
    let (client, driver) = options.connect(Command::new(env::current_exe().expect("a path")).arg("--server"));
    let driving = smol::spawn(driver);
    echo(&client, 100).await;
    let (own, theirs) = (cpu(), time_of_server(&client).await);
    echo(&client, calls).await;
    if let Some(trace) = &trace {
        trace.flush().expect("there is room");
    }
    let per_call = |time: i64| time as f64 / calls as f64 / 1000.0;
    let times = [per_call(cpu() - own), per_call(time_of_server(&client).await - theirs)];
    drop(client);
    let _ = driving.await;
    let _ = fs::remove_file(path);
    times
}

async fn echo(client: &Client, calls: usize) {
    for _ in 0..calls {
        client.call_tool("echo", EchoArguments { message: MESSAGE }).await.expect("an answer");
    }
}

async fn time_of_server(client: &Client) -> i64 {
    let result = client.call_tool("time", json!({})).await.expect("an answer");
    result.text_content().parse().expect("a number")
}

fn compare() {
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (is_traced, times) in [false, true].into_iter().zip(&mut rounds) {
            times.push(smol::block_on(calling(is_traced, CALLS)));
        }
    }
    println!("{:12} {:>12} {:>12} {:>12}", "", "client, µs", "server, µs", "both, µs");
    let both = rounds.each_ref().map(|rounds| median(rounds.iter().map(|[own, theirs]| own + theirs)));
    for ((name, times), both) in ["not traced", "traced"].into_iter().zip(&rounds).zip(both) {
        let [own, theirs] = [0, 1].map(|side| median(times.iter().map(|times| times[side])));
        println!("{name:12} {own:12.1} {theirs:12.1} {both:12.1}");
    }
    let ratio = both[1] / both[0];
    println!("tracing adds {:.0} % (at most {:.0} %)", (ratio - 1.0) * 100.0, (BOUND - 1.0) * 100.0);
    assert!(ratio <= BOUND, "tracing costs too much");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
