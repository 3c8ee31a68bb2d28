//! Medians over interleaved rounds, an allocator that counts while it is asked to, and the tables of a program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
/// Off while time is measured: programs that allocate more would pay more for the count.
static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes allocated and not freed while counting.
static HEAP_BYTES: AtomicI64 = AtomicI64::new(0);

struct CountingAllocator;

fn count(allocations: u64, bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
        HEAP_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `act`; returns its result, the number of allocations, and the bytes that it leaves on the heap.
pub(crate) fn counted<T>(act: impl FnOnce() -> T) -> (T, u64, i64) {
    let before = (ALLOCATIONS.load(Ordering::Relaxed), HEAP_BYTES.load(Ordering::Relaxed));
    COUNTING.store(true, Ordering::Relaxed);
    let made = act();
    COUNTING.store(false, Ordering::Relaxed);
    let after = (ALLOCATIONS.load(Ordering::Relaxed), HEAP_BYTES.load(Ordering::Relaxed));
    (made, after.0 - before.0, after.1 - before.1)
}

/// The task of this process, from the command line.
pub(crate) enum Mode {
    /// Medians of many rounds.
    Measure,
    /// Each row once, to see that it works.
    Quick,
    /// One row, a number of times: for a profiler and for strace.
    Repeat { times: u32, row: String },
    /// The names of all rows.
    List,
}

/// A candidate of a table. It is built only if it runs.
pub(crate) struct Row {
    name: &'static str,
    requests: u32,
    limit: Option<&'static str>,
    build: Box<dyn FnOnce() -> Box<dyn FnMut()>>,
}

impl Row {
    /// A row whose run, which `build` returns, does `requests` requests.
    pub(crate) fn new<F: FnMut() + 'static>(
        name: &'static str,
        requests: u32,
        build: impl FnOnce() -> F + 'static,
    ) -> Self {
        Self { name, requests, limit: None, build: Box::new(move || Box::new(build())) }
    }

    /// Names this row's limit if it is not the table's first row.
    pub(crate) fn limit(mut self, name: &'static str) -> Self {
        self.limit = Some(name);
        self
    }
}

/// The work of one run of a table's rows.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// A request, or something else that is counted.
    Each,
    /// This number of bytes.
    Bytes(usize),
}

/// Rows that do the same work. The first is the limit.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    /// The row that the last column compares with.
    pub(crate) peer: &'static str,
    pub(crate) rows: Vec<Row>,
}

struct Cost {
    nanoseconds: f64,
    allocations: f64,
}

const ROUNDS: usize = 151;
/// Short, so that a disturbance spoils few rounds; a run that takes longer is a round.
const ROUND: Duration = Duration::from_millis(4);
/// The time that a row may take, beyond three rounds: one that is thousands of times slower than the limit needs fewer.
const LONGEST: Duration = Duration::from_secs(4);

impl Table {
    /// Measures the rows in turns and prints them as a Markdown table.
    pub(crate) fn run(self, mode: &Mode) {
        match mode {
            Mode::List => {
                self.rows.iter().for_each(|row| println!("{}: {}", self.title, row.name));
                return;
            }
            Mode::Repeat { times, row } => {
                let wanted = row.strip_prefix(&self.title).and_then(|rest| rest.strip_prefix(": "));
                if let Some(row) = self.rows.into_iter().find(|row| Some(row.name) == wanted) {
                    let mut run = (row.build)();
                    (0..*times).for_each(|_| run());
                }
                return;
            }
            Mode::Measure | Mode::Quick => {}
        }
        let names: Vec<_> = self.rows.iter().map(|row| (row.name, row.requests, row.limit)).collect();
        let runs: Vec<_> = self.rows.into_iter().map(|row| (row.build)()).collect();
        let mut costs = measure(runs, matches!(mode, Mode::Quick));
        for (cost, (_, requests, _)) in costs.iter_mut().zip(&names) {
            cost.nanoseconds /= f64::from(*requests);
            cost.allocations /= f64::from(*requests);
        }
        let of = |name: &str| {
            let at = names.iter().position(|(other, ..)| *other == name);
            at.map_or(f64::NAN, |at| costs[at].nanoseconds)
        };
        println!("\n### {}\n", self.title);
        let speed = if let Unit::Bytes(_) = self.unit { "GB/s" } else { "per second" };
        println!("| | {speed} | µs | allocations | of the limit | × {} |", self.peer);
        println!("|---|--:|--:|--:|--:|--:|");
        for (cost, (name, _, limit)) in costs.iter().zip(&names) {
            let speed = match self.unit {
                Unit::Bytes(bytes) => format!("{:.2}", bytes as f64 / cost.nanoseconds),
                Unit::Each => grouped(1e9 / cost.nanoseconds),
            };
            println!(
                "| {name} | {speed} | {} | {} | {:.2} | {} |",
                significant(cost.nanoseconds / 1e3),
                significant(cost.allocations),
                of(limit.unwrap_or(names[0].0)) / cost.nanoseconds,
                significant(of(self.peer) / cost.nanoseconds),
            );
        }
    }
}

/// Three significant digits.
fn significant(number: f64) -> String {
    let digits = if number == 0.0 { 0 } else { 2 - number.abs().log10().floor() as i32 };
    let decimals = digits.clamp(0, 3) as usize;
    format!("{number:.decimals$}")
}

/// A whole number with its thousands apart.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Measures the runs in turns, so that a change of the machine's speed affects all of them.
fn measure(mut runs: Vec<Box<dyn FnMut()>>, quick: bool) -> Vec<Cost> {
    let mut counts = Vec::new();
    let mut allocations = Vec::new();
    for run in &mut runs {
        run();
        allocations.push(counted(&mut *run).1);
        let start = Instant::now();
        let mut count = 0u32;
        while count == 0 || (start.elapsed() < ROUND && !quick) {
            run();
            count += 1;
        }
        counts.push(count);
    }
    let rounds = if quick { 1 } else { ROUNDS };
    let mut times = vec![Vec::with_capacity(rounds); runs.len()];
    let mut spent = vec![Duration::ZERO; runs.len()];
    for _ in 0..rounds {
        for (n, run) in runs.iter_mut().enumerate() {
            if times[n].len() >= 3 && spent[n] > LONGEST {
                continue;
            }
            let start = Instant::now();
            (0..counts[n]).for_each(|_| run());
            let elapsed = start.elapsed();
            spent[n] += elapsed;
            times[n].push(elapsed.as_nanos() as f64 / f64::from(counts[n]));
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    times
        .into_iter()
        .zip(allocations)
        .map(|(times, allocations)| Cost { nanoseconds: median(times), allocations: allocations as f64 })
        .collect()
}
