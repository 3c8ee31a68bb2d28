//! Clients over WebSocket: one connection, which carries whole messages both ways.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_tungstenite::tungstenite::handshake::derive_accept_key;
use async_tungstenite::tungstenite::protocol::Role;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_lite::future::{Boxed, or};
use http::header::{self, HeaderMap};
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use mcp_proto::adapter::{self, Clock as _};
use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode};
use mcp_proto::peer::TransportError;
use mcp_proto::peer::client::{ClientConfig, EraPolicy, LinkAction};
use mcp_proto::rpc::Text;
use mcp_proto::transport::ChannelClient;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest, exchange_error};
use mcp_proto::transport::http::{ExchangeId, Verb};
use mcp_proto::transport::tool_frames::{ClientFrame, frame_of, response_of};
use mcp_proto::{Instant, Limits};

use super::connection::Connector;
use super::credentials::{Authorizer, ExchangeAction};
use super::target::{Origin, Scheme, Target};
use super::transport::Transport;
use super::{NO_AUTHORIZATION, ROUNDS, TURN};
use crate::io::{BufferedBody, Headers, HyperIo};
use crate::runtime::{Runtime, Stream};
use crate::time::{Alarm, RuntimeClock};
use crate::websocket::{Channel, ChannelEvent, PingPolicy, SUBPROTOCOL};
use crate::wire::{WireEvent, mark_secrets};

/// Default interval of pings. Proxies wait at least a minute.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How a client speaks over WebSocket.
#[derive(Clone, Copy)]
pub(super) struct WebSocketOptions {
    /// Whether it sends tool frames.
    pub(super) tool_frames: bool,
    pub(super) ping_interval: Option<Duration>,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self { tool_frames: false, ping_interval: Some(PING_INTERVAL) }
    }
}

/// The parts of a client over WebSocket, and the loop over them.
pub(super) struct WebSocketLoop<H: HandlerMode, R> {
    front: adapter::ClientDriver<ChannelClient, H>,
    /// Opens the connection, and performs the fetches of the authorizer.
    pub(super) transport: Transport<R>,
    pub(super) authorizer: Option<Authorizer>,
    /// The URL of the upgrade.
    url: Arc<str>,
    link: Link,
    tool_frames: bool,
    /// The number of upgrade requests.
    upgrades: u64,
    /// How often the server has refused the present one.
    attempt: u32,
    limits: Limits,
    pings: Option<PingPolicy>,
    wants_read: bool,
    clock: Arc<RuntimeClock>,
    alarm: Alarm,
}

enum Link {
    Closed,
    /// Waits for credentials, after the server's refusal if there was one.
    Parked(Option<Box<TransportError>>),
    Opening(ExchangeId, Boxed<UpgradeOutcome>),
    Open(Box<Channel<Box<dyn Stream>>>),
    /// The machine knows that the connection has ended.
    Ending(Box<Channel<Box<dyn Stream>>>),
}

/// Starts a client over WebSocket.
pub(super) fn start<H: HandlerMode, R: Runtime>(
    mut config: ClientConfig,
    options: WebSocketOptions,
    url: String,
    handlers: ClientHandlers<H>,
    transport: Transport<R>,
    mut authorizer: Option<Authorizer>,
    clock: Arc<RuntimeClock>,
) -> (Client, Box<WebSocketLoop<H, R>>) {
    config.can_reopen = true;
    if options.tool_frames {
        config.era_policy = EraPolicy::LegacyOnly;
    }
    let limits = config.limits;
    let (client, front) = super::start(ChannelClient::new(config), handlers, authorizer.as_mut(), &clock);
    let run = WebSocketLoop {
        front,
        transport,
        authorizer,
        url: url.into(),
        link: Link::Closed,
        tool_frames: options.tool_frames,
        upgrades: 0,
        attempt: 0,
        limits,
        pings: options.ping_interval.map(|interval| PingPolicy::new(interval, interval)),
        wants_read: true,
        clock,
        alarm: Alarm::default(),
    };
    (client, Box::new(run))
}

