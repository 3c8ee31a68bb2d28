//! The layers of a router, and the requests that it answers within them.

use alloc::sync::Arc;
use core::future::{Future, ready};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use super::dispatch::Dispatch;
use super::{Context, HandlerMode, Router};
use crate::front::handler_error::{HandlerPanic, catch_panic};
use crate::front::layer::{InboundParts, IntoLayer, LayerRequest, Layers, Next, other_request};
use crate::front::reply::Reply;
use crate::front::tasks::TaskService;
use crate::front::wakers::{lock, update};
use crate::prelude::*;
use crate::rpc::{Raw, Text, first_member};
use crate::schema::{CallTool, Complete, Method as _};

/// Layers.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Adds a [layer](crate::front::layer) around the requests that the router answers, inside of those added before.
    ///
    /// The layers run after the token, the scopes and the rates of a request were checked. What they change of a tool call is
    /// checked against the scopes and the schema of the tool again, and, where it calls another tool, against the rates; so
    /// is a request for completions of which they change the prompt or the template.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next};
    ///
    /// /// Nobody removes anything.
    /// struct ReadOnly;
    ///
    /// impl Layer for ReadOnly {
    ///     fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
    ///         match request.item() {
    ///             Some(tool) if tool.starts_with("delete_") => {
    ///                 let denied = request.deny("this server is read-only");
    ///                 next.answer(denied)
    ///             }
    ///             _ => next.run(request),
    ///         }
    ///     }
    /// }
    ///
    /// let router = Router::new("notes", "1.0.0").layer(ReadOnly);
    /// # drop(router);
    /// ```
    pub fn layer(mut self, layer: impl IntoLayer<M>) -> Self {
        self.contents.layers.push(layer);
        self
    }

    /// The layers, the outermost first.
    pub fn layers(&self) -> &Layers<M> {
        &self.contents.layers
    }
}

impl<M: HandlerMode> Router<M> {
    /// Answers a request within the layers, once what arrived is checked.
    pub(in crate::front) fn dispatch_layered(
        self: Arc<Self>,
        method: Text,
        params: Option<Raw>,
        context: Context,
        (service, suspension): (Option<Arc<TaskService>>, Arc<Suspension>),
    ) -> Dispatch<M::HandlerFuture> {
        self.check_valid()?;
        #[cfg(feature = "auth")]
        let context = self.check_call_scopes(&method, params.as_ref(), context)?;
        self.check_rate(&method, params.as_ref(), &context)?;
        self.check_part_rates(&method, params.as_ref(), &context)?;
        let layers = self.contents.layers.clone();
        let request = LayerRequest::of_client(method, params, context);
        let router = RouterDispatch { router: self, service, suspension };
        Ok((Next::router(layers, router).run(request), None))
    }
}

/// A router within its layers, about to answer a request.
pub(in crate::front) struct RouterDispatch<M: HandlerMode> {
    router: Arc<Router<M>>,
    service: Option<Arc<TaskService>>,
    suspension: Arc<Suspension>,
}

impl<M: HandlerMode> RouterDispatch<M> {
    pub(in crate::front) fn run(self, request: LayerRequest) -> M::HandlerFuture {
        let Self { router, service, suspension } = self;
        let Some(InboundParts { method, context, params, replaced }) = request.into_inbound() else {
            return M::wrap_future(Box::pin(ready(other_request())));
        };
        if replaced.is_some() {
            context.inbound_request().state.replace_meta(params.as_ref());
        }
        let is_other =
            replaced.is_some_and(|before| is_other_item(&method, before.as_ref(), params.as_ref()));
        if is_other
            && &*method == CallTool::NAME
            && let Some(Ok(tool)) = member(params.as_ref(), "name").map(serde_json::from_str)
        {
            context.inbound_request().redirect(tool);
        }
        let dispatch = || router.dispatch(&method, params, context.clone(), service.as_ref(), is_other);
        let dispatched =
            catch_panic(dispatch).unwrap_or_else(|panicked| Err(reply_to_panic(&method, panicked)));
        match dispatched {
            Ok((handler, _)) => {
                let handler = router.spawned(handler, context.input_rounds().map(|_| &context));
                M::wrap_layered(LayeredHandler {
                    handler: Some(handler),
                    router,
                    method,
                    context,
                    service,
                    suspension,
                })
            }
            Err(reply) => M::wrap_future(Box::pin(ready(reply))),
        }
    }
}

fn member<'p>(params: Option<&'p Raw>, name: &str) -> Option<&'p str> {
    first_member(params?.as_str(), name).ok()?
}

