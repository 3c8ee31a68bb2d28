//! Calls of a client's application within its layers.

use alloc::sync::Arc;
use core::future::{Future, ready};
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::sync::OnceLock;

use super::Error;
use super::handler_error::catch_panic;
use super::params::decode_as;
use super::reply::Reply;
use super::request::{Call, CalledTool, Draft, RequestLink};
use super::request_slots::{FollowQueue, progress_bytes};
use super::wakers::{SendFuture, lock, update};
use crate::peer::{AnyParams as _, MetaEntries, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, Text, code};
use crate::schema::{Meta, Method, ProgressParams, Revision};
use crate::sync::{Mutex, PoisonError};

/// A call within layers: the future of its reply, and what the application follows beside it.
pub(super) struct LayeredCall {
    future: Option<SendFuture<Reply>>,
    /// The reply, if it came while the application waited for something else.
    reply: Option<Box<Reply>>,
    /// `None` if the application awaits only the reply.
    sent: Option<Arc<SentCall>>,
}

impl LayeredCall {
    /// Passes a draft through layers.
    pub(super) fn new<M: Method>(draft: Draft<M>, follow: FollowQueue) -> Result<Self, Error> {
        #[expect(clippy::question_mark, reason = "it would move the parameters")]
        if let Err(error) = draft.params {
            return Err(error);
        }
        let method = draft.name.as_deref().map_or(Text::from_static(M::NAME), Text::from);
        let link = draft.link.clone();
        // Whoever starts a task asks for the called tool.
        let is_followed = matches!(follow, FollowQueue::Progress(_)) || draft.options.task.is_some();
        let sent = is_followed.then(|| Arc::new(SentCall::new(follow)));
        let step = Mutex::new(Step::Ended);
        let mut inner = Box::new(InnerCall { step, raw: OnceLock::new(), sent: sent.clone() });
        // It is large, and is moved once so.
        *unlocked(&mut inner.step) = Step::Draft(draft);
        Ok(Self::pass(link, method, inner, sent))
    }

    /// Passes a request about a task through the layers of its client.
    pub(super) fn of_task(
        link: Arc<dyn RequestLink>,
        method: &'static str,
        call: Box<dyn DraftCall>,
    ) -> Self {
        Self::pass(link, Text::from_static(method), call, None)
    }

    fn pass(
        link: Arc<dyn RequestLink>,
        method: Text,
        call: Box<dyn DraftCall>,
        sent: Option<Arc<SentCall>>,
    ) -> Self {
        let (future, reply) = match catch_panic(|| link.pass_layers(method, call)) {
            Ok(future) => (Some(future), None),
            Err(_) => (None, Some(Box::new(panicked()))),
        };
        Self { future, reply, sent }
    }

    /// The id of the request that the layers sent; of none before.
    pub(super) fn id(&self) -> RequestId {
        self.sent.as_ref().and_then(|sent| lock(&sent.state).id).unwrap_or(RequestId::UNSENT)
    }

    /// Polls for the reply of the layers.
    pub(super) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let Self { future, reply, .. } = self;
        if future.is_none() {
            return reply.take().map_or(Poll::Pending, |reply| Poll::Ready(*reply));
        }
        let mut polled = Poll::Pending;
        let is_sound = catch_panic(|| {
            if let Some(running) = future {
                polled = running.as_mut().poll(cx);
            }
            if polled.is_ready() {
                *future = None;
            }
        });
        if is_sound.is_err() {
            let future = self.future.take();
            let _ = catch_panic(|| drop(future));
            return polled.is_pending().then(panicked).map_or(polled, Poll::Ready);
        }
        polled
    }

    /// Polls the layers until they reply, and keeps the reply.
    fn advance(&mut self, cx: &mut Context<'_>) {
        if let Poll::Ready(reply) = self.poll_reply(cx) {
            self.reply = Some(Box::new(reply));
        }
    }

    /// Sends the request now, unless a layer waits for something. Returns why it failed, if it has.
    pub(super) fn start(&mut self) -> Option<Reply> {
        self.advance(&mut Context::from_waker(Waker::noop()));
        self.reply.take_if(|reply| matches!(**reply, Reply::Failed(_))).map(|reply| *reply)
    }

    pub(super) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Option<ProgressParams>> {
        if let Some(sent) = &self.sent {
            sent.wait(cx.waker());
        }
        self.advance(cx);
        match self.sent.as_ref().and_then(|sent| sent.pop()) {
            None if self.reply.is_none() => Poll::Pending,
            progress => Poll::Ready(progress),
        }
    }

    /// The number of reports that were dropped once the layers had sent the request; without those that it has in `table`.
    pub(super) fn missed_progress(&self) -> u64 {
        let Some(sent) = self.sent.as_ref().map(|sent| lock(&sent.state)) else { return 0 };
        match &sent.progress {
            FollowQueue::Progress(queue) => queue.missed().saturating_add(sent.missed),
            _ => 0,
        }
    }

    /// The tool that the layers have called.
    pub(super) fn called_tool(&self) -> CalledTool {
        lock(&self.sent.as_ref()?.state).tool.clone()
    }
}

