//! Layers: code of others around each request, and at each message, of routers and clients.
//!
//! A [`Layer`] sees each request that is answered or made here, and may log, count, change, answer or deny it. It is added
//! with [`Router::layer`](super::Router::layer) to a server, and with `ClientOptions::layer` of the adapters to a client;
//! `HostOptions::layer` of `mcp-hyper` adds it to a host. The first that is added is outermost.
//!
//! ```
//! use mcp_proto::front::Router;
//! use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next};
//!
//! /// Prints how each request ended.
//! struct Log;
//!
//! impl Layer for Log {
//!     fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
//!         let method = request.method().to_owned();
//!         Box::pin(async move {
//!             let reply = next.run(request).await;
//!             println!("{method}: {}", if reply.is_failure() { "failed" } else { "done" });
//!             reply
//!         })
//!     }
//! }
//!
//! let router = Router::new("notes", "1.0.0").layer(Log);
//! # drop(router);
//! ```
//!
//! What concerns HTTP as such (addresses, compression, headers of responses) belongs into a layer of the HTTP server
//! instead, such as those of the crate `tower`.

mod request;

use alloc::sync::Arc;
use core::ops::Deref;

use super::mode::{HandlerMode, LocalHandlers, SendHandlers};
use super::wakers::SendFuture;
use crate::rpc::Id;

pub use super::reply::Reply;
pub use request::{LayerRequest, Next};

/// The future of a layer around requests.
pub type LayerFuture = SendFuture<Reply>;

/// Code around each request, and at each message, of a router or a client: see the [module](self).
///
/// Layers of a [`Router::local`](super::Router::local) implement `Layer<LocalHandlers>`, and need not be `Send`. A layer
/// for either mode is generic over `M`, and acts with [`Next::run`] and [`Next::run_then`].
pub trait Layer<M: HandlerMode = SendHandlers>: 'static {
    /// Answers a request of the other side, or makes one of this side: by [`next`](Next::run), before and after which it may
    /// act, or by itself.
    ///
    /// - In a server it runs for each request that the router answers: once for each attempt of a client of 2026-07-28, that
    ///   is again when the client repeats its request with the input that the server required; once in all for an older
    ///   client. Handshake, discovery, pings and subscriptions are answered without it, and the work of a task runs
    ///   outside of it: the creation of the task is the answer.
    /// - In a client it runs once for each request of the application, whatever becomes of it: an answer from the cache, input
    ///   rounds, repetitions, a task that is followed. It also runs for each request of the server that a handler answers.
    ///
    /// If the request is cancelled, the future is dropped. If the layer panics, the request ends as if a handler had.
    ///
    /// Default: goes on.
    fn request(&self, request: LayerRequest, next: Next<M>) -> M::HandlerFuture {
        next.run(request)
    }

    /// Sees each message as it passes, in the order of the wire, and decides whether it goes on. Default: it does.
    ///
    /// It is called outside of locks, by the driver, and must not block: everything that arrives later waits.
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        let _ = message;
        Decision::Keep
    }
}

/// What becomes of a message that a layer saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Decision {
    /// The message goes on.
    Keep,
    /// The message is dropped. It counts for notifications only, and not for those that end or acknowledge something.
    Drop,
}

/// The side that a layer stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A client.
    Client,
    /// A server.
    Server,
}

/// Whether a message arrives or leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageDirection {
    /// From the other side.
    Received,
    /// To the other side.
    Sent,
}

/// The kind of a message that a layer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerMessageKind {
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// The result of a request.
    Result,
    /// The error of a request.
    Error,
}

/// A message, as [`Layer::message`] sees it.
#[derive(Debug)]
pub struct LayerMessage<'a> {
    pub(super) side: Side,
    pub(super) direction: MessageDirection,
    pub(super) kind: LayerMessageKind,
    pub(super) method: Option<&'a str>,
    pub(super) id: Option<&'a Id>,
}

impl<'a> LayerMessage<'a> {
    /// The side that the layer stands in.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Whether the message arrives or leaves.
    pub fn direction(&self) -> MessageDirection {
        self.direction
    }

    /// The kind of the message.
    pub fn kind(&self) -> LayerMessageKind {
        self.kind
    }

    /// The method of a request or of a notification; that of its request for an answer, if it is known.
    pub fn method(&self) -> Option<&'a str> {
        self.method
    }

    /// The id of a request or of an answer.
    pub fn id(&self) -> Option<&'a Id> {
        self.id
    }
}

/// A value that is a layer in mode `M`. It has a blanket implementation: with [`SendHandlers`] a layer must be `Send + Sync`,
/// with [`LocalHandlers`] it need not be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer here",
    note = "implement `Layer` for it; unless the router is made by `Router::local`, it must be `Send + Sync`"
)]
pub trait IntoLayer<M: HandlerMode> {
    /// Erases the type.
    #[doc(hidden)]
    fn into_layer(self) -> M::Layer;
}

impl<L: Layer<SendHandlers> + Send + Sync> IntoLayer<SendHandlers> for L {
    fn into_layer(self) -> <SendHandlers as HandlerMode>::Layer {
        Arc::new(self)
    }
}

impl<L: Layer<LocalHandlers>> IntoLayer<LocalHandlers> for L {
    fn into_layer(self) -> <LocalHandlers as HandlerMode>::Layer {
        Arc::new(self)
    }
}

/// A list of layers, the outermost first. Clones share them; an empty list takes no memory.
#[derive(Clone)]
pub struct Layers<M: HandlerMode = SendHandlers>(Option<Arc<[M::Layer]>>);

impl<M: HandlerMode> Layers<M> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Adds a layer inside of those in the list.
    pub fn push(&mut self, layer: impl IntoLayer<M>) {
        self.extend(&Self(Some(Arc::new([layer.into_layer()]))));
    }

    /// Adds all layers of another list inside of those in the list.
    pub fn extend(&mut self, inner: &Self) {
        if !inner.is_empty() {
            self.0 = Some(self.iter_erased().chain(inner.iter_erased()).cloned().collect());
        }
    }

    /// Whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The layer at a position.
    fn at(&self, position: usize) -> Option<M::Layer> {
        self.0.as_ref()?.get(position).cloned()
    }

    fn iter_erased(&self) -> impl Iterator<Item = &M::Layer> {
        self.0.iter().flat_map(|layers| layers.iter())
    }

    /// The layers, the outermost first.
    pub fn iter(&self) -> impl Iterator<Item = &<M::Layer as Deref>::Target> {
        self.iter_erased().map(|layer| &**layer)
    }
}

impl<M: HandlerMode> Default for Layers<M> {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields! { [M: HandlerMode] Layers<M>(self) { len = self.iter_erased().count() } }
