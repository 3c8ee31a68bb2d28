//! The tasks that a client's transport polls: connections, and requests on them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use http::{HeaderMap, HeaderName, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use hyper::rt::Sleep;
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

use super::connection::{Background, Connection, Http1, Http2};
use super::error::{DialError, SendError, error_chain};
use super::target::{Origin, Target};
use crate::io::BufferedBody;

/// A future that the transport polls. Its output is a [`TaskOutcome`].
pub(super) enum Task {
    Boxed(Pin<Box<dyn Future<Output = TaskOutcome> + Send>>),
    Reading(BodyRead),
}

/// The result of a task.
pub(super) enum TaskOutcome {
    /// No event follows.
    Nothing,
    Connected {
        origin: Arc<Origin>,
        opened: Result<Connection, DialError>,
    },
    /// A connection is ready for another request.
    Ready {
        origin: Arc<Origin>,
        connection: Http1,
        keep: Option<Duration>,
    },
    Answered {
        exchange: ExchangeId,
        status: StatusCode,
        headers: HeaderMap,
        answer: OpenResponse,
    },
    Unanswered {
        exchange: ExchangeId,
        target: Arc<Target>,
        failure: SendError<Request<BufferedBody>>,
        /// Whether the connection had served a request before.
        reused: bool,
    },
    Data {
        exchange: ExchangeId,
        bytes: Bytes,
        answer: OpenResponse,
    },
    Ended {
        exchange: ExchangeId,
        end: ExchangeEnd,
        answer: OpenResponse,
    },
}

/// A response whose body has not ended.
pub(super) struct OpenResponse {
    pub(super) origin: Arc<Origin>,
    pub(super) body: Incoming,
    /// The connection, unless other requests share it.
    pub(super) connection: Option<Http1>,
    /// How long the server keeps the idle connection, according to its `keep-alive` header.
    pub(super) keep: Option<Duration>,
}

/// Reads a piece of a response's body.
pub(super) struct BodyRead {
    exchange: ExchangeId,
    answer: Option<OpenResponse>,
}

impl Task {
    pub(super) fn new(future: impl Future<Output = TaskOutcome> + Send + 'static) -> Self {
        Self::Boxed(Box::pin(future))
    }

    pub(super) fn background(future: Background) -> Self {
        Self::new(async move {
            future.await;
            TaskOutcome::Nothing
        })
    }

    /// Waits until the connection is ready for another request.
    pub(super) fn wait_ready(origin: Arc<Origin>, mut connection: Http1, keep: Option<Duration>) -> Self {
        Self::new(async move {
            match connection.sender.ready().await {
                Ok(()) => TaskOutcome::Ready { origin, connection, keep },
                Err(_) => TaskOutcome::Nothing,
            }
        })
    }

    /// Sends a request once the connection has settled, and waits for the head of its response.
    pub(super) fn send(
        exchange: ExchangeId,
        request: Request<BufferedBody>,
        target: Arc<Target>,
        connection: Connection,
        settled: Option<Pin<Box<dyn Sleep>>>,
    ) -> Self {
        // Not one future around both: it would hold the request twice, and it is moved as a whole.
        match connection {
            Connection::Http1(connection) => {
                Self::new(send_http1(exchange, request, target, connection, settled))
            }
            Connection::Http2(connection) => {
                Self::new(send_http2(exchange, request, target, connection, settled))
            }
        }
    }
}

impl Future for Task {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskOutcome> {
        match &mut *self {
            Self::Boxed(future) => future.as_mut().poll(cx),
            Self::Reading(reading) => Pin::new(reading).poll(cx),
        }
    }
}

async fn send_http1(
    exchange: ExchangeId,
    mut request: Request<BufferedBody>,
    target: Arc<Target>,
    mut connection: Http1,
    settled: Option<Pin<Box<dyn Sleep>>>,
) -> TaskOutcome {
    OptionFuture::from(settled).await;
    let reused = connection.used;
    connection.set_target(&mut request, &target);
    if let Err(error) = connection.sender.ready().await {
        let failure = SendError::Unsent(request, error_chain(&error));
        return TaskOutcome::Unanswered { exchange, target, failure, reused };
    }
    match connection.sender.try_send_request(request).await {
        Ok(response) => {
            connection.used = true;
            let (head, body) = response.into_parts();
            let keep = keep_alive_timeout(&head.headers);
            let answer =
                OpenResponse { origin: target.origin.clone(), body, connection: Some(connection), keep };
            TaskOutcome::Answered { exchange, status: head.status, headers: head.headers, answer }
        }
        Err(error) => TaskOutcome::Unanswered { exchange, target, failure: error.into(), reused },
    }
}

async fn send_http2(
    exchange: ExchangeId,
    request: Request<BufferedBody>,
    target: Arc<Target>,
    mut connection: Http2,
    settled: Option<Pin<Box<dyn Sleep>>>,
) -> TaskOutcome {
    OptionFuture::from(settled).await;
    match connection.send(request, &target).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            let answer = OpenResponse { origin: target.origin.clone(), body, connection: None, keep: None };
            TaskOutcome::Answered { exchange, status: head.status, headers: head.headers, answer }
        }
        Err(failure) => TaskOutcome::Unanswered { exchange, target, failure, reused: connection.is_used() },
    }
}

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Parses the timeout of `keep-alive: timeout=…`.
fn keep_alive_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(&KEEP_ALIVE)?.to_str().ok()?;
    let parameters = value.split(',').filter_map(|parameter| parameter.split_once('='));
    let mut timeouts = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"));
    timeouts.next()?.1.trim().parse().ok().map(Duration::from_secs)
}

impl BodyRead {
    pub(super) fn new(exchange: ExchangeId, answer: OpenResponse) -> Self {
        Self { exchange, answer: Some(answer) }
    }
}

impl Future for BodyRead {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskOutcome> {
        let exchange = self.exchange;
        loop {
            let Some(answer) = &mut self.answer else { return Poll::Ready(TaskOutcome::Nothing) };
            let read = match ready!(Pin::new(&mut answer.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => Ok(bytes),
                    // Trailers have no meaning in MCP.
                    Ok(_) | Err(_) => continue,
                },
                Some(Err(error)) => Err(ExchangeEnd::Truncated(error_chain(&error))),
                None => Err(ExchangeEnd::Complete),
            };
            let Some(answer) = self.answer.take() else { return Poll::Ready(TaskOutcome::Nothing) };
            return Poll::Ready(match read {
                Ok(bytes) => TaskOutcome::Data { exchange, bytes, answer },
                Err(end) => TaskOutcome::Ended { exchange, end, answer },
            });
        }
    }
}

debug_fields! { BodyRead { exchange } }
