//! Whether handlers may move between threads, their erased types, and those of notifications.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::future::{Future, ready};
use core::ops::Deref;

use super::layer::Layer;
use super::notification::{Notification, NotificationQueue, is_defined};
use super::params::{HandlerContext, decode_as};
use super::reply::Reply;
use super::wakers::{LocalFuture, SendFuture};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::schema::{EmptyResult, Params};

/// Whether handlers, and so the driver that runs them, may move between threads: [`SendHandlers`] or [`LocalHandlers`].
pub trait HandlerMode: sealed::Sealed + Clone + Sized + 'static {
    /// The type-erased handler of parameters `P` with a context `C`.
    #[doc(hidden)]
    type Handler<P: 'static, C: 'static>: Deref<Target: Fn(P, C) -> Self::HandlerFuture>
        + Clone
        + Unpin
        + 'static;

    /// The future of a running handler, and of a [layer](super::layer): [`LayerFuture`](super::layer::LayerFuture), or the same
    /// without `Send`.
    type HandlerFuture: Future<Output = Reply> + Unpin + 'static;

    /// A type-erased layer.
    #[doc(hidden)]
    type Layer: Deref<Target: Layer<Self>> + Clone + 'static;

    /// Returns a future that passes the reply of `future` through `after`.
    #[doc(hidden)]
    fn then(
        future: Self::HandlerFuture,
        after: Box<dyn FnOnce(Reply) -> Reply + Send>,
    ) -> Self::HandlerFuture;

    /// Wraps a future that holds handlers.
    #[doc(hidden)]
    fn wrap_holder<F: HoldsHandlers>(future: F::In<Self>) -> Self::HandlerFuture;

    /// Wraps a `Send` future, which is valid in either mode.
    #[doc(hidden)]
    fn wrap_future(future: SendFuture<Reply>) -> Self::HandlerFuture;

    /// Wraps a handler whose future is `Send`.
    #[cfg(all(feature = "server", feature = "skills"))]
    #[doc(hidden)]
    fn wrap_handler<P: 'static, C: 'static>(
        handler: impl Fn(P, C) -> SendFuture<Reply> + Send + Sync + 'static,
    ) -> Self::Handler<P, C>;

    /// Wraps an erased handler: `before` makes its parameters, and the value that `after` needs to change its reply.
    #[cfg(feature = "server")]
    #[doc(hidden)]
    fn adapt_handler<P: 'static, Q: 'static, C: 'static, T: Send + 'static>(
        handler: Self::Handler<P, C>,
        before: impl Fn(Q, &C) -> Result<(P, T), Reply> + Send + Sync + 'static,
        after: impl Fn(T, Reply) -> Reply + Clone + Send + Sync + 'static,
    ) -> Self::Handler<Q, C>;

    /// Returns the `Send` future of a handler where handlers are `Send`, or else the handler.
    #[cfg(feature = "server")]
    #[doc(hidden)]
    fn into_send(handler: Self::HandlerFuture) -> Result<SendFuture<Reply>, Self::HandlerFuture>;
}

/// A future that holds handlers, and is `Send` where they are.
#[doc(hidden)]
pub trait HoldsHandlers {
    /// The future that holds handlers of mode `M`.
    type In<M: HandlerMode>: Future<Output = Reply> + Unpin + 'static;

    /// Erases the type of the future that is `Send`.
    fn into_send(future: Self::In<SendHandlers>) -> SendFuture<Reply>;
}

/// Handlers and their futures are `Send`, and so is the driver: it can run on a multi-threaded executor.
///
/// ```compile_fail
/// use mcp_proto::front::{NoArguments, Router};
/// use mcp_proto::schema::{Json, Tool};
///
/// let count = std::rc::Rc::new(7);
/// // `Rc<i32>` cannot be sent between threads safely: this is for `Router::local`.
/// Router::new("counter", "1.0.0")
///     .tool_with(Tool::new("count", "", Json::empty_object()), move |NoArguments {}, _| {
///         let count = count.clone();
///         async move { count.to_string() }
///     });
/// ```
#[derive(Clone, Copy, Debug)]
pub enum SendHandlers {}

