//! Activity, deadlines and limits of one connection.
//!
//! The parts of a connection report here: its socket reports reads and writes, its exchanges their start and end. The
//! connection's future asks for the next deadline. All of them run in one task; only the server's driver calls from
//! another.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use mcp_proto::quota::{FairTable, QuotaOwner};

use super::observed::ObservedConnection;
use crate::time::{Alarm, Timers};

/// Limits on connections and streams. [`HttpServerConfig`](mcp_proto::transport::http::server::HttpServerConfig) limits
/// single messages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Maximum number of open connections. Default 8,192: with 20 KiB per idle connection, that is 160 MiB.
    ///
    /// At the limit, a new connection of a client with less than its fair share displaces a connection of the client
    /// that has most, preferably one without a request. The server distinguishes clients by address. Other connections
    /// wait until one of the same client ends; up to an eighth of the limit can wait, further ones are refused. If the
    /// system allows fewer open files than this, new connections wait in its queue.
    pub connections: usize,
    /// Maximum number of concurrent requests on one HTTP/2 connection. Default 200.
    pub streams: u32,
    /// Maximum bytes of a request's headers, including the request line. Larger heads are rejected with 431. Default 32
    /// KiB: tokens and mirrored tool parameters fit.
    pub header_bytes: u32,
    /// Maximum number of headers. More are rejected with 431. Default 100. (HTTP/2 limits only the bytes.)
    pub headers: usize,
    /// Time for the headers of a request, from their first byte, and for the TLS handshake. Default 10 s: only a
    /// deliberately slow client needs longer.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request. Default 2 min.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of the data written to it. After that its connection is closed; with HTTP/2,
    /// only the stream is reset if no other stream is blocked. Default 30 s.
    pub write_timeout: Duration,
    /// Maximum age of a connection. After that it accepts no more requests, and closes once the open ones are answered.
    /// Default: unlimited. A finite value redistributes long-lived clients over servers.
    pub lifetime: Option<Duration>,
    /// Interval of pings to a silent HTTP/2 or WebSocket client, which has [`write_timeout`](Self::write_timeout) to
    /// reply. Default 30 s; `None` sends none. Over WebSocket, less than a second counts as a second.
    pub ping_interval: Option<Duration>,
}

/// hyper allocates nothing for up to this many headers.
pub(super) const HEADERS: usize = 100;

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 8192,
            streams: 200,
            header_bytes: 32 * 1024,
            headers: HEADERS,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
            lifetime: None,
            ping_interval: Some(Duration::from_secs(30)),
        }
    }
}

/// How long the server waits for the client to close its side of an ending connection.
const LINGER: Duration = Duration::from_secs(2);

/// Tracks the activity of one connection and derives its deadlines.
pub(super) struct ConnectionMonitor {
    pub(super) limits: Arc<ServerLimits>,
    pub(super) timers: Timers,
    pub(super) observed: Option<ObservedConnection>,
    state: Mutex<State>,
}

struct State {
    began: Instant,
    version: HttpVersion,
    /// Number of open exchanges.
    exchanges: usize,
    /// When the last exchange ended, or the connection began.
    idle_since: Instant,
    /// When the first byte of the next request arrived.
    first_byte: Option<Instant>,
    /// Since when the client has read nothing of the data written to it.
    blocked_since: Option<Instant>,
    /// When the connection stopped accepting requests.
    retired_at: Option<Instant>,
    /// Whether part of a request will remain unread.
    has_unread: bool,
    /// When the server closed its side.
    closed_at: Option<Instant>,
    order: Option<ShutdownOrder>,
    waker: Option<Waker>,
}

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    /// Not detected yet.
    Unknown,
    Http1,
    Http2,
}

/// How a connection is to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownOrder {
    /// Finish open exchanges, and accept no more.
    Retire,
    /// Close the connection now.
    Cut(ConnectionLimit),
}

