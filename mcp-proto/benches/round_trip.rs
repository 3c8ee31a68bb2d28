//! Cost of a whole `tools/call` in memory, both sides on one thread.
//!
//! It compares the bare state machines, the async front, and serde_json with `&RawValue` envelopes and typed
//! parameters, without a protocol. Then it measures the memory of calls that wait for their answers.
//!
//! `cargo bench -p mcp-proto --bench round_trip`. With `--memory` it measures only the memory. With `--repeat N` and a row's name it runs that row N times, for a
//! profiler: the difference between runs of 2 N and N, divided by N, is the number of instructions per round trip.

mod front_pair;
mod lean;
mod measure;
mod pair;
mod raw_envelope;

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use front_pair::FrontPair;
use lean::Lean;
use mcp_proto::Instant;
use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::{CallTool, CallToolParams, Era};
use measure::{heap_growth, measure};
use pair::{MESSAGE, Pair};
use serde::Serialize;
use serde_json::json;

/// The number of calls that wait at once.
const WAITING: u64 = 10_000;

fn main() {
    if std::env::args().any(|argument| argument == "--memory") {
        return print_memory();
    }
    let mut lean = Lean::default();
    let mut modern = Pair::ready(Era::Modern, 16);
    let mut legacy = Pair::ready(Era::Legacy, 16);
    let mut front_modern = FrontPair::ready(EraPolicy::ModernOnly);
    let mut front_legacy = FrontPair::ready(EraPolicy::LegacyOnly);
    let mut router_layer = FrontPair::layered(EraPolicy::ModernOnly, true, false);
    let mut client_layer = FrontPair::layered(EraPolicy::ModernOnly, false, true);
    let mut rows: [(&str, &mut dyn FnMut()); 7] = [
        ("lean", &mut || lean.round_trip()),
        ("bare, modern", &mut || modern.round_trip()),
        ("bare, legacy", &mut || legacy.round_trip()),
        ("front, modern", &mut || round_trip(&mut front_modern)),
        ("front, legacy", &mut || round_trip(&mut front_legacy)),
        ("front, modern, layer of the router", &mut || round_trip(&mut router_layer)),
        ("front, modern, layer of the client", &mut || round_trip(&mut client_layer)),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--repeat") {
        let times: usize = arguments[at + 1].parse().expect("a number of times");
        let (_, run) =
            rows.iter_mut().find(|(name, _)| arguments.iter().any(|a| a == name)).expect("a row's name");
        (0..times).for_each(|_| run());
        return;
    }
    let names = rows.each_ref().map(|(name, _)| *name);
    let costs = measure(rows.map(|(_, run)| run));
    println!("{:36} {:>8} {:>12} {:>12}", "round trip", "ns", "allocations", "× of lean");
    for (name, cost) in names.into_iter().zip(costs) {
        let ratio = cost.nanoseconds / costs[0].nanoseconds;
        println!("{name:36} {:>8.0} {:>12} {ratio:>12.2}", cost.nanoseconds, cost.allocations);
    }
    println!();
    print_memory();
}

/// Prints the memory of a client's waiting calls, and what stays of them when all are answered.
fn print_memory() {
    println!("{:44} {:>8} {:>8}", "bytes", "modern", "legacy");
    let [modern, legacy] = [Era::Modern, Era::Legacy].map(memory);
    for (name, modern, legacy) in [
        ("client: one of 10,000 calls that wait", modern.0, legacy.0),
        ("both sides: idle again after 10,000 at once", modern.1, legacy.1),
    ] {
        println!("{name:44} {modern:>8} {legacy:>8}");
    }
}

/// The memory of one of the [`WAITING`] calls of a client, and the growth of an idle client and its server by them.
fn memory(era: Era) -> (u64, u64) {
    let room = WAITING as usize;
    let mut client = Pair::ready(era, room).client;
    let params = CallToolParams::new("echo").with_arguments(json!({ "message": MESSAGE }));
    let mut sent = Vec::with_capacity(1024);
    let (waiting, ()) = heap_growth(|| {
        for _ in 0..WAITING {
            client.at(Instant::ORIGIN).request::<CallTool>(&params, RequestOptions::default()).unwrap();
            assert!(client.poll_transmit(&mut sent));
            sent.clear();
        }
    });
    let mut pair = Pair::ready(era, room);
    pair.round_trip();
    let (kept, ()) = heap_growth(|| {
        let calls: Vec<_> = (0..WAITING).map(|_| pair.ask()).collect();
        calls.iter().for_each(|(id, result)| pair.answer(*id, result));
    });
    (waiting / WAITING, kept)
}

#[derive(Serialize)]
struct EchoArguments {
    message: &'static str,
}

fn round_trip(pair: &mut FrontPair) {
    let mut call = pair.client.call_tool("echo", EchoArguments { message: MESSAGE });
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = Pin::new(&mut call).poll(&mut cx) {
            black_box(result.unwrap());
            return;
        }
        pair.carry();
    }
}