/// Handlers and their futures may hold values that are not `Send`, such as an `Rc`; the driver stays on its thread.
#[derive(Clone, Copy, Debug)]
pub enum LocalHandlers {}

/// The methods of both modes that differ only in the types.
macro_rules! mode_methods {
    () => {
        fn then(
            future: Self::HandlerFuture,
            after: Box<dyn FnOnce(Reply) -> Reply + Send>,
        ) -> Self::HandlerFuture {
            Box::pin(async move { after(future.await) })
        }

        fn wrap_future(future: SendFuture<Reply>) -> Self::HandlerFuture {
            future
        }

        #[cfg(feature = "server")]
        fn adapt_handler<P: 'static, Q: 'static, C: 'static, T: Send + 'static>(
            handler: Self::Handler<P, C>,
            before: impl Fn(Q, &C) -> Result<(P, T), Reply> + Send + Sync + 'static,
            after: impl Fn(T, Reply) -> Reply + Clone + Send + Sync + 'static,
        ) -> Self::Handler<Q, C> {
            Arc::new(move |params, context| match before(params, &context) {
                Ok((params, aside)) => {
                    let (running, after) = (handler(params, context), after.clone());
                    Box::pin(async move { after(aside, running.await) })
                }
                Err(reply) => Box::pin(ready(reply)),
            })
        }
    };
}

impl HandlerMode for SendHandlers {
    type Handler<P: 'static, C: 'static> = Arc<dyn Fn(P, C) -> Self::HandlerFuture + Send + Sync>;
    type HandlerFuture = SendFuture<Reply>;
    type Layer = Arc<dyn Layer<Self> + Send + Sync>;

    mode_methods!();

    fn wrap_holder<F: HoldsHandlers>(future: F::In<Self>) -> Self::HandlerFuture {
        F::into_send(future)
    }

    #[cfg(all(feature = "server", feature = "skills"))]
    fn wrap_handler<P: 'static, C: 'static>(
        handler: impl Fn(P, C) -> SendFuture<Reply> + Send + Sync + 'static,
    ) -> Self::Handler<P, C> {
        Arc::new(handler)
    }

    #[cfg(feature = "server")]
    fn into_send(handler: SendFuture<Reply>) -> Result<SendFuture<Reply>, Self::HandlerFuture> {
        Ok(handler)
    }
}

impl HandlerMode for LocalHandlers {
    type Handler<P: 'static, C: 'static> = Arc<dyn Fn(P, C) -> Self::HandlerFuture>;
    type HandlerFuture = LocalFuture<Reply>;
    type Layer = Arc<dyn Layer<Self>>;

    mode_methods!();

    fn wrap_holder<F: HoldsHandlers>(future: F::In<Self>) -> Self::HandlerFuture {
        Box::pin(future)
    }

    #[cfg(all(feature = "server", feature = "skills"))]
    fn wrap_handler<P: 'static, C: 'static>(
        handler: impl Fn(P, C) -> SendFuture<Reply> + Send + Sync + 'static,
    ) -> Self::Handler<P, C> {
        Arc::new(move |params, context| -> LocalFuture<Reply> { handler(params, context) })
    }

    #[cfg(feature = "server")]
    fn into_send(handler: Self::HandlerFuture) -> Result<SendFuture<Reply>, Self::HandlerFuture> {
        Err(handler)
    }
}

