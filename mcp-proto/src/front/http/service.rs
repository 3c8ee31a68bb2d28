//! The state that the exchanges, the sessions and the handles of a server share.

use alloc::sync::Arc;
use core::future::{Future as _, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use super::HttpServerEvent;
use super::change_hub::Hub;
use super::session::SessionCell;
use super::session_table::SessionTable;
use crate::Instant;
use crate::front::clock::Entropy;
use crate::front::router::{ListenerGuard, ServedRouter};
use crate::front::tasks::TaskService;
use crate::front::wakers::{Signal, lock};
use crate::front::{Clock, HandlerMode};
use crate::inline_map::InlineMap;
use crate::peer::Principal;
use crate::peer::server::{KnownMeta, MetaCache};
use crate::prelude::*;
use crate::quota::{ByteAccount, ByteBudget, QuotaError, QuotaOwner, RateLimiter};
use crate::rpc::{Id, Raw};
use crate::schema::tasks::TaskUpdatedParams;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::transport::http::server::{
    ConnectionId, HttpResponse, HttpServerConfig, Post, RequestHead, Session, SessionId, Setup,
};

/// How long a request waits for the first poll of the driver.
const FIRST_POLL: Duration = Duration::from_secs(1);

pub(super) struct Service {
    pub(super) setup: Setup,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) hub: Arc<Hub>,
    /// The task service, if the router has tasks.
    pub(super) task_service: Option<Arc<TaskService>>,
    /// The driver's waker slot, and the sessions that are ready to be polled.
    pub(super) session_signal: Arc<Signal<SessionId>>,
    draining: AtomicBool,
    /// When a draining server closes, unless the application closes it earlier.
    closes_at: Mutex<Option<Instant>>,
    closing: AtomicBool,
    driver_polled: AtomicBool,
    /// Whether the application was told that the driver is not polled.
    unpolled_reported: AtomicBool,
    exchanges: Mutex<Exchanges>,
    pub(super) sessions: SessionTable,
    bytes: Mutex<ByteBudget>,
    metas: Mutex<MetaCache>,
    /// The registration with a live router.
    _listening: Option<ListenerGuard>,
    request_rate: Option<Mutex<RateLimiter>>,
}

/// The exchanges that run handlers, which are woken when the server closes.
#[derive(Default)]
struct Exchanges {
    signals: InlineMap<u64, Arc<Signal>>,
    next: u64,
}

impl Service {
    pub(super) fn new(
        config: HttpServerConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        router: &ServedRouter<impl HandlerMode>,
    ) -> Self {
        let sessions = SessionTable::new(config.max_sessions);
        let bytes = Mutex::new(ByteBudget::new(config.byte_limits));
        let request_rate = config.request_rate.map(|limit| Mutex::new(RateLimiter::new(limit)));
        let hub = Arc::<Hub>::default();
        let hub_listener = Arc::downgrade(&hub);
        let listening = router.listen(hub_listener);
        let task_service = router.router().task_registry().map(|registry| {
            let listening = hub.clone();
            let listener = Box::new(move |params: &TaskUpdatedParams| listening.task_updated(params));
            Arc::new(TaskService::new(registry.clone(), clock.clone(), listener))
        });
        Self {
            setup: Setup::new(config),
            clock,
            entropy,
            hub,
            task_service,
            session_signal: Arc::default(),
            draining: AtomicBool::new(false),
            closes_at: Mutex::default(),
            closing: AtomicBool::new(false),
            driver_polled: AtomicBool::new(false),
            unpolled_reported: AtomicBool::new(false),
            exchanges: Mutex::default(),
            sessions,
            bytes,
            metas: Mutex::default(),
            _listening: listening,
            request_rate,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Waits for an output of `source`, and polls again at each of its timeouts. `sleep` waits for a time.
    pub(super) async fn next_output<T, R>(
        &self,
        source: &mut T,
        next_timeout: impl Fn(&T) -> Option<Instant>,
        poll: impl Fn(&mut T, &mut Context<'_>) -> Poll<R>,
        sleep: impl AsyncFn(Duration),
    ) -> R {
        let (mut due, mut sleeping) = (None, pin!(None));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(output) = poll(source, cx) {
                    return Poll::Ready(output);
                }
                let next = next_timeout(source);
                if due != next {
                    due = next;
                    sleeping.set(due.map(|due| sleep(due.saturating_since(self.now()))));
                }
                let Some(slept) = sleeping.as_mut().as_pin_mut() else { return Poll::Pending };
                ready!(slept.poll(cx));
                // A sleep that ends early is followed by another.
                due = None;
                sleeping.set(None);
            }
        })
        .await
    }