impl<H: HandlerMode, R: Runtime> WebSocketLoop<H, R> {
    /// Runs everything that is ready.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            let acted = self.poll_machine(now, cx).is_ready();
            let sent = self.poll_send(cx);
            let happened = self.poll_link(now, cx).is_ready();
            let authorized = (0..TURN).take_while(|_| self.poll_authorizer(cx).is_ready()).count();
            if acted || sent || happened || authorized > 0 {
                continue;
            }
            if matches!(self.link, Link::Closed)
                && let Poll::Ready(ended) = super::poll_end(&mut self.front, self.authorizer.as_ref())
            {
                return Poll::Ready(ended);
            }
            let first = self.next_timeout().and_then(|at| self.clock.at(at));
            if self.alarm.poll_until(first, self.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn next_timeout(&self) -> Option<Instant> {
        let of_link = match &self.link {
            Link::Open(channel) | Link::Ending(channel) => channel.deadline(),
            Link::Closed | Link::Parked(_) | Link::Opening(..) => None,
        };
        let of_authorizer = self.authorizer.as_ref().and_then(Authorizer::poll_timeout);
        [self.front.next_timeout(), of_link, of_authorizer].into_iter().flatten().min()
    }

    /// Carries out the machine's action on the link. Ready if there was one, as more may follow.
    fn poll_machine(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, link, wants_read, .. } = self;
        let mut written = false;
        if let Link::Open(channel) = link {
            channel.handle_timeout(now, *wants_read);
            written = channel.take_progress();
        }
        let action = ready!(front.poll(cx, |machine, now| {
            if written {
                machine.handle_written(now);
            }
            machine.handle_timeout(now);
            *wants_read = machine.wants_read();
            machine.poll_link().map_or(Poll::Pending, Poll::Ready)
        }));
        match (action, &mut self.link) {
            (LinkAction::Open, _) => {
                self.attempt = 0;
                self.open();
            }
            (LinkAction::CloseWrite, Link::Open(channel)) => channel.close(now, CloseCode::Normal, ""),
            (LinkAction::CloseWrite, Link::Ending(_)) => {}
            (LinkAction::CloseWrite | LinkAction::Abort, _) => self.drop_link(),
        }
        Poll::Ready(())
    }