/// An async closure or function of arguments `A` and a context `C`. It has a blanket implementation.
///
/// With [`SendHandlers`] it must be `Send + Sync` and its future `Send`; with [`LocalHandlers`] neither need be.
///
/// A handler runs many times, also at the same time, and may outlive the scope that made it. A variable that it captures
/// is therefore cloned for each run, usually an `Arc`:
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_proto::front::{NoArguments, Router};
/// use mcp_proto::schema::{Json, Tool};
///
/// let names = Arc::new(vec!["Ada", "Grace"]);
/// let tool = Tool::new("names", "Lists the names", Json::empty_object());
/// let router = Router::new("names", "1.0.0").tool_with(tool, move |NoArguments {}, _| {
///     let names = names.clone();
///     async move { names.join(", ") }
/// });
/// # drop(router);
/// ```
///
/// A value that is not `Send`, such as an `Rc` or the guard of a `std` mutex, must be dropped before the next `.await`, or
/// the router is one of `Router::local`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "a handler is an async closure or function of `({A}, {C})`; it captures only what is `'static`",
    note = "unless the router is made by `Router::local`, the handler and its future are `Send`"
)]
pub trait Handler<M: HandlerMode, A, C, F>: Fn(A, C) -> F + 'static
where
    C: HandlerContext,
    F: Future + 'static,
{
    /// Erases the types: `state` completes the context; `decode` makes the arguments and the value that `encode` needs
    /// beside the output.
    #[doc(hidden)]
    fn erase<P, T>(
        self,
        state: Arc<C::State>,
        decode: impl Fn(P, &C::Plain) -> Result<(A, T), Reply> + Send + Sync + 'static,
        encode: impl Fn(T, F::Output) -> Reply + Clone + Send + Sync + 'static,
    ) -> M::Handler<P, C::Plain>
    where
        P: 'static,
        T: Send + 'static;
}

/// Starts a handler with its decoded arguments. Its future encodes the output.
fn start<A, C: HandlerContext, F: Future, T, H: Fn(A, C) -> F, E: Fn(T, F::Output) -> Reply + Clone>(
    handler: &H,
    state: &Arc<C::State>,
    decoded: Result<(A, T), Reply>,
    context: C::Plain,
    encode: &E,
) -> Result<impl Future<Output = Reply> + use<A, C, F, T, H, E>, Reply> {
    let (arguments, aside) = decoded?;
    let (running, encode) = (handler(arguments, C::with_state(context, state)), encode.clone());
    Ok(async move { encode(aside, running.await) })
}

impl<A, C, F, H> Handler<SendHandlers, A, C, F> for H
where
    A: 'static,
    C: HandlerContext<State: Send + Sync>,
    F: Future + Send + 'static,
    H: Fn(A, C) -> F + Send + Sync + 'static,
{
    fn erase<P, T>(
        self,
        state: Arc<C::State>,
        decode: impl Fn(P, &C::Plain) -> Result<(A, T), Reply> + Send + Sync + 'static,
        encode: impl Fn(T, F::Output) -> Reply + Clone + Send + Sync + 'static,
    ) -> <SendHandlers as HandlerMode>::Handler<P, C::Plain>
    where
        P: 'static,
        T: Send + 'static,
    {
        Arc::new(move |params, context| {
            match start(&self, &state, decode(params, &context), context, &encode) {
                Ok(running) => Box::pin(running),
                Err(reply) => Box::pin(ready(reply)),
            }
        })
    }
}

impl<A, C, F, H> Handler<LocalHandlers, A, C, F> for H
where
    A: 'static,
    C: HandlerContext,
    F: Future + 'static,
    H: Fn(A, C) -> F + 'static,
{
    fn erase<P, T>(
        self,
        state: Arc<C::State>,
        decode: impl Fn(P, &C::Plain) -> Result<(A, T), Reply> + Send + Sync + 'static,
        encode: impl Fn(T, F::Output) -> Reply + Clone + Send + Sync + 'static,
    ) -> <LocalHandlers as HandlerMode>::Handler<P, C::Plain>
    where
        P: 'static,
        T: Send + 'static,
    {
        Arc::new(move |params, context| {
            match start(&self, &state, decode(params, &context), context, &encode) {
                Ok(running) => Box::pin(running),
                Err(reply) => Box::pin(ready(reply)),
            }
        })
    }
}