    /// Checks that the server is not closing.
    ///
    /// # Errors
    /// The answer to the request.
    pub(super) fn check_open(&self) -> Result<(), HttpResponse> {
        if self.is_closing() { Err(HttpResponse::unavailable()) } else { Ok(()) }
    }

    /// Checks that the server accepts new subscriptions and connections, which another instance would keep longer.
    ///
    /// # Errors
    /// The answer to the request.
    pub(super) fn check_lasting(&self) -> Result<(), HttpResponse> {
        if self.is_draining() { Err(HttpResponse::unavailable()) } else { Ok(()) }
    }

    /// Checks that a request of an owner may be served now, and counts it.
    ///
    /// # Errors
    /// The answer to the request.
    pub(super) fn check_arrival(
        &self,
        head: &RequestHead<'_>,
        owner: &QuotaOwner,
    ) -> Result<(), HttpResponse> {
        if self.is_closing() {
            return Err(HttpResponse::closing(head));
        }
        self.count_request(owner).map_err(|wait| HttpResponse::too_many_requests(head, wait))
    }

    /// Counts a request of an owner.
    ///
    /// # Errors
    /// If it exceeds its rate: the time until it may send one.
    pub(super) fn count_request(&self, owner: &QuotaOwner) -> Result<(), Duration> {
        let Some(limiter) = &self.request_rate else { return Ok(()) };
        let now = self.now();
        lock(limiter).try_take(owner, now)
    }

    /// The account of an owner in the byte budget.
    pub(super) fn account(&self, owner: &QuotaOwner) -> ByteAccount {
        lock(&self.bytes).account(owner)
    }

    /// The number of bytes buffered for all clients.
    pub(super) fn bytes_used(&self) -> usize {
        lock(&self.bytes).used()
    }

    /// The most recently used entry of the cache, which the next request most likely has as well.
    pub(super) fn last_meta(&self) -> Option<Arc<KnownMeta>> {
        lock(&self.metas).last_used()
    }

    /// The cached entry for the `_meta` of a request.
    pub(super) fn find_meta(&self, meta: Option<&Raw>) -> Option<Arc<KnownMeta>> {
        meta.and_then(|meta| lock(&self.metas).find(meta))
    }

    /// Adds the `_meta` of an admitted request to the cache.
    pub(super) fn cache_meta(&self, known: Arc<KnownMeta>) {
        lock(&self.metas).insert(known);
    }

    // --- The driver ---

