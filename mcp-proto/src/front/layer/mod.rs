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

mod audit;
mod message;
mod message_layers;
mod request;
mod rules;

use alloc::sync::Arc;
use core::any::{Any, TypeId};
use core::ops::Deref;

use super::mode::{HandlerMode, LocalHandlers, SendHandlers};
use super::wakers::SendFuture;

use crate::prelude::*;
use crate::sync::atomic::{AtomicBool, Ordering};

pub use super::reply::Reply;
pub use audit::{Audit, AuditOutcome, AuditRecord};
pub use message::{LayerMessage, LayerMessageError, LayerMessageKind};
pub(in crate::front) use message_layers::MessageLayers;
#[cfg(feature = "server")]
pub(in crate::front) use request::{HandlerLink, InboundParts, other_request};
pub use request::{LayerRequest, Next};
pub use rules::{InvalidPointer, NamePattern, RuleMatch, Rules};

/// The future of a layer around requests.
pub type LayerFuture = SendFuture<Reply>;

/// Code around each request, and at each message, of a router or a client: see the [module](self).
///
/// Layers of a [`Router::local`](super::Router::local) implement `Layer<LocalHandlers>`, and need not be `Send`. A layer
/// for either mode is generic over `M`, and acts with [`Next::run`] and [`Next::run_then`].
pub trait Layer<M: HandlerMode = SendHandlers>: Any {
    /// Answers a request of the other side, or makes one of this side: by [`next`](Next::run), before and after which it may
    /// act, or by itself.
    ///
    /// - In a server it runs for each request that the router answers: once for each attempt of a client of 2026-07-28, that
    ///   is again when the client repeats its request with the input that the server required; once in all for an older
    ///   client. Handshake, discovery, pings and subscriptions are answered without it, and the work of a task runs
    ///   outside of it: the creation of the task is the answer. What handlers ask of the client passes it by: since
    ///   2026-07-28 that is a part of the answer, and no request.
    /// - In a client it runs once for each request of the application, whatever becomes of it: an answer from the cache, input
    ///   rounds, repetitions, a task that is followed. It also runs for each request of the server that a handler answers.
    ///   A [`TaskHandle`](super::TaskHandle) makes requests of its own: `tasks/cancel`, and `tasks/get` for the status and,
    ///   once, for the whole wait, whose reply is the result of the tool. Subscriptions pass it by.
    ///
    /// If the request is cancelled, the future is dropped. If the layer panics, the request ends as if a handler had.
    ///
    /// Default: goes on.
    fn request(&self, request: LayerRequest, next: Next<M>) -> M::HandlerFuture {
        next.run(request)
    }

    /// Sees each message as it passes between machine and transport, in the order of the wire: it may read, change or drop
    /// it. Default: the message goes on, and costs nothing once all layers have shown that they leave this to the default.
    ///
    /// It sees everything, also what machines say themselves: handshake and discovery, pings, progress, cancellations,
    /// acknowledgements, the events of subscriptions; each message of a batch by itself; and text that is no message. What is
    /// sent passes the innermost layer first, what is received the outermost.
    ///
    /// Over HTTP it sees the bodies of requests and answers and the events of streams: on a server after the checks of
    /// head, origin, token and rate, and once for each time that an event is sent, so again when a client fetches it again;
    /// in a client once for each attempt of a request. The length of a body is that of what the layers left of it. A
    /// notification that a layer of a server drops is answered like one that was accepted; one that a client's layer drops
    /// makes no request. Documents that are no messages, such as those of OAuth, pass it by.
    ///
    /// A client does not cache a result that a layer has changed, nor that of a request of which a layer has changed more
    /// than `_meta`.
    ///
    /// The driver calls it outside of locks. So it may use the handles of the connection, but must not block: everything
    /// that arrives later waits. [`LayerMessage`] tells what may be changed. A drop counts for notifications only
    /// ([`LayerMessage::is_droppable`]); any other is ignored and reported as `LayerDropIgnored`. If a layer panics, its
    /// connection ends with [`LostReason::Failed`](crate::peer::LostReason::Failed), on a server over HTTP the exchange with
    /// status 500 or the end of its stream: a message that it should have changed must not pass.
    ///
    /// ```
    /// use mcp_proto::front::HandlerMode;
    /// use mcp_proto::front::layer::{Decision, Layer, LayerMessage, MessageDirection};
    ///
    /// /// Keeps log messages from the client, and names the instance in each answer.
    /// struct Quiet {
    ///     instance: String,
    /// }
    ///
    /// impl<M: HandlerMode> Layer<M> for Quiet {
    ///     fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
    ///         if message.direction() == MessageDirection::Sent && message.method() == Some("notifications/message") {
    ///             return Decision::Drop;
    ///         }
    ///         if message.result().is_some() {
    ///             // Results that are no objects have no place for it.
    ///             let _ = message.insert_meta("com.example/instance", &self.instance);
    ///         }
    ///         Decision::Keep
    ///     }
    /// }
    /// ```
    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        message.set_unread_by(Some((self.type_id(), TypeId::of::<M>())));
        Decision::Keep
    }
}