/// The handlers of notifications, by name; `C` is their context.
#[derive(Clone)]
pub(super) struct NotificationHandlers<M: HandlerMode, C: 'static> {
    by_name: OrderedMap<Cow<'static, str>, M::Handler<Notification, C>>,
    fallback: Option<M::Handler<Notification, C>>,
}

impl<M: HandlerMode, C: 'static> NotificationHandlers<M, C> {
    pub(super) fn new() -> Self {
        Self { by_name: OrderedMap::new(), fallback: None }
    }

    /// Whether the same notifications have handlers.
    pub(super) fn handles_same(&self, other: &Self) -> bool {
        self.fallback.is_some() == other.fallback.is_some() && self.by_name.keys().eq(other.by_name.keys())
    }

    /// Sets the handler of the notifications of one name.
    pub(super) fn insert<P, X, F>(
        &mut self,
        name: Cow<'static, str>,
        state: Arc<X::State>,
        handler: impl Handler<M, P, X, F>,
    ) where
        P: Params,
        X: HandlerContext<Plain = C>,
        F: Future<Output = ()> + 'static,
    {
        // Absent parameters count as an empty object.
        let decode = |notification: Notification, _: &C| {
            let params = decode_as(&notification.method, notification.params)?;
            Ok((params, ()))
        };
        self.by_name.insert(name, handler.erase(state, decode, |(), ()| no_reply()));
    }

    /// Sets the handler of the notifications that the protocol does not define and that have no other handler.
    pub(super) fn set_fallback<X, F>(
        &mut self,
        state: Arc<X::State>,
        handler: impl Handler<M, Notification, X, F>,
    ) where
        X: HandlerContext<Plain = C>,
        F: Future<Output = ()> + 'static,
    {
        self.fallback = Some(handler.erase(state, |all, _: &C| Ok((all, ())), |(), ()| no_reply()));
    }

    /// Adds the handlers of `other`.
    ///
    /// # Errors
    /// The first name that has two handlers; then some may have been added. The fallback has none.
    #[cfg(feature = "server")]
    pub(super) fn absorb(&mut self, other: Self) -> Result<(), Option<String>> {
        for (name, handler) in other.by_name {
            if self.by_name.contains_key(&name) {
                return Err(Some(name.into()));
            }
            self.by_name.insert(name, handler);
        }
        match (&self.fallback, other.fallback) {
            (Some(_), Some(_)) => Err(None),
            (None, fallback) => {
                self.fallback = fallback;
                Ok(())
            }
            (Some(_), None) => Ok(()),
        }
    }

    /// Starts the handler of a notification, if there is one.
    pub(super) fn start(&self, notification: Notification, context: C) -> Option<M::HandlerFuture> {
        let handler = self.by_name.get(&*notification.method).or(self.fallback_of(&notification))?;
        Some(handler(notification, context))
    }

    /// The fallback, for a notification that the protocol does not define.
    fn fallback_of(&self, notification: &Notification) -> Option<&M::Handler<Notification, C>> {
        self.fallback.as_ref().filter(|_| !is_defined(&notification.method))
    }

    /// Creates the queue of the notifications that have handlers; `None` if there are no handlers.
    pub(super) fn queue<T>(&self) -> Option<Box<NotificationQueue<T>>> {
        if self.by_name.is_empty() && self.fallback.is_none() {
            return None;
        }
        let names = self.by_name.keys().cloned().collect();
        Some(Box::new(NotificationQueue::new(names, self.fallback.is_some())))
    }
}

/// The reply of a notification's handler, which is dropped: notifications get no answer.
fn no_reply() -> Reply {
    Reply::result(EmptyResult::new())
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::SendHandlers {}
    impl Sealed for super::LocalHandlers {}
}