impl State {
    /// The next deadline, and the shutdown to begin if nothing changes until then.
    fn deadline(&self, limits: &ServerLimits) -> Option<(Instant, ShutdownOrder)> {
        if let Some(left) = self.closed_at {
            return after(left, LINGER, ShutdownOrder::Cut(ConnectionLimit::Idle));
        }
        let stuck = self
            .blocked_since
            .and_then(|at| after(at, limits.write_timeout, ShutdownOrder::Cut(ConnectionLimit::Write)));
        let silent = match (self.exchanges, self.retired_at, self.first_byte) {
            (0, Some(retired), _) => {
                after(retired.max(self.idle_since), LINGER, ShutdownOrder::Cut(ConnectionLimit::Idle))
            }
            // HTTP/2 connections also carry frames that belong to no request.
            (0, None, Some(at)) if self.version != HttpVersion::Http2 => {
                after(at, limits.header_timeout, ShutdownOrder::Cut(ConnectionLimit::Headers))
            }
            (0, None, _) => after(self.idle_since, limits.idle_timeout, ShutdownOrder::Retire),
            _ => None,
        };
        let old = match (self.retired_at, limits.lifetime) {
            (None, Some(lifetime)) => after(self.began, lifetime, ShutdownOrder::Retire),
            _ => None,
        };
        [stuck, silent, old].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl ConnectionMonitor {
    pub(super) fn new(
        limits: Arc<ServerLimits>,
        timers: Timers,
        observed: Option<ObservedConnection>,
    ) -> Self {
        let now = timers.now();
        let state = State {
            began: now,
            version: HttpVersion::Unknown,
            exchanges: 0,
            idle_since: now,
            first_byte: None,
            blocked_since: None,
            retired_at: None,
            has_unread: false,
            closed_at: None,
            order: None,
            waker: None,
        };
        Self { limits, timers, observed, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the HTTP version that the client speaks.
    pub(super) fn set_version(&self, version: HttpVersion) {
        self.state().version = version;
    }

    /// Records that bytes were read.
    pub(super) fn note_read(&self) {
        let mut state = self.state();
        if state.exchanges == 0 && state.first_byte.is_none() {
            state.first_byte = Some(self.timers.now());
        }
    }

    /// Records the end of the TLS handshake, and discards the reads that belonged to it.
    #[cfg(any(test, feature = "tls"))]
    pub(super) fn note_handshake(&self) {
        let mut state = self.state();
        state.first_byte = None;
        state.idle_since = self.timers.now();
    }

    /// Records that a write is blocked because the client reads nothing.
    pub(super) fn note_blocked(&self) {
        self.state().blocked_since = Some(self.timers.now());
    }

    /// Records that the client accepted bytes.
    pub(super) fn note_written(&self) {
        self.state().blocked_since = None;
    }

    /// Records that the server closed its side. Returns whether to wait for the client's side: a client that is still
    /// sending when the socket closes can lose a response that it has not read yet.
    pub(super) fn note_closed(&self) -> bool {
        let mut state = self.state();
        let is_sending = state.has_unread || (state.exchanges == 0 && state.first_byte.is_some());
        if state.version != HttpVersion::Http1 || !is_sending {
            return false;
        }
        state.closed_at.get_or_insert_with(|| self.timers.now());
        true
    }

    fn begin_exchange(&self) {
        let mut state = self.state();
        state.exchanges = state.exchanges.saturating_add(1);
        state.first_byte = None;
    }

    fn end_exchange(&self) {
        let mut state = self.state();
        state.exchanges = state.exchanges.saturating_sub(1);
        if state.exchanges == 0 {
            state.idle_since = self.timers.now();
        }
    }

    /// Whether no exchange is open.
    pub(super) fn is_idle(&self) -> bool {
        self.state().exchanges == 0
    }

    /// Records that the connection accepts no more requests.
    pub(super) fn note_retired(&self) {
        self.state().retired_at.get_or_insert_with(|| self.timers.now());
    }

    /// Orders a shutdown from outside the connection. A `Cut` is not taken back.
    pub(super) fn set_order(&self, order: ShutdownOrder) {
        let mut state = self.state();
        if !matches!(state.order, Some(ShutdownOrder::Cut(_))) {
            state.order = Some(order);
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the pending order, or the shutdown whose deadline has passed. The waker is called for the next order, and
    /// by `alarm` at the next deadline.
    pub(super) fn poll_order(&self, alarm: &mut Alarm, cx: &mut Context<'_>) -> Poll<ShutdownOrder> {
        let mut state = self.state();
        if let Some(order) = state.order.take() {
            return Poll::Ready(order);
        }
        match &mut state.waker {
            Some(known) => known.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        let next = state.deadline(&self.limits);
        drop(state);
        let Some((deadline, order)) = next else { return Poll::Pending };
        ready!(alarm.poll_until(Some(deadline), &self.timers, cx));
        Poll::Ready(order)
    }
}

/// The deadline `delay` after `at`, or `None` if the clock cannot represent it.
fn after(at: Instant, delay: Duration, order: ShutdownOrder) -> Option<(Instant, ShutdownOrder)> {
    Some((at.checked_add(delay)?, order))
}

/// An open exchange of a connection; dropping the guard records its end.
pub(super) struct ExchangeGuard(Arc<ConnectionMonitor>);

impl ExchangeGuard {
    pub(super) fn new(monitor: Arc<ConnectionMonitor>) -> Self {
        monitor.begin_exchange();
        Self(monitor)
    }

    /// Records that the rest of the request will remain unread.
    pub(super) fn note_unread(&self) {
        self.0.state().has_unread = true;
    }
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        self.0.end_exchange();
    }
}

// The registry of a server's open connections.

/// Maximum number of connections scanned for one without a request, when one must make room. If each of them has one,
/// the oldest is closed.
const MAX_SCANNED: usize = 16;

/// The open connections, whether the server or the application accepted them.
pub(super) struct ConnectionRegistry {
    inner: Mutex<Inner>,
}

struct Inner {
    next: u64,
    open: FairTable<u64, Arc<ConnectionMonitor>>,
    closing: Option<ShutdownOrder>,
    /// The task that waits for a connection to end.
    waker: Option<Waker>,
}

impl ConnectionRegistry {
    /// A registry for at most `most` open connections.
    pub(super) fn new(most: usize) -> Self {
        let inner = Inner { next: 0, open: FairTable::new(most), closing: None, waker: None };
        Self { inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this owner can open a connection, if need be by displacing one of the owner that has most.
    pub(super) fn has_room(&self, owner: &QuotaOwner) -> bool {
        self.inner().open.has_room(owner)
    }

    /// Registers a connection, which may displace another one. If the server is closing, the connection is retired at
    /// once.
    pub(super) fn register(
        self: &Arc<Self>,
        owner: &QuotaOwner,
        monitor: Arc<ConnectionMonitor>,
    ) -> RegistryEntry {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        for _ in 0..MAX_SCANNED {
            let Some(key) = inner.open.next_displaced(owner) else { break };
            if inner.open.get(key).is_none_or(|monitor| monitor.is_idle()) {
                break;
            }
            inner.open.renew(key);
        }
        let displaced = inner.open.insert(number, owner, monitor.clone());
        if displaced.is_err() {
            // The application accepted this connection, so the limit cannot refuse it.
            inner.open.insert_over(number, owner, monitor.clone());
        }
        let closing = inner.closing;
        drop(inner);
        if let Ok(Some((_, displaced))) = displaced {
            displaced.set_order(ShutdownOrder::Cut(ConnectionLimit::Displaced));
        }
        if let Some(order) = closing {
            monitor.set_order(order);
        }
        RegistryEntry { registry: self.clone(), number }
    }

    /// Ready if fewer than `most` connections are open.
    pub(super) fn poll_fewer(&self, most: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner();
        if inner.open.len() < most {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives an order to all open connections, and to later ones at once.
    pub(super) fn shut_down(&self, order: ShutdownOrder) {
        let mut inner = self.inner();
        inner.closing = Some(order);
        let open: Vec<_> = inner.open.iter().map(|(_, monitor)| monitor.clone()).collect();
        drop(inner);
        for monitor in open {
            monitor.set_order(order);
        }
    }
}

/// A connection's entry in the registry; dropping it removes the entry.
pub(super) struct RegistryEntry {
    registry: Arc<ConnectionRegistry>,
    number: u64,
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let mut inner = self.registry.inner();
        let monitor = inner.open.remove(self.number);
        let waker = inner.waker.take();
        drop(inner);
        drop(monitor);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

// Errors of a server and of its connections.

/// Why a connection ended with an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The TLS handshake failed.
    Handshake(io::Error),
    /// The socket failed before the HTTP version was known.
    Io(io::Error),
    /// The client sent invalid HTTP, or disconnected in the middle of a message.
    Http(hyper::Error),
    /// The client does not speak HTTP/2, and nothing else is accepted; with the beginning of what it sent.
    NotHttp2(String),
    /// The client violated the WebSocket protocol or a limit; the text describes the violation.
    #[cfg(feature = "websocket")]
    WebSocket(String),
    /// The client reached a limit of the connection.
    LimitReached(ConnectionLimit),
}

display_text! { ConnectionError:
    Handshake(error) => "the TLS handshake failed: {error}";
    Io(error) => "the socket failed: {error}";
    Http(error) => "{error}";
    NotHttp2(received) =>
        "expected HTTP/2 (`stdio-v2`), but the client sent {received:?}: configure it with the type `stdio-v2`, or start \
         this server without it";
    #[cfg(feature = "websocket")]
    WebSocket(detail) => "a client's WebSocket was closed: {detail}";
    LimitReached(limit) => "{limit}";
}

impl std::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handshake(error) | Self::Io(error) => Some(error),
            Self::Http(error) => Some(error),
            #[cfg(feature = "websocket")]
            Self::WebSocket(_) => None,
            Self::NotHttp2(_) | Self::LimitReached(_) => None,
        }
    }
}

pub(super) type OnError = Arc<dyn Fn(&ServerError) + Send + Sync>;

/// An error that a server survives, for logs.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// Accepting a connection failed. The server tries again, after up to a second if the error concerns system
    /// resources, such as open files.
    Accept(io::Error),
    /// The server refused a connection from this address: the server is full, and this client has its share of
    /// connections.
    Refused(Option<IpAddr>),
    /// A connection ended with an error.
    Connection(ConnectionError),
}

display_text! { ServerError:
    Accept(error) => "no connection could be accepted: {error}";
    Refused(None) => "a connection was refused: too many are open";
    Refused(Some(address)) => "a connection from {address} was refused: too many are open";
    Connection(error) => "{error}";
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Accept(error) => Some(error),
            Self::Refused(_) => None,
            Self::Connection(error) => error.source(),
        }
    }
}

/// The limit that a connection reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionLimit {
    /// [`ServerLimits::header_timeout`](super::ServerLimits::header_timeout).
    Headers,
    /// [`ServerLimits::write_timeout`](super::ServerLimits::write_timeout).
    Write,
    /// [`ServerLimits::idle_timeout`](super::ServerLimits::idle_timeout) or
    /// [`ServerLimits::lifetime`](super::ServerLimits::lifetime), and the client did not close its side.
    Idle,
    /// [`ServerLimits::connections`](super::ServerLimits::connections): the server was full, and this client had more
    /// connections than its share.
    Displaced,
    /// The server's [`close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout) has passed since it was
    /// closed.
    Closed,
}

display_text! { ConnectionLimit:
    Headers => "the client took too long to send the headers of a request";
    Write => "the client does not read the responses";
    Idle => "the client did not close the connection in time";
    Displaced => "the server is full, and the client has more connections than its share";
    Closed => "the server has closed";
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::{Sleep, Timer};
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A clock that tests set by hand.
    struct Fake {
        origin: Instant,
        passed: Mutex<Duration>,
    }

    struct Never;

    impl Future for Never {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl Sleep for Never {}

    impl Timer for Fake {
        fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
            Box::pin(Never)
        }

        fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
            Box::pin(Never)
        }

        fn now(&self) -> Instant {
            self.origin + *self.passed.lock().unwrap()
        }
    }

    struct Case {
        fake: Arc<Fake>,
        watch: Arc<ConnectionMonitor>,
    }

    impl Case {
        fn new(change: impl FnOnce(&mut ServerLimits)) -> Self {
            let mut limits = ServerLimits::default();
            change(&mut limits);
            let fake = Arc::new(Fake { origin: Instant::now(), passed: Mutex::default() });
            let watch = Arc::new(ConnectionMonitor::new(Arc::new(limits), fake.clone(), None));
            Self { fake, watch }
        }

        fn pass(&self, seconds: u64) {
            *self.fake.passed.lock().unwrap() += Duration::from_secs(seconds);
        }

        /// The deadline in seconds since the start.
        fn deadline(&self) -> Option<(u64, ShutdownOrder)> {
            let (at, order) = self.watch.state().deadline(&self.watch.limits)?;
            Some((at.duration_since(self.fake.origin).as_secs(), order))
        }
    }

    #[test]
    fn silent_connection_is_retired_and_then_cut() {
        let case = Case::new(|_| {});
        case.watch.set_version(HttpVersion::Http1);
        assert_eq!(case.deadline(), Some((120, ShutdownOrder::Retire)));
        case.pass(120);
        case.watch.note_retired();
        assert_eq!(case.deadline(), Some((122, ShutdownOrder::Cut(ConnectionLimit::Idle))));
    }

    #[test]
    fn header_timeout_starts_at_the_first_byte() {
        let case = Case::new(|_| {});
        case.watch.set_version(HttpVersion::Http1);
        case.pass(50);
        case.watch.note_read();
        case.pass(5);
        case.watch.note_read();
        assert_eq!(case.deadline(), Some((60, ShutdownOrder::Cut(ConnectionLimit::Headers))));
        let busy = ExchangeGuard::new(case.watch.clone());
        assert_eq!(case.deadline(), None, "a handler may take its time");
        case.watch.note_read();
        case.pass(1000);
        drop(busy);
        assert_eq!(case.deadline(), Some((1055 + 120, ShutdownOrder::Retire)));
    }

    #[test]
    fn handshake_has_the_header_timeout_and_the_first_request_the_idle_timeout() {
        let case = Case::new(|_| {});
        case.watch.note_read();
        assert_eq!(case.deadline(), Some((10, ShutdownOrder::Cut(ConnectionLimit::Headers))));
        case.pass(9);
        case.watch.note_handshake();
        assert_eq!(case.deadline(), Some((129, ShutdownOrder::Retire)));
    }

    #[test]
    fn header_timeout_does_not_apply_to_http2_frames() {
        let case = Case::new(|_| {});
        case.watch.set_version(HttpVersion::Http2);
        case.watch.note_read();
        assert_eq!(case.deadline(), Some((120, ShutdownOrder::Retire)));
    }

    #[test]
    fn client_that_reads_nothing_is_cut_even_during_an_exchange() {
        let case = Case::new(|_| {});
        let _busy = ExchangeGuard::new(case.watch.clone());
        case.pass(7);
        case.watch.note_blocked();
        assert_eq!(case.deadline(), Some((37, ShutdownOrder::Cut(ConnectionLimit::Write))));
        case.watch.note_written();
        assert_eq!(case.deadline(), None);
    }

    #[test]
    fn old_connection_is_retired_even_during_an_exchange() {
        let case = Case::new(|limits| limits.lifetime = Some(Duration::from_secs(30)));
        let _busy = ExchangeGuard::new(case.watch.clone());
        assert_eq!(case.deadline(), Some((30, ShutdownOrder::Retire)));
        case.watch.note_retired();
        assert_eq!(case.deadline(), None, "requests in progress finish first");
    }

    #[test]
    fn closing_waits_only_for_a_client_that_may_still_be_sending() {
        let case = Case::new(|_| {});
        case.watch.set_version(HttpVersion::Http1);
        case.watch.note_read();
        drop(ExchangeGuard::new(case.watch.clone()));
        assert!(!case.watch.note_closed());
        let busy = ExchangeGuard::new(case.watch.clone());
        busy.note_unread();
        assert!(case.watch.note_closed());
        assert_eq!(case.deadline(), Some((2, ShutdownOrder::Cut(ConnectionLimit::Idle))));

        let case = Case::new(|_| {});
        case.watch.set_version(HttpVersion::Http1);
        case.watch.note_read();
        assert!(case.watch.note_closed(), "half a head, or nonsense");
    }

    #[test]
    fn cut_order_is_not_replaced_by_another() {
        let case = Case::new(|_| {});
        case.watch.set_order(ShutdownOrder::Cut(ConnectionLimit::Closed));
        case.watch.set_order(ShutdownOrder::Retire);
        let cx = &mut Context::from_waker(Waker::noop());
        let mut next = || case.watch.poll_order(&mut Alarm::default(), cx);
        assert_eq!(next(), Poll::Ready(ShutdownOrder::Cut(ConnectionLimit::Closed)));
        assert_eq!(next(), Poll::Pending);
    }
}
