//! HTTP/2 connections to servers.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use mcp_proto::transport::http::SentState;

use super::body::BufferedBody;
use super::connector::{BackgroundTasks, Io};
use super::send_error::{Loss, SendError};
use super::target::Target;

/// Flow-control window of one HTTP/2 stream, in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Flow-control window of an HTTP/2 connection, in bytes: large enough that unread streams do not block the others.
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

type Driven = http2::Connection<Io, BufferedBody, BackgroundTasks>;

/// An HTTP/2 connection, for many concurrent requests.
#[derive(Clone)]
pub(super) struct Http2 {
    sender: http2::SendRequest<BufferedBody>,
    /// Whether it has served a request before.
    used: bool,
    /// Absent once the connection has ended: dropping it returns the requests that it queued.
    task: Arc<Mutex<Option<Driven>>>,
}

impl Http2 {
    /// Starts HTTP/2 on a new connection.
    pub(super) async fn handshake(io: Io, background: &BackgroundTasks) -> io::Result<Self> {
        let greeting = http2::Builder::new(background.clone())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(io);
        let (sender, task) = greeting.await.map_err(io::Error::other)?;
        let task = Arc::new(Mutex::new(Some(task)));
        background.push(DrivenConnection(task.clone()));
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

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for BackgroundTasks {
    fn execute(&self, future: F) {
        self.push(future);
    }
}

/// Polls a connection that is accessed by others between the polls.
struct DrivenConnection(Arc<Mutex<Option<Driven>>>);

impl Future for DrivenConnection {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut task = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = &mut *task {
            // The connection's requests report its errors.
            let _ = ready!(Pin::new(connection).poll(cx));
        }
        *task = None;
        Poll::Ready(())
    }
}

/// What an error of HTTP/2 says about a request; `None` if the error is none of HTTP/2. The server names requests that
/// it did not process: RFC 9113, section 8.7.
pub(super) fn loss(error: &(dyn Error + 'static)) -> Option<Loss> {
    let error = error.downcast_ref::<h2::Error>()?;
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // GOAWAY ends only those streams that are above the last one that the server processed.
    let gone = error.is_go_away();
    let sent = if error.is_remote() && (refused || gone) { SentState::NotSent } else { SentState::MaybeSent };
    Some(Loss { sent, ends_connection: !error.is_reset() })
}
