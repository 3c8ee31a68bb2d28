//! Reads the pipe into the ring, independently of any task.

use std::io;
use std::process::ChildStderr;
use std::sync::{Arc, Mutex};

use super::lock;
use super::ring::Ring;

#[cfg(unix)]
pub(super) use unix::Drain;
#[cfg(windows)]
pub(super) use windows::Drain;

#[cfg(unix)]
mod unix {
    use std::pin::Pin;
    use std::sync::Weak;
    use std::task::{Context, Poll, Wake, Waker};

    use async_io::Async;
    use futures_lite::AsyncRead;

    use super::*;

    /// Large enough to take short output in one read, small enough for the stack.
    const CHUNK: usize = 8 * 1024;
    /// Reads before the thread that waits for I/O returns to its other work; together a whole pipe of the usual
    /// 64 KiB.
    const READS: usize = 8;

    /// The pipe, and a waker that reads it: readiness of the pipe triggers the read, without a task.
    #[derive(Clone)]
    pub(in super::super) struct Drain(Arc<Source>);

    struct Source {
        pipe: Mutex<Option<Async<ChildStderr>>>,
        ring: Arc<Mutex<Ring>>,
        /// The only waker used: a pipe's readiness has room for one, and a second would displace it.
        waker: Waker,
    }

    /// Weak, as the pipe holds its waker: the descriptor is closed with the last handle.
    struct Readable(Weak<Source>);

    impl Wake for Readable {
        fn wake(self: Arc<Self>) {
            if let Some(source) = self.0.upgrade() {
                source.read();
            }
        }
    }

    impl Drain {
        pub(in super::super) fn new(pipe: ChildStderr, ring: Arc<Mutex<Ring>>) -> io::Result<Self> {
            let pipe = Mutex::new(Some(Async::new(pipe)?));
            let source = Arc::new_cyclic(|source| Source {
                pipe,
                ring,
                waker: Waker::from(Arc::new(Readable(source.clone()))),
            });
            source.read();
            Ok(Self(source))
        }

        pub(in super::super) fn catch_up(&self) {
            self.0.read();
        }
    }

    impl Source {
        /// Reads the available bytes, without blocking, and registers the waker for more.
        fn read(&self) {
            let mut wakers = Vec::new();
            {
                let mut pipe = lock(&self.pipe);
                let Some(source) = pipe.as_mut() else { return };
                if !self.read_some(source, &mut wakers) {
                    *pipe = None;
                    wakers.append(&mut lock(&self.ring).close());
                }
            }
            for (_, waker) in wakers {
                waker.wake();
            }
        }

        /// Whether more may come.
        fn read_some(&self, pipe: &mut Async<ChildStderr>, wakers: &mut Vec<(u64, Waker)>) -> bool {
            let mut cx = Context::from_waker(&self.waker);
            let mut chunk = [0; CHUNK];
            for _ in 0..READS {
                match Pin::new(&mut *pipe).poll_read(&mut cx, &mut chunk) {
                    Poll::Pending => return true,
                    Poll::Ready(Ok(0)) => return false,
                    Poll::Ready(Ok(length)) => {
                        if let Some(bytes) = chunk.get(..length) {
                            wakers.append(&mut lock(&self.ring).push(bytes));
                        }
                    }
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Poll::Ready(Err(_)) => return false,
                }
            }
            // More is available. The next event comes at once, but only once the waker is registered, and that happens
            // only after the current event, which is already past, has been consumed.
            loop {
                match pipe.poll_readable(&mut cx) {
                    Poll::Pending => return true,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return false,
                }
            }
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::io::Read as _;
    use std::thread;

    use super::*;

    #[derive(Clone)]
    pub(in super::super) struct Drain;

    impl Drain {
        pub(in super::super) fn new(mut pipe: ChildStderr, ring: Arc<Mutex<Ring>>) -> io::Result<Self> {
            let read = move || {
                let mut chunk = [0; 8 * 1024];
                loop {
                    let wakers = match pipe.read(&mut chunk) {
                        Ok(0) => break,
                        Ok(length) => lock(&ring).push(chunk.get(..length).unwrap_or_default()),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(_) => break,
                    };
                    wakers.into_iter().for_each(|(_, waker)| waker.wake());
                }
                let wakers = lock(&ring).close();
                wakers.into_iter().for_each(|(_, waker)| waker.wake());
            };
            thread::Builder::new().name("mcp-stderr".into()).spawn(read)?;
            Ok(Self)
        }

        /// Does nothing: the thread is behind by at most its wake-up time.
        pub(in super::super) fn catch_up(&self) {}
    }
}
