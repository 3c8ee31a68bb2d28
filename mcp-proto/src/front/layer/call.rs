//! Calls of a client's application within its layers.

use alloc::sync::Arc;
use core::future::{Future, ready};
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::sync::Mutex;

use super::{LayerRequest, Layers, Next, Reply};
use crate::front::handler_error::catch_panic;
use crate::front::params::decode_as;
use crate::front::request::{Call, CalledTool, Draft};
use crate::front::request_slots::{FollowQueue, progress_bytes};
use crate::front::wakers::{SendFuture, lock, update};
use crate::front::{Clock, Error};
use crate::peer::{AnyParams as _, MetaEntries, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, Text, code};
use crate::schema::{Meta, Method, ProgressParams, Revision};

/// A call within layers: the future of its reply, and what it shares with the layers.
pub(in crate::front) struct LayeredCall {
    future: Option<SendFuture<Reply>>,
    /// The reply, if it came while the application waited for something else.
    reply: Option<Box<Reply>>,
    call: Arc<dyn ClientCall>,
}

impl LayeredCall {
    /// Passes a draft through layers.
    pub(in crate::front) fn new<M: Method>(
        layers: Layers,
        clock: Arc<dyn Clock>,
        draft: Draft<M>,
        follow: FollowQueue,
    ) -> Result<Self, Error> {
        #[expect(clippy::question_mark, reason = "it would move the parameters")]
        if let Err(error) = draft.params {
            return Err(error);
        }
        let method = draft.name.as_deref().map_or(Text::from_static(M::NAME), Text::from);
        let server = draft.link.server();
        let call = Arc::new(SharedCall { draft: Mutex::new(None), sent: SentCall::new(follow) });
        // It is large, and is moved once so.
        *lock(&call.draft) = Some(draft);
        let call: Arc<dyn ClientCall> = call;
        let request = LayerRequest::of_application(method, call.clone(), server, clock);
        let next = Next::call(layers, call.clone());
        let (future, reply) = match catch_panic(|| next.run(request)) {
            Ok(future) => (Some(future), None),
            Err(_) => (None, Some(Box::new(panicked()))),
        };
        Ok(Self { future, reply, call })
    }

    /// The id of the request that the layers sent; of none before.
    pub(in crate::front) fn id(&self) -> RequestId {
        lock(&self.call.sent().state).id.unwrap_or(RequestId::UNSENT)
    }

    /// Polls for the reply of the layers.
    pub(in crate::front) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(future) = &mut self.future else {
            return self.reply.take().map_or(Poll::Pending, |reply| Poll::Ready(*reply));
        };
        let reply = match catch_panic(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(reply)) => reply,
            Err(_) => panicked(),
        };
        let future = self.future.take();
        let _ = catch_panic(|| drop(future));
        Poll::Ready(reply)
    }

    /// Polls the layers until they reply, and keeps the reply.
    fn advance(&mut self, cx: &mut Context<'_>) {
        if let Poll::Ready(reply) = self.poll_reply(cx) {
            self.reply = Some(Box::new(reply));
        }
    }

    /// Sends the request now, unless a layer waits for something. Returns why it failed, if it has.
    pub(in crate::front) fn start(&mut self) -> Option<Reply> {
        self.advance(&mut Context::from_waker(Waker::noop()));
        self.reply.take_if(|reply| matches!(**reply, Reply::Failed(_))).map(|reply| *reply)
    }

    pub(in crate::front) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Option<ProgressParams>> {
        self.call.sent().wait(cx.waker());
        self.advance(cx);
        match self.call.sent().pop() {
            None if self.reply.is_none() => Poll::Pending,
            progress => Poll::Ready(progress),
        }
    }

    /// The number of reports that were dropped once the layers had sent the request; without those that it has in `table`.
    pub(in crate::front) fn missed_progress(&self) -> u64 {
        let sent = lock(&self.call.sent().state);
        match &sent.progress {
            FollowQueue::Progress(queue) => queue.missed().saturating_add(sent.missed),
            _ => 0,
        }
    }

    /// The tool that the layers have called.
    pub(in crate::front) fn called_tool(&self) -> CalledTool {
        lock(&self.call.sent().state).tool.clone()
    }
}

/// The reply to a call whose layer panicked.
fn panicked() -> Reply {
    ErrorObject::new(code::INTERNAL_ERROR, "a layer failed unexpectedly").into()
}