    /// Sends messages as long as the server takes them. Returns whether there were any.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> bool {
        let Link::Open(channel) = &mut self.link else { return false };
        let mut sent = false;
        for _ in 0..TURN {
            if channel.poll_ready(cx).is_pending() {
                return sent;
            }
            let Some(message) = self.front.lock(|machine, _| machine.poll_transmit()) else { break };
            sent = true;
            let message = match self.tool_frames.then(|| frame_of(&message)) {
                None => message,
                Some(ClientFrame::Send(frame)) => frame,
                Some(ClientFrame::Answer(answer)) => {
                    self.front.lock(|machine, now| machine.handle_message(now, &answer));
                    continue;
                }
                Some(ClientFrame::Drop) => continue,
            };
            self.transport.show(WireEvent::MessageSent(&message));
            channel.send(message);
        }
        // If it is pending, its waker is stored.
        let _ = channel.poll_flush(cx);
        sent
    }

    /// Passes the link's next event to the machine. Ready if there was one.
    fn poll_link(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Link::Closed | Link::Parked(_) => Poll::Pending,
            Link::Opening(exchange, opening) => {
                let (exchange, outcome) = (*exchange, ready!(opening.as_mut().poll(cx)));
                self.handle_upgrade(exchange, outcome);
                Poll::Ready(())
            }
            Link::Open(channel) => {
                if channel.poll_closed(now, cx).is_ready() {
                    self.link = Link::Closed;
                    self.front.lock(|machine, now| machine.handle_eof(now, ""));
                    return Poll::Ready(());
                }
                if !self.wants_read {
                    return Poll::Pending;
                }
                match ready!(channel.poll_read(now, cx)) {
                    ChannelEvent::Message(message) => {
                        self.transport.show(WireEvent::MessageReceived(&message));
                        let message = if self.tool_frames { response_of(&message) } else { Some(message) };
                        let Some(message) = message else { return Poll::Ready(()) };
                        self.wants_read = self.front.lock(|machine, now| {
                            machine.handle_message(now, &message);
                            machine.wants_read()
                        });
                    }
                    ChannelEvent::Ended { detail, .. } => {
                        self.front.lock(|machine, now| machine.handle_eof(now, &detail));
                        if let Link::Open(channel) = std::mem::replace(&mut self.link, Link::Closed) {
                            self.link = Link::Ending(channel);
                        }
                    }
                }
                Poll::Ready(())
            }
            Link::Ending(channel) => {
                ready!(channel.poll_closed(now, cx));
                self.link = Link::Closed;
                Poll::Ready(())
            }
        }
    }

    /// Asks for the upgrade, or for the credentials that it needs first.
    fn open(&mut self) {
        self.drop_link();
        self.upgrades = self.upgrades.wrapping_add(1);
        let request = HttpRequest {
            exchange: ExchangeId::new(self.upgrades),
            verb: Verb::Get,
            url: self.url.clone(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        };
        match self.authorize(request) {
            Some(request) => self.send_upgrade(request),
            None => self.link = Link::Parked(None),
        }
    }

    fn send_upgrade(&mut self, request: HttpRequest) {
        let exchange = request.exchange;
        match self.transport.upgrade(request) {
            Ok(opening) => self.link = Link::Opening(exchange, opening),
            Err(detail) => self.fail_open(&detail),
        }
    }

    fn handle_upgrade(&mut self, exchange: ExchangeId, outcome: UpgradeOutcome) {
        self.link = Link::Closed;
        match outcome {
            UpgradeOutcome::Upgraded { io, ahead, status, headers } => {
                self.note_head(exchange, status, headers);
                self.forget_exchange(exchange);
                let (bytes, now) = (self.limits.message_bytes, self.clock.now());
                if let Some(channel) = Channel::new(io, &ahead, Role::Client, bytes, self.pings, now) {
                    self.link = Link::Open(Box::new(channel));
                    self.front.lock(|machine, now| machine.handle_open(now));
                }
            }
            UpgradeOutcome::Refused { status, headers } => {
                let headers = self.note_head(exchange, status, headers);
                let error = exchange_error(status.as_u16(), &Headers(&headers), &self.limits);
                self.handle_refusal(exchange, &headers, error);
            }
            UpgradeOutcome::Invalid { status, headers, detail } => {
                self.note_head(exchange, status, headers);
                self.forget_exchange(exchange);
                self.fail_open(detail);
            }
            UpgradeOutcome::Failed(detail) => {
                self.forget_exchange(exchange);
                self.fail_open(&detail);
            }
        }
    }

    fn fail_open(&mut self, detail: &str) {
        self.link = Link::Closed;
        self.front.lock(|machine, _| machine.handle_open_failed(detail));
    }

    fn refuse_open(&mut self, error: TransportError) {
        self.link = Link::Closed;
        self.front.lock(|machine, _| machine.handle_open_refused("the upgrade to a WebSocket", error));
    }

    fn drop_link(&mut self) {
        if let Link::Opening(exchange, _) = std::mem::replace(&mut self.link, Link::Closed) {
            self.forget_exchange(exchange);
        }
    }

    /// Attaches credentials to the upgrade request, or queues it until there are some.
    fn authorize(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        match &mut self.authorizer {
            Some(authorizer) => authorizer.authorize(request),
            None => Some(request),
        }
    }

    fn note_head(&mut self, exchange: ExchangeId, status: StatusCode, mut headers: HeaderMap) -> HeaderMap {
        self.transport.show_head(exchange, status, &mut headers);
        #[cfg(feature = "auth")]
        if let Some(Authorizer::OAuth(authorizer)) = &mut self.authorizer {
            authorizer.note_head(exchange, dpop_nonce(&headers).as_deref());
        }
        headers
    }

    /// Obtains other credentials if the server requires them, otherwise gives up.
    fn handle_refusal(&mut self, exchange: ExchangeId, headers: &HeaderMap, error: TransportError) {
        match &mut self.authorizer {
            Some(authorizer) if error.needs_authorization => {
                authorizer.handle_challenge(&AuthorizationRequired {
                    exchange,
                    status: error.status,
                    header: error.challenge.as_deref().map(Into::into),
                    dpop_nonce: dpop_nonce(headers),
                    attempt: self.attempt,
                });
                self.link = Link::Parked(Some(Box::new(error)));
            }
            None if error.needs_authorization => {
                self.refuse_open(error.with_unauthorized(NO_AUTHORIZATION));
            }
            _ => {
                self.forget_exchange(exchange);
                self.refuse_open(error);
            }
        }
    }

    fn forget_exchange(&mut self, exchange: ExchangeId) {
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.forget_exchange(exchange);
        }
    }

    /// Carries out the authorizer's next action. Ready if there was one.
    fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(authorizer) = &mut self.authorizer else { return Poll::Pending };
        let current = ExchangeId::new(self.upgrades);
        match ready!(authorizer.poll(cx)) {
            ExchangeAction::Open(request) if request.exchange == current => self.send_upgrade(request),
            ExchangeAction::Fail(exchange, detail) if exchange == current => self.fail_open(&detail),
            ExchangeAction::Resume(exchange) if exchange == current => {
                self.attempt = self.attempt.saturating_add(1);
                self.open();
            }
            ExchangeAction::Refuse(exchange, detail) if exchange == current => {
                match std::mem::replace(&mut self.link, Link::Closed) {
                    Link::Parked(Some(error)) => self.refuse_open(error.with_unauthorized(&detail)),
                    _ => self.fail_open(&detail),
                }
            }
            // The connection has been given up meanwhile.
            ExchangeAction::Open(_)
            | ExchangeAction::Fail(..)
            | ExchangeAction::Resume(_)
            | ExchangeAction::Refuse(..) => {}
        }
        Poll::Ready(())
    }
}

fn dpop_nonce(headers: &HeaderMap) -> Option<String> {
    headers.get("dpop-nonce")?.to_str().ok().map(str::to_owned)
}

