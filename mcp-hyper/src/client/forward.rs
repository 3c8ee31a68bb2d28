//! Requests of other clients, passed on to a server as they are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use futures_lite::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use http::header::{self, HeaderMap, HeaderName};
use http::uri::Authority;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use mcp_proto::adapter::Clock as _;
use mcp_proto::rpc::Text;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, Verb};
use mcp_proto::{Instant, Limits, Secret};

use super::ROUNDS;
use super::credentials::{Authorizer, ExchangeAction};
use super::error::error_chain;
use super::options::ConnectError;
use super::target::is_loopback;
use super::transport::{Transport, TransportEvent};
#[cfg(feature = "auth")]
use crate::auth::AuthHandle;
use crate::io::{BufferedBody, HyperIo};
use crate::runtime::{DefaultRuntime, Runtime};
use crate::time::{Alarm, RuntimeClock};

/// The most connections of clients that are served at a time. Each may have one to the server beside it.
const MAX_CONNECTIONS: usize = 256;

/// The answer on other connections, without a wait for their requests.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\n\
too many connections: close some\n";

/// Headers of one connection, and those that a client sends because of the address that it knows, which the server would
/// refuse. Compressed bodies could not be read in a trace.
static LEFT_OUT: [HeaderName; 10] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::HOST,
    header::ORIGIN,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    HeaderName::from_static("keep-alive"),
];

/// A server for other clients, which passes their requests on to the server at a URL: see
/// [`ClientOptions::forward`](super::ClientOptions::forward).
#[derive(Clone)]
pub struct Forwarder(Arc<Shared>);

struct Shared {
    /// The URL of the server.
    target: Arc<str>,
    /// The path of the only resource.
    path: Secret,
    address: SocketAddr,
    /// One for each connection that is open, and this one.
    connections: Arc<()>,
    /// Headers of the options, which replace a client's.
    replaced: Vec<HeaderName>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the last request.
    last: u64,
    /// Requests that have yet to be sent.
    new: VecDeque<u64>,
    /// Requests whose client is gone.
    dropped: Vec<u64>,
    exchanges: BTreeMap<u64, Forwarded>,
    driver: Option<Waker>,
    is_over: bool,
}

/// A request that is being passed on, and the part of its response that is there.
struct Forwarded {
    request: HttpRequest,
    /// How often it was refused for lack of authorization.
    attempt: u32,
    head: Option<Result<(StatusCode, HeaderMap), String>>,
    pieces: VecDeque<Bytes>,
    end: Option<ExchangeEnd>,
    reader: Option<Waker>,
}