/// The reply to a call whose layer panicked.
fn panicked() -> Reply {
    ErrorObject::new(code::INTERNAL_ERROR, "a layer failed unexpectedly").into()
}

/// A call that its layers have not sent yet.
pub(crate) trait DraftCall: Send + Sync {
    /// The parameters for a revision, with the `_meta` entries of the options.
    fn params(&self, revision: Revision) -> Option<&Raw>;

    /// Sends the request, with these parameters if layers changed them.
    fn send(self: Box<Self>, changed: Option<Option<Raw>>) -> SendFuture<Reply>;
}

/// The innermost of a call's layers: the draft, and then the future of its reply.
struct InnerCall<M: Method> {
    /// Calls are not `Sync`, and layers may share a request; nothing else waits for the lock.
    step: Mutex<Step<M>>,
    /// The parameters, encoded for a layer that reads them.
    raw: OnceLock<Option<Raw>>,
    sent: Option<Arc<SentCall>>,
}

enum Step<M: Method> {
    Draft(Draft<M>),
    Sent(Call<M>),
    Ended,
}

/// Nothing in it is ever pinned.
impl<M: Method> Unpin for InnerCall<M> {}

impl<M: Method> DraftCall for InnerCall<M> {
    fn params(&self, revision: Revision) -> Option<&Raw> {
        let encode = || {
            let step = lock(&self.step);
            let Step::Draft(Draft { params: Ok(params), options, .. }) = &*step else { return None };
            let mut out = Vec::new();
            let entries = MetaEntries { options: Some(&options.meta), ..MetaEntries::default() };
            params.write_params(&mut out, revision, entries).ok()?;
            Raw::new(String::from_utf8(out).ok()?).ok()
        };
        self.raw.get_or_init(encode).as_ref()
    }

    fn send(mut self: Box<Self>, changed: Option<Option<Raw>>) -> SendFuture<Reply> {
        match self.send_draft(changed) {
            Ok(call) => {
                *unlocked(&mut self.step) = Step::Sent(call);
                Box::into_pin(self)
            }
            Err(reply) => Box::pin(ready(reply)),
        }
    }
}

fn unlocked<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Method> InnerCall<M> {
    /// Sends the draft, which is large and therefore stays in its place; an error is its reply.
    fn send_draft(&mut self, changed: Option<Option<Raw>>) -> Result<Call<M>, Reply> {
        let Step::Draft(draft) = unlocked(&mut self.step) else { return Err(Reply::failed(Error::Finished)) };
        let (name, mut options) = (draft.name.as_deref(), mem::take(&mut draft.options));
        if let Some(raw) = changed {
            options.meta = Meta::new();
            draft.params = Ok(decode_as(name.unwrap_or(M::NAME), raw)?);
        }
        let params = draft.params.as_ref().map_err(|_| Reply::failed(Error::Finished))?;
        let follow = self.sent.as_ref().map_or(FollowQueue::Nothing, |sent| sent.inner_queue());
        let call = Call::send(draft.link.clone(), name, params, options, follow).map_err(Reply::failed)?;
        if let Some(sent) = &self.sent {
            let mut sent = lock(&sent.state);
            (sent.id, sent.tool) = (Some(call.id()), call.called_tool());
        }
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

impl<M: Method> Future for InnerCall<M> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Self { step, sent, .. } = &mut *self;
        let Step::Sent(call) = unlocked(step) else { return Poll::Pending };
        if let Some(sent) = sent.as_ref().filter(|sent| sent.follows) {
            while let Some(progress) = ready!(call.poll_progress(cx)) {
                sent.push(progress);
            }
            lock(&sent.state).missed = call.missed_progress();
        }
        call.poll_reply(cx)
    }
}
