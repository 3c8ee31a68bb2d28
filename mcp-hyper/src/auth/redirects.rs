//! Loopback redirect listener: a small HTTP server on this machine.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_or_pending};
use std::time::Duration;

use bytes::Bytes;
use futures_lite::future::{Boxed, or};
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use mcp_proto::auth::client::Redirect;

use super::handle::SharedAuth;
use crate::io::BufferedBody;
use crate::io::HyperIo;
use crate::runtime::{Acceptor, Runtime, Stream};

/// Path of the redirect URI. Issuers with a separate path get one below it.
const PATH: &str = "/callback";
/// Time limit of one browser request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum bytes of a request head. Codes may be long.
const HEAD_BYTES: usize = 32 * 1024;

/// A loopback listener for redirects from login pages. It listens while a page is open, and answers each request with a
/// short text for the user; only the redirect that belongs to the open page completes the login.
///
/// The client that it is given to accepts the connections, by its [`Runtime`](crate::Runtime).
pub struct LoopbackRedirects {
    listener: TcpListener,
    address: SocketAddr,
}

impl LoopbackRedirects {
    /// Binds any free port of 127.0.0.1. Authorization servers let native applications use any port: RFC 8252, section
    /// 7.3.
    ///
    /// # Errors
    /// If no port is free.
    pub fn bind() -> io::Result<Self> {
        Self::bind_port(0)
    }

    /// Binds this port of 127.0.0.1, for authorization servers that require a registered port.
    ///
    /// # Errors
    /// If the port is in use.
    pub fn bind_port(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The redirect URI, for [`AuthConfig::new`](mcp_proto::auth::client::AuthConfig::new).
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Accepts connections by this runtime from now on.
    pub(super) fn listen(self, runtime: &impl Runtime) -> io::Result<RedirectListener> {
        runtime.listen(self.listener).map(RedirectListener)
    }
}

/// The listener of [`LoopbackRedirects`] in a runtime.
pub(super) struct RedirectListener(Box<dyn Acceptor>);

/// Maximum number of consecutive errors before other work gets a turn.
const ERRORS: usize = 8;

impl RedirectListener {
    /// Accepts the next connection, and returns the future that serves it.
    pub(super) fn poll_accept(&mut self, shared: &Arc<SharedAuth>, cx: &mut Context<'_>) -> Poll<Boxed<()>> {
        for _ in 0..ERRORS {
            // An error cannot be reported here; the page expires by its own deadline.
            if let Ok((stream, _)) = ready_or_pending!(self.0.poll_accept(cx)) {
                return Poll::Ready(Box::pin(serve_connection(stream, shared.clone())));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl fmt::Debug for LoopbackRedirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackRedirects").field("address", &self.address).finish()
    }
}

async fn serve_connection(stream: Box<dyn Stream>, shared: Arc<SharedAuth>) {
    let timers = shared.clock.timers().clone();
    let service = service_fn(move |request| ready(Ok::<_, Infallible>(respond(&request, &shared))));
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES);
    let served = async {
        // Whatever error this connection has, the page is still open.
        let _ = http.serve_connection(HyperIo(stream), service).await;
    };
    or(served, timers.sleep(PATIENCE)).await;
}

fn respond(request: &Request<Incoming>, shared: &SharedAuth) -> Response<BufferedBody> {
    let below = request.uri().path().strip_prefix(PATH);
    if below.is_none_or(|below| !below.is_empty() && !below.starts_with('/')) {
        return render_page(StatusCode::NOT_FOUND, "There is nothing here.");
    }
    if request.method() != Method::GET {
        return render_page(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to be done here.");
    }
    let led_to = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    match shared.finish(Redirect::parse(led_to)) {
        Ok(()) => {
            render_page(StatusCode::OK, "That is all. You can close this page and go back to the program.")
        }
        Err(_) => render_page(StatusCode::BAD_REQUEST, "The program did not expect this request."),
    }
}

/// Renders a page that shows the text, loads nothing, and sends no referrer.
fn render_page(status: StatusCode, text: &str) -> Response<BufferedBody> {
    let body = format!("<!doctype html><meta charset=utf-8><title>Authorization</title><p>{text}\n");
    let mut response = Response::new(BufferedBody(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