impl Forwarder {
    /// A forwarder to the server at a URL, for clients that reach it at this address.
    pub(super) fn new(
        target: &str,
        address: SocketAddr,
        replaced: Vec<HeaderName>,
    ) -> Result<Self, ConnectError> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|_| ConnectError::NoEntropy)?;
        let path = Secret::new(format!("/{:032x}/mcp", u128::from_be_bytes(secret)));
        let (target, connections, state) = (target.into(), Arc::default(), Mutex::default());
        Ok(Self(Arc::new(Shared { target, path, address, connections, replaced, state })))
    }

    /// The URL to give to the client. Its path is a secret that no other program of this machine can guess.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.0.address, self.0.path.expose())
    }

    /// Serves a connection of a client, until it ends. Dropping the future closes it, and aborts its requests. While 256
    /// connections are open, others are refused with status 503 and closed.
    ///
    /// # Errors
    /// If the connection fails, or the client does not speak HTTP/1.1.
    pub fn connection<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        mut io: Io,
    ) -> impl Future<Output = io::Result<()>> + use<Io> {
        let forwarder = self.clone();
        let open = self.0.connections.clone();
        async move {
            if Arc::strong_count(&open) > MAX_CONNECTIONS + 1 {
                io.write_all(TOO_MANY).await?;
                return io.close().await;
            }
            forwarder.serve(io).await
        }
    }

    async fn serve<Io: AsyncRead + AsyncWrite + Unpin + 'static>(self, io: Io) -> io::Result<()> {
        let service = service_fn(move |request| {
            let forwarder = self.clone();
            async move { Ok::<_, Infallible>(forwarder.answer(request).await) }
        });
        http1::Builder::new().serve_connection(HyperIo(io), service).await.map_err(io::Error::other)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<ForwardedBody> {
        match self.forward(request).await {
            Ok(response) => response,
            Err((status, why)) => {
                let mut response =
                    Response::new(ForwardedBody::Text(BufferedBody(format!("{why}\n").into())));
                *response.status_mut() = status;
                response
            }
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<ForwardedBody>, ErrorAnswer> {
        let (head, body) = request.into_parts();
        self.check(&head)?;
        let verb = match head.method {
            Method::GET => Verb::Get,
            Method::POST => Verb::Post,
            Method::DELETE => Verb::Delete,
            _ => return Err((StatusCode::METHOD_NOT_ALLOWED, "this method is not passed on".into())),
        };
        let headers = self.passed_headers(&head.headers)?;
        let body = read(body).await?;
        let exchange = ExchangeId::new(0);
        let request = HttpRequest { exchange, verb, url: self.0.target.clone(), headers, body };
        let running = self.start(request)?;
        let (status, headers) = poll_fn(|cx| running.poll_head(cx)).await.map_err(bad_gateway)?;
        let mut response = Response::new(ForwardedBody::Running(running));
        *response.status_mut() = status;
        let passed = headers.iter().filter(|(name, _)| !LEFT_OUT.contains(name));
        response.headers_mut().extend(passed.map(|(name, value)| (name.clone(), value.clone())));
        Ok(response)
    }

    /// Refuses requests of web pages, and of clients that were not given the URL.
    fn check(&self, head: &http::request::Parts) -> Result<(), ErrorAnswer> {
        let is_path = Secret::new(head.uri.path()) == self.0.path;
        let text = |name| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = text(header::HOST).and_then(|host| host.parse::<Authority>().ok());
        let is_to_here = host
            .is_some_and(|host| is_local(&host) && host.port_u16().unwrap_or(80) == self.0.address.port());
        let is_from_here = text(header::ORIGIN).is_none_or(|origin| {
            let origin = origin.parse::<Uri>().ok();
            origin.as_ref().and_then(Uri::authority).is_some_and(is_local)
        });
        if !is_to_here || !is_from_here {
            return Err((StatusCode::FORBIDDEN, "only clients on this machine may send requests".into()));
        }
        match is_path {
            true => Ok(()),
            false => Err((StatusCode::NOT_FOUND, "there is nothing at this path".into())),
        }
    }

    fn passed_headers(&self, headers: &HeaderMap) -> Result<Vec<Header>, ErrorAnswer> {
        let is_passed = |name: &HeaderName| {
            !LEFT_OUT.contains(name) && name != header::CONTENT_LENGTH && !self.0.replaced.contains(name)
        };
        let passed = headers.iter().filter(|(name, _)| is_passed(name));
        let texts = passed.map(|(name, value)| match value.to_str() {
            Ok(value) => Ok((name.to_string().into(), value.to_owned().into())),
            Err(_) => Err((StatusCode::BAD_REQUEST, format!("the header {name} is not text"))),
        });
        texts.collect()
    }

    fn start(&self, request: HttpRequest) -> Result<Running, ErrorAnswer> {
        let mut state = self.0.lock();
        if state.is_over {
            return Err(bad_gateway("nothing is passed on any more".into()));
        }
        state.last += 1;
        let key = state.last;
        let forwarded =
            Forwarded { request, attempt: 0, head: None, pieces: VecDeque::new(), end: None, reader: None };
        state.exchanges.insert(key, forwarded);
        state.new.push_back(key);
        wake(state);
        Ok(Running { shared: self.0.clone(), key })
    }
}

debug_fields! { Forwarder(self) { address = self.0.address } }

/// A header of the protocol's requests.
type Header = (std::borrow::Cow<'static, str>, Text);

/// An answer of this program's own.
type ErrorAnswer = (StatusCode, String);

fn bad_gateway(why: String) -> ErrorAnswer {
    (StatusCode::BAD_GATEWAY, why)
}

fn has_authorization(request: &HttpRequest) -> bool {
    request.headers.iter().any(|(name, _)| name == "authorization")
}

fn is_local(authority: &Authority) -> bool {
    is_loopback(authority.host().trim_start_matches('[').trim_end_matches(']'))
}

/// Reads the body of a request, which is one message.
async fn read(mut body: Incoming) -> Result<Bytes, ErrorAnswer> {
    let limit = Limits::default().message_bytes;
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| (StatusCode::BAD_REQUEST, error_chain(&error)))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if bytes.len() > limit.saturating_sub(whole.len()) {
            let what = format!("the body is longer than {limit} bytes");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.freeze())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the driver, once the lock is released.
fn wake(mut state: MutexGuard<'_, State>) {
    let driver = state.driver.take();
    drop(state);
    if let Some(driver) = driver {
        driver.wake();
    }
}

/// A request that is being passed on, which is aborted when its client is gone.
struct Running {
    shared: Arc<Shared>,
    key: u64,
}

impl Running {
    fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<(StatusCode, HeaderMap), String>> {
        let mut state = self.shared.lock();
        let is_over = state.is_over;
        let Some(forwarded) = state.exchanges.get_mut(&self.key).filter(|_| !is_over) else {
            return Poll::Ready(Err("nothing is passed on any more".into()));
        };
        match forwarded.head.take() {
            Some(head) => Poll::Ready(head),
            None => {
                forwarded.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut state = self.shared.lock();
        let is_over = state.is_over;
        let Some(forwarded) = state.exchanges.get_mut(&self.key).filter(|_| !is_over) else {
            return Poll::Ready(Some(Err(io::ErrorKind::BrokenPipe.into())));
        };
        if let Some(piece) = forwarded.pieces.pop_front() {
            // It reads on.
            wake(state);
            return Poll::Ready(Some(Ok(piece)));
        }
        match &forwarded.end {
            None => {
                forwarded.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(ExchangeEnd::Complete) => Poll::Ready(None),
            Some(_) => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.dropped.push(self.key);
        wake(state);
    }
}

/// The body of a response.
enum ForwardedBody {
    Text(BufferedBody),
    Running(Running),
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Text(text) => Pin::new(text).poll_frame(cx).map_err(|never| match never {}),
            Self::Running(running) => running.poll_piece(cx).map(|piece| piece.map(|it| it.map(Frame::data))),
        }
    }
}

/// The future that passes on the requests of a [`Forwarder`]. It never ends; dropping it ends them.
#[must_use = "nothing is passed on until the driver is polled: spawn it on an executor"]
pub struct ForwardDriver<R = DefaultRuntime> {
    shared: Arc<Shared>,
    transport: Transport<R>,
    authorizer: Option<Authorizer>,
    alarm: Alarm,
    clock: Arc<RuntimeClock>,
    /// The number of the last exchange: a request that is repeated has several.
    last: u64,
    keys: BTreeMap<ExchangeId, u64>,
    /// Exchanges that were refused for lack of authorization.
    parked: BTreeSet<ExchangeId>,
}

impl<R: Runtime> ForwardDriver<R> {
    pub(super) fn new(
        forwarder: &Forwarder,
        transport: Transport<R>,
        authorizer: Option<Authorizer>,
        clock: Arc<RuntimeClock>,
    ) -> Self {
        Self {
            shared: forwarder.0.clone(),
            transport,
            authorizer,
            alarm: Alarm::default(),
            clock,
            last: 0,
            keys: BTreeMap::new(),
            parked: BTreeSet::new(),
        }
    }

    /// The handle to the tokens, if there is an [`Authorization`](crate::auth::Authorization).
    #[cfg(feature = "auth")]
    pub fn auth(&self) -> Option<AuthHandle> {
        match &self.authorizer {
            Some(Authorizer::OAuth(authorizer)) => Some(authorizer.handle()),
            _ => None,
        }
    }

    /// Changes what is known of an exchange's response, and wakes its reader, once the lock is released.
    fn with(&self, exchange: ExchangeId, change: impl FnOnce(&mut Forwarded)) {
        let Some(key) = self.keys.get(&exchange) else { return };
        let reader = self.shared.lock().exchanges.get_mut(key).and_then(|forwarded| {
            change(forwarded);
            forwarded.reader.take()
        });
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Takes new requests, aborts those whose client is gone, and reads where a client wants more.
    fn poll_requests(&mut self, now: Instant, cx: &Context<'_>) -> bool {
        let (mut new, mut gone, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut state = self.shared.lock();
            state.driver = Some(cx.waker().clone());
            new.extend(std::mem::take(&mut state.new));
            for key in std::mem::take(&mut state.dropped) {
                gone.extend(state.exchanges.remove(&key).map(|forwarded| forwarded.request.exchange));
            }
            let is_read = |key| state.exchanges.get(key).is_some_and(|it: &Forwarded| it.pieces.is_empty());
            wanted.extend(self.transport.unread().filter(|it| self.keys.get(it).is_some_and(is_read)));
        }
        let any = !new.is_empty() || !gone.is_empty() || !wanted.is_empty();
        for exchange in gone {
            self.forget(now, exchange);
        }
        new.into_iter().for_each(|key| self.send(now, key));
        wanted.into_iter().for_each(|exchange| self.transport.read(now, exchange));
        any
    }

    /// Sends a request, or waits for its credentials first.
    fn send(&mut self, now: Instant, key: u64) {
        self.last += 1;
        let exchange = ExchangeId::new(self.last);
        let request = self.shared.lock().exchanges.get_mut(&key).map(|forwarded| {
            forwarded.request.exchange = exchange;
            forwarded.request.clone()
        });
        let Some(request) = request else { return };
        self.keys.insert(exchange, key);
        let request = match &mut self.authorizer {
            Some(authorizer) if !has_authorization(&request) => authorizer.authorize(request),
            _ => Some(request),
        };
        if let Some(request) = request {
            self.transport.open(now, request);
        }
    }

    fn forget(&mut self, now: Instant, exchange: ExchangeId) {
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.forget_exchange(exchange);
        }
        self.transport.abort(now, exchange);
        self.keys.remove(&exchange);
        self.parked.remove(&exchange);
    }

    fn poll_transport(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        if self.transport.poll(now, cx).is_pending() {
            return false;
        }
        self.transport.show_events();
        for event in std::mem::take(&mut self.transport.events) {
            match event {
                TransportEvent::Head { exchange, status, headers } => {
                    self.handle_head(now, exchange, status, headers);
                }
                TransportEvent::Body { exchange, bytes } if !self.parked.contains(&exchange) => {
                    self.with(exchange, |forwarded| forwarded.pieces.push_back(bytes));
                }
                TransportEvent::End { exchange, end } if !self.parked.contains(&exchange) => {
                    self.handle_end(exchange, end);
                }
                _ => {}
            }
        }
        #[cfg(feature = "auth")]
        if let Some(Authorizer::OAuth(authorizer)) = &mut self.authorizer {
            authorizer.forget_ended();
        }
        true
    }

    fn handle_head(&mut self, now: Instant, exchange: ExchangeId, status: StatusCode, headers: HeaderMap) {
        let text = |name: &str| {
            let values: Vec<_> = headers.get_all(name).iter().filter_map(|it| it.to_str().ok()).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let dpop_nonce = text("dpop-nonce");
        #[cfg(feature = "auth")]
        if let Some(Authorizer::OAuth(authorizer)) = &mut self.authorizer {
            authorizer.note_head(exchange, dpop_nonce.as_deref());
        }
        let challenge = text("www-authenticate");
        let lacks_scope = || challenge.as_deref().is_some_and(|it| it.contains("insufficient_scope"));
        let is_refused =
            status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN && lacks_scope();
        let mut attempt = None;
        self.with(exchange, |forwarded| {
            // A header of the client's configuration is another login.
            if is_refused && !has_authorization(&forwarded.request) {
                attempt = Some(forwarded.attempt);
            }
        });
        let Some(attempt) = attempt.filter(|_| self.authorizer.is_some()) else {
            return self.with(exchange, |forwarded| forwarded.head = Some(Ok((status, headers))));
        };
        self.transport.abort(now, exchange);
        self.parked.insert(exchange);
        let status = status.as_u16();
        let refused = AuthorizationRequired { exchange, status, header: challenge, dpop_nonce, attempt };
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.handle_challenge(&refused);
        }
    }

    fn handle_end(&mut self, exchange: ExchangeId, end: ExchangeEnd) {
        #[cfg(feature = "auth")]
        if let Some(Authorizer::OAuth(authorizer)) = &mut self.authorizer {
            authorizer.note_end(exchange);
        }
        self.with(exchange, |forwarded| {
            if let ExchangeEnd::Failed { detail, .. } | ExchangeEnd::Unreachable(detail) = &end {
                forwarded.head.get_or_insert_with(|| Err(detail.clone()));
            }
            forwarded.end = Some(end);
        });
        self.keys.remove(&exchange);
    }

    /// Carries out the authorizer's actions.
    fn poll_authorizer(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let Some(authorizer) = &mut self.authorizer else { return false };
        let Poll::Ready(action) = authorizer.poll(cx) else { return false };
        match action {
            ExchangeAction::Open(request) => self.transport.open(now, request),
            ExchangeAction::Fail(exchange, detail) => {
                self.transport.resolve(exchange, ExchangeEnd::Unreachable(detail));
            }
            ExchangeAction::Resume(exchange) => {
                self.with(exchange, |forwarded| forwarded.attempt += 1);
                self.parked.remove(&exchange);
                if let Some(key) = self.keys.remove(&exchange) {
                    self.send(now, key);
                }
            }
            ExchangeAction::Refuse(exchange, detail) => {
                self.with(exchange, |forwarded| forwarded.head = Some(Err(detail)));
            }
        }
        true
    }
}

impl<R: Runtime> Future for ForwardDriver<R> {
    type Output = Infallible;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Infallible> {
        let this = &mut *self;
        let mut now = this.clock.now();
        for _ in 0..ROUNDS {
            let any =
                this.poll_requests(now, cx) | this.poll_transport(now, cx) | this.poll_authorizer(now, cx);
            if any {
                continue;
            }
            let authorizer = this.authorizer.as_ref().and_then(Authorizer::poll_timeout);
            let first = [this.transport.poll_timeout(), authorizer].into_iter().flatten().min();
            let first = first.and_then(|at| this.clock.at(at));
            if this.alarm.poll_until(first, this.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
            now = this.clock.now();
            this.transport.handle_timeout(now);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R> Drop for ForwardDriver<R> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        let readers: Vec<_> = state.exchanges.values_mut().filter_map(|it| it.reader.take()).collect();
        drop(state);
        readers.into_iter().for_each(Waker::wake);
    }
}

debug_fields! { [R] ForwardDriver<R>(self) { transport = self.transport } }
