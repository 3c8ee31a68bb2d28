//! The drivers of clients: the future that moves a client's messages over HTTP, and that of logins without a client.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::Instant;
use mcp_proto::adapter::{self, ClientTransport, Clock, Repoll};
use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode, SendHandlers};
use mcp_proto::peer::client::CloseReason;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{Action, AuthorizationRequired, HttpClient, HttpRequest};

use super::transport::{Transport, TransportEvent};
#[cfg(feature = "websocket")]
use super::websocket::WebSocketLoop;
#[cfg(feature = "auth")]
use crate::auth::{AuthHandle, Authorizer, ExchangeAction};
use crate::io::Headers;
use crate::runtime::{DefaultRuntime, Runtime};
use crate::time::{Alarm, RuntimeClock};

/// Maximum rounds of the driver before it lets other tasks run.
pub(super) const ROUNDS: usize = 4;

/// Maximum batches of events that the driver handles in each round.
pub(super) const TURN: usize = 32;

/// Error of an exchange that the server refused, in a client without authorization.
pub(super) const NO_AUTHORIZATION: &str = "no login configured: call `ClientOptions::authorization`";

/// The future that drives a client: its messages, timers and [handlers](mcp_proto::front::ClientHandlers).
///
/// Spawn it on any executor, or poll it beside other work. A driver that is only kept in a variable does nothing: calls
/// then report [`Diagnostic::DriverNotPolled`](mcp_proto::peer::client::Diagnostic::DriverNotPolled) after a second, and
/// end at their timeouts with that reason. It is `Send` unless the
/// handlers are [`LocalHandlers`](mcp_proto::front::LocalHandlers). It polls all of its connections itself and spawns
/// nothing, and idle connections cost nothing. It ends once the client is closed, with an error unless this side closed
/// it; the client's requests fail with the same error.
///
/// Dropping it ends every exchange and connection at once.
#[must_use = "the client's calls wait until the driver is polled: spawn it on an executor"]
pub struct ClientDriver<H: HandlerMode = SendHandlers, R = DefaultRuntime> {
    connection: Connection<H, R>,
    repoll: Repoll,
}

impl<H: HandlerMode, R: Runtime> ClientDriver<H, R> {
    pub(super) fn new(connection: Connection<H, R>) -> Self {
        Self { connection, repoll: Repoll::default() }
    }
}

/// Sets the timer of calls that are made before the driver is polled.
pub(super) fn set_handle_timer<M: ClientTransport, H: HandlerMode>(
    front: &mut adapter::ClientDriver<M, H>,
    clock: &Arc<RuntimeClock>,
) {
    let clock = clock.clone();
    front.set_handle_timer(move |time| {
        let clock = clock.clone();
        Box::pin(async move { clock.sleep_in_handle(time).await })
    });
}

/// A client's loop, by the kind of its URL.
pub(super) enum Connection<H: HandlerMode, R> {
    Http(Box<ClientLoop<H, R>>),
    #[cfg(feature = "websocket")]
    WebSocket(Box<WebSocketLoop<H, R>>),
}

/// The parts of a client, and the loop over them.
pub(super) struct ClientLoop<H: HandlerMode, R> {
    front: adapter::ClientDriver<HttpClient, H>,
    transport: Transport<R>,
    authorizer: Option<Authorizer>,
    alarm: Alarm,
    clock: Arc<RuntimeClock>,
    /// Whether the machine may have output, because of an input since it was last asked for some.
    has_input: bool,
    /// Actions to carry out. Empty between polls, as is `wanted`.
    actions: VecDeque<Action>,
    /// Exchanges to read from.
    wanted: Vec<ExchangeId>,
}

impl<H: HandlerMode, R: Runtime> ClientLoop<H, R> {
    /// Starts a client over HTTP.
    pub(super) fn start(
        machine: HttpClient,
        handlers: ClientHandlers<H>,
        transport: Transport<R>,
        authorizer: Option<Authorizer>,
        clock: Arc<RuntimeClock>,
    ) -> (Client, Box<Self>) {
        let (client, mut front) = adapter::client(machine, clock.clone(), handlers);
        set_handle_timer(&mut front, &clock);
        if let Some(authorizer) = &authorizer {
            authorizer.link_cache(front.cache_context_ender());
        }
        let client_loop = Self {
            front,
            transport,
            authorizer,
            alarm: Alarm::default(),
            clock,
            has_input: true,
            actions: VecDeque::new(),
            wanted: Vec::new(),
        };
        (client, Box::new(client_loop))
    }

