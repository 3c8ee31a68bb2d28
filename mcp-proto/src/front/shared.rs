//! The state that the handles and the driver of a connection share: the machine, and the waiters for its events.

use alloc::sync::Arc;
use core::task::{Poll, Waker};
use std::sync::Mutex;

use super::Clock;
use super::wakers::{Signal, Wakers, lock};
use crate::Instant;
use crate::UnixTime;

/// The front's side of a connection: dispatches the events of machine `M` to their waiters.
pub(crate) trait Core<M: ?Sized> {
    /// Takes all events out of the machine.
    fn drain(&mut self, machine: &mut M, wakers: &mut Wakers);

    /// Whether work is queued for the driver.
    fn has_work(&self) -> bool;
}

/// One connection. `Arc<Shared<C, M>>` coerces to `Arc<Shared<C, dyn Machine>>` for the handles, while the driver keeps
/// the machine's concrete type.
pub(crate) struct Shared<C, M: ?Sized> {
    clock: Arc<dyn Clock>,
    signal: Arc<Signal>,
    state: Mutex<State<C, M>>,
}

struct State<C, M: ?Sized> {
    core: C,
    machine: M,
}

impl<C, M> Shared<C, M> {
    pub(crate) fn new(core: C, machine: M, clock: Arc<dyn Clock>) -> Self {
        Self::with_signal(Arc::default(), core, machine, clock)
    }

    /// Creates a connection whose driver `signal` wakes.
    pub(crate) fn with_signal(signal: Arc<Signal>, core: C, machine: M, clock: Arc<dyn Clock>) -> Self {
        Self { clock, signal, state: Mutex::new(State { core, machine }) }
    }
}

impl<C: Core<M>, M: ?Sized> Shared<C, M> {
    /// Runs `act` under the lock, dispatches the resulting events, then calls the collected wakers outside the lock.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut C, &mut M, Instant, &mut Wakers) -> R) -> R {
        // The adapter supplies the clock: it is read outside the lock, like all foreign code.
        let now = self.clock.now();
        self.update(|core, machine, wakers| {
            let result = act(core, machine, now, wakers);
            core.drain(machine, wakers);
            result
        })
    }

    /// Like [`with`](Self::with), on behalf of a handle: wakes the driver to carry out the machine's output.
    pub(crate) fn command<R>(&self, act: impl FnOnce(&mut C, &mut M, Instant, &mut Wakers) -> R) -> R {
        let result = self.with(act);
        self.signal.notify();
        result
    }

    /// Like [`with`](Self::with), on behalf of the driver: if `act` has no work left, stores `waker` under the same
    /// lock, so that no command is missed in between.
    pub(crate) fn park<R>(&self, waker: &Waker, act: impl FnOnce(&mut M, Instant) -> Poll<R>) -> Poll<R> {
        let now = self.clock.now();
        let left = waker.clone();
        let (polled, rest) = self.update(|core, machine, wakers| {
            let polled = act(machine, now);
            core.drain(machine, wakers);
            if polled.is_ready() {
                wakers.discard(Some(left));
                return (polled, true);
            }
            let rest = self.signal.park(left, wakers);
            (polled, rest && !core.has_work())
        });
        if !rest {
            waker.wake_by_ref();
        }
        polled
    }

    /// Reads the state without changing it.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&C, &M) -> R) -> R {
        let state = lock(&self.state);
        look(&state.core, &state.machine)
    }
}

impl<C, M: ?Sized> Shared<C, M> {
    /// Runs `act`, which causes no events, under the lock, then calls the collected wakers outside the lock.
    pub(crate) fn update<R>(&self, act: impl FnOnce(&mut C, &mut M, &mut Wakers) -> R) -> R {
        let mut wakers = Wakers::default();
        let result = {
            let mut state = lock(&self.state);
            let State { core, machine } = &mut *state;
            act(core, machine, &mut wakers)
        };
        wakers.release();
        result
    }

    #[cfg(all(feature = "server", feature = "http"))]
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The time of day.
    pub(crate) fn unix_time(&self) -> UnixTime {
        self.clock.unix_time()
    }

    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }
}
