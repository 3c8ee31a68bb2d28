//! The state that the handles and the driver of a connection share: the machine, and the waiters for its events.

use alloc::sync::Arc;
use core::task::{Poll, Waker};

use super::Clock;
use super::events::{EventSource, ListenerEvent, Listeners};
use super::notification::{Notification, NotificationQueue};
use super::request_slots::{RequestSlots, RequestTable};
use super::wakers::{Signal, WaitPoint, Waiters, Wakers, lock};
use crate::inline_map::InlineQueue;
use crate::peer::{LostReason, Outcome, Passage, Principal, RequestId};
use crate::prelude::*;
use crate::rpc::Id;
use crate::schema::{ProgressParams, Revision};
use crate::sync::Mutex;
use crate::{Instant, Limits, UnixTime};

/// The methods that both drivers share.
macro_rules! driver_methods {
    () => {
        /// Runs `act` on the machine, to pass an input or poll an output.
        ///
        /// The resulting events are delivered to their waiters.
        ///
        /// `act` runs under a lock that the handles take as well: it must not block or use them.
        pub fn lock<R>(&mut self, act: impl FnOnce(&mut M, Instant) -> R) -> R {
            MessageLayers::lock(&mut self.message_layers, &*self.shared, act)
        }

        /// How the connection ended; `None` while it is open.
        #[must_use]
        pub fn closed(&self) -> Option<CloseReason> {
            self.shared.read(|core, _| core.common.closed.clone())
        }

        /// Waits for output, in adapters that await several things at once: output, input, and the end of a sleep until `due`.
        ///
        /// Runs handlers and the timeouts that are due, then calls `take` like [`lock`](Self::lock): it polls the machine for
        /// one output, or returns `None` if there is none.
        ///
        /// Without an output it returns `None` if the connection has ended, or if [`next_timeout`](Self::next_timeout) is no
        /// longer `due`, so that the adapter must start another sleep. A command can cause either without an output. The adapter ends
        /// at a `None` when the connection has [ended](Self::closed), not before: outputs may be left then.
        ///
        /// Dropping the future loses nothing. [`adapter::guide`](crate::adapter::guide) has an adapter that uses it.
        pub async fn next_output<R>(
            &mut self,
            due: Option<Instant>,
            mut take: impl FnMut(&mut M, Instant) -> Option<R>,
        ) -> Option<R> {
            core::future::poll_fn(|cx| {
                let polled = self.poll(cx, |machine, now| {
                    machine.handle_timeout(now);
                    take(machine, now).map_or(Poll::Pending, Poll::Ready)
                });
                match polled {
                    Poll::Pending if self.closed().is_some() || self.next_timeout() != due => {
                        Poll::Ready(None)
                    }
                    polled => polled.map(Some),
                }
            })
            .await
        }
    };
}
pub(in crate::front) use driver_methods;

/// The state of a connection that is the same in either role. `E` are its events, `R` is the reason of its end, `W` is
/// work for its driver, and `T` the data for the contexts of notifications.
pub(crate) struct ConnectionState<E, R, W, T> {
    pub(crate) slots: RequestSlots,
    /// How the connection ended.
    pub(crate) closed: Option<R>,
    /// Whether the driver is dropped, so that no output of the machine is carried out any more.
    pub(crate) driver_dropped: bool,
    /// The tasks that wait for a change of the connection.
    pub(crate) waiters: Waiters,
    /// Allocated with the first: most connections of a server have none.
    listeners: Option<Box<Listeners<E>>>,
    /// Requests of the peer, queued for the driver.
    pub(crate) work: InlineQueue<W>,
    /// The notifications that wait for their handlers, if there are handlers.
    pub(crate) notifications: Option<Box<NotificationQueue<T>>>,
}

impl<E, R, W, T> Default for ConnectionState<E, R, W, T> {
    fn default() -> Self {
        Self {
            slots: RequestSlots::default(),
            closed: None,
            driver_dropped: false,
            waiters: Waiters::default(),
            listeners: None,
            work: InlineQueue::default(),
            notifications: None,
        }
    }
}

impl<E: ListenerEvent, R: Clone, W, T> ConnectionState<E, R, W, T> {
    /// Adds a listener, whose first event is the last one, `end`, if the connection has ended.
    pub(crate) fn add_listener(&mut self, end: fn(R) -> E) -> u64 {
        let closed = &self.closed;
        let listeners = self.listeners.get_or_insert_with(|| {
            let mut listeners = Box::<Listeners<E>>::default();
            if let Some(closed) = closed {
                listeners.finish(end(closed.clone()), &mut Wakers::default());
            }
            listeners
        });
        listeners.add()
    }

    pub(crate) fn publish(&mut self, event: &E, wakers: &mut Wakers) {
        if let Some(listeners) = &mut self.listeners {
            listeners.publish(event, wakers);
        }
    }

    /// Notes the end of the connection, and publishes the last event, `end`.
    pub(crate) fn finish(&mut self, closed: R, end: fn(R) -> E, wakers: &mut Wakers) {
        if let Some(listeners) = &mut self.listeners {
            listeners.finish(end(closed.clone()), wakers);
        }
        self.closed = Some(closed);
        wakers.wake_all(&mut self.waiters);
    }

    /// Queues a notification for its handler, if it has one. Returns the number of notifications that were dropped for
    /// it.
    pub(crate) fn queue_notification(
        &mut self,
        notification: &Notification,
        context: impl FnOnce() -> T,
    ) -> Option<u64> {
        self.notifications.as_mut()?.push(notification, context)
    }

    /// Whether work is queued for the driver.
    fn has_work(&self) -> bool {
        !self.work.is_empty() || self.notifications.as_ref().is_some_and(|queue| queue.is_ready())
    }

