//! What the exchanges, the sessions and the handles of a server share.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use super::Entropy;
use super::hub::Hub;
use super::session::{SessionCell, SessionKey};
use crate::Instant;
use crate::bind::http::server::{HttpServerConfig, SessionId, Setup};
use crate::front::Clock;
use crate::front::signal::{Signal, lock};

pub(super) struct Service {
    pub(super) setup: Setup,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) hub: Arc<Hub>,
    /// The driver's waker slot, and the sessions that it is to poll.
    pub(super) roster: Arc<Signal<SessionKey>>,
    closing: AtomicBool,
    exchanges: Mutex<Exchanges>,
    sessions: Mutex<Sessions>,
}

/// The exchanges that run handlers, to be woken when the server closes.
#[derive(Default)]
struct Exchanges {
    signals: Vec<Option<Arc<Signal>>>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Sessions {
    table: BTreeMap<SessionId, Arc<SessionCell>>,
    /// Those that the driver has not taken over yet.
    arrivals: Vec<Arc<SessionCell>>,
    /// Whether none can be opened any more.
    refusing: bool,
}

impl Service {
    pub(super) fn new(
        config: HttpServerConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            setup: Setup::new(config),
            clock,
            entropy,
            hub: Arc::new(Hub::default()),
            roster: Arc::new(Signal::default()),
            closing: AtomicBool::new(false),
            exchanges: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    // --- Closing ---

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// From now on whoever is polled closes; and everybody is polled.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        let signals: Vec<Arc<Signal>> =
            lock(&self.exchanges).signals.iter().flatten().cloned().collect();
        let cells: Vec<Arc<SessionCell>> = lock(&self.sessions).table.values().cloned().collect();
        for signal in signals {
            signal.notify();
        }
        for cell in cells {
            cell.notify();
        }
        self.roster.notify();
    }

    // --- Exchanges ---

    /// Takes note of an exchange that is woken by `signal`, for as long as what is returned exists.
    pub(super) fn attend(self: &Arc<Self>, signal: Arc<Signal>) -> Attendance {
        let kept = Some(signal.clone());
        let mut exchanges = lock(&self.exchanges);
        let place = match exchanges.free.pop() {
            Some(place) => place,
            None => {
                exchanges.signals.push(None);
                exchanges.signals.len().saturating_sub(1)
            }
        };
        if let Some(slot) = exchanges.signals.get_mut(place) {
            *slot = kept;
        }
        Attendance { service: self.clone(), place, _signal: signal }
    }

    // --- Sessions ---

    pub(super) fn session(&self, id: SessionId) -> Option<Arc<SessionCell>> {
        lock(&self.sessions).table.get(&id).cloned()
    }

    /// Takes in a session, if it can be: the driver is told.
    pub(super) fn admit(&self, cell: &Arc<SessionCell>) -> bool {
        {
            let mut sessions = lock(&self.sessions);
            if sessions.refusing || sessions.table.len() >= self.setup.config().sessions {
                return false;
            }
            sessions.arrivals.push(cell.clone());
            sessions.table.insert(cell.id(), cell.clone());
        }
        self.roster.notify();
        true
    }

    pub(super) fn take_arrivals(&self) -> Vec<Arc<SessionCell>> {
        core::mem::take(&mut lock(&self.sessions).arrivals)
    }

    /// Takes no more sessions in. Returns those that came before.
    pub(super) fn refuse_sessions(&self) -> Vec<Arc<SessionCell>> {
        let mut sessions = lock(&self.sessions);
        sessions.refusing = true;
        core::mem::take(&mut sessions.arrivals)
    }

    /// A session is over: its id is unknown from now on.
    pub(super) fn forget(&self, cell: &SessionCell) -> Option<Arc<SessionCell>> {
        lock(&self.sessions).table.remove(&cell.id())
    }
}

/// An exchange's place among those that are woken when the server closes.
pub(super) struct Attendance {
    service: Arc<Service>,
    place: usize,
    /// Held until after the place was given up, so that it is not dropped there.
    _signal: Arc<Signal>,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut exchanges = lock(&self.service.exchanges);
        if let Some(slot) = exchanges.signals.get_mut(self.place) {
            *slot = None;
        }
        exchanges.free.push(self.place);
    }
}
