//! A WebSocket as a channel of whole messages: one JSON-RPC message in each text message, pings, and the reasons of its
//! end.

mod counted_io;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use async_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use bytes::Bytes;
use futures_lite::{AsyncRead, AsyncWrite, Stream as _};
use futures_util::{FutureExt as _, Sink as _};
use http::HeaderValue;
use mcp_proto::Instant;

use counted_io::CountedIo;

/// The subprotocol of MCP over WebSocket, as in the Python and TypeScript SDKs.
pub(crate) const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

/// Size in bytes of each connection's read buffer, which is allocated at once, and of the output that is collected
/// before it is written.
const BUFFER: usize = 16 * 1024;

/// Maximum number of frames without a message that are read before other tasks get a turn.
const FRAMES: usize = 32;

/// Bytes of a client's control frame before its payload.
const CONTROL_HEAD: usize = 6;

/// How long an ending connection waits for the other side to close as well.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A WebSocket, whose handshake is done.
pub(crate) struct Channel<Io> {
    socket: WebSocketStream<CountedIo<Io>>,
    stage: Stage,
    heartbeat: Heartbeat,
    /// Bytes written at the last [`take_progress`](Self::take_progress).
    written: u64,
    /// Bytes read that belong to no incomplete message.
    consumed: u64,
    /// Why the connection is of no use any more, unless it says so itself.
    failure: Option<String>,
    role: Role,
    /// The bytes of control frames since the output was last written: each ping has added a pong to it.
    control_bytes: usize,
    /// Whether no more frames are read once the close frame is written.
    discards_input: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Open,
    /// The close frames of both sides are under way.
    Closing {
        deadline: Instant,
    },
    /// This side is closed; the rest of the input is discarded. The system resets a connection that is closed while
    /// input is unread, and the other side would lose the close frame.
    Draining {
        deadline: Instant,
    },
    Closed,
}

/// An event on a channel.
#[derive(Debug)]
pub(crate) enum ChannelEvent {
    Message(Bytes),
    /// The end.
    Ended {
        /// A description for the user, whose subject is the other side.
        detail: String,
        /// Whether the other side violated the protocol.
        is_violation: bool,
    },
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Channel<Io> {
    /// A channel over a stream on which `ahead` was read with the handshake. It accepts messages of up to
    /// `message_bytes`.
    pub(crate) fn new(
        io: Io,
        ahead: &[u8],
        role: Role,
        message_bytes: usize,
        pings: Option<PingPolicy>,
        now: Instant,
    ) -> Option<Self> {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_message_size(Some(message_bytes))
            .max_frame_size(Some(message_bytes));
        let mut io = CountedIo::new(io);
        io.frames.advance(ahead);
        let socket = WebSocketStream::from_partially_read(io, ahead.to_vec(), role, Some(config));
        Some(Self {
            // Nothing is awaited there.
            socket: socket.now_or_never()?,
            stage: Stage::Open,
            heartbeat: Heartbeat::new(pings, now),
            written: 0,
            consumed: 0,
            failure: None,
            role,
            control_bytes: 0,
            discards_input: false,
        })
    }

    /// Sends pings, and notices that none is answered. `reads` is whether [`poll_read`](Self::poll_read) is called.
    pub(crate) fn handle_timeout(&mut self, now: Instant, reads: bool) {
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        match self.heartbeat.advance(now, self.socket.get_ref().read, reads) {
            HeartbeatAction::None => {}
            HeartbeatAction::Ping => self.start_send(Message::Ping(Bytes::new())),
            HeartbeatAction::Fail => {
                self.failure.get_or_insert_with(|| "it stopped answering pings".to_owned());
            }
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) or [`poll_closed`](Self::poll_closed).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Open => self.heartbeat.deadline(),
            Stage::Closing { deadline } | Stage::Draining { deadline } => Some(deadline),
            Stage::Closed => None,
        }
    }

    /// Whether the other side has accepted bytes since the last call.
    pub(crate) fn take_progress(&mut self) -> bool {
        let written = self.socket.get_ref().written;
        std::mem::replace(&mut self.written, written) != written
    }

