//! An allocator that counts the bytes of the whole process, for test programs of their own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::common::server::wait_until;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct CountingAllocator;

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The number of bytes that are allocated.
pub(crate) fn live() -> usize {
    LIVE.load(Relaxed)
}

/// The highest number of allocated bytes since the last call.
#[allow(dead_code, reason = "one test program measures only what stays")]
pub(crate) fn take_peak() -> usize {
    PEAK.swap(live(), Relaxed)
}

/// Waits until nothing has been allocated or freed for so long.
pub(crate) fn settle(what: &str, quiet: Duration) {
    let mut last = (live(), Instant::now());
    wait_until(what, || {
        if live() != last.0 {
            last = (live(), Instant::now());
        }
        last.1.elapsed() > quiet
    });
}
