//! Standard input and output through threads, which wake this one. **Untested.**

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Duration;

use super::LONGEST_SLEEP;
use crate::stdio::stdio;
use crate::{Stdin, Stdout};

pub(super) type Reader = Stdin;
pub(super) type Writer = Stdout;

pub(super) fn streams() -> io::Result<(Reader, Writer)> {
    stdio()
}

/// The sleep of a thread, which ends when it is woken, or with time.
pub(super) struct Sleeper {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Sleeper {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { is_woken: AtomicBool::new(false), thread: thread::current() }))
    }

    /// Forgets wakes before now.
    pub(super) fn start_polling(&self) {
        self.is_woken.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::SeqCst)
    }

    /// Sleeps for `time` at most, and not at all if woken since [`start_polling`](Self::start_polling).
    pub(super) fn sleep(&self, _: (&mut Reader, &mut Writer), time: Option<Duration>) -> io::Result<()> {
        if !self.is_woken() {
            thread::park_timeout(time.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP));
        }
        Ok(())
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}