    /// Whether no work is queued and no handler of a notification is running.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.work.is_empty() && self.notifications.as_ref().is_none_or(|queue| queue.is_idle())
    }

    pub(crate) fn take_work(&mut self) -> InlineQueue<W> {
        core::mem::take(&mut self.work)
    }

    /// Handles the drop of the driver: resolves all pending requests as lost. Returns the work that was not started.
    pub(crate) fn handle_driver_dropped(&mut self, wakers: &mut Wakers) -> InlineQueue<W> {
        self.driver_dropped = true;
        self.notifications = None;
        self.slots.resolve_all(&LostReason::DriverDropped, wakers);
        wakers.wake_all(&mut self.waiters);
        self.take_work()
    }
}

/// The front's side of a connection: dispatches the events of machine `M` to their waiters.
pub(crate) trait Core<M: ?Sized> {
    type Event: ListenerEvent + 'static;
    type End: Clone + 'static;
    type Work: 'static;
    type Context: 'static;

    /// The state that is the same in either role.
    fn common(&mut self) -> &mut ConnectionState<Self::Event, Self::End, Self::Work, Self::Context>;

    /// Takes all events out of the machine.
    fn drain(&mut self, machine: &mut M, wakers: &mut Wakers);
}

/// The front's side of a connection whose messages pass through layers.
pub(in crate::front) trait LayeredCore<M>: Core<M> + Sized {
    fn limits(machine: &M) -> &Limits;
    fn passage(machine: &mut M) -> Option<&mut dyn Passage>;
    fn handle_timeout(machine: &mut M, now: Instant);
    /// Ends the connection.
    fn abort(machine: &mut M, now: Instant, why: LostReason);
    /// The revision in use, once it is known.
    fn revision(machine: &M) -> Option<Revision>;
    /// The principal of a server's client.
    fn principal(machine: &M) -> Option<Principal> {
        let _ = machine;
        None
    }
    /// Keeps the answer to a request of this client out of its cache.
    fn withhold_answer(machine: &mut M, now: Instant, id: &Id) {
        let _ = (machine, now, id);
    }
    /// Reports messages that a layer wanted to drop and that cannot be dropped.
    fn report_undropped(shared: &Shared<Self, M>, messages: Vec<String>);
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
        self.with_events(|core, machine, wakers| act(core, machine, now, wakers))
    }

    /// Like [`with`](Self::with), for a caller that has read the clock or needs no time.
    pub(crate) fn with_events<R>(&self, act: impl FnOnce(&mut C, &mut M, &mut Wakers) -> R) -> R {
        self.update(|core, machine, wakers| {
            let result = act(core, machine, wakers);
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
    pub(crate) fn park<R>(
        &self,
        now: Instant,
        waker: &Waker,
        act: impl FnOnce(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        let left = waker.clone();
        let (polled, rest) = self.update(|core, machine, wakers| {
            let polled = act(machine, now);
            core.drain(machine, wakers);
            if polled.is_ready() {
                wakers.discard(Some(left));
                return (polled, true);
            }
            let rest = self.signal.park(left, wakers);
            (polled, rest && !core.common().has_work())
        });
        if !rest {
            waker.wake_by_ref();
        }
        polled
    }

    /// Takes the next notification for its handler, unless one is running.
    pub(crate) fn begin_notification(&self) -> Option<(Notification, C::Context)> {
        self.with_events(|core, _, _| core.common().notifications.as_mut()?.begin())
    }

    /// Notes that the handler of a notification has finished.
    pub(crate) fn end_notification(&self) {
        self.with_events(|core, _, _| core.common().notifications.as_mut().map(|queue| queue.finish()));
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

    /// Reads the state without changing it.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&C, &M) -> R) -> R {
        let state = lock(&self.state);
        look(&state.core, &state.machine)
    }

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

debug_fields! { [C, M: ?Sized] Shared<C, M> {} }

impl<C: Core<M>, M: ?Sized> WaitPoint for Shared<C, M> {
    type State = C;

    fn visit<R>(&self, act: impl FnOnce(&mut C, &mut Wakers) -> R) -> R {
        self.with_events(|core, _, wakers| act(core, wakers))
    }

    fn waiters<'s>(&self, core: &'s mut C) -> Option<&'s mut Waiters> {
        Some(&mut core.common().waiters)
    }
}

impl<C: Core<M> + Send, M: Send + ?Sized> EventSource<C::Event> for Arc<Shared<C, M>> {
    fn poll_event(&self, key: u64, waker: Waker) -> Poll<Option<C::Event>> {
        self.with_events(|core, _, wakers| match &mut core.common().listeners {
            Some(listeners) => listeners.poll(key, waker, wakers),
            None => {
                wakers.discard(Some(waker));
                Poll::Ready(None)
            }
        })
    }

    fn leave(&self, key: u64) {
        self.with_events(|core, _, wakers| {
            if let Some(listeners) = &mut core.common().listeners {
                listeners.remove(key, wakers);
            }
        });
    }
}

impl<C: Core<M> + Send, M: Send + ?Sized> RequestTable for Arc<Shared<C, M>> {
    fn poll_progress(&self, request: RequestId, waker: Waker) -> Poll<Option<ProgressParams>> {
        self.update(|core, _, wakers| core.common().slots.poll_progress(request, waker, wakers))
    }

    fn missed_progress(&self, request: RequestId) -> u64 {
        self.update(|core, _, _| core.common().slots.missed_progress(request))
    }

    fn poll_outcome(&self, request: RequestId, waker: Waker) -> Poll<Outcome> {
        self.update(|core, _, wakers| core.common().slots.poll_outcome(request, waker, wakers))
    }
}