/// A call as its layers and the task that awaits it share it.
pub(super) trait ClientCall: Send + Sync {
    /// The part that the application follows.
    fn sent(&self) -> &SentCall;

    /// The parameters for a revision, with the `_meta` entries of the options; `None` once it is sent.
    fn to_raw(&self, revision: Revision) -> Option<Raw>;

    /// Sends the request, with these parameters if layers changed them.
    fn send(self: Arc<Self>, changed: Option<Option<Raw>>) -> SendFuture<Reply>;
}

struct SharedCall<M: Method> {
    /// The draft, until the layers send it.
    draft: Mutex<Option<Draft<M>>>,
    sent: SentCall,
}

impl<M: Method> ClientCall for SharedCall<M> {
    fn sent(&self) -> &SentCall {
        &self.sent
    }

    fn to_raw(&self, revision: Revision) -> Option<Raw> {
        let draft = lock(&self.draft);
        let Draft { params: Ok(params), options, .. } = draft.as_ref()? else { return None };
        let mut out = Vec::new();
        let entries = MetaEntries { options: Some(&options.meta), ..MetaEntries::default() };
        params.write_params(&mut out, revision, entries).ok()?;
        Raw::new(String::from_utf8(out).ok()?).ok()
    }

    fn send(self: Arc<Self>, changed: Option<Option<Raw>>) -> SendFuture<Reply> {
        match self.send_draft(changed) {
            Ok(call) => Box::pin(InnerCall { call, shared: self }),
            Err(reply) => Box::pin(ready(reply)),
        }
    }
}

impl<M: Method> SharedCall<M> {
    /// Sends the draft, which is large and therefore stays in its place; an error is its reply.
    fn send_draft(&self, changed: Option<Option<Raw>>) -> Result<Call<M>, Reply> {
        let failed = |error| Reply::Failed(Box::new(error));
        let mut slot = lock(&self.draft);
        // The layers have one `Next` for it, so there is one.
        let draft = slot.as_mut().ok_or_else(|| failed(Error::Finished))?;
        let (name, mut options) = (draft.name.as_deref(), mem::take(&mut draft.options));
        if let Some(raw) = changed {
            options.meta = Meta::new();
            draft.params = Ok(decode_as(name.unwrap_or(M::NAME), raw)?);
        }
        let params = draft.params.as_ref().map_err(|_| failed(Error::Finished))?;
        let call = Call::send(draft.link.clone(), name, params, options, self.sent.inner_queue());
        *slot = None;
        let call = call.map_err(failed)?;
        let mut sent = lock(&self.sent.state);
        (sent.id, sent.tool) = (Some(call.id()), call.called_tool());
        Ok(call)
    }
}

/// What the application follows of the request that the layers sent.
pub(super) struct SentCall {
    /// Whether it follows its progress.
    follows: bool,
    state: Mutex<SentState>,
}

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
    fn new(progress: FollowQueue) -> Self {
        let follows = matches!(progress, FollowQueue::Progress(_));
        let state = SentState { id: None, missed: 0, tool: None, progress, waker: None };
        Self { follows, state: Mutex::new(state) }
    }

    /// The queue of the request itself, out of which its progress is passed on.
    fn inner_queue(&self) -> FollowQueue {
        if self.follows { FollowQueue::progress() } else { FollowQueue::Nothing }
    }

    fn push(&self, progress: ProgressParams) {
        update(&self.state, |state, wakers| {
            if let FollowQueue::Progress(queue) = &mut state.progress {
                let bytes = progress_bytes(&progress);
                queue.push(progress, bytes);
            }
            wakers.wake(state.waker.take());
        });
    }

    fn pop(&self) -> Option<ProgressParams> {
        match &mut lock(&self.state).progress {
            FollowQueue::Progress(queue) => queue.pop(),
            _ => None,
        }
    }

    fn wait(&self, waker: &Waker) {
        let waker = waker.clone();
        update(&self.state, |state, wakers| wakers.discard(state.waker.replace(waker)));
    }
}

/// A request that the layers sent.
struct InnerCall<M: Method> {
    call: Call<M>,
    shared: Arc<SharedCall<M>>,
}

impl<M: Method> Future for InnerCall<M> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Self { call, shared } = &mut *self;
        if shared.sent.follows {
            while let Some(progress) = ready!(call.poll_progress(cx)) {
                shared.sent.push(progress);
            }
            lock(&shared.sent.state).missed = call.missed_progress();
        }
        call.poll_reply(cx)
    }
}
