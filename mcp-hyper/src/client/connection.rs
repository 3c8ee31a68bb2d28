//! Opens connections to servers and proxies: HTTP/1.1 for one request at a time, HTTP/2 for many.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(feature = "http2")]
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::StreamExt as _;
use futures_lite::future::or;
use futures_util::stream::FuturesUnordered;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::http1;
#[cfg(feature = "http2")]
use hyper::client::conn::http2;
use mcp_proto::HumanDuration;

use super::error::{self, DialError, SendError};
use super::stream::OnlyStream;
use super::target::{self, Origin, Proxy, Scheme, Target};
#[cfg(feature = "tls")]
pub(crate) use super::tls::TlsOptions;
use crate::io::BufferedBody;
use crate::runtime::{Endpoint, Runtime, Stream};

/// Delay before the next address is tried while an earlier one has not answered. RFC 8305, section 5.
const STAGGER: Duration = Duration::from_millis(250);
pub(super) type Io = crate::io::HyperIo<Box<dyn Stream>>;

/// A future that drives a connection, polled by the client's driver.
pub(super) type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The settings that connections are opened with.
pub(crate) struct Connector<R> {
    pub(super) runtime: Arc<R>,
    pub(super) proxy: Proxy,
    pub(super) unix_socket: Option<PathBuf>,
    pub(super) stream: OnlyStream,
    pub(super) prior_knowledge: bool,
    pub(super) timeout: Duration,
    pub(super) tls: TlsOptions,
    pub(super) background: BackgroundTasks,
}

impl<R> Drop for Connector<R> {
    /// Drops the connections that no driver has taken: over HTTP/2 they hold the queue, and would keep it and each other.
    fn drop(&mut self) {
        drop(self.background.take());
    }
}

/// An open connection.
pub(super) enum Connection {
    Http1(Http1),
    Http2(Http2),
}

/// An HTTP/1.1 connection, for one request at a time.
pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<BufferedBody>,
    target_form: TargetForm,
    /// Whether it has served a request before.
    pub(super) used: bool,
}

/// The form of a request's target.
#[derive(Clone)]
pub(super) enum TargetForm {
    /// The path alone.
    Origin,
    /// The whole URL, for a proxy that forwards the request.
    Absolute { credentials: Option<HeaderValue> },
}

impl Http1 {
    /// Rewrites a request's target and headers for this connection, whichever it was prepared for before.
    pub(super) fn set_target(&self, request: &mut Request<BufferedBody>, target: &Target) {
        *request.uri_mut() = match &self.target_form {
            TargetForm::Origin => target.origin_form(),
            TargetForm::Absolute { .. } => target.absolute_form(),
        };
        let headers = request.headers_mut();
        headers.insert(header::HOST, target.host.clone());
        match &self.target_form {
            TargetForm::Absolute { credentials: Some(credentials) } => {
                headers.insert(header::PROXY_AUTHORIZATION, credentials.clone());
            }
            TargetForm::Absolute { credentials: None } | TargetForm::Origin => {
                headers.remove(header::PROXY_AUTHORIZATION);
            }
        }
    }
}

/// Futures that drive connections, queued until the client's driver takes them.
#[derive(Clone, Default)]
pub(super) struct BackgroundTasks(Arc<Mutex<Vec<Background>>>);