    /// The approximate number of bytes held for a message that has arrived in part, beyond the read buffer: memory for the
    /// payload of a frame is allocated when its head has arrived.
    pub(crate) fn partial_bytes(&self) -> usize {
        let io = self.socket.get_ref();
        let held = io.read.saturating_sub(self.consumed).saturating_add(io.frames.missing);
        usize::try_from(held).unwrap_or(usize::MAX).saturating_sub(BUFFER)
    }

    /// Receives the next message.
    pub(crate) fn poll_read(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<ChannelEvent> {
        if !matches!(self.stage, Stage::Open) {
            return Poll::Pending;
        }
        for _ in 0..FRAMES {
            if self.control_bytes > BUFFER {
                // The other side must read the pongs before it sends more pings.
                ready!(self.poll_flush(cx));
                self.control_bytes = 0;
            }
            let closing = match Pin::new(&mut self.socket).poll_next(cx) {
                //= K15 "Whole messages of JSON-RPC travel on event streams and WebSocket"
                Poll::Ready(Some(Ok(Message::Text(text)))) => {
                    self.consumed = self.socket.get_ref().read;
                    return Poll::Ready(ChannelEvent::Message(text.into()));
                }
                Poll::Ready(Some(Ok(Message::Ping(payload) | Message::Pong(payload)))) => {
                    let bytes = payload.len().saturating_add(CONTROL_HEAD);
                    self.control_bytes = self.control_bytes.saturating_add(bytes);
                    self.consumed =
                        self.consumed.saturating_add(bytes as u64).min(self.socket.get_ref().read);
                    continue;
                }
                Poll::Ready(Some(Ok(Message::Frame(_)))) => continue,
                Poll::Ready(Some(Ok(Message::Binary(_)))) => Closing::binary(),
                Poll::Ready(Some(Ok(Message::Close(frame)))) => Closing::of_peer(frame.as_ref()),
                Poll::Ready(Some(Err(error))) => Closing::of_error(&error),
                Poll::Ready(None) => Closing::of_peer(None),
                // Input that has arrived, such as a close frame, says more than the failure of a write.
                Poll::Pending => match self.failure.take() {
                    Some(detail) => Closing { code: Some(CloseCode::Away), detail },
                    None => return Poll::Pending,
                },
            };
            if let Some(code) = closing.code {
                self.close(now, code, "");
            }
            self.stage = Stage::Closing { deadline: now + CLOSE_TIMEOUT };
            let is_violation = closing.code.is_some_and(|code| code != CloseCode::Away);
            return Poll::Ready(ChannelEvent::Ended { detail: closing.detail, is_violation });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready if the channel takes another message.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.stage, Stage::Open) || self.failure.is_some() {
            // A message that is sent now is lost.
            return Poll::Ready(());
        }
        let written = ready!(Pin::new(&mut self.socket).poll_ready(cx));
        self.note_write(written);
        Poll::Ready(())
    }

    /// Sends a message, once [`poll_flush`](Self::poll_flush) has written it.
    pub(crate) fn send(&mut self, message: Bytes) {
        // The messages of this side are JSON, which is UTF-8.
        if let Ok(text) = Utf8Bytes::try_from(message) {
            self.start_send(Message::Text(text));
        }
    }

    fn start_send(&mut self, message: Message) {
        if matches!(self.stage, Stage::Open) && self.failure.is_none() {
            let sent = Pin::new(&mut self.socket).start_send(message);
            self.note_write(sent);
        }
    }

    /// Writes the buffered messages.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.stage, Stage::Open) || self.failure.is_some() {
            return Poll::Ready(());
        }
        let flushed = ready!(Pin::new(&mut self.socket).poll_flush(cx));
        self.note_write(flushed);
        Poll::Ready(())
    }

    fn note_write(&mut self, written: Result<(), async_tungstenite::tungstenite::Error>) {
        if let Err(error) = written {
            self.failure.get_or_insert_with(|| format!("writing to it failed: {error}"));
        }
    }

    /// Sends a close frame and begins to close. Does nothing if the channel is ending already.
    pub(crate) fn close(&mut self, now: Instant, code: CloseCode, reason: &'static str) {
        if matches!(self.stage, Stage::Open) {
            self.start_send(Message::Close(Some(CloseFrame {
                code,
                reason: Utf8Bytes::from_static(reason),
            })));
            self.stage = Stage::Closing { deadline: now + CLOSE_TIMEOUT };
        }
    }

    /// Stops reading frames as soon as the close frame is written, and frees the memory of an incomplete message.
    pub(crate) fn discard_input(&mut self) {
        self.discards_input = true;
    }

    /// Ready once an ending channel has closed, or its time is up. To be polled at the [deadline](Self::deadline) too.
    pub(crate) fn poll_closed(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = match self.stage {
            Stage::Open => return Poll::Pending,
            Stage::Closing { deadline } | Stage::Draining { deadline } => deadline,
            Stage::Closed => return Poll::Ready(()),
        };
        if now >= deadline {
            self.stage = Stage::Closed;
            return Poll::Ready(());
        }
        if let Stage::Closing { .. } = self.stage {
            // Without a working connection there is nothing to wait for: the streams below have ended as well.
            let _: Result<(), _> = ready!(Pin::new(&mut self.socket).poll_flush(cx));
            if !self.discards_input {
                ready!(self.poll_close_frame(cx));
            } else if let Some(socket) = self.emptied_socket() {
                self.socket = socket;
            }
            let _: std::io::Result<()> = ready!(Pin::new(self.socket.get_mut()).poll_close(cx));
            self.stage = Stage::Draining { deadline };
        }
        let mut scratch = [0; 4096];
        for _ in 0..FRAMES {
            if let Ok(0) | Err(_) = ready!(Pin::new(self.socket.get_mut()).poll_read(cx, &mut scratch)) {
                self.stage = Stage::Closed;
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The same connection with new buffers.
    fn emptied_socket(&mut self) -> Option<WebSocketStream<CountedIo<Io>>> {
        let config = WebSocketConfig::default().read_buffer_size(CONTROL_HEAD);
        let io = self.socket.get_mut().take();
        WebSocketStream::from_raw_socket(io, self.role, Some(config)).now_or_never()
    }

    /// Waits for the other side's close frame, or for the end of its input. Messages before it are discarded.
    fn poll_close_frame(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..FRAMES {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Poll::Ready(()),
                Some(Ok(_)) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The shortest interval of pings.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// Pings to a silent side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingPolicy {
    interval: Duration,
    timeout: Duration,
}

impl PingPolicy {
    /// A ping after `interval` of silence, which the other side has `timeout` to answer.
    pub(crate) fn new(interval: Duration, timeout: Duration) -> Self {
        Self { interval: interval.max(LEAST_INTERVAL), timeout: timeout.max(LEAST_INTERVAL) }
    }
}

/// Watches for signs of life.
pub(super) struct Heartbeat {
    /// `None` sends no pings.
    policy: Option<PingPolicy>,
    heard: Instant,
    /// Bytes read by then.
    bytes: u64,
    pinged: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeartbeatAction {
    None,
    Ping,
    /// The other side is gone.
    Fail,
}

impl Heartbeat {
    pub(super) fn new(policy: Option<PingPolicy>, now: Instant) -> Self {
        Self { policy, heard: now, bytes: 0, pinged: false }
    }

    /// `bytes` is the number of bytes read so far. While nothing `reads`, silence means nothing.
    pub(super) fn advance(&mut self, now: Instant, bytes: u64, reads: bool) -> HeartbeatAction {
        if self.bytes != bytes || !reads {
            *self = Self { policy: self.policy, heard: now, bytes, pinged: false };
        }
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return HeartbeatAction::None;
        }
        if std::mem::replace(&mut self.pinged, true) { HeartbeatAction::Fail } else { HeartbeatAction::Ping }
    }

    /// When [`advance`](Self::advance) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let PingPolicy { interval, timeout } = self.policy?;
        let pinged_at = self.heard + interval;
        Some(if self.pinged { pinged_at + timeout } else { pinged_at })
    }
}

/// The end of a WebSocket, as this side sees it.
pub(crate) struct Closing {
    /// The code of this side's close frame, if it sends one of its own.
    pub(super) code: Option<CloseCode>,
    /// A description for the user, whose subject is the other side.
    pub(super) detail: String,
}

impl Closing {
    //= F61 "the close reason reaches the caller"
    /// The other side sent this close frame, or ended without one.
    fn of_peer(frame: Option<&CloseFrame>) -> Self {
        let detail = match frame {
            None => "WebSocket close frame without a code".to_owned(),
            // How tungstenite reports a code that no frame may have.
            Some(CloseFrame { code: CloseCode::Protocol, reason })
                if reason.as_str() == "Protocol violation" =>
            {
                "WebSocket close frame with an invalid code".to_owned()
            }
            Some(CloseFrame { code, reason }) => {
                let (number, name) = (u16::from(*code), code_name(*code));
                match reason.as_str() {
                    "" => format!("WebSocket close code {number}{name}"),
                    // Escaped: a terminal may show it.
                    reason => format!("WebSocket close code {number}{name}: {}", reason.escape_debug()),
                }
            }
        };
        Self { code: None, detail }
    }

    /// The other side sent a binary message.
    fn binary() -> Self {
        let detail = "it sent a binary message; MCP messages are text".to_owned();
        Self { code: Some(CloseCode::Unsupported), detail }
    }

    /// Reading failed.
    pub(super) fn of_error(error: &Error) -> Self {
        let (code, detail) = match error {
            Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
                let limits = "`Limits::message_bytes`, and on a server `HttpServerConfig::body_bytes`";
                let detail = format!("it sent a message of {size} bytes; {max_size} are accepted: {limits}");
                (Some(CloseCode::Size), detail)
            }
            Error::Utf8(_) => (Some(CloseCode::Invalid), "it sent text that is not UTF-8".to_owned()),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                (None, "the WebSocket broke off without a close frame".to_owned())
            }
            Error::Protocol(error) => {
                (Some(CloseCode::Protocol), format!("it violates the WebSocket protocol: {error}"))
            }
            Error::Io(error) => (None, format!("reading from it failed: {error}")),
            error => (None, error.to_string()),
        };
        Self { code, detail }
    }
}

/// The meaning of a code, in parentheses. RFC 6455, section 7.4.1, and its registry.
fn code_name(code: CloseCode) -> &'static str {
    match code {
        CloseCode::Normal => " (normal closure)",
        CloseCode::Away => " (going away)",
        CloseCode::Protocol => " (protocol error)",
        CloseCode::Unsupported => " (unsupported data)",
        CloseCode::Invalid => " (invalid text)",
        CloseCode::Policy => " (policy violation)",
        CloseCode::Size => " (message too big)",
        CloseCode::Extension => " (missing extension)",
        CloseCode::Error => " (internal error)",
        CloseCode::Restart => " (service restart)",
        CloseCode::Again => " (try again later)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const INTERVAL: Duration = Duration::from_secs(7);

    /// A stream whose other side is the test.
    #[derive(Default)]
    struct Wire {
        input: VecDeque<u8>,
        output: Vec<u8>,
    }

    impl AsyncRead for Wire {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut [u8],
        ) -> Poll<std::io::Result<usize>> {
            if self.input.is_empty() {
                return Poll::Pending;
            }
            std::io::Read::read(&mut self.input, buf).into()
        }
    }

    impl AsyncWrite for Wire {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.output.extend_from_slice(buf);
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Channel<Wire> {
        fn wire(&mut self) -> &mut Wire {
            self.socket.get_mut().get_mut()
        }
    }

    fn server(pings: Option<PingPolicy>) -> Channel<Wire> {
        Channel::new(Wire::default(), &[], Role::Server, 100_000, pings, Instant::ORIGIN).unwrap()
    }

    fn read(channel: &mut Channel<Wire>, now: Instant) -> Poll<ChannelEvent> {
        channel.poll_read(now, &mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn channel_pings_at_its_interval_and_fails_without_an_answer() {
        let mut channel = server(Some(PingPolicy::new(INTERVAL, INTERVAL)));
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let mut now = Instant::ORIGIN + INTERVAL;
        assert_eq!(channel.deadline(), Some(now));
        channel.handle_timeout(now, true);
        assert!(channel.poll_flush(cx).is_ready());
        assert_eq!(channel.wire().output, [0x89, 0]);

        // An empty pong, masked.
        channel.wire().input.extend([0x8a, 0x80, 1, 2, 3, 4]);
        assert!(read(&mut channel, now).is_pending());
        now = now + INTERVAL / 2;
        channel.handle_timeout(now, true);
        assert_eq!(channel.deadline(), Some(now + INTERVAL));

        for _ in 0..2 {
            now = now + INTERVAL;
            channel.handle_timeout(now, true);
        }
        let Poll::Ready(ChannelEvent::Ended { detail, .. }) = read(&mut channel, now) else { panic!() };
        assert_eq!(detail, "it stopped answering pings");
    }

    #[test]
    fn channel_without_an_interval_sends_no_pings() {
        let mut channel = server(None);
        assert_eq!(channel.deadline(), None);
        channel.handle_timeout(Instant::ORIGIN + INTERVAL * 1000, true);
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        assert!(channel.poll_flush(cx).is_ready());
        assert!(channel.wire().output.is_empty());
    }

    fn heartbeat(now: Instant) -> Heartbeat {
        Heartbeat::new(Some(PingPolicy::new(INTERVAL, INTERVAL / 2)), now)
    }

    #[test]
    fn silent_peer_is_pinged_and_then_given_up() {
        let start = Instant::ORIGIN;
        let mut heartbeat = heartbeat(start);
        assert_eq!(heartbeat.advance(start + INTERVAL / 2, 0, true), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL, 0, true), HeartbeatAction::Ping);
        assert_eq!(heartbeat.advance(start + INTERVAL * 5 / 4, 0, true), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 3 / 2, 0, true), HeartbeatAction::Fail);
    }

    #[test]
    fn any_byte_of_the_peer_is_a_sign_of_life() {
        let start = Instant::ORIGIN;
        let mut heartbeat = heartbeat(start);
        assert_eq!(heartbeat.advance(start + INTERVAL, 0, true), HeartbeatAction::Ping);
        assert_eq!(heartbeat.advance(start + INTERVAL * 5 / 4, 6, true), HeartbeatAction::None);
        assert_eq!(heartbeat.deadline(), Some(start + INTERVAL * 9 / 4));
    }

    #[test]
    fn peer_is_not_given_up_while_this_side_does_not_read() {
        let start = Instant::ORIGIN;
        let mut heartbeat = heartbeat(start);
        assert_eq!(heartbeat.advance(start + INTERVAL * 9, 0, false), HeartbeatAction::None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 10, 0, true), HeartbeatAction::Ping);
    }

    #[test]
    fn peer_is_not_pinged_without_an_interval() {
        let start = Instant::ORIGIN;
        let mut heartbeat = Heartbeat::new(None, start);
        assert_eq!(heartbeat.deadline(), None);
        assert_eq!(heartbeat.advance(start + INTERVAL * 1000, 0, true), HeartbeatAction::None);
    }

    #[test]
    fn intervals_are_at_least_a_second() {
        let start = Instant::ORIGIN;
        let heartbeat = Heartbeat::new(Some(PingPolicy::new(Duration::ZERO, Duration::ZERO)), start);
        assert_eq!(heartbeat.deadline(), Some(start + Duration::from_secs(1)));
    }

    fn detail(code: CloseCode, reason: &'static str) -> String {
        Closing::of_peer(Some(&CloseFrame { code, reason: reason.into() })).detail
    }

    #[test]
    fn description_names_code_and_reason() {
        assert_eq!(
            detail(CloseCode::Error, "out of disk"),
            "WebSocket close code 1011 (internal error): out of disk"
        );
        assert_eq!(detail(CloseCode::Library(4000), ""), "WebSocket close code 4000");
    }

    #[test]
    fn description_escapes_control_characters() {
        assert_eq!(
            detail(CloseCode::Normal, "\u{1b}[2Jbye"),
            "WebSocket close code 1000 (normal closure): \\u{1b}[2Jbye"
        );
    }
}