/// What becomes of a message that a layer saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Decision {
    /// The message goes on.
    Keep,
    /// The message is dropped, if it is a notification on which no other message depends: see
    /// [`is_droppable`](LayerMessage::is_droppable).
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
pub struct Layers<M: HandlerMode = SendHandlers>(Option<Arc<LayerList<M>>>);

struct LayerList<M: HandlerMode> {
    layers: Vec<M::Layer>,
    /// Whether no layer has a [`message`](Layer::message) of its own. It is learned from the first message.
    ignores_messages: AtomicBool,
}

/// The type of a layer, and its mode: they have one `message`.
type LayerType = (TypeId, TypeId);

/// The type of an erased layer.
fn type_of<M: HandlerMode>(layer: &<M::Layer as Deref>::Target) -> LayerType {
    (layer.type_id(), TypeId::of::<M>())
}

impl<M: HandlerMode> Layers<M> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(None)
    }

    fn of(layers: Vec<M::Layer>) -> Self {
        Self(Some(Arc::new(LayerList { layers, ignores_messages: AtomicBool::new(false) })))
    }

    /// Adds a layer inside of those in the list.
    pub fn push(&mut self, layer: impl IntoLayer<M>) {
        self.extend(&Self::of(vec![layer.into_layer()]));
    }

    /// Adds all layers of another list inside of those in the list.
    pub fn extend(&mut self, inner: &Self) {
        if !inner.is_empty() {
            *self = Self::of(self.as_slice().iter().chain(inner.as_slice()).cloned().collect());
        }
    }

    /// Whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The layer at a position.
    fn at(&self, position: usize) -> Option<M::Layer> {
        self.as_slice().get(position).cloned()
    }

    fn as_slice(&self) -> &[M::Layer] {
        self.0.as_ref().map_or(&[], |list| &list.layers)
    }

    /// Whether no layer reads messages, as far as is known.
    fn ignore_messages(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.ignores_messages.load(Ordering::Relaxed))
    }

    /// Notes that no layer has a `message` of its own.
    fn set_ignore_messages(&self) {
        if let Some(list) = &self.0 {
            list.ignores_messages.store(true, Ordering::Relaxed);
        }
    }

    /// The layers, the outermost first.
    pub fn iter(&self) -> impl Iterator<Item = &<M::Layer as Deref>::Target> {
        self.as_slice().iter().map(|layer| &**layer)
    }
}

impl<M: HandlerMode> Default for Layers<M> {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields! { [M: HandlerMode] Layers<M>(self) { len = self.as_slice().len() } }

#[cfg(feature = "client")]
impl Layers {
    /// Passes a request through the layers, and then to `innermost`. Clients and routers do it by themselves; it is for
    /// programs whose requests are not those of one client, such as hosts.
    pub fn run(
        &self,
        request: LayerRequest,
        innermost: impl FnOnce(LayerRequest) -> LayerFuture + Send + 'static,
    ) -> LayerFuture {
        Next::client(self.clone(), Box::new(innermost)).run(request)
    }

    /// The layers for a host's connection to the server of this name, which they see as
    /// [`server_name`](LayerRequest::server_name). For the calls around which the host runs its layers itself, it uses a
    /// client [outside of them](crate::front::Client::outside_layers).
    pub fn of_connection(&self, server: &str) -> Self {
        let server = Arc::<str>::from(server);
        let mut layers = Self::new();
        for layer in self.as_slice() {
            layers.push(ConnectionLayer { layer: layer.clone(), server: server.clone() });
        }
        layers
    }
}

/// A layer of a host at one of its connections.
#[cfg(feature = "client")]
struct ConnectionLayer {
    layer: <SendHandlers as HandlerMode>::Layer,
    server: Arc<str>,
}

#[cfg(feature = "client")]
impl Layer for ConnectionLayer {
    fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
        self.layer.request(request.of_named_server(self.server.clone()), next)
    }

    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        message.set_server_name(&self.server);
        let decision = self.layer.message(message);
        let is_unread = message.is_unread_by(type_of::<SendHandlers>(&*self.layer));
        message.set_unread_by(is_unread.then(|| type_of::<SendHandlers>(self)));
        decision
    }
}