impl BackgroundTasks {
    pub(super) fn push(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(future));
    }

    pub(super) fn take(&self) -> Vec<Background> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<R: Runtime> Connector<R> {
    /// Opens a connection that can serve `origin`, only to addresses that `is_allowed` accepts. With a proxy, the proxy
    /// resolves the name. An error's text is shown to the user.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Result<Connection, DialError> {
        let opening = async {
            let (stream, form) = self.open_stream(origin, self.prior_knowledge, is_allowed).await?;
            self.handshake(stream, origin, form, self.prior_knowledge).await
        };
        self.limited(origin, opening).await
    }

    /// Settings for connections that are none of HTTP: without a proxy.
    #[cfg(feature = "redis")]
    pub(crate) fn direct(runtime: Arc<R>, tls: TlsOptions, timeout: Duration) -> Self {
        Self {
            runtime,
            proxy: Proxy::none(),
            unix_socket: None,
            stream: OnlyStream::default(),
            prior_knowledge: false,
            tls,
            background: BackgroundTasks::default(),
            timeout,
        }
    }

    /// Opens a stream to a server that does not speak HTTP. An error's text is shown to the user.
    #[cfg(feature = "redis")]
    pub(crate) async fn open_plain(
        &self,
        host: &str,
        port: u16,
        is_encrypted: bool,
    ) -> Result<Box<dyn Stream>, DialError> {
        let scheme = if is_encrypted { Scheme::Https } else { Scheme::Http };
        let origin = Origin { scheme, host: host.to_owned(), port };
        let opening = async {
            let stream = self.dial(host, port, |_| true).await?;
            if is_encrypted { self.tls.encrypt_for(|_| false, stream, host).await } else { Ok(stream) }
        };
        self.limited(&origin, opening).await
    }

    /// Limits the time for opening a connection, and names the server in its error.
    pub(super) async fn limited<T>(
        &self,
        origin: &Origin,
        opening: impl Future<Output = io::Result<T>>,
    ) -> Result<T, DialError> {
        let opening = async { opening.await.map_err(|error| DialError::new(&origin.with_port(), &error)) };
        let late = async {
            let detail = self.time_out("connection to", origin).await;
            Err(DialError { detail, is_definite: false })
        };
        or(opening, late).await
    }

    /// Waits as long as a connection may take; returns the error.
    pub(super) async fn time_out(&self, what: &str, origin: &Origin) -> String {
        self.runtime.timer().sleep(self.timeout).await;
        format!("no {what} {} within {}", origin.with_port(), HumanDuration(self.timeout))
    }

    /// The same settings, for connections to other servers that another future drives.
    #[cfg(feature = "auth")]
    pub(super) fn detached(&self) -> Self {
        Self {
            runtime: self.runtime.clone(),
            proxy: self.proxy.clone(),
            unix_socket: None,
            stream: OnlyStream::default(),
            prior_knowledge: false,
            tls: self.tls.clone(),
            background: BackgroundTasks::default(),
            timeout: self.timeout,
        }
    }

    /// Opens a stream to the socket of the options, or else to the server or its proxy, unless one is given. A proxy cannot
    /// forward a connection that `speaks_http2`.
    pub(super) async fn open_stream(
        &self,
        origin: &Origin,
        speaks_http2: bool,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> io::Result<(Box<dyn Stream>, TargetForm)> {
        if let Some(given) = self.stream.take() {
            return Ok((given?, TargetForm::Origin));
        }
        if let Some(path) = &self.unix_socket {
            return Ok((self.runtime.connect(&Endpoint::Unix(path.clone())).await?, TargetForm::Origin));
        }
        let Some(server) = self.proxy.server_for(origin) else {
            return Ok((self.dial(&origin.host, origin.port, is_allowed).await?, TargetForm::Origin));
        };
        let mut stream = self.dial_proxy(server).await?;
        if origin.scheme == Scheme::Https || speaks_http2 {
            target::open_tunnel(&mut *stream, origin, server.credentials.as_ref()).await?;
            return Ok((stream, TargetForm::Origin));
        }
        Ok((stream, TargetForm::Absolute { credentials: server.credentials.clone() }))
    }

    async fn handshake(
        &self,
        mut stream: Box<dyn Stream>,
        origin: &Origin,
        form: TargetForm,
        mut speaks_http2: bool,
    ) -> io::Result<Connection> {
        if origin.scheme == Scheme::Https {
            (stream, speaks_http2) = self.tls.encrypt(stream, &origin.host).await?;
        }
        let io = crate::io::HyperIo(stream);
        if speaks_http2 {
            Http2::handshake(io, &self.background, self.stream.clone()).await.map(Connection::Http2)
        } else {
            self.handshake_http1(io, form).await
        }
    }

    async fn handshake_http1(&self, io: Io, form: TargetForm) -> io::Result<Connection> {
        let (sender, connection) = http1::handshake(io).await.map_err(io::Error::other)?;
        // The connection's requests report its errors.
        self.background.push(async move { drop(connection.await) });
        Ok(Connection::Http1(Http1 { sender, target_form: form, used: false }))
    }

    async fn dial_proxy(&self, server: &target::ProxyServer) -> io::Result<Box<dyn Stream>> {
        let Origin { scheme, host, port } = &*server.origin;
        let of_proxy = |error: io::Error| error::proxy_error(&format!("{host}:{port}"), &error);
        let stream = self.dial(host, *port, |_| true).await.map_err(of_proxy)?;
        match scheme {
            Scheme::Http => Ok(stream),
            Scheme::Https => self.tls.encrypt(stream, host).await.map(|(stream, _)| stream).map_err(of_proxy),
        }
    }

    /// Connects to the first allowed address that answers.
    async fn dial(
        &self,
        host: &str,
        port: u16,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> io::Result<Box<dyn Stream>> {
        let found = self.runtime.resolve(host, port).await.map_err(|error| error::lookup_error(&error))?;
        let allowed: Vec<_> = found.iter().filter(|address| is_allowed(address.ip())).copied().collect();
        if allowed.is_empty() && !found.is_empty() {
            return Err(error::definite_error("the configuration allows none of its addresses"));
        }
        self.dial_addresses(allowed).await
    }

    async fn dial_addresses(&self, addresses: Vec<SocketAddr>) -> io::Result<Box<dyn Stream>> {
        let mut addresses = interleave_families(addresses).into_iter();
        let timer = self.runtime.timer();
        let mut attempts = FuturesUnordered::new();
        let mut failure = error::definite_error("the host has no address");
        loop {
            let next = addresses.next();
            let more = next.is_some();
            attempts.extend(
                next.map(|address| async move { self.runtime.connect(&Endpoint::Tcp(address)).await }),
            );
            let stagger = async {
                if more {
                    timer.sleep(STAGGER).await;
                } else {
                    std::future::pending::<()>().await;
                }
                None
            };
            match or(async { Some(attempts.next().await) }, stagger).await {
                Some(Some(Ok(stream))) => return Ok(stream),
                Some(Some(Err(error))) => failure = error,
                Some(None) => return Err(failure),
                None => {}
            }
        }
    }
}

/// Alternates address families, beginning with the one that the resolver prefers. RFC 8305, section 4.
fn interleave_families(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let prefers_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == prefers_v6);
    let mut second = second.into_iter();
    let mut order: Vec<_> =
        first.into_iter().flat_map(|address| [Some(address), second.next()]).flatten().collect();
    order.extend(second);
    order
}

