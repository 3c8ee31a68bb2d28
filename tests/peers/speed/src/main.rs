//! Programs that measure the limit, the peers and this project in one run, on one core.
//!
//! `speed PROGRAM [--quick]` prints Markdown tables. `speed PROGRAM --list` names the rows, and `speed PROGRAM
//! --repeat N ROW` runs one of them N times, for a profiler or strace. `tests/peers/benchmark` runs all of them.

mod child;
mod envelope;
#[path = "../../../../mcp-proto/benches/events/mod.rs"]
mod events;
mod framing;
#[path = "../../../../mcp-proto/benches/front_pair/mod.rs"]
mod front_pair;
mod held;
mod http;
#[path = "../../../../mcp-proto/benches/lean/mod.rs"]
mod lean;
#[path = "../../../../mcp-proto/benches/lines/mod.rs"]
mod lines;
mod measure;
mod memory;
#[path = "../../../../mcp-proto/benches/messages/mod.rs"]
mod messages;
mod official;
#[path = "../../../../mcp-proto/benches/pair/mod.rs"]
mod pair;
#[path = "../../../../mcp-proto/benches/raw_envelope/mod.rs"]
mod raw_envelope;
mod scale;
mod sse;

use std::process::ExitCode;

use measure::Mode;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const USAGE: &str =
    "usage: speed framing|sse|envelope|memory|child|http|scale|held [--quick | --list | --repeat N ROW]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["serve", server] = words[..] {
        return child::serve(server);
    }
    let (program, mode) = match words[..] {
        [program] => (program, Mode::Measure),
        [program, "--quick"] => (program, Mode::Quick),
        [program, "--list"] => (program, Mode::List),
        [program, "--repeat", times, row] => match times.parse() {
            Ok(times) => (program, Mode::Repeat { times, row: row.to_owned() }),
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    let programs: [(&str, fn(&Mode)); 8] = [
        ("framing", framing::run),
        ("sse", sse::run),
        ("envelope", envelope::run),
        ("memory", memory::run),
        ("child", child::run),
        ("http", http::run),
        ("scale", scale::run),
        ("held", held::run),
    ];
    let Some((_, run)) = programs.into_iter().find(|(name, _)| *name == program) else { return usage() };
    use_one_core();
    run(&mode);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Keeps this process, its threads and its children on the last core that it may use: what two parties do at the same
/// time on two cores depends on the machine more than on them.
fn use_one_core() {
    let allowed = sched_getaffinity(None).expect("the set of cores");
    let last = (0..CpuSet::MAX_CPU).rev().find(|core| allowed.is_set(*core)).expect("a core");
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).expect("the core is allowed");
}
