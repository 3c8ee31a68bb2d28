//! WebSocket connections of a server: the handshake, and the messages after the upgrade.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_tungstenite::tungstenite::handshake::server::create_response_with_body;
use async_tungstenite::tungstenite::protocol::Role;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use futures_lite::{AsyncRead, AsyncWrite};
use http::request::Parts;
use http::{Request, header};
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::HandlerMode;
use mcp_proto::front::http::HttpChannel;
use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::CloseReason;
use mcp_proto::transport::http::server::{HttpResponse, ResponseHeaders};
use mcp_proto::transport::tool_frames::request_of;

use super::monitor::{ConnectionError, ConnectionMonitor, ExchangeGuard};
use super::observed::ObservedConnection;
use crate::time::{Alarm, RuntimeClock};
use crate::websocket::{Channel, ChannelEvent, PingPolicy, SUBPROTOCOL};
use crate::wire::WireEvent;

/// Maximum rounds of a connection before it lets other tasks run.
const ROUNDS: usize = 4;

/// Maximum number of messages that a connection reads or writes in each round.
const TURN: usize = 32;

/// Checks the handshake of RFC 6455, section 4.2.1; returns the headers of the answer, or the refusal.
pub(super) fn handshake(parts: &Parts) -> Result<ResponseHeaders, HttpResponse> {
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.version_mut() = parts.version;
    *request.headers_mut() = parts.headers.clone();
    let refusal = || HttpResponse {
        headers: vec![("upgrade", "websocket".into()), ("sec-websocket-version", "13".into())].into(),
        ..HttpResponse::empty(426)
    };
    let answer = create_response_with_body(&request, || ()).map_err(|_| refusal())?;
    let accept = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.ok_or_else(refusal)?.to_owned();
    let mut headers = vec![
        ("connection", Cow::Borrowed("upgrade")),
        ("upgrade", Cow::Borrowed("websocket")),
        ("sec-websocket-accept", Cow::Owned(accept)),
    ];
    let mut offered = false;
    for protocol in subprotocols(parts) {
        if protocol == SUBPROTOCOL.as_bytes() {
            headers.push(("sec-websocket-protocol", Cow::Borrowed("mcp")));
            return Ok(headers.into());
        }
        offered = true;
    }
    // RFC 6455 lets a client name no subprotocol.
    if offered { Err(HttpResponse::empty(400)) } else { Ok(headers.into()) }
}

fn subprotocols(parts: &Parts) -> impl Iterator<Item = &[u8]> {
    let values = parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// A connection that has become a WebSocket.
pub(super) struct WebSocket<Io, H: HandlerMode> {
    channel: Channel<Io>,
    front: HttpChannel<H>,
    tool_frames: bool,
    clock: Arc<RuntimeClock>,
    alarm: Alarm,
    /// Why the client ended the connection, if it violated the protocol.
    error: Option<String>,
    observed: Option<ObservedConnection>,
    _exchange: ExchangeGuard,
}

impl<Io: AsyncRead + AsyncWrite + Unpin, H: HandlerMode> WebSocket<Io, H> {
    /// Takes over a connection on which `ahead` was read after the request.
    pub(super) fn start(
        io: Io,
        ahead: &[u8],
        front: HttpChannel<H>,
        tool_frames: bool,
        clock: Arc<RuntimeClock>,
        monitor: Arc<ConnectionMonitor>,
    ) -> Option<Self> {
        let limits = &monitor.limits;
        let pings = limits.ping_interval.map(|interval| PingPolicy::new(interval, limits.write_timeout));
        let channel = Channel::new(io, ahead, Role::Server, front.message_bytes(), pings, clock.now())?;
        let (alarm, observed) = (Alarm::default(), monitor.observed.clone());
        let exchange = ExchangeGuard::new(monitor);
        Some(Self { channel, front, tool_frames, clock, alarm, error: None, observed, _exchange: exchange })
    }

    /// Lets requests in progress finish, then closes.
    pub(super) fn retire(&mut self) {
        self.front.close();
    }

    /// Serves the connection. Ready once it is closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            self.channel.handle_timeout(now, self.front.wants_read());
            if self.channel.take_progress() {
                self.front.handle_written();
            }
            self.front.poll(cx);
            let sent = self.poll_send(cx);
            let received = self.poll_receive(cx);
            let deadline = match (self.front.closed(), &sent) {
                // Queued messages come first.
                (Some(closed), Progress::None) => {
                    self.close(&closed);
                    if self.channel.poll_closed(now, cx).is_ready() {
                        return Poll::Ready(match self.error.take() {
                            Some(error) => Err(ConnectionError::WebSocket(error)),
                            None => Ok(()),
                        });
                    }
                    self.channel.deadline()
                }
                _ if sent == Progress::Some || received => continue,
                _ => [self.front.next_timeout(), self.channel.deadline()].into_iter().flatten().min(),
            };
            let deadline = deadline.and_then(|at| self.clock.at(at));
            if self.alarm.poll_until(deadline, self.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends messages as long as the client takes them.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Progress {
        let mut progress = Progress::None;
        for _ in 0..TURN {
            if self.channel.poll_ready(cx).is_pending() {
                return Progress::Blocked;
            }
            let Some(message) = self.front.poll_transmit() else { break };
            self.show(WireEvent::MessageSent(&message));
            self.channel.send(message);
            progress = Progress::Some;
        }
        match self.channel.poll_flush(cx) {
            Poll::Pending if progress == Progress::None => Progress::Blocked,
            _ => progress,
        }
    }

    /// Receives messages as long as the server takes them. Returns whether there were any.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> bool {
        for turn in 0..TURN {
            if !self.front.wants_read() || self.front.closed().is_some() {
                return turn > 0;
            }
            match self.channel.poll_read(self.clock.now(), cx) {
                Poll::Ready(ChannelEvent::Message(message)) => {
                    self.show(WireEvent::MessageReceived(&message));
                    let request = if self.tool_frames { request_of(&message) } else { None };
                    self.front.handle_message(&request.unwrap_or(message));
                }
                Poll::Ready(ChannelEvent::Ended { detail, is_violation }) => {
                    self.front.handle_end(&detail);
                    self.error = is_violation.then_some(detail);
                    return true;
                }
                Poll::Pending => match self.front.handle_partial(self.channel.partial_bytes()) {
                    Ok(()) => return turn > 0,
                    Err(error) => {
                        let detail = "the byte budget has no room for its message";
                        self.channel.close(
                            self.clock.now(),
                            CloseCode::Again,
                            "the byte budget is exhausted",
                        );
                        self.channel.discard_input();
                        self.front.handle_end(detail);
                        self.error = Some(format!("{detail}: {error}"));
                        return true;
                    }
                },
            }
        }
        true
    }

    fn show(&self, event: WireEvent<'_>) {
        if let Some(observed) = &self.observed {
            observed.show(event);
        }
    }

    /// Sends the close frame, unless the client has.
    fn close(&mut self, closed: &CloseReason) {
        let (code, reason) = match closed {
            _ if self.front.has_expired() => {
                (CloseCode::Policy, "the access token has expired or was revoked")
            }
            CloseReason::Done if self.front.is_closing() => (CloseCode::Away, "the server closes"),
            //= F61 "an internal error closes with 1011"
            CloseReason::Lost(LostReason::Failed(_)) => (CloseCode::Error, "internal error"),
            _ => (CloseCode::Normal, ""),
        };
        self.channel.close(self.clock.now(), code, reason);
    }
}

/// Whether a connection has sent anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    None,
    Some,
    /// The client takes no more at present.
    Blocked,
}
