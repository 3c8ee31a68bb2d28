//! The driver of a client: the future that moves its messages over HTTP.

use std::collections::VecDeque;
use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::Sleep;
use mcp_proto::Instant;
use mcp_proto::adapter::{self, Clock, Repoll};
use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode, SendHandlers};
use mcp_proto::transport::http::client::{Action, AuthorizationRequired, HttpClient, HttpRequest};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

#[cfg(feature = "auth")]
use crate::auth::AuthHandle;
use crate::io::Headers;
use crate::runtime::{DefaultRuntime, Runtime};
use crate::time::{Alarm, RuntimeClock};

use super::credentials::{Authorizer, ExchangeAction};
use super::transport::{Transport, TransportEvent};
#[cfg(feature = "websocket")]
use super::websocket::WebSocketLoop;
use super::{NO_AUTHORIZATION, ROUNDS, TURN, poll_end, start};

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
    /// When the machine's next timeout was due, and whether it was closed, when it was last asked.
    due: Option<Instant>,
    is_closed: bool,
    /// Actions to carry out. Empty between polls, as is `wanted`.
    actions: VecDeque<Action>,
    /// Exchanges to read from.
    wanted: Vec<ExchangeId>,
    /// Limits the end of the only connection, once the client is closed.
    closing: Option<Pin<Box<dyn Sleep>>>,
}