    /// Passes the transport's events to the client, and reads on where it wants more. Ready if there may be further
    /// ones.
    fn poll_transport(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURN {
            if self.transport.poll(now, cx).is_pending() {
                return Poll::Pending;
            }
            self.has_input = true;
            self.transport.show_events();
            #[cfg(feature = "auth")]
            self.observe_events();
            let Self { front, transport, wanted, .. } = self;
            front.lock(|machine, now| {
                for event in transport.events.drain(..) {
                    match event {
                        TransportEvent::Head { exchange, status, headers } => {
                            machine.handle_head(now, exchange, status.as_u16(), &Headers(&headers));
                        }
                        TransportEvent::Body { exchange, bytes } => machine.handle_body(now, exchange, bytes),
                        TransportEvent::End { exchange, end } => machine.handle_end(now, exchange, end),
                        #[cfg(feature = "auth")]
                        TransportEvent::Fetched { .. } => {}
                    }
                }
                wanted.extend(transport.unread().filter(|exchange| machine.wants_body(*exchange)));
            });
            self.read_wanted(now);
        }
        Poll::Ready(())
    }

    /// Carries out the client's output. Ready if there was any, as more may follow from it.
    fn poll_machine(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::take(&mut self.has_input) {
            return Poll::Pending;
        }
        let Self { front, transport, wanted, actions, .. } = self;
        let _: Poll<()> = front.poll(cx, |machine, now| {
            machine.handle_timeout(now);
            actions.extend(iter::from_fn(|| machine.poll_action()));
            wanted.extend(transport.unread().filter(|exchange| machine.wants_body(*exchange)));
            Poll::Pending
        });
        if self.actions.is_empty() && self.wanted.is_empty() {
            return Poll::Pending;
        }
        self.read_wanted(now);
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Open(request) => self.open(now, request),
                Action::Abort(exchange) => {
                    if let Some(authorizer) = &mut self.authorizer {
                        authorizer.forget_exchange(exchange);
                    }
                    self.transport.abort(now, exchange);
                }
                Action::AuthorizationRequired(challenge) => self.handle_challenge(&challenge),
            }
        }
        Poll::Ready(())
    }

    /// Reads the next pieces of the responses that the client wants more of.
    fn read_wanted(&mut self, now: Instant) {
        for exchange in self.wanted.drain(..) {
            self.transport.read(now, exchange);
        }
    }

    /// Runs everything that is ready. Neither the transport nor the machine waits until the other has nothing left to
    /// do.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // A command or a handler may have woken the task.
        self.has_input = true;
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            self.transport.handle_timeout(now);
            // Transport events come first, because a returned connection serves the next request.
            let events = self.poll_transport(now, cx);
            let actions = self.poll_machine(now, cx);
            #[cfg(feature = "auth")]
            self.forget_ended();
            let authorized = (0..TURN).take_while(|_| self.poll_authorizer(cx).is_ready()).count();
            if events.is_ready() || actions.is_ready() || authorized > 0 {
                continue;
            }
            if let Some(closed) = self.front.closed().filter(|_| !self.is_finishing()) {
                self.front.handle_link_down();
                return Poll::Ready(match closed {
                    CloseReason::Done => Ok(()),
                    closed => Err(Error::Closed(closed)),
                });
            }
            let first = self.next_timeout().and_then(|at| self.clock.at(at));
            if self.alarm.poll_until(first, self.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
            self.has_input = true;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether work is in progress that must finish after the client was closed.
    fn is_finishing(&self) -> bool {
        self.authorizer.as_ref().is_some_and(Authorizer::is_finishing)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let timeouts = [
            self.front.next_timeout(),
            self.transport.poll_timeout(),
            self.authorizer.as_ref().and_then(Authorizer::poll_timeout),
        ];
        timeouts.into_iter().flatten().min()
    }
}

impl<H: HandlerMode, R: Runtime> Future for ClientDriver<H, R> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, repoll } = &mut *self;
        repoll.poll(cx, |cx| match connection {
            Connection::Http(client) => client.poll(cx),
            #[cfg(feature = "websocket")]
            Connection::WebSocket(client) => client.poll(cx),
        })
    }
}

impl<H: HandlerMode, R> fmt::Debug for ClientDriver<H, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match &self.connection {
            Connection::Http(client) => &client.transport,
            #[cfg(feature = "websocket")]
            Connection::WebSocket(client) => client.transport(),
        };
        f.debug_struct("ClientDriver").field("transport", transport).finish_non_exhaustive()
    }
}

#[cfg(feature = "auth")]
impl<H: HandlerMode, R: Runtime> ClientDriver<H, R> {
    /// The handle to the client's tokens, if it has an [`Authorization`](crate::auth::Authorization). The handle works
    /// while this driver is polled.
    #[must_use]
    pub fn auth(&self) -> Option<AuthHandle> {
        let authorizer = match &self.connection {
            Connection::Http(client) => client.authorizer.as_ref(),
            #[cfg(feature = "websocket")]
            Connection::WebSocket(client) => client.authorizer(),
        };
        authorizer.map(Authorizer::handle)
    }
}

impl<H: HandlerMode, R: Runtime> ClientLoop<H, R> {
    /// Sends a request, or waits for its token first.
    fn open(&mut self, now: Instant, request: HttpRequest) {
        #[cfg(feature = "auth")]
        let request = match &mut self.authorizer {
            Some(authorizer) => match authorizer.authorize(request) {
                Some(request) => request,
                None => return,
            },
            None => request,
        };
        self.transport.open(now, request);
    }

