//! Calls of a client's application within its layers.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::sync::Mutex;

use super::{LayerRequest, Layers, Next, Reply};
use crate::front::Clock;
use crate::front::handler_error::catch_panic;
use crate::front::params::decode_as;
use crate::front::request::{Call, CalledTool, Draft};
use crate::front::request_slots::{FollowQueue, progress_bytes};
use crate::front::wakers::{SendFuture, lock, update};
use crate::peer::RequestId;
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};
use crate::schema::{Meta, Method, ProgressParams};

/// A call within layers: the future of its reply, and the progress of what they sent.
pub(in crate::front) struct LayeredCall {
    future: Option<SendFuture<Reply>>,
    reply: Option<Reply>,
    sent: Arc<SentCall>,
}

impl LayeredCall {
    /// Passes a draft through layers.
    pub(in crate::front) fn new<M: Method>(
        layers: Layers,
        clock: Arc<dyn Clock>,
        draft: Draft<M>,
        follow: FollowQueue,
    ) -> Result<Self, crate::front::Error> {
        let Draft { link, name, params, options, .. } = draft;
        let params = Arc::new(params?);
        let method = name.as_deref().unwrap_or(M::NAME);
        let request =
            LayerRequest::of_application(method, params.clone(), options.meta.clone(), link.server(), clock);
        let follows = matches!(follow, FollowQueue::Progress(_));
        let sent = Arc::new(SentCall(Mutex::new(SentState {
            id: None,
            missed: 0,
            tool: None,
            progress: follow,
            waker: None,
        })));
        let state = sent.clone();
        let innermost = Box::new(move |request: LayerRequest| -> SendFuture<Reply> {
            let method = name.as_deref().unwrap_or(M::NAME);
            let mut options = options;
            let (shared, changed);
            let params = match request.into_changed() {
                None => {
                    shared = params;
                    &*shared
                }
                Some(raw) => {
                    options.meta = Meta::new();
                    match decode_as::<M::Params>(method, raw) {
                        Ok(params) => changed = params,
                        Err(error) => return Box::pin(core::future::ready(Reply::Error(error))),
                    }
                    &changed
                }
            };
            let follow = if follows { FollowQueue::progress() } else { FollowQueue::Nothing };
            match Call::<M>::send(link, name.as_deref(), params, options, follow) {
                Ok(call) => {
                    {
                        let mut state = lock(&state.0);
                        (state.id, state.tool) = (Some(call.id()), call.called_tool());
                    }
                    Box::pin(InnerCall { call, sent: state, follows })
                }
                Err(error) => Box::pin(core::future::ready(Reply::Failed(Box::new(error)))),
            }
        });
        let run = || Next::client(layers, innermost).run(request);
        let (future, reply) = match catch_panic(run) {
            Ok(future) => (Some(future), None),
            Err(_) => (None, Some(panicked())),
        };
        Ok(Self { future, reply, sent })
    }

    /// The id of the request that the layers sent; of none before.
    pub(in crate::front) fn id(&self) -> RequestId {
        lock(&self.sent.0).id.unwrap_or(RequestId::UNSENT)
    }

    /// Polls the layers until they reply.
    fn advance(&mut self, cx: &mut Context<'_>) {
        let Some(future) = &mut self.future else { return };
        let reply = match catch_panic(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(reply)) => reply,
            Err(_) => panicked(),
        };
        self.reply = Some(reply);
        let future = self.future.take();
        let _ = catch_panic(|| drop(future));
    }

    /// Sends the request now, unless a layer waits for something. Returns why it failed, if it has.
    pub(in crate::front) fn start(&mut self) -> Option<Reply> {
        self.advance(&mut Context::from_waker(Waker::noop()));
        self.reply.take_if(|reply| matches!(reply, Reply::Failed(_)))
    }

    pub(in crate::front) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        self.advance(cx);
        self.reply.take().map_or(Poll::Pending, Poll::Ready)
    }

    pub(in crate::front) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Option<ProgressParams>> {
        self.sent.wait(cx.waker());
        self.advance(cx);
        match self.sent.pop() {
            None if self.reply.is_none() => Poll::Pending,
            progress => Poll::Ready(progress),
        }
    }

    /// The number of reports that were dropped once the layers had sent the request; without those that it has in `table`.
    pub(in crate::front) fn missed_progress(&self) -> u64 {
        let sent = lock(&self.sent.0);
        match &sent.progress {
            FollowQueue::Progress(queue) => queue.missed().saturating_add(sent.missed),
            _ => 0,
        }
    }

    /// The tool that the layers have called.
    pub(in crate::front) fn called_tool(&self) -> CalledTool {
        lock(&self.sent.0).tool.clone()
    }
}

/// The reply to a call whose layer panicked.
fn panicked() -> Reply {
    ErrorObject::new(code::INTERNAL_ERROR, "a layer failed unexpectedly").into()
}

/// What the application follows of the request that the layers sent.
struct SentCall(Mutex<SentState>);

struct SentState {
    id: Option<RequestId>,
    /// The number of reports that were dropped before the layers took them.
    missed: u64,
    /// The tool that is really called.
    tool: CalledTool,
    progress: FollowQueue,
    waker: Option<Waker>,
}

impl SentCall {
    fn push(&self, progress: ProgressParams) {
        update(&self.0, |state, wakers| {
            if let FollowQueue::Progress(queue) = &mut state.progress {
                let bytes = progress_bytes(&progress);
                queue.push(progress, bytes);
            }
            wakers.wake(state.waker.take());
        });
    }

    fn pop(&self) -> Option<ProgressParams> {
        match &mut lock(&self.0).progress {
            FollowQueue::Progress(queue) => queue.pop(),
            _ => None,
        }
    }

    fn wait(&self, waker: &Waker) {
        let waker = waker.clone();
        update(&self.0, |state, wakers| wakers.discard(state.waker.replace(waker)));
    }
}

/// A request that the layers sent.
struct InnerCall<M: Method> {
    call: Call<M>,
    sent: Arc<SentCall>,
    follows: bool,
}

impl<M: Method> Future for InnerCall<M> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Self { call, sent, follows } = &mut *self;
        if *follows {
            while let Some(progress) = ready!(call.poll_progress(cx)) {
                sent.push(progress);
            }
            lock(&sent.0).missed = call.missed_progress();
        }
        call.poll_reply(cx)
    }
}