/// Uninhabited, as this build has no HTTP/2.
#[cfg(not(feature = "http2"))]
#[derive(Clone)]
pub(super) struct Http2(std::convert::Infallible);

#[cfg(not(feature = "http2"))]
impl Http2 {
    async fn handshake(_: Io, _: &BackgroundTasks, _: OnlyStream) -> io::Result<Self> {
        Err(error::definite_error("built without HTTP/2: enable the feature `http2`"))
    }

    pub(super) async fn send(
        &mut self,
        _: Request<BufferedBody>,
        _: &Target,
    ) -> Result<Response<Incoming>, SendError<Request<BufferedBody>>> {
        match self.0 {}
    }

    pub(super) fn is_used(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn note_served(&mut self) {
        match self.0 {}
    }

    pub(super) fn is_closed(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn limit(&self) -> usize {
        match self.0 {}
    }
}

/// Stands in for the options of TLS without that feature.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Default)]
pub(crate) struct TlsOptions;

#[cfg(not(feature = "tls"))]
impl TlsOptions {
    async fn encrypt(&self, _: Box<dyn Stream>, _: &str) -> io::Result<(Box<dyn Stream>, bool)> {
        Err(error::definite_error("built without TLS: enable the feature `tls`"))
    }

    #[cfg(feature = "websocket")]
    pub(super) async fn encrypt_http1(
        &self,
        stream: Box<dyn Stream>,
        host: &str,
    ) -> io::Result<Box<dyn Stream>> {
        self.encrypt(stream, host).await.map(|(stream, _)| stream)
    }

    #[cfg(feature = "redis")]
    async fn encrypt_for(
        &self,
        _: impl Fn(&[u8]) -> bool,
        stream: Box<dyn Stream>,
        host: &str,
    ) -> io::Result<Box<dyn Stream>> {
        self.encrypt(stream, host).await.map(|(stream, _)| stream)
    }
}

debug_fields! { [R] Connector<R> { proxy, unix_socket, timeout } }

/// Flow-control window of one HTTP/2 stream, in bytes.
#[cfg(feature = "http2")]
const STREAM_WINDOW: u32 = 256 * 1024;

/// Flow-control window of an HTTP/2 connection, in bytes: large enough that unread streams do not block the others.
#[cfg(feature = "http2")]
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

#[cfg(feature = "http2")]
type Driven = http2::Connection<Io, BufferedBody, BackgroundTasks>;

/// An HTTP/2 connection, for many concurrent requests.
#[cfg(feature = "http2")]
#[derive(Clone)]
pub(super) struct Http2 {
    sender: http2::SendRequest<BufferedBody>,
    /// Whether it has served a request before.
    used: bool,
    /// Absent once the connection has ended: dropping it returns the requests that it queued.
    task: Arc<Mutex<Option<Driven>>>,
}

#[cfg(feature = "http2")]
impl Http2 {
    /// Starts HTTP/2 on a new connection.
    pub(super) async fn handshake(
        io: Io,
        background: &BackgroundTasks,
        stream: OnlyStream,
    ) -> io::Result<Self> {
        let greeting = http2::Builder::new(background.clone())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(io);
        let (sender, task) = greeting.await.map_err(io::Error::other)?;
        let task = Arc::new(Mutex::new(Some(task)));
        background.push(DrivenConnection { task: task.clone(), stream });
        Ok(Self { sender, used: false, task })
    }

    /// Sends a request, whichever connection it was prepared for before, and waits for the head of its response.
    pub(super) async fn send(
        &mut self,
        mut request: Request<BufferedBody>,
        target: &Target,
    ) -> Result<Response<Incoming>, SendError<Request<BufferedBody>>> {
        *request.uri_mut() = target.absolute_form();
        // The URL contains the host; the header may remain from an attempt through a proxy.
        request.headers_mut().remove(header::HOST);
        request.headers_mut().remove(header::PROXY_AUTHORIZATION);
        self.sender.try_send_request(request).await.map_err(SendError::from)
    }

    /// Whether it has served a request before.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Records that it has served a request.
    pub(super) fn note_served(&mut self) {
        self.used = true;
    }

    /// Whether it accepts no more requests.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Maximum number of concurrent requests that the server accepts; 0 once the connection has ended.
    pub(super) fn limit(&self) -> usize {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.as_ref().map_or(0, http2::Connection::current_max_send_streams)
    }
}

#[cfg(feature = "http2")]
impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for BackgroundTasks {
    fn execute(&self, future: F) {
        self.push(future);
    }
}

/// Polls a connection that is accessed by others between the polls.
#[cfg(feature = "http2")]
struct DrivenConnection {
    task: Arc<Mutex<Option<Driven>>>,
    stream: OnlyStream,
}

#[cfg(feature = "http2")]
impl Future for DrivenConnection {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = &mut *task
            // Its requests report its errors too, unless it is the client's only connection.
            && let Err(error) = ready!(Pin::new(connection).poll(cx))
        {
            self.stream.note_error(&error);
        }
        *task = None;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_alternate() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let given = addresses(&["[::1]:1", "[::2]:1", "1.1.1.1:1", "1.1.1.2:1", "1.1.1.3:1"]);
        let expected = addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "1.1.1.3:1"]);
        assert_eq!(interleave_families(given), expected);
        assert!(interleave_families(Vec::new()).is_empty());
    }
}
