//! The layers of a router, and the requests that it answers within them.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use super::dispatch::Dispatch;
use super::{Context, HandlerMode, Router};
use crate::front::handler_error::{HandlerPanic, catch_panic};
use crate::front::layer::{HandlerLink, InboundParts, IntoLayer, LayerRequest, Layers, Next, other_request};
use crate::front::mode::{HoldsHandlers, SendHandlers};
use crate::front::reply::Reply;
use crate::front::tasks::TaskService;
use crate::front::wakers::SendFuture;
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
        (service, link): (Option<Arc<TaskService>>, Arc<HandlerLink>),
    ) -> Dispatch<M::HandlerFuture> {
        self.check_valid()?;
        #[cfg(feature = "auth")]
        let context = self.check_call_scopes(&method, params.as_ref(), context)?;
        self.check_rate(&method, params.as_ref(), &context)?;
        self.check_part_rates(&method, params.as_ref(), &context)?;
        let layers = self.contents.layers.clone();
        let request = LayerRequest::of_client(method, params, context);
        let handler =
            LayeredHandler { handler: None, request: None, router: self, service, link: link.clone() };
        let handler = M::wrap_holder::<LayeredHandler<SendHandlers>>(handler);
        Ok((Next::handler(layers, handler, link).run(request), None))
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

/// A handler that runs within layers, once they have passed on its request: its input rounds, its panic and its task are
/// answers that they see.
struct LayeredHandler<M: HandlerMode> {
    /// The handler, from its start to its end.
    handler: Option<M::HandlerFuture>,
    /// The method and the context of the request, once the handler has started.
    request: Option<(Text, Context)>,
    router: Arc<Router<M>>,
    service: Option<Arc<TaskService>>,
    link: Arc<HandlerLink>,
}

/// Nothing in it is ever pinned.
impl<M: HandlerMode> Unpin for LayeredHandler<M> {}

impl HoldsHandlers for LayeredHandler<SendHandlers> {
    type In<M: HandlerMode> = LayeredHandler<M>;

    fn into_send(future: Self) -> SendFuture<Reply> {
        Box::pin(future)
    }
}

impl<M: HandlerMode> LayeredHandler<M> {
    /// Starts the handler of the request that the layers have passed on.
    fn start(&mut self) -> Result<(), Reply> {
        let Some(request) = self.link.take_request() else { return Err(other_request()) };
        let InboundParts { method, context, params, replaced } = request;
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
        let (router, service) = (&self.router, self.service.as_ref());
        let dispatch = || router.dispatch(&method, params, context.clone(), service, is_other);
        let dispatched =
            catch_panic(dispatch).unwrap_or_else(|panicked| Err(reply_to_panic(&method, panicked)));
        let (handler, _) = dispatched?;
        self.handler = Some(router.spawned(handler, context.input_rounds().map(|_| &context)));
        self.request = Some((method, context));
        Ok(())
    }

    fn poll_handler(&mut self, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let (Some(handler), Some((_, context))) = (&mut self.handler, &self.request) else {
            return Poll::Pending;
        };
        let handler = Pin::new(handler);
        match context.input_rounds() {
            None => handler.poll(cx),
            Some(rounds) => {
                let poll = || Ok::<_, HandlerPanic>(rounds.poll(handler, cx));
                let replied = match self.link.is_driver_here() {
                    true => poll(),
                    // A layer has moved it to another task, after whose polls the driver has to look after the rounds.
                    false => rounds.poll_in_task(context.inbound_request(), poll),
                };
                let replied = replied.unwrap_or(Poll::Pending);
                replied.map(|reply| reply.unwrap_or_else(|error| error.into_reply(context.revision())))
            }
        }
    }

    /// The reply to a panic of the handler.
    fn reply_to_panic(&self, panicked: HandlerPanic) -> Reply {
        reply_to_panic(self.request.as_ref().map_or("", |(method, _)| method), panicked)
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
        if self.request.is_none()
            && let Err(reply) = self.start()
        {
            return Poll::Ready(reply);
        }
        loop {
            if let Some(reply) = self.link.take_reply(cx.waker()) {
                return self.end(reply);
            }
            let reply = match catch_panic(|| self.poll_handler(cx)) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Reply::Detached(detachment))) => {
                    let detach = || self.router.detach(*detachment, self.service.as_ref());
                    let detached = catch_panic(detach);
                    match detached.unwrap_or_else(|panicked| Err(self.reply_to_panic(panicked))) {
                        Ok(handler) => {
                            self.handler = Some(self.router.spawned(handler, None));
                            continue;
                        }
                        Err(reply) => reply,
                    }
                }
                Ok(Poll::Ready(reply)) => reply,
                Err(panicked) => self.reply_to_panic(panicked),
            };
            return self.end(reply);
        }
    }
}
