//! Growth of work with the size of the input: the exponent for each shape of input, at 1, 2, 4 and 8 MiB.
//!
//! `cargo bench -p mcp-proto --all-features --bench growth`. Arguments select the shapes whose names contain one of
//! them. The exit code is 1 if an exponent is over 1.5: that of `n log n` is below 1.1, memory that outgrows the caches
//! adds up to 0.3, and that of `n²` is 2.
//!
//! `tests/growth` counts instructions instead: with `--list` this program writes the names of the shapes, and with `--once
//! NAME BYTES` it does the work of one shape once.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/protocol/growth/shapes/mod.rs"]
mod shapes;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use shapes::{Shape, Work};

const MIB: usize = 1 << 20;
const SIZES: [usize; 4] = [MIB, 2 * MIB, 4 * MIB, 8 * MIB];
const ROUNDS: usize = 3;
const MOST: f64 = 1.5;
/// Times below this are not measured exactly, and no attack.
const NOTHING: Duration = Duration::from_micros(200);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            shapes::all().iter().for_each(|shape| println!("{}", shape.name));
            return ExitCode::SUCCESS;
        }
        ["--once", name, bytes] => {
            let shape = shapes::all().into_iter().find(|shape| shape.name == name).expect("a shape");
            do_work((shape.prepare)(bytes.parse().expect("a number of bytes")));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let wanted: Vec<String> = arguments.into_iter().filter(|argument| !argument.starts_with("--")).collect();
    println!(
        "{:48} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "1 MiB/ms", "2 MiB/ms", "4 MiB/ms", "8 MiB/ms", "exponent"
    );
    let mut steepest = f64::MIN;
    for shape in shapes::all() {
        if !wanted.is_empty() && !wanted.iter().any(|part| shape.name.contains(part.as_str())) {
            continue;
        }
        let mut measured = measure(shape);
        // Measure again: interference by other processes is unlikely to recur.
        for _ in 0..2 {
            if measured.1 > MOST {
                let again = measure(shape);
                measured = if again.1 < measured.1 { again } else { measured };
            }
        }
        let (times, exponent) = measured;
        let [one, two, four, eight] = times.map(|time| time.as_secs_f64() * 1e3);
        println!("{:48} {one:>9.2} {two:>9.2} {four:>9.2} {eight:>9.2} {exponent:>9.2}", shape.name);
        steepest = steepest.max(exponent);
    }
    println!("the largest exponent is {steepest:.2}; the limit is {MOST}");
    ExitCode::from(u8::from(steepest > MOST))
}

/// A function of its own, whose instructions can be counted.
#[inline(never)]
fn do_work(work: Work) {
    work();
}

/// The least time at each size, and the exponent of its growth: the median of the three steps.
fn measure(shape: Shape) -> ([Duration; 4], f64) {
    let mut times = [Duration::MAX; 4];
    for _ in 0..ROUNDS {
        for (size, least) in SIZES.into_iter().zip(&mut times) {
            let work = (shape.prepare)(size);
            let start = Instant::now();
            do_work(work);
            *least = (*least).min(start.elapsed());
        }
    }
    if times[3] < NOTHING {
        return (times, 0.0);
    }
    let logarithms = times.map(|time| time.as_secs_f64().max(1e-9).log2());
    let mut steps = [0, 1, 2].map(|size| logarithms[size + 1] - logarithms[size]);
    steps.sort_by(f64::total_cmp);
    (times, steps[1])
}