    /// Passes the challenge of a refused exchange to the authorizer.
    fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        match &mut self.authorizer {
            #[cfg(feature = "auth")]
            Some(authorizer) => authorizer.handle_challenge(challenge),
            _ => {
                self.has_input = true;
                self.front.lock(|machine, now| machine.refuse(now, challenge.exchange, NO_AUTHORIZATION));
            }
        }
    }

    /// Passes the transport's events to the authorizer.
    #[cfg(feature = "auth")]
    fn observe_events(&mut self) {
        let Some(authorizer) = &mut self.authorizer else { return };
        for event in &mut self.transport.events {
            match event {
                TransportEvent::Head { exchange, headers, .. } => {
                    let nonce = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
                    authorizer.note_head(*exchange, nonce);
                }
                TransportEvent::End { exchange, .. } => authorizer.note_end(*exchange),
                TransportEvent::Fetched { id, fetched } => {
                    let over = Err("it is over".to_owned());
                    authorizer.handle_fetched(*id, std::mem::replace(fetched, over));
                }
                TransportEvent::Body { .. } => {}
            }
        }
    }

    /// Drops ended exchanges in the authorizer, once all of their events have been handled.
    #[cfg(feature = "auth")]
    fn forget_ended(&mut self) {
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.forget_ended();
        }
    }

    #[cfg(not(feature = "auth"))]
    fn poll_authorizer(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Carries out the authorizer's next action. Ready if there was one.
    #[cfg(feature = "auth")]
    fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, transport, clock, authorizer, has_input, .. } = self;
        let Some(authorizer) = authorizer else { return Poll::Pending };
        authorizer.poll(cx).map(|action| match action {
            ExchangeAction::Open(request) => transport.open(clock.now(), request),
            ExchangeAction::Resume(exchange) => {
                *has_input = true;
                front.lock(|machine, now| machine.resume(now, exchange));
            }
            ExchangeAction::Refuse(exchange, detail) => {
                *has_input = true;
                front.lock(|machine, now| machine.refuse(now, exchange, &detail));
            }
            ExchangeAction::Fetch(fetch, policy) => transport.fetch(fetch, policy),
            ExchangeAction::Abort(fetch) => transport.abort_fetch(fetch),
        })
    }
}

/// Uninhabited, as this build has no authorization.
#[cfg(not(feature = "auth"))]
pub(super) enum Authorizer {}

#[cfg(not(feature = "auth"))]
impl Authorizer {
    pub(super) fn listen(&mut self, _: &impl Runtime) -> std::io::Result<()> {
        match *self {}
    }

    pub(super) fn link_cache(&self, _: adapter::CacheContextEnder) {
        match *self {}
    }

    pub(super) fn forget_exchange(&mut self, _: ExchangeId) {
        match *self {}
    }

    pub(super) fn is_finishing(&self) -> bool {
        match *self {}
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match *self {}
    }
}

/// The future that carries out the operations of an [`AuthHandle`] where no client is connected: see
/// [`ClientOptions::authorize`](crate::ClientOptions::authorize). It never ends; drop it once no operation is left.
#[must_use = "logins wait until the driver is polled: spawn it on an executor"]
#[cfg(feature = "auth")]
pub struct AuthDriver<R = DefaultRuntime> {
    pub(super) authorizer: Authorizer,
    pub(super) transport: Transport<R>,
    pub(super) alarm: Alarm,
    pub(super) clock: Arc<RuntimeClock>,
}

#[cfg(feature = "auth")]
impl<R: Runtime> AuthDriver<R> {
    fn poll_transport(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll(self.clock.now(), cx).map(|()| {
            for event in self.transport.events.drain(..) {
                if let TransportEvent::Fetched { id, fetched } = event {
                    self.authorizer.handle_fetched(id, fetched);
                }
            }
        })
    }

    fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.authorizer.poll(cx).map(|action| match action {
            ExchangeAction::Fetch(fetch, policy) => self.transport.fetch(fetch, policy),
            ExchangeAction::Abort(fetch) => self.transport.abort_fetch(fetch),
            // Without a client there are no exchanges with the server.
            ExchangeAction::Open(_) | ExchangeAction::Resume(_) | ExchangeAction::Refuse(..) => {}
        })
    }
}

#[cfg(feature = "auth")]
impl<R: Runtime> Future for AuthDriver<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..ROUNDS {
            let events = (0..TURN).take_while(|_| this.poll_transport(cx).is_ready()).count();
            let actions = (0..TURN).take_while(|_| this.poll_authorizer(cx).is_ready()).count();
            if events > 0 || actions > 0 {
                continue;
            }
            let due = this.authorizer.poll_timeout().and_then(|at| this.clock.at(at));
            if this.alarm.poll_until(due, this.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(feature = "auth")]
impl<R> fmt::Debug for AuthDriver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthDriver").field("authorizer", &self.authorizer).finish_non_exhaustive()
    }
}
