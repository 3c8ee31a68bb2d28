//! Measurements for the benchmarks: the quickest of interleaved rounds, and an allocator that counts.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 301;
/// The length of a round: short, so that most rounds are not interrupted on a busy machine.
const ROUND: Duration = Duration::from_millis(1);

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes allocated and not freed.
static HEAP_BYTES: AtomicU64 = AtomicU64::new(0);

struct CountingAllocator;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HEAP_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HEAP_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HEAP_BYTES.fetch_add(size as u64, Ordering::Relaxed);
        HEAP_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `make`; returns the number of bytes that it leaves on the heap, and its result.
#[allow(dead_code, reason = "not every benchmark measures memory")]
pub(crate) fn heap_growth<T>(make: impl FnOnce() -> T) -> (u64, T) {
    let before = HEAP_BYTES.load(Ordering::Relaxed);
    let made = make();
    (HEAP_BYTES.load(Ordering::Relaxed).saturating_sub(before), made)
}

/// The cost of one run of a candidate.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// The minimum over the rounds, which leaves out what other processes took.
    pub(crate) nanoseconds: f64,
    /// The number of allocations of the second run.
    pub(crate) allocations: u64,
}

/// Measures the candidates in turns, so that a change of the machine's speed affects all of them.
pub(crate) fn measure<const N: usize>(mut candidates: [&mut dyn FnMut(); N]) -> [Cost; N] {
    let mut runs = [0u32; N];
    let mut allocations = [0; N];
    for (n, candidate) in candidates.iter_mut().enumerate() {
        candidate();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        candidate();
        allocations[n] = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < ROUND {
            candidate();
            count += 1;
        }
        runs[n] = count.max(1);
    }
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (n, candidate) in candidates.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..runs[n] {
                candidate();
            }
            times[n].push(start.elapsed().as_nanos() as f64 / f64::from(runs[n]));
        }
    }
    std::array::from_fn(|n| {
        let nanoseconds = times[n].iter().copied().fold(f64::INFINITY, f64::min);
        Cost { nanoseconds, allocations: allocations[n] }
    })
}
