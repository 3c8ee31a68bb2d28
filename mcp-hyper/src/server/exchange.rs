//! One request and its answer, between hyper and an [`HttpExchange`].

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use mcp_proto::front::{Mode, Multi};

use super::stand_in::{BodyKind, HttpExchange, ResponseHead};
use super::streams::Pace;
use super::time::{Alarm, RuntimeClock};
use super::watch::Busy;

/// The time as an exchange needs it.
pub(super) struct Ticking {
    clock: Arc<RuntimeClock>,
    alarm: Alarm,
}

impl Ticking {
    pub(super) fn new(clock: Arc<RuntimeClock>) -> Self {
        Self { clock, alarm: Alarm::default() }
    }

    /// Ready once the exchange wants to be told the time, or at `deadline`.
    fn poll_until(
        &mut self,
        timeout: Option<mcp_proto::Instant>,
        deadline: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let timeout = timeout.and_then(|at| self.clock.at(at));
        let first = [timeout, deadline].into_iter().flatten().min();
        self.alarm.poll_until(first, self.clock.timers(), cx)
    }
}

/// What a connection of this crate attaches to an exchange.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) busy: Option<Busy>,
    pub(super) pace: Option<Pace>,
}

pin_project_lite::pin_project! {
    /// The answer to a request, once there is one.
    #[must_use = "nothing happens unless it is polled"]
    pub struct ResponseFuture<B, H: Mode = Multi> {
        #[pin]
        request: Option<B>,
        // Nothing if the request was not for us.
        exchange: Option<HttpExchange<H>>,
        ticking: Option<Ticking>,
        // When the request's body must have come.
        deadline: Option<Instant>,
        attached: Attached,
    }
}

impl<B, H: Mode> ResponseFuture<B, H> {
    pub(super) fn new(
        request: B,
        exchange: HttpExchange<H>,
        ticking: Ticking,
        deadline: Option<Instant>,
        attached: Attached,
    ) -> Self {
        Self { request: Some(request), exchange: Some(exchange), ticking: Some(ticking), deadline, attached }
    }

    /// There is nothing at the address.
    pub(super) fn not_found(attached: Attached) -> Self {
        Self { request: None, exchange: None, ticking: None, deadline: None, attached }
    }
}

impl<B: Body, H: Mode> Future for ResponseFuture<B, H> {
    type Output = Result<Response<ResponseBody<H>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (Some(exchange), Some(ticking)) = (this.exchange.as_mut(), this.ticking.as_mut()) else {
            let attached = std::mem::take(this.attached);
            return Poll::Ready(Ok(bare(StatusCode::NOT_FOUND, attached)));
        };
        let refusal = loop {
            let Some(request) = this.request.as_mut().as_pin_mut() else { break None };
            if !exchange.wants_body() {
                break None;
            }
            match request.poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(mut data) = frame.into_data() {
                        exchange.handle_body(data.copy_to_bytes(data.remaining()));
                    }
                }
                Poll::Ready(Some(Err(_))) => break Some(StatusCode::BAD_REQUEST),
                Poll::Ready(None) => {
                    exchange.handle_body_end();
                    this.request.set(None);
                }
                Poll::Pending => {
                    ready!(ticking.poll_until(None, *this.deadline, cx));
                    break Some(StatusCode::REQUEST_TIMEOUT);
                }
            }
        };
        if this.request.as_ref().as_pin_ref().is_some_and(|request| !request.is_end_stream())
            && let Some(busy) = &this.attached.busy
        {
            busy.unread();
        }
        this.request.set(None);
        if let Some(status) = refusal {
            *this.exchange = None;
            let attached = std::mem::take(this.attached);
            let mut response = bare(status, attached);
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Poll::Ready(Ok(response));
        }
        let head = loop {
            if let Poll::Ready(head) = exchange.poll_head(cx) {
                break head;
            }
            ready!(ticking.poll_until(exchange.next_timeout(), None, cx));
            exchange.handle_timeout();
        };
        let (exchange, ticking) = (this.exchange.take(), this.ticking.take());
        let attached = std::mem::take(this.attached);
        Poll::Ready(Ok(response(head, |left| ResponseBody { exchange, ticking, left, attached })))
    }
}

impl<B, H: Mode> fmt::Debug for ResponseFuture<B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

fn bare<H: Mode>(status: StatusCode, attached: Attached) -> Response<ResponseBody<H>> {
    let mut response =
        Response::new(ResponseBody { exchange: None, ticking: None, left: Left::Bytes(0), attached });
    *response.status_mut() = status;
    response
}

fn response<B>(head: ResponseHead, body: impl FnOnce(Left) -> B) -> Response<B> {
    let left = match head.body {
        BodyKind::Empty => Left::Bytes(0),
        BodyKind::Whole(bytes) => Left::Bytes(bytes as u64),
        BodyKind::Stream => Left::Unknown,
    };
    let mut response = Response::new(body(left));
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.reserve(head.headers.len());
    for (name, value) in head.headers {
        // What cannot stand in a header is left out of it.
        let value = match value {
            std::borrow::Cow::Borrowed(value) => HeaderValue::from_str(value),
            std::borrow::Cow::Owned(value) => HeaderValue::try_from(value),
        };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
            headers.append(name, value);
        }
    }
    response
}

/// How much of a body is still to come.
enum Left {
    Bytes(u64),
    /// Until it ends.
    Unknown,
}

/// The body of an answer. Dropping it before its end means that the client has gone.
pub struct ResponseBody<H: Mode = Multi> {
    exchange: Option<HttpExchange<H>>,
    ticking: Option<Ticking>,
    left: Left,
    attached: Attached,
}

impl<H: Mode> Body for ResponseBody<H> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let (Some(exchange), Some(ticking)) = (&mut this.exchange, &mut this.ticking) else {
            return Poll::Ready(None);
        };
        if let Some(pace) = &this.attached.pace {
            pace.set_waiting(false);
        }
        let piece = loop {
            if let Poll::Ready(piece) = exchange.poll_body(cx) {
                break piece;
            }
            ready!(ticking.poll_until(exchange.next_timeout(), None, cx));
            exchange.handle_timeout();
        };
        match &piece {
            Some(bytes) => {
                if let Left::Bytes(left) = &mut this.left {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                if let Some(pace) = &this.attached.pace {
                    pace.set_waiting(true);
                }
            }
            None => this.left = Left::Bytes(0),
        }
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.left, Left::Bytes(0))
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            Left::Bytes(left) => SizeHint::with_exact(left),
            Left::Unknown => SizeHint::default(),
        }
    }
}

impl<H: Mode> fmt::Debug for ResponseBody<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
