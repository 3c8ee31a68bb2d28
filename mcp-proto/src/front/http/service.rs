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
use crate::bind::http::server::HttpServerConfig;
use crate::front::Clock;
use crate::front::signal::{Signal, lock};

pub(super) struct Service {
    config: Arc<HttpServerConfig>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    hub: Arc<Hub>,
    closing: AtomicBool,
    exchanges: Mutex<Exchanges>,
    sessions: Mutex<Sessions>,
    /// The driver's waker slot, and the sessions that it is to poll.
    roster: Arc<Signal<SessionKey>>,
}

/// The exchanges that run handlers, to be woken when the server closes.
#[derive(Default)]
struct Exchanges {
    signals: Vec<Option<Arc<Signal>>>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Sessions {
    table: BTreeMap<Arc<str>, Arc<SessionCell>>,
    /// Those that the driver has not taken over yet.
    arrivals: Vec<Arc<SessionCell>>,
    next: u64,
    /// Whether none can be opened any more.
    refusing: bool,
}
