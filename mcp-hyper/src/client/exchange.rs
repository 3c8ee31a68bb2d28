//! What runs: connections, and requests on them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

use super::body::Whole;
use super::connector::{Background, Connection, Http1, Http2};
use super::failure::{Failure, chain};
use super::target::{Origin, Target};
use super::unreachable::ConnectFailure;

/// One of the things that are polled. What it comes to is a [`Step`].
pub(super) enum Task {
    /// Something that nobody waits for, or that nobody stops.
    Free(Pin<Box<dyn Future<Output = Step> + Send>>),
    Asking(Abortable<Pin<Box<dyn Future<Output = Step> + Send>>>),
    Reading(Abortable<Reading>),
}

/// How far something has come.
pub(super) enum Step {
    /// Nobody is concerned.
    Nothing,
    #[cfg(feature = "auth")]
    Fetched {
        id: mcp_proto::auth::FetchId,
        fetched: Result<super::fetch::Fetched, String>,
    },
    Connected {
        origin: Arc<Origin>,
        opened: Result<Connection, ConnectFailure>,
    },
    /// A connection can take another request.
    Ready {
        origin: Arc<Origin>,
        connection: Http1,
        keep: Option<Duration>,
    },
    Answered {
        exchange: ExchangeId,
        status: StatusCode,
        headers: HeaderMap,
        answer: Answer,
    },
    Unanswered {
        exchange: ExchangeId,
        target: Target,
        failure: Failure<Request<Whole>>,
        on: Used,
    },
    Data {
        exchange: ExchangeId,
        bytes: Bytes,
        answer: Answer,
    },
    Ended {
        exchange: ExchangeId,
        end: ExchangeEnd,
        answer: Answer,
    },
}

/// The connection that a request was for.
pub(super) enum Used {
    /// One that had served before.
    Before,
    /// A new one.
    New,
}

/// What is to come of an answer.
pub(super) struct Answer {
    pub(super) origin: Arc<Origin>,
    pub(super) body: Incoming,
    /// The connection, unless it is shared.
    pub(super) connection: Option<Http1>,
    /// How long the server keeps the connection after this, if it says so.
    pub(super) keep: Option<Duration>,
}

/// Reads a piece of an answer's body.
pub(super) struct Reading {
    exchange: ExchangeId,
    answer: Option<Answer>,
}

impl Task {
    pub(super) fn background(future: Background) -> Self {
        Self::Free(Box::pin(async move {
            future.await;
            Step::Nothing
        }))
    }

    /// Waits until the connection can take another request.
    pub(super) fn becoming_ready(origin: Arc<Origin>, mut connection: Http1, keep: Option<Duration>) -> Self {
        Self::Free(Box::pin(async move {
            match connection.sender.ready().await {
                Ok(()) => Step::Ready { origin, connection, keep },
                Err(_) => Step::Nothing,
            }
        }))
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) fn ask(
        exchange: ExchangeId,
        request: Request<Whole>,
        target: Target,
        connection: Connection,
    ) -> (Self, AbortHandle) {
        let asking: Pin<Box<dyn Future<Output = Step> + Send>> = match connection {
            Connection::Http1(connection) => Box::pin(ask_http1(exchange, request, target, connection)),
            Connection::Http2(connection) => Box::pin(ask_http2(exchange, request, target, connection)),
        };
        let (handle, registration) = AbortHandle::new_pair();
        (Self::Asking(Abortable::new(asking, registration)), handle)
    }

    /// Anything else that may be stopped.
    #[cfg(feature = "auth")]
    pub(super) fn stoppable(future: Pin<Box<dyn Future<Output = Step> + Send>>) -> (Self, AbortHandle) {
        let (handle, registration) = AbortHandle::new_pair();
        (Self::Asking(Abortable::new(future, registration)), handle)
    }

    /// Waits for the next piece of the body.
    pub(super) fn read(exchange: ExchangeId, answer: Answer) -> (Self, AbortHandle) {
        let (handle, registration) = AbortHandle::new_pair();
        let reading = Reading { exchange, answer: Some(answer) };
        (Self::Reading(Abortable::new(reading, registration)), handle)
    }
}

impl Future for Task {
    type Output = Step;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        match &mut *self {
            Self::Free(future) => future.as_mut().poll(cx),
            Self::Asking(future) => Pin::new(future).poll(cx).map(|step| step.unwrap_or(Step::Nothing)),
            Self::Reading(future) => Pin::new(future).poll(cx).map(|step| step.unwrap_or(Step::Nothing)),
        }
    }
}

async fn ask_http1(
    exchange: ExchangeId,
    mut request: Request<Whole>,
    target: Target,
    mut connection: Http1,
) -> Step {
    let on = if connection.used { Used::Before } else { Used::New };
    connection.address(&mut request, &target);
    if let Err(error) = connection.sender.ready().await {
        let failure = Failure::Unsent(request, chain(&error));
        return Step::Unanswered { exchange, target, failure, on };
    }
    match connection.sender.try_send_request(request).await {
        Ok(response) => {
            connection.used = true;
            let (head, body) = response.into_parts();
            let keep = kept_for(&head.headers);
            let answer = Answer { origin: target.origin, body, connection: Some(connection), keep };
            Step::Answered { exchange, status: head.status, headers: head.headers, answer }
        }
        Err(error) => Step::Unanswered { exchange, target, failure: error.into(), on },
    }
}

async fn ask_http2(
    exchange: ExchangeId,
    mut request: Request<Whole>,
    target: Target,
    mut connection: Http2,
) -> Step {
    Http2::address(&mut request, &target);
    match connection.sender.try_send_request(request).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            let answer = Answer { origin: target.origin, body, connection: None, keep: None };
            Step::Answered { exchange, status: head.status, headers: head.headers, answer }
        }
        Err(error) => {
            let on = if connection.used { Used::Before } else { Used::New };
            Step::Unanswered { exchange, target, failure: error.into(), on }
        }
    }
}

/// What `keep-alive: timeout=…` says.
fn kept_for(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let parameters = value.split(',').filter_map(|parameter| parameter.split_once('='));
    let mut timeouts = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"));
    timeouts.next()?.1.trim().parse().ok().map(Duration::from_secs)
}

impl Future for Reading {
    type Output = Step;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        let exchange = self.exchange;
        loop {
            let Some(answer) = &mut self.answer else { return Poll::Ready(Step::Nothing) };
            let read = match ready!(Pin::new(&mut answer.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => Ok(bytes),
                    // Trailers mean nothing here.
                    Ok(_) | Err(_) => continue,
                },
                Some(Err(error)) => Err(ExchangeEnd::Truncated(chain(&error))),
                None => Err(ExchangeEnd::Complete),
            };
            let Some(answer) = self.answer.take() else { return Poll::Ready(Step::Nothing) };
            return Poll::Ready(match read {
                Ok(bytes) => Step::Data { exchange, bytes, answer },
                Err(end) => Step::Ended { exchange, end, answer },
            });
        }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}
