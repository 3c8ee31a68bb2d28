//! Cost of a `tools/call` between a client and its child process: HTTP/2 over its standard streams (`stdio-v2`) beside one
//! JSON message per line (`stdio`), one call at a time and 64 in flight, in alternating rounds of one run.
//!
//! `cargo bench -p mcp-hyper --bench stdio_v2`. The program starts itself as the child. With `--repeat N "row"` it makes N
//! calls of that row, for a profiler; the difference of two numbers leaves out the start.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

use std::env;
use std::pin::Pin;
use std::time::Instant;

use futures_lite::future::{or, zip};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcp_hyper::mcp_proto::front::{Client, Error, Router};
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_smol::Command;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// About 100 bytes, as in the other benchmarks.
const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog, then turns around and looks at the dog once more.";
/// Rounds of each row; the table shows their medians.
const ROUNDS: usize = 15;
/// Calls per round.
const CALLS: usize = 1_000;

/// The rows: the server, the era, and the calls in flight. Each is compared to the row before it.
const ROWS: [(&str, &str, EraPolicy, usize); 8] = [
    ("stdio, modern, one at a time", "stdio", EraPolicy::ModernOnly, 1),
    ("stdio-v2, modern, one at a time", "stdio-v2", EraPolicy::ModernOnly, 1),
    ("stdio, modern, 64 in flight", "stdio", EraPolicy::ModernOnly, 64),
    ("stdio-v2, modern, 64 in flight", "stdio-v2", EraPolicy::ModernOnly, 64),
    ("stdio, legacy, one at a time", "stdio", EraPolicy::LegacyOnly, 1),
    ("stdio-v2, legacy, one at a time", "stdio-v2", EraPolicy::LegacyOnly, 1),
    ("stdio, legacy, 64 in flight", "stdio", EraPolicy::LegacyOnly, 64),
    ("stdio-v2, legacy, 64 in flight", "stdio-v2", EraPolicy::LegacyOnly, 64),
];

#[derive(Deserialize, Serialize)]
struct Echo {
    message: String,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--server", name] => serve(name),
        ["--repeat", calls, name] => {
            let (_, server, era, in_flight) =
                ROWS.into_iter().find(|row| row.0 == name).expect("a row's name");
            let (client, driver) = connect(server, era);
            let calls = call(&client, in_flight, calls.parse().expect("a number"));
            smol::block_on(or(async { drop(driver.await) }, calls));
        }
        _ => smol::block_on(measure()),
    }
}

fn serve(name: &str) {
    let tool = Tool::new("echo", "", json!({ "type": "object" }));
    let router = Router::new("echo", "1.0.0").tool_with(tool, async |Echo { message }, _| message);
    smol::block_on(async {
        match name {
            "stdio-v2" => mcp_hyper::serve_stdio_v2(router).await,
            _ => mcp_smol::serve_stdio(router).await,
        }
    })
    .unwrap();
}

type Driver = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn connect(server: &str, era: EraPolicy) -> (Client, Driver) {
    let command = Command::new(env::current_exe().unwrap()).args(["--server", server]);
    if server == "stdio-v2" {
        let options = mcp_hyper::ClientOptions::new("benchmark", "1.0.0").era_policy(era);
        let (client, driver) = options.connect_command_v2(command).unwrap();
        return (client, Box::pin(driver));
    }
    let (client, driver) =
        mcp_smol::ClientOptions::new("benchmark", "1.0.0").era_policy(era).connect(command);
    (client, Box::pin(driver))
}

async fn call(client: &Client, in_flight: usize, calls: usize) {
    let one = || async { client.call_tool("echo", &Echo { message: MESSAGE.into() }).await.unwrap() };
    let mut running: FuturesUnordered<_> = (0..in_flight.min(calls)).map(|_| one()).collect();
    for _ in in_flight..calls {
        running.next().await;
        running.push(one());
    }
    while running.next().await.is_some() {}
}

async fn measure() {
    println!("{:34} {:>9} {:>8} {:>10}", "tools/call", "calls/s", "µs", "of stdio");
    for [lines, http2] in ROWS.as_chunks::<2>().0 {
        let rows = [lines, http2];
        let mut times = [Vec::new(), Vec::new()];
        let connections = rows.map(|(_, server, era, _)| connect(server, *era));
        let [(one, one_driver), (other, other_driver)] = connections;
        let work = async {
            for _ in 0..=ROUNDS {
                for (client, (times, (.., in_flight))) in
                    [&one, &other].into_iter().zip(times.iter_mut().zip(rows))
                {
                    let start = Instant::now();
                    call(client, *in_flight, CALLS).await;
                    times.push(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
                }
            }
            zip(one.close(), other.close()).await;
        };
        let (_, (one, other)) = zip(work, zip(one_driver, other_driver)).await;
        one.unwrap();
        other.unwrap();
        // The first round warms up.
        let medians = times.map(|mut times| {
            times.remove(0);
            times.sort_by(f64::total_cmp);
            times.get(ROUNDS / 2).copied().unwrap_or_default()
        });
        for ((name, ..), median) in rows.into_iter().zip(medians) {
            println!("{name:34} {:>9.0} {median:>8.1} {:>10.2}", 1e6 / median, median / medians[0]);
        }
    }
}