/// The result of an upgrade request.
pub(super) enum UpgradeOutcome {
    /// The connection, and the bytes that were read after the answer.
    Upgraded { io: Box<dyn Stream>, ahead: bytes::Bytes, status: StatusCode, headers: HeaderMap },
    /// The server answered with another status.
    Refused { status: StatusCode, headers: HeaderMap },
    /// The server answered with an upgrade to something else.
    Invalid { status: StatusCode, headers: HeaderMap, detail: &'static str },
    /// There was no connection, or no answer.
    Failed(String),
}

impl<R: Runtime> Transport<R> {
    /// Sends an upgrade request with the application's headers, on a connection of its own.
    ///
    /// # Errors
    /// If the request cannot be sent: why.
    pub(super) fn upgrade(&mut self, request: HttpRequest) -> Result<Boxed<UpgradeOutcome>, String> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|_| "the system's random number generator failed")?;
        let key = BASE64.encode(nonce);
        let mut request = request;
        for (name, value) in [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "mcp"),
        ] {
            request.headers.push((name.into(), Text::from_static(value)));
        }
        request.headers.push(("sec-websocket-key".into(), key.clone().into()));
        let (target, mut request) = self.prepare(request)?;
        *request.uri_mut() = target.origin_form();
        request.headers_mut().insert(header::HOST, target.host.clone());
        let connector = self.connector.clone();
        Ok(Box::pin(connect(connector, target, request, derive_accept_key(key.as_bytes()))))
    }

    /// Shows the head of an answer to the application's observer.
    pub(super) fn show_head(&mut self, exchange: ExchangeId, status: StatusCode, headers: &mut HeaderMap) {
        mark_secrets(headers);
        self.show(WireEvent::Head { exchange, status, headers });
    }
}

async fn connect<R: Runtime>(
    connector: Arc<Connector<R>>,
    target: Arc<Target>,
    request: Request<BufferedBody>,
    accept: String,
) -> UpgradeOutcome {
    let origin = &target.origin;
    let stream = match connector.limited(origin, connector.open_tunnel(origin)).await {
        Ok(stream) => stream,
        Err(error) => return UpgradeOutcome::Failed(error.detail),
    };
    let upgrading = async { upgrade(stream, request, &accept).await.map_err(|error| error.to_string()) };
    match or(upgrading, async { Err(connector.time_out("answer of", origin).await) }).await {
        Ok(outcome) => outcome,
        Err(detail) => UpgradeOutcome::Failed(format!("{}: {detail}", origin.with_port())),
    }
}

async fn upgrade(
    stream: Box<dyn Stream>,
    request: Request<BufferedBody>,
    accept: &str,
) -> Result<UpgradeOutcome, hyper::Error> {
    let (mut sender, connection) = http1::handshake(HyperIo(stream)).await?;
    let mut answering = pin!(sender.send_request(request));
    let mut serving = pin!(connection.without_shutdown());
    let mut parts = None;
    let answer = poll_fn(|cx| {
        if parts.is_none()
            && let Poll::Ready(ended) = serving.as_mut().poll(cx)
        {
            parts = Some(ended);
        }
        answering.as_mut().poll(cx)
    });
    let (head, _) = answer.await?.into_parts();
    let (status, headers) = (head.status, head.headers);
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(UpgradeOutcome::Refused { status, headers });
    }
    let upgrade = headers.get(header::UPGRADE);
    let is_websocket = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let detail = if !is_websocket || headers.get(header::SEC_WEBSOCKET_ACCEPT).is_none_or(|key| key != accept)
    {
        "the server's answer to the upgrade is not that of a WebSocket"
    } else if headers.get(header::SEC_WEBSOCKET_PROTOCOL).is_some_and(|protocol| protocol != SUBPROTOCOL) {
        "the server chose another subprotocol than `mcp`"
    } else if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        "the server chose an extension of WebSocket that was not offered"
    } else {
        let parts = match parts {
            Some(parts) => parts?,
            None => serving.await?,
        };
        return Ok(UpgradeOutcome::Upgraded { io: parts.io.0, ahead: parts.read_buf, status, headers });
    };
    Ok(UpgradeOutcome::Invalid { status, headers, detail })
}

impl<R: Runtime> Connector<R> {
    /// Opens a stream for a WebSocket. A proxy opens a tunnel for it, encrypted or not.
    async fn open_tunnel(&self, origin: &Origin) -> io::Result<Box<dyn Stream>> {
        // As for HTTP/2, which proxies do not forward either.
        let (stream, _) = self.open_stream(origin, true, |_| true).await?;
        match origin.scheme {
            Scheme::Http => Ok(stream),
            Scheme::Https => self.tls.encrypt_http1(stream, &origin.host).await,
        }
    }
}
