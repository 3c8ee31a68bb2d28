//! What waits for I/O and time on behalf of a driver.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
#[cfg(feature = "smol")]
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread;
use std::time::{self, Duration};

use mcp_proto::Instant;
use mcp_proto::adapter::{Clock as _, SystemClock};

/// The runtime that a driver's pipes, sockets, processes and timers use, chosen by
/// [`ClientOptions::runtime`](crate::ClientOptions::runtime) and
/// [`ServerOptions::runtime`](crate::ServerOptions::runtime).
///
/// The default is [`Smol`](Self::Smol) if the feature `smol` is enabled, whether or not the code runs inside of tokio.
/// Functions without options use the default. The choice does not affect streams that the application brings: they use
/// the runtime that they were made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeKind {
    /// async-io: works under any executor.
    #[cfg(feature = "smol")]
    #[default]
    Smol,
    /// tokio: the calls and drivers must run inside of a tokio runtime, whose I/O and time drivers are enabled. tokio
    /// panics if they are not.
    #[cfg(feature = "tokio")]
    #[cfg_attr(not(feature = "smol"), default)]
    Tokio,
}

impl RuntimeKind {
    /// Checks that it is running, and starts it if it can be started.
    pub(crate) fn start(self) -> io::Result<()> {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol => start_reactor(),
            #[cfg(feature = "tokio")]
            Self::Tokio => tokio::runtime::Handle::try_current().map(drop).map_err(io::Error::other),
        }
    }
}

/// The source of readiness and time. Without a runtime: a thread that polls its future at intervals, by
/// [`poll_at_intervals`].
pub(crate) type Reactor = Option<RuntimeKind>;

/// Starts the reactor for all I/O and timers of this crate, unless it is running.
///
/// Every function of this crate that returns an error calls this first. A program that may start without free file
/// descriptors calls it at the beginning of `main`, before any other part of smol (`smol::block_on`, `smol::spawn`),
/// which would panic.
///
/// # Errors
///
/// The system's error if the process or the system has no file descriptors left. The call may be repeated.
///
/// ```
/// fn main() -> std::io::Result<()> {
///     mcp_smol::start_reactor()?;
///     futures_lite::future::block_on(async {
///         // …
///         Ok(())
///     })
/// }
/// ```
#[cfg(feature = "smol")]
pub fn start_reactor() -> io::Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        check_descriptors()?;
        // Setting a timer is the first use of the reactor.
        let mut timer = async_io::Timer::after(Duration::from_secs(1));
        let _ = Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop()));
        *started = true;
    }
    Ok(())
}

/// Fails unless four descriptors are free: event queue, timer and wake-up of the reactor, and one spare.
#[cfg(feature = "smol")]
fn check_descriptors() -> io::Result<()> {
    let _reserved = (io::pipe()?, io::pipe()?);
    Ok(())
}

/// How far ahead a timer is set at most. Its owner sets it again if it has fired too early.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A timer that never fires until it is set.
#[derive(Debug)]
pub(crate) enum Timer {
    #[cfg(feature = "smol")]
    Smol(async_io::Timer),
    /// `None` until it is first set, which must happen inside of the runtime.
    #[cfg(feature = "tokio")]
    Tokio(Option<Pin<Box<tokio::time::Sleep>>>),
    Thread(Option<time::Instant>),
}

impl Timer {
    pub(crate) fn new(reactor: Reactor) -> Self {
        match reactor {
            #[cfg(feature = "smol")]
            Some(RuntimeKind::Smol) => Self::Smol(async_io::Timer::never()),
            #[cfg(feature = "tokio")]
            Some(RuntimeKind::Tokio) => Self::Tokio(None),
            None => Self::Thread(None),
        }
    }

    /// Makes it fire once, after this time.
    pub(crate) fn set(&mut self, after: Duration) {
        let after = after.min(FAR);
        match self {
            #[cfg(feature = "smol")]
            Self::Smol(timer) => timer.set_after(after),
            #[cfg(feature = "tokio")]
            Self::Tokio(Some(timer)) => timer.as_mut().reset(tokio::time::Instant::now() + after),
            #[cfg(feature = "tokio")]
            Self::Tokio(timer) => *timer = Some(Box::pin(tokio::time::sleep(after))),
            Self::Thread(timer) => *timer = Some(time::Instant::now() + after),
        }
    }

    /// Ready once it has fired. It must be set before it is polled again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol(timer) => Pin::new(timer).poll(cx).map(drop),
            #[cfg(feature = "tokio")]
            Self::Tokio(Some(timer)) => timer.as_mut().poll(cx),
            #[cfg(feature = "tokio")]
            Self::Tokio(None) => Poll::Pending,
            Self::Thread(timer) if timer.is_some_and(|timer| timer <= time::Instant::now()) => {
                Poll::Ready(())
            }
            Self::Thread(_) => Poll::Pending,
        }
    }
}

/// Waits for this time.
pub(crate) async fn sleep(reactor: Reactor, time: Duration) {
    let mut timer = Timer::new(reactor);
    timer.set(time);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Runs a future on this thread without a reactor: polls it whenever an interval is over, which grows to 50 ms.
pub(crate) fn poll_at_intervals<T>(future: impl Future<Output = T>) -> T {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(50);
    let mut future = pin!(future);
    let mut interval = FIRST;
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
        thread::sleep(interval);
        interval = (interval * 2).min(LONGEST);
    }
}

/// A timer that is set again only if it would fire too late.
///
/// Deadlines move with each request, mostly to later times. A timer that fires early costs one poll; setting one costs
/// a wake-up of the reactor.
pub(crate) struct Alarm {
    clock: SystemClock,
    /// When the timer fires.
    armed: Option<Instant>,
    timer: Timer,
}

impl Alarm {
    pub(crate) fn new(reactor: Reactor, clock: SystemClock) -> Self {
        Self { clock, armed: None, timer: Timer::new(reactor) }
    }

    /// Ready once the clock has reached `deadline`.
    pub(crate) fn poll_until(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        loop {
            if self.armed.is_none_or(|armed| armed > deadline) {
                let left = deadline.saturating_since(self.clock.now());
                if left.is_zero() {
                    return Poll::Ready(());
                }
                self.armed = Some(deadline);
                self.timer.set(left);
            }
            ready!(self.timer.poll(cx));
            self.armed = None;
        }
    }
}

debug_fields! { Alarm { armed } }