/// Whether the changed parameters call another tool, or complete an argument of another item.
fn is_other_item(method: &str, before: Option<&Raw>, now: Option<&Raw>) -> bool {
    let name = match method {
        CallTool::NAME => "name",
        Complete::NAME => "ref",
        _ => return false,
    };
    member(before, name) != member(now, name)
}

/// The reply to a request whose handler panicked within layers.
fn reply_to_panic(method: &str, panicked: HandlerPanic) -> Reply {
    if method == CallTool::NAME { Reply::tool_panic() } else { panicked.into() }
}

/// A handler that runs within layers: its input rounds, its panic and its task are answers that they see.
#[doc(hidden)]
pub struct LayeredHandler<M: HandlerMode> {
    /// The handler, until it ends.
    handler: Option<M::HandlerFuture>,
    router: Arc<Router<M>>,
    method: Text,
    context: Context,
    service: Option<Arc<TaskService>>,
    suspension: Arc<Suspension>,
}

/// Nothing in it is ever pinned.
impl<M: HandlerMode> Unpin for LayeredHandler<M> {}

impl<M: HandlerMode> LayeredHandler<M> {
    fn poll_handler(&mut self, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let Some(handler) = &mut self.handler else { return Poll::Pending };
        let handler = Pin::new(handler);
        match self.context.input_rounds() {
            None => handler.poll(cx),
            Some(rounds) => {
                let revision = self.context.revision();
                let poll = || Ok::<_, HandlerPanic>(rounds.poll(handler, cx));
                let replied = match self.suspension.is_driver_here() {
                    true => poll(),
                    // A layer has moved it to another task, after whose polls the driver has to look after the rounds.
                    false => rounds.poll_in_task(self.context.inbound_request(), poll),
                };
                let replied = replied.unwrap_or(Poll::Pending);
                replied.map(|reply| reply.unwrap_or_else(|error| error.into_reply(revision)))
            }
        }
    }

    /// Ends with this reply, once the handler is dropped.
    fn end(&mut self, reply: Reply) -> Poll<Reply> {
        let handler = self.handler.take();
        let _ = catch_panic(|| drop(handler));
        Poll::Ready(reply)
    }
}

impl<M: HandlerMode> Future for LayeredHandler<M> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        loop {
            if let Some(reply) = self.suspension.take_reply(cx.waker()) {
                return self.end(reply);
            }
            let reply = match catch_panic(|| self.poll_handler(cx)) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Reply::Detached(detachment))) => {
                    let detach = || self.router.detach(*detachment, self.service.as_ref());
                    let detached = catch_panic(detach);
                    match detached.unwrap_or_else(|panicked| Err(reply_to_panic(&self.method, panicked))) {
                        Ok(handler) => {
                            self.handler = Some(self.router.spawned(handler, None));
                            continue;
                        }
                        Err(reply) => reply,
                    }
                }
                Ok(Poll::Ready(reply)) => reply,
                Err(panicked) => reply_to_panic(&self.method, panicked),
            };
            return self.end(reply);
        }
    }
}

/// The way on which the driver ends a handler within layers that waits for the client.
#[derive(Default)]
pub(in crate::front) struct Suspension(Mutex<SuspensionState>);

#[derive(Default)]
struct SuspensionState {
    reply: Option<Reply>,
    waker: Option<Waker>,
    /// The thread on which the driver polls the outermost layer, while it does.
    driver: Option<ThreadId>,
}

impl Suspension {
    /// Ends the handler with this reply, which its layers see.
    pub(in crate::front) fn end(&self, reply: Reply) {
        update(&self.0, |state, wakers| {
            state.reply.get_or_insert(reply);
            wakers.wake(state.waker.take());
        });
    }

    /// Polls the outermost layer by `poll`, as the driver.
    pub(in crate::front) fn poll_by_driver<R>(&self, poll: impl FnOnce() -> R) -> R {
        lock(&self.0).driver = Some(thread::current().id());
        let polled = poll();
        lock(&self.0).driver = None;
        polled
    }

    /// Whether this is within a poll by the driver, and not in another task.
    fn is_driver_here(&self) -> bool {
        lock(&self.0).driver == Some(thread::current().id())
    }

    /// Takes the reply, or stores the waker until there is one.
    fn take_reply(&self, waker: &Waker) -> Option<Reply> {
        let waker = waker.clone();
        update(&self.0, |state, wakers| {
            wakers.discard(state.waker.replace(waker));
            state.reply.take()
        })
    }
}
