//! The handler of a request, as its driver polls it.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use crate::front::blocked_handler::report_if_blocked;
use crate::front::handler::connection::HandlerConnection;
use crate::front::handler::context::Context;
use crate::front::handler::request_state::RequestState;
use crate::front::handler::round_reply::RoundReply;
use crate::front::reply::Reply;
use crate::peer::InboundId;

/// A running handler, which ends early if it needs input from a 2026-07-28 client.
pub(super) struct SuspendableHandler<F> {
    future: F,
    /// The context with the handler's input rounds.
    context: Option<Context>,
    /// The state of the request, until the handler first waits.
    state: Option<Arc<RequestState>>,
    /// The tool, the prompt or the resource of the handler.
    name: Option<Arc<str>>,
}

impl<F: Future<Output = Reply> + Unpin> SuspendableHandler<F> {
    pub(super) fn new(future: F, context: Context, name: Option<Arc<str>>) -> Self {
        let state = Some(context.inbound_request().state.clone());
        Self { future, context: context.input_rounds().is_some().then_some(context), state, name }
    }

    /// Wraps the handler of a notification, which has no rounds.
    pub(super) fn of_notification(future: F) -> Self {
        Self { future, context: None, state: None, name: None }
    }

    /// Polls the handler of `request`, and reports it to `connection` if that takes long.
    pub(super) fn poll_watched(
        &mut self,
        connection: &dyn HandlerConnection,
        request: InboundId,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Reply> {
        let begun = connection.now();
        let polled = Pin::new(&mut *self).poll(cx);
        report_if_blocked(connection, begun, (request, None, self.name.as_deref()));
        polled
    }

    /// Returns the reply to a handler that waits and has not woken itself, if only the client can help.
    pub(super) fn stalled(&mut self) -> Option<Reply> {
        if let Some(state) = self.state.take() {
            state.release_message();
        }
        let context = self.context.as_ref()?;
        context.input_rounds()?.suspend_if_stalled(context.inbound_request()).map(Reply::from)
    }
}

impl<F: Future<Output = Reply> + Unpin> Future for SuspendableHandler<F> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let Self { future, context, .. } = &mut *self;
        let future = Pin::new(future);
        let Some(rounds) = context.as_ref().and_then(Context::input_rounds) else { return future.poll(cx) };
        rounds.start_poll();
        match future.poll(cx) {
            Poll::Ready(reply) => Poll::Ready(rounds.finish().map_or(reply, Reply::from)),
            Poll::Pending => rounds.end_poll(cx).map_or(Poll::Pending, |reply| Poll::Ready(reply.into())),
        }
    }
}

impl From<RoundReply> for Reply {
    fn from(reply: RoundReply) -> Self {
        match reply {
            RoundReply::InputRequired(needed) => Self::InputRequired(needed),
            RoundReply::Error(error) => Self::Error(error),
            RoundReply::Denied(error, denial) => Self::Denied(error, denial),
        }
    }
}
