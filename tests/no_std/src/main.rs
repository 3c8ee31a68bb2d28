//! A client without the standard library: its own allocator, its own panic handler, and a whole session in memory.
//! With an argument it is a server on its standard streams instead, as [`pipe`] has it. The exit code is the result.
#![no_std]
#![no_main]

extern crate alloc;

mod pipe;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use mcp_proto::peer::client::{ClientConfig, Event, LinkAction, State};
use mcp_proto::peer::server::{self, Answer, ServerConfig};
use mcp_proto::peer::{Outcome, RequestOptions};
use mcp_proto::schema::{
    Implementation, List, ListTools, ListToolsResult, PaginatedParams, ServerCapability,
};
use mcp_proto::transport::{StreamClient, StreamServer};
use mcp_proto::{Bytes, Instant};

const HEAP: usize = 4 * 1024 * 1024;

/// Allocates from a fixed piece of memory and frees nothing: enough for a short program.
struct Bump {
    heap: UnsafeCell<[u8; HEAP]>,
    used: AtomicUsize,
}

// SAFETY: an atomic counter hands out every byte of the heap once.
unsafe impl Sync for Bump {}

// SAFETY: each block lies within the heap, is aligned as requested, and is handed out once.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.heap.get() as usize;
        let take = |used: usize| {
            let start = (base + used).next_multiple_of(layout.align()) - base;
            Some(start + layout.size()).filter(|&end| end <= HEAP)
        };
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(used) => {
                let start = (base + used).next_multiple_of(layout.align()) - base;
                // SAFETY: `take` has checked that it lies within the heap.
                unsafe { self.heap.get().cast::<u8>().add(start) }
            }
            Err(_) => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Bump = Bump { heap: UnsafeCell::new([0; HEAP]), used: AtomicUsize::new(0) };

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: `abort` of the C library takes no arguments and does not return.
    unsafe { abort() }
}

/// Named by the precompiled `alloc`, and never called: nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
    fn poll(descriptors: *mut PollDescriptor, count: u64, milliseconds: i32) -> i32;
    fn read(descriptor: i32, buffer: *mut u8, length: usize) -> isize;
    fn write(descriptor: i32, bytes: *const u8, length: usize) -> isize;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

#[repr(C)]
struct PollDescriptor {
    descriptor: i32,
    events: i16,
    returned: i16,
}

/// In place of a serial line: the standard streams of a program on Linux.
struct StandardStreams;

impl pipe::BytePipe for StandardStreams {
    fn read(&mut self, buffer: &mut [u8], timeout: Option<Duration>) -> Option<usize> {
        let milliseconds = timeout.map_or(-1, |timeout| timeout.as_millis().clamp(1, 1 << 30) as i32);
        let mut input = PollDescriptor { descriptor: 0, events: 1, returned: 0 };
        // SAFETY: it gets one descriptor, as it is told.
        if unsafe { poll(&mut input, 1, milliseconds) } == 0 {
            return Some(0);
        }
        // SAFETY: it writes at most the length of the buffer.
        let count = unsafe { read(0, buffer.as_mut_ptr(), buffer.len()) };
        usize::try_from(count).ok().filter(|&count| count > 0)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            // SAFETY: it reads at most the length of the bytes.
            let count = unsafe { write(1, bytes.as_ptr(), bytes.len()) };
            bytes = bytes.get(usize::try_from(count).ok()?..)?;
        }
        Some(())
    }

    fn now(&self) -> Duration {
        let mut time = [0; 2];
        // SAFETY: a `timespec` is two numbers of this size. 1 is the monotonic clock.
        unsafe { clock_gettime(1, &mut time) };
        Duration::new(time[0] as u64, time[1] as u32)
    }
}

#[unsafe(no_mangle)]
extern "C" fn main(arguments: i32) -> i32 {
    let done = if arguments > 1 { pipe::serve(&mut StandardStreams) } else { converse() };
    match done {
        Some(()) => 0,
        None => 1,
    }
}

/// A client and a server of this crate, joined by two buffers.
fn converse() -> Option<()> {
    let now = Instant::ORIGIN;
    let mut client = StreamClient::new(ClientConfig::new(Implementation::new("bare", "1")));
    let mut config = ServerConfig::new(Implementation::new("metal", "1"));
    config.capabilities = config.capabilities.with(ServerCapability::Tools);
    let mut server = StreamServer::new(config);
    let request =
        client.at(now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).ok()?;
    (client.poll_link() == Some(LinkAction::Open)).then_some(())?;
    client.handle_open(now);
    for _ in 0..8 {
        let mut sent = Vec::new();
        if client.poll_transmit(&mut sent) {
            server.handle_input(now, Bytes::from(sent));
        }
        while let Some(event) = server.poll_event() {
            if let server::Event::Request { id, .. } = event {
                server.at(now).respond(id, Answer::Result(&ListToolsResult::new(List::new())));
            }
        }
        let mut sent = Vec::new();
        if server.poll_transmit(&mut sent) {
            client.handle_input(now, Bytes::from(sent));
        }
    }
    (client.state() == State::Ready).then_some(())?;
    while let Some(event) = client.poll_event() {
        if let Event::Outcome { request: ended, outcome: Outcome::Result(_) } = event {
            return (ended == request).then_some(());
        }
    }
    None
}
