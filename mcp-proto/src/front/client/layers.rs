//! Requests of the server that handlers of this client answer within its layers.

use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::context::ClientContext;
use crate::front::Clock;
use crate::front::handler_error::catch_panic;
use crate::front::layer::{LayerRequest, Layers, Next};
use crate::front::mode::{HandlerMode, HoldsHandlers, SendHandlers};
use crate::front::reply::Reply;
use crate::front::wakers::{SendFuture, update};
use crate::prelude::*;
use crate::rpc::Raw;
use crate::sync::Mutex;

/// A request of the server within layers. They may run anywhere, and the handler only with the driver: the link is between
/// them.
pub(super) struct LayeredAnswer<M: HandlerMode> {
    layers: SendFuture<Reply>,
    link: Arc<AnswerLink>,
    start: Option<(HandlerStart<M>, ClientContext)>,
    handler: Option<M::HandlerFuture>,
}

impl<M: HandlerMode> LayeredAnswer<M> {
    /// Passes a request through layers; the innermost starts the handler.
    pub(super) fn new(
        layers: Layers,
        method: &str,
        params: Option<Raw>,
        (context, clock): (ClientContext, Arc<dyn Clock>),
        start: HandlerStart<M>,
    ) -> Self {
        let link = Arc::<AnswerLink>::default();
        let inner = link.clone();
        let innermost = Box::new(move |request: LayerRequest| -> SendFuture<Reply> {
            inner.give(Work::Start(request.into_raw()));
            let guard = AnswerGuard(inner);
            Box::pin(poll_fn(move |cx| guard.0.poll_reply(cx)))
        });
        let request = LayerRequest::of_server(method, params, context.clone(), clock);
        let layers = Next::client(layers, innermost).run(request);
        Self { layers, link, start: Some((start, context)), handler: None }
    }

    /// Starts and polls the handler, as far as the layers want it. Returns whether it has replied to them.
    fn poll_handler(&mut self, cx: &mut Context<'_>) -> bool {
        match self.link.take_work() {
            Work::Start(params) => {
                let Some((start, context)) = self.start.take() else { return false };
                match catch_panic(|| start.start(params, context)) {
                    Ok(handler) => self.handler = Some(handler),
                    Err(panicked) => return self.reply(panicked.into()),
                }
            }
            Work::Stop => self.end(),
            Work::None => {}
        }
        let Some(handler) = &mut self.handler else { return false };
        let reply = match catch_panic(|| Pin::new(handler).poll(cx)) {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(reply)) => reply,
            Err(panicked) => panicked.into(),
        };
        self.end();
        self.reply(reply)
    }

    fn reply(&self, reply: Reply) -> bool {
        self.link.reply(reply);
        true
    }

    fn end(&mut self) {
        let handler = self.handler.take();
        let _ = catch_panic(|| drop(handler));
    }
}

/// The handler of a request that has not started yet.
pub(super) enum HandlerStart<M: HandlerMode> {
    Method(M::Handler<Option<Raw>, ClientContext>),
    Fallback(String, M::Handler<(String, Option<Raw>), ClientContext>),
}

impl<M: HandlerMode> HandlerStart<M> {
    pub(super) fn start(self, params: Option<Raw>, context: ClientContext) -> M::HandlerFuture {
        match self {
            Self::Method(handler) => handler(params, context),
            Self::Fallback(method, fallback) => fallback((method, params), context),
        }
    }
}

/// Nothing in it is ever pinned.
impl<M: HandlerMode> Unpin for LayeredAnswer<M> {}

impl HoldsHandlers for LayeredAnswer<SendHandlers> {
    type In<M: HandlerMode> = LayeredAnswer<M>;

    fn into_send(future: Self) -> SendFuture<Reply> {
        Box::pin(future)
    }
}

impl<M: HandlerMode> Future for LayeredAnswer<M> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        self.link.wait_for_work(cx.waker());
        let polled = self.layers.as_mut().poll(cx);
        if polled.is_pending() && self.poll_handler(cx) { self.layers.as_mut().poll(cx) } else { polled }
    }
}

/// The link between the layers and the handler.
#[derive(Default)]
struct AnswerLink(Mutex<AnswerState>);

#[derive(Default)]
struct AnswerState {
    work: Work,
    reply: Option<Reply>,
    /// The waker of the layer that waits for the reply.
    waker: Option<Waker>,
    driver: Option<Waker>,
}

#[derive(Default)]
enum Work {
    #[default]
    None,
    Start(Option<Raw>),
    /// The layers wait no longer.
    Stop,
}

impl AnswerLink {
    /// Gives the driver work on the handler.
    fn give(&self, work: Work) {
        update(&self.0, |state, wakers| {
            state.work = work;
            wakers.wake(state.driver.take());
        });
    }

    fn take_work(&self) -> Work {
        update(&self.0, |state, _| core::mem::take(&mut state.work))
    }

    fn reply(&self, reply: Reply) {
        update(&self.0, |state, wakers| {
            state.reply = Some(reply);
            wakers.wake(state.waker.take());
        });
    }

    fn wait_for_work(&self, waker: &Waker) {
        let waker = waker.clone();
        update(&self.0, |state, wakers| wakers.discard(state.driver.replace(waker)));
    }

    fn poll_reply(&self, cx: &Context<'_>) -> Poll<Reply> {
        let waker = cx.waker().clone();
        update(&self.0, |state, wakers| match state.reply.take() {
            Some(reply) => {
                wakers.discard(Some(waker));
                Poll::Ready(reply)
            }
            None => {
                wakers.discard(state.waker.replace(waker));
                Poll::Pending
            }
        })
    }
}

/// Stops the handler when the layers drop the future of its reply.
struct AnswerGuard(Arc<AnswerLink>);

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.0.give(Work::Stop);
    }
}