impl<H: HandlerMode, R: Runtime> ClientLoop<H, R> {
    /// Starts a client over HTTP.
    pub(super) fn start(
        machine: HttpClient,
        handlers: ClientHandlers<H>,
        transport: Transport<R>,
        mut authorizer: Option<Authorizer>,
        clock: Arc<RuntimeClock>,
    ) -> (Client, Box<Self>) {
        let (client, front) = start(machine, handlers, authorizer.as_mut(), &clock);
        let client_loop = Self {
            front,
            transport,
            authorizer,
            alarm: Alarm::default(),
            clock,
            has_input: true,
            due: None,
            is_closed: false,
            actions: VecDeque::new(),
            wanted: Vec::new(),
            closing: None,
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
        let Self { front, transport, wanted, actions, due, is_closed, .. } = self;
        let _: Poll<()> = front.poll(cx, |machine, now| {
            machine.handle_timeout(now);
            actions.extend(iter::from_fn(|| machine.poll_action()));
            wanted.extend(transport.unread().filter(|exchange| machine.wants_body(*exchange)));
            // A command that changes them wakes the task.
            (*due, *is_closed) = (machine.poll_timeout(), machine.is_closed());
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
        let mut now = self.clock.now();
        for _ in 0..ROUNDS {
            // Transport events come first, because a returned connection serves the next request.
            let events = self.poll_transport(now, cx);
            let actions = self.poll_machine(now, cx);
            #[cfg(feature = "auth")]
            self.forget_ended();
            let authorized = (0..TURN).take_while(|_| self.poll_authorizer(cx).is_ready()).count();
            if events.is_ready() || actions.is_ready() || authorized > 0 {
                continue;
            }
            if let Some(reason) = self.transport.take_end() {
                self.front.lock(|machine, now| machine.at(now).abort(reason));
                self.has_input = true;
                continue;
            }
            if self.is_closed {
                ready!(self.poll_close(cx));
            }
            if self.is_closed
                && let Poll::Ready(ended) = poll_end(&mut self.front, self.authorizer.as_ref())
            {
                return Poll::Ready(ended);
            }
            let first = self.next_timeout().and_then(|at| self.clock.at(at));
            if self.alarm.poll_until(first, self.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
            now = self.clock.now();
            self.transport.handle_timeout(now);
            self.has_input = true;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Closes the only connection, if the client has one. Ready once it is closed, or if its last frames take too long.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closed = self.transport.poll_close(cx);
        if closed.is_ready() || self.transport.connector.stream.is_closing() {
            return closed;
        }
        let (timers, limit) = (self.clock.timers(), self.transport.connector.stream.close_timeout());
        self.closing.get_or_insert_with(|| timers.sleep(limit)).as_mut().poll(cx)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let timeouts = [
            self.due,
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

impl<H: HandlerMode, R> ClientDriver<H, R> {
    fn parts(&self) -> (&Transport<R>, &Option<Authorizer>) {
        match &self.connection {
            Connection::Http(client) => (&client.transport, &client.authorizer),
            #[cfg(feature = "websocket")]
            Connection::WebSocket(client) => (&client.transport, &client.authorizer),
        }
    }
}

debug_fields! { [H: HandlerMode, R] ClientDriver<H, R>(self) { transport = self.parts().0 } }

#[cfg(feature = "auth")]
impl<H: HandlerMode, R: Runtime> ClientDriver<H, R> {
    /// The handle to the client's tokens, if it has an [`Authorization`](crate::auth::Authorization). The handle works
    /// while this driver is polled.
    #[must_use]
    pub fn auth(&self) -> Option<AuthHandle> {
        match self.parts().1 {
            Some(Authorizer::OAuth(authorizer)) => Some(authorizer.handle()),
            _ => None,
        }
    }

    /// The record of the client's tokens, if it has an authorization.
    #[cfg(feature = "host")]
    pub(crate) fn known_record(&self) -> Option<crate::auth::KnownRecord> {
        match self.parts().1 {
            Some(Authorizer::OAuth(authorizer)) => Some(authorizer.known_record()),
            _ => None,
        }
    }
}

impl<H: HandlerMode, R: Runtime> ClientLoop<H, R> {
    /// Sends a request, or waits for its credentials first.
    fn open(&mut self, now: Instant, request: HttpRequest) {
        let request = match &mut self.authorizer {
            Some(authorizer) => authorizer.authorize(request),
            None => Some(request),
        };
        if let Some(request) = request {
            self.transport.open(now, request);
        }
    }

    /// Passes the challenge of a refused exchange to the authorizer.
    fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        match &mut self.authorizer {
            Some(authorizer) => authorizer.handle_challenge(challenge),
            None => {
                self.has_input = true;
                self.front.lock(|machine, now| machine.refuse(now, challenge.exchange, NO_AUTHORIZATION));
            }
        }
    }

    /// Passes the transport's events to the authorizer.
    #[cfg(feature = "auth")]
    fn observe_events(&mut self) {
        let Some(Authorizer::OAuth(authorizer)) = &mut self.authorizer else { return };
        for event in &self.transport.events {
            match event {
                TransportEvent::Head { exchange, headers, .. } => {
                    let nonce = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
                    authorizer.note_head(*exchange, nonce);
                }
                TransportEvent::End { exchange, .. } => authorizer.note_end(*exchange),
                TransportEvent::Body { .. } => {}
            }
        }
    }

    /// Drops ended exchanges in the authorizer, once all of their events have been handled.
    #[cfg(feature = "auth")]
    fn forget_ended(&mut self) {
        if let Some(Authorizer::OAuth(authorizer)) = &mut self.authorizer {
            authorizer.forget_ended();
        }
    }

    /// Carries out the authorizer's next action. Ready if there was one.
    fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, transport, clock, authorizer, has_input, .. } = self;
        let Some(authorizer) = authorizer else { return Poll::Pending };
        authorizer.poll(cx).map(|action| match action {
            ExchangeAction::Open(request) => transport.open(clock.now(), request),
            // A mistake is the most likely cause: it is reported at once, as that of a wrong host is.
            ExchangeAction::Fail(exchange, detail) => {
                transport.resolve(exchange, ExchangeEnd::Unreachable(detail))
            }
            ExchangeAction::Resume(exchange) => {
                *has_input = true;
                front.lock(|machine, now| machine.resume(now, exchange));
            }
            ExchangeAction::Refuse(exchange, detail) => {
                *has_input = true;
                front.lock(|machine, now| machine.refuse(now, exchange, &detail));
            }
        })
    }
}
