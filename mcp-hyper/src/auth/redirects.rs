//! Where pages lead back to: a small server on this machine.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_or_pending};
use std::time::Duration;

use async_io::Async;
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
use crate::client::BufferedBody;
use crate::io::HyperIo;
use crate::smol_socket::SmolSocket;

/// The path that pages lead back to. Issuers that have a path of their own have it below this one.
const PATH: &str = "/callback";
/// How long a browser may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head that is read, in bytes. Codes may be long.
const HEAD_BYTES: usize = 32 * 1024;

/// A socket of this machine to which pages lead back. It is listened on while a page is open; whatever comes is answered
/// with a few words for the person who sees it, and nothing that comes can end the wait but the answer to that very page.
///
/// It is smol's socket, whatever the [`Runtime`](crate::Runtime): see [`Smol`](crate::Smol).
pub struct LoopbackRedirects {
    listener: Async<TcpListener>,
    address: SocketAddr,
}

impl LoopbackRedirects {
    /// Takes any port of 127.0.0.1 that is free. Authorization servers let native applications have any: RFC 8252,
    /// section 7.3.
    ///
    /// # Errors
    /// If there is none.
    pub fn bind() -> io::Result<Self> {
        Self::bind_port(0)
    }

    /// Takes this port of 127.0.0.1, for authorization servers that want to know it beforehand.
    ///
    /// # Errors
    /// If it is taken.
    pub fn bind_port(port: u16) -> io::Result<Self> {
        let listener = Async::<TcpListener>::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.get_ref().local_addr()?;
        Ok(Self { listener, address })
    }

    /// The redirect URI, for [`AuthConfig::new`](mcp_proto::auth::client::AuthConfig::new).
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// The next connection, and what answers it.
    pub(super) fn poll_accept(&self, shared: &Arc<SharedAuth>, cx: &mut Context<'_>) -> Poll<Boxed<()>> {
        loop {
            match self.listener.get_ref().accept() {
                Ok((stream, _)) => return Poll::Ready(Box::pin(serve_connection(stream, shared.clone()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Nobody can be told that there is no listening; the page ends by its own time.
                    if ready_or_pending!(self.listener.poll_readable(cx)).is_err() {
                        return Poll::Pending;
                    }
                }
                // That was the connection's own fault.
                Err(_) => {}
            }
        }
    }
}

impl fmt::Debug for LoopbackRedirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackRedirects").field("address", &self.address).finish()
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<SharedAuth>) {
    let Ok(stream) = Async::new(stream) else { return };
    let timers = shared.clock.timers().clone();
    let service = service_fn(move |request| ready(Ok::<_, Infallible>(respond(&request, &shared))));
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES);
    let served = async {
        // Whatever goes wrong with it, the page is still open.
        let _ = http.serve_connection(HyperIo(SmolSocket::new(stream)), service).await;
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
        Err(_) => render_page(StatusCode::BAD_REQUEST, "This is not what the program was waiting for."),
    }
}

/// A page that says so, loads nothing, and tells nobody where it was.
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