    /// Records that the driver is polled, or that its sessions have ended with it.
    pub(super) fn note_driver(&self) {
        if !self.driver_polled.load(Ordering::Relaxed) {
            self.driver_polled.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the driver has never been polled.
    pub(super) fn lacks_driver(&self) -> bool {
        !self.driver_polled.load(Ordering::Relaxed)
    }

    /// Until when a request waits for the first poll of the driver; `None` if that was polled.
    pub(super) fn first_poll_deadline(&self) -> Option<Instant> {
        if self.lacks_driver() { self.now().after(FIRST_POLL) } else { None }
    }

    /// Reports, once, that tasks wait for a driver that is not polled.
    pub(super) fn report_unpolled_tasks(&self) {
        if self.lacks_driver() && self.task_service.as_ref().is_some_and(|service| service.has_new()) {
            self.report_unpolled_driver();
        }
    }

    /// Reports, once, that the driver is not polled.
    pub(super) fn report_unpolled_driver(&self) {
        if !self.unpolled_reported.swap(true, Ordering::Relaxed) {
            self.hub.report(&HttpServerEvent::DriverNotPolled);
        }
    }

    // --- Closing ---

    /// Whether the server drains or closes.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.is_closing()
    }

    /// Refuses new sessions and subscriptions from now on, and lets the driver close the server after `notice`.
    pub(super) fn drain(&self, notice: Duration) {
        let due = self.now().after(notice);
        {
            let mut closes_at = lock(&self.closes_at);
            *closes_at = [*closes_at, due].into_iter().flatten().min();
        }
        self.draining.store(true, Ordering::Release);
        self.session_signal.notify();
    }

    /// When the driver must close the server.
    pub(super) fn closes_at(&self) -> Option<Instant> {
        let is_due = self.draining.load(Ordering::Acquire) && !self.is_closing();
        if is_due { *lock(&self.closes_at) } else { None }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Marks the server as closing, and wakes the driver and all exchanges.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        let signals: Vec<Arc<Signal>> = lock(&self.exchanges).signals.values().cloned().collect();
        for signal in signals {
            signal.notify();
        }
        self.session_signal.notify();
        self.hub.close();
    }

    // --- Exchanges ---

    /// Registers an exchange that `signal` wakes, for the lifetime of the returned value.
    pub(super) fn register_exchange(self: &Arc<Self>, signal: Arc<Signal>) -> ExchangeRegistration {
        let mut exchanges = lock(&self.exchanges);
        let number = exchanges.next;
        exchanges.next = number.wrapping_add(1);
        exchanges.signals.insert(number, signal);
        ExchangeRegistration { service: self.clone(), number }
    }
}

/// The registration of an exchange that is woken when the server closes.
pub(super) struct ExchangeRegistration {
    service: Arc<Service>,
    number: u64,
}

impl Drop for ExchangeRegistration {
    fn drop(&mut self) {
        let signal = lock(&self.service.exchanges).signals.remove(&self.number);
        // Not under the lock.
        drop(signal);
    }
}

impl Service {
    /// Opens a session with the handshake that was posted; returns its answer.
    pub(super) fn open_session(
        &self,
        post: Post,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Result<HttpResponse, HttpResponse> {
        self.check_room(&owner, post.request_id())?;
        let id = self.fresh_id();
        let (session, answer) = Session::open(&self.setup, id, post, self.now())?;
        self.admit(id, session, owner, principal)?;
        Ok(answer)
    }

    /// Opens a session for a client of 2024-11-05, which has one stream.
    pub(super) fn open_legacy_session(
        &self,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Result<(Arc<SessionCell>, ConnectionId), HttpResponse> {
        self.check_room(&owner, None)?;
        let id = self.fresh_id();
        let (mut session, connection) = Session::open_legacy(&self.setup, id, self.now());
        session.charge(&self.account(&owner));
        Ok((self.admit(id, session, owner, principal)?, connection))
    }

    //= S10.9 "handles random and bound to user"
    fn fresh_id(&self) -> SessionId {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        SessionId::from_entropy(bytes)
    }

    /// Checks that an owner can open a session now, before the work of opening it.
    fn check_room(&self, owner: &QuotaOwner, request: Option<&Id>) -> Result<(), HttpResponse> {
        let has_room = !self.is_draining() && self.sessions.has_room(owner);
        if has_room { Ok(()) } else { Err(HttpResponse::too_many_sessions(request)) }
    }

    /// Adds a session and wakes the driver.
    fn admit(
        &self,
        id: SessionId,
        session: Session,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Result<Arc<SessionCell>, HttpResponse> {
        let cell = SessionCell::new(&self.hub, self.clock.clone(), id, session, owner, principal);
        let added = self.sessions.add(cell.clone());
        added.map_err(|QuotaError| HttpResponse::too_many_sessions(None))?;
        self.session_signal.notify();
        Ok(cell)
    }
}
