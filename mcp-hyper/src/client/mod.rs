//! HTTP clients: hyper connections that carry the exchanges of an `HttpClient`.

#[cfg_attr(not(feature = "auth"), path = "no_auth.rs")]
pub(crate) mod auth;
pub(crate) mod body;
mod connector;
mod dial_error;
mod exchange;
mod headers;
#[cfg_attr(not(feature = "http2"), path = "no_http2.rs")]
mod http2;
mod options;
mod pool;
mod proxy;
mod send_error;
mod target;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod transport;
mod tunnel;
#[cfg_attr(not(feature = "websocket"), path = "no_websocket.rs")]
pub(crate) mod websocket;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, pending};
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::Instant;
use mcp_proto::adapter::{self, ClientTransport, Clock, Repoll};
use mcp_proto::front::{Client, Error, HandlerMode, SendHandlers};
use mcp_proto::peer::client::CloseReason;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{Action, HttpClient};

use self::auth::Authorizer;
use self::transport::{Transport, TransportEvent};
use self::websocket::WebSocketLoop;
use crate::fields::Headers;
use crate::runtime::{DefaultRuntime, Runtime};
use crate::time::{Alarm, RuntimeClock};

pub use headers::{HeaderError, HeaderErrorKind};
pub use options::{ClientOptions, ConnectError};
pub use proxy::{Proxy, ProxyError};
pub use wire::WireEvent;

/// Maximum rounds of the driver before it lets other tasks run.
const ROUNDS: usize = 4;
/// Maximum batches of events that the driver handles in each round.
const TURN: usize = 32;
/// Error of an exchange that the server refused, in a client without authorization.
const NO_AUTHORIZATION: &str = "no login configured: call `ClientOptions::authorization`";

/// Connects to the server at this URL, `http` or `https`, with default [options](ClientOptions). With the feature
/// `websocket`, the schemes `ws` and `wss` connect over WebSocket: see [`ClientOptions::connect`].
///
/// The driver opens connections as needed while it is polled, and reuses them. Dropping the last [`Client`] closes the
/// session in an orderly way while the driver runs.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// smol::block_on(async {
///     let (client, driver) = mcp_hyper::connect("https://example.com/mcp")?;
///     smol::spawn(driver).detach();
///
///     for tool in client.list_tools().await? {
///         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
///     }
///     let sum = client.call_tool("get-sum", serde_json::json!({ "a": 2, "b": 3 })).await?;
///     println!("{}", sum.text_content());
///     client.close().await;
///     Ok(())
/// })
/// # }
/// ```
///
/// # Errors
/// If the URL is invalid, or the environment names an invalid proxy. Only the driver finds out whether the server can
/// be reached.
pub fn connect(url: impl Into<String>) -> Result<(Client, ClientDriver), ConnectError> {
    ClientOptions::default().connect(url)
}

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

/// Sets the timer of calls that are made before the driver is polled.
fn set_handle_timer<M: ClientTransport, H: HandlerMode, R: Runtime>(
    front: &mut adapter::ClientDriver<M, H>,
    transport: &Transport<R>,
    clock: &RuntimeClock,
) {
    let (runtime, timers) = (transport.connector.runtime.clone(), clock.timers().clone());
    front.set_handle_timer(move |time| {
        let (runtime, timers) = (runtime.clone(), timers.clone());
        Box::pin(async move {
            // Outside of its runtime, a timer may panic.
            match runtime.start() {
                Ok(()) => timers.sleep(time).await,
                Err(_) => pending().await,
            }
        })
    });
}

/// A client's loop, by the kind of its URL.
enum Connection<H: HandlerMode, R> {
    Http(Box<ClientLoop<H, R>>),
    WebSocket(Box<WebSocketLoop<H, R>>),
}

/// The parts of a client, and the loop over them.
struct ClientLoop<H: HandlerMode, R> {
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
    /// Passes the transport's events to the client, and reads on where it wants more. Ready if there may be further
    /// ones.
    fn poll_transport(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURN {
            if self.transport.poll(now, cx).is_pending() {
                return Poll::Pending;
            }
            self.has_input = true;
            self.transport.show_events();
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
            Connection::WebSocket(client) => client.poll(cx),
        })
    }
}

impl<H: HandlerMode, R> fmt::Debug for ClientDriver<H, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match &self.connection {
            Connection::Http(client) => &client.transport,
            Connection::WebSocket(client) => client.transport(),
        };
        f.debug_struct("ClientDriver").field("transport", transport).finish_non_exhaustive()
    }
}
