//! Whether handlers may move between threads.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::ops::Deref;

use super::reply::Reply;
use super::running_handlers::{LocalFuture, SendFuture};
#[cfg(feature = "server")]
use super::{
    handler::context::Context,
    spawned_handler::{AwaitedHandler, Spawner},
};

/// Whether handlers, and so the driver that runs them, may move between threads: [`SendHandlers`] or [`LocalHandlers`].
pub trait HandlerMode: sealed::Sealed + Clone + Sized + 'static {
    /// The type-erased handler of parameters `P` with a context `C`.
    #[doc(hidden)]
    type Handler<P: 'static, C: 'static>: Deref<Target: Fn(P, C) -> Self::HandlerFuture>
        + Clone
        + Unpin
        + 'static;

    /// The future of a running handler.
    #[doc(hidden)]
    type HandlerFuture: Future<Output = Reply> + Unpin + 'static;

    /// Wraps a `Send` future, which is valid in either mode.
    #[doc(hidden)]
    fn wrap_future(future: SendFuture<Reply>) -> Self::HandlerFuture;

    /// Makes a handler run as a task of its own, where handlers are `Send`.
    #[cfg(feature = "server")]
    #[doc(hidden)]
    fn spawn(
        handler: Self::HandlerFuture,
        context: Option<Context>,
        spawner: &Spawner,
    ) -> Self::HandlerFuture;
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

impl HandlerMode for SendHandlers {
    type Handler<P: 'static, C: 'static> = Arc<dyn Fn(P, C) -> Self::HandlerFuture + Send + Sync>;
    type HandlerFuture = SendFuture<Reply>;

    fn wrap_future(future: SendFuture<Reply>) -> Self::HandlerFuture {
        future
    }

    #[cfg(feature = "server")]
    fn spawn(
        handler: Self::HandlerFuture,
        context: Option<Context>,
        spawner: &Spawner,
    ) -> Self::HandlerFuture {
        AwaitedHandler::boxed(handler, context, spawner.clone())
    }
}

impl HandlerMode for LocalHandlers {
    type Handler<P: 'static, C: 'static> = Arc<dyn Fn(P, C) -> Self::HandlerFuture>;
    type HandlerFuture = LocalFuture<Reply>;

    fn wrap_future(future: SendFuture<Reply>) -> Self::HandlerFuture {
        future
    }

    #[cfg(feature = "server")]
    fn spawn(handler: Self::HandlerFuture, _: Option<Context>, _: &Spawner) -> Self::HandlerFuture {
        handler
    }
}

/// A context that handlers take: the one that the driver makes, completed with the router's state.
#[doc(hidden)]
pub trait HandlerContext: Sized + 'static {
    /// The context that the driver makes.
    type Plain: 'static;
    /// The state that completes it.
    type State: 'static;

    fn with_state(plain: Self::Plain, state: &Arc<Self::State>) -> Self;
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
    ) -> Arc<dyn Fn(P, C::Plain) -> SendFuture<Reply> + Send + Sync>
    where
        P: 'static,
        T: Send + 'static,
    {
        Arc::new(move |params, context| match decode(params, &context) {
            Ok((arguments, aside)) => {
                let context = C::with_state(context, &state);
                let (running, encode) = (self(arguments, context), encode.clone());
                Box::pin(async move { encode(aside, running.await) })
            }
            Err(reply) => Box::pin(async move { reply }),
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
    ) -> Arc<dyn Fn(P, C::Plain) -> LocalFuture<Reply>>
    where
        P: 'static,
        T: Send + 'static,
    {
        Arc::new(move |params, context| match decode(params, &context) {
            Ok((arguments, aside)) => {
                let context = C::with_state(context, &state);
                let (running, encode) = (self(arguments, context), encode.clone());
                Box::pin(async move { encode(aside, running.await) })
            }
            Err(reply) => Box::pin(async move { reply }),
        })
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::SendHandlers {}
    impl Sealed for super::LocalHandlers {}
}
