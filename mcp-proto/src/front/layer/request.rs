//! Requests as layers see them, and what they go on to.

use alloc::sync::Arc;
use core::future::ready;
#[cfg(feature = "server")]
use core::task::Waker;
#[cfg(feature = "client")]
use std::sync::OnceLock;

use super::{Layer as _, Layers, MessageDirection, Reply, Side};
use crate::front::Clock;
#[cfg(feature = "client")]
use crate::front::layered_call::DraftCall;
use crate::front::mode::{HandlerMode, SendHandlers};
use crate::front::params::decode_as;
use crate::peer::{AnyParams, Principal};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorObject, Raw, Text, code, first_member, read_members};
use crate::schema::{
    CallTool, CustomParams, Era, GetPrompt, Implementation, Json, Method as _, Params, ReadResource, Revision,
};
#[cfg(feature = "client")]
use crate::{
    front::ClientContext, front::request::RequestLink, front::wakers::SendFuture, peer::client::ServerInfo,
};
#[cfg(feature = "server")]
use crate::{
    front::handler::{context::Context, inbound_request::Attachments},
    front::wakers::{lock, update},
    schema::CallToolResult,
    sync::Mutex,
    sync::thread::{self, ThreadId},
};

/// A request that passes through layers: its method, parameters and facts.
///
/// The method is fixed. The parameters may be changed; what they ask for is checked again where the request is answered or
/// sent.
pub struct LayerRequest {
    method: Text,
    params: LayerParams,
    /// The parameters before the first change.
    replaced: Option<LayerParams>,
    origin: Origin,
    /// In a host, the name of the server in its configuration.
    server_name: Option<Arc<str>>,
}

enum LayerParams {
    Raw(Option<Raw>),
    /// The parameters of a call of this client, which are encoded for a layer that reads them.
    #[cfg(feature = "client")]
    Draft(Box<dyn DraftCall>),
}

/// The parts of a request to this server.
#[cfg(feature = "server")]
pub(in crate::front) struct InboundParts {
    pub(in crate::front) method: Text,
    pub(in crate::front) context: Context,
    pub(in crate::front) params: Option<Raw>,
    /// The parameters before the first change, if a layer changed them.
    pub(in crate::front) replaced: Option<Option<Raw>>,
}

/// The reply to a request that a layer passed on in place of the one that it got.
pub(in crate::front) fn other_request() -> Reply {
    Reply::error(code::INTERNAL_ERROR, "a layer passed on another request than it got")
}

enum Origin {
    /// A client's request to this server.
    #[cfg(feature = "server")]
    Client(Context),
    /// A server's request to this client.
    #[cfg(feature = "client")]
    Server(ClientContext, Arc<dyn Clock>),
    /// A request of this client's application, and the server once a layer has asked for it.
    #[cfg(feature = "client")]
    Application(Arc<dyn RequestLink>, OnceLock<Option<Arc<ServerInfo>>>),
    /// A request of a host's application.
    #[cfg(feature = "client")]
    Host(Arc<dyn Clock>),
}

impl LayerRequest {
    fn new(method: Text, params: LayerParams, origin: Origin) -> Self {
        Self { method, params, replaced: None, origin, server_name: None }
    }

    /// A client's request to this server.
    #[cfg(feature = "server")]
    pub(in crate::front) fn of_client(method: Text, params: Option<Raw>, context: Context) -> Self {
        Self::new(method, LayerParams::Raw(params), Origin::Client(context))
    }

    /// A request of this client's application.
    #[cfg(feature = "client")]
    pub(in crate::front) fn of_application(
        method: Text,
        call: Box<dyn DraftCall>,
        link: Arc<dyn RequestLink>,
    ) -> Self {
        Self::new(method, LayerParams::Draft(call), Origin::Application(link, OnceLock::new()))
    }

    /// A server's request to this client.
    #[cfg(feature = "client")]
    pub(in crate::front) fn of_server(
        method: &str,
        params: Option<Raw>,
        context: ClientContext,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::new(method.into(), LayerParams::Raw(params), Origin::Server(context, clock))
    }

    /// Creates the request of a host's application to the server of this name, for [`Layers::run`].
    #[cfg(feature = "client")]
    pub fn of_host(
        method: &str,
        params: &impl Params,
        server: impl Into<Arc<str>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let raw = LayerParams::Raw(AnyParams::to_raw(params).ok());
        Self::new(method.into(), raw, Origin::Host(clock)).of_named_server(server)
    }

    /// Sets the name of the server in the configuration of a host.
    #[cfg(feature = "client")]
    pub(super) fn of_named_server(self, server: impl Into<Arc<str>>) -> Self {
        Self { server_name: Some(server.into()), ..self }
    }

    /// Whether a layer has changed the parameters.
    pub fn is_changed(&self) -> bool {
        self.replaced.is_some()
    }

    // --- The request ---

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameters, as the wire has them in the revision in use; `None` if there are none.
    ///
    /// Those of a call of this client lack the entries of `_meta` that the client adds itself.
    pub fn params(&self) -> Option<&Raw> {
        match &self.params {
            LayerParams::Raw(raw) => raw.as_ref(),
            #[cfg(feature = "client")]
            LayerParams::Draft(call) => call.params(self.revision().unwrap_or(Revision::LATEST)),
        }
    }

    /// Decodes the parameters: as [`CallToolParams`](crate::schema::CallToolParams), for example, or as
    /// [`CustomParams`], which fit any method.
    ///
    /// # Errors
    /// [`INVALID_PARAMS`](code::INVALID_PARAMS) if they do not match the type, which a layer may answer with.
    pub fn decode<P: Params>(&self) -> Result<P, ErrorObject> {
        decode_as(&self.method, self.params().cloned())
    }

    /// The name of the called tool or of the prompt, or the URI of the resource that is read.
    pub fn item(&self) -> Option<String> {
        let member = match &*self.method {
            CallTool::NAME | GetPrompt::NAME => "name",
            ReadResource::NAME => "uri",
            _ => return None,
        };
        // A name that occurs twice is refused where the request is answered.
        let [value] = read_members(self.params()?.as_str(), [member]).ok()?;
        serde_json::from_str(value?).ok()
    }

    /// Replaces the parameters.
    ///
    /// # Errors
    /// [`INTERNAL_ERROR`](code::INTERNAL_ERROR) if a value in them does not serialize, which a layer may answer with. Then
    /// nothing changes.
    pub fn set_params(&mut self, params: &impl Params) -> Result<(), ErrorObject> {
        let unwritable = |error: serde_json::Error| ErrorObject::new(code::INTERNAL_ERROR, error.to_string());
        self.replace(AnyParams::to_raw(params).map_err(unwritable)?);
        Ok(())
    }

    /// Replaces the parameters by JSON text.
    ///
    /// # Errors
    /// If it is not a JSON object. Then nothing changes.
    pub fn set_raw_params(&mut self, params: Raw) -> Result<(), serde_json::Error> {
        params.decode::<serde_json::Map<String, serde_json::Value>>()?;
        self.replace(params);
        Ok(())
    }

    /// Sets an entry of `_meta`. Entries that the protocol defines for itself, such as the revision, are not changed by it.
    ///
    /// # Errors
    /// If the parameters are not a JSON object, or as [`set_params`](Self::set_params).
    pub fn set_meta(&mut self, key: impl Into<String>, value: impl Into<Json>) -> Result<(), ErrorObject> {
        let mut params = self.decode::<CustomParams>()?;
        params.meta.insert(key, value);
        self.set_params(&params)
    }

    /// The parts of a request to this server, with the parameters before the first change if a layer changed them.
    #[cfg(feature = "server")]
    #[cfg_attr(
        not(feature = "client"),
        expect(irrefutable_let_patterns, reason = "requests of clients are the only ones of a server")
    )]
    pub(in crate::front) fn into_inbound(self) -> Option<InboundParts> {
        let Self {
            method, params: LayerParams::Raw(params), replaced, origin: Origin::Client(context), ..
        } = self
        else {
            return None;
        };
        let replaced = replaced.map(|replaced| match replaced {
            LayerParams::Raw(raw) => raw,
            #[cfg(feature = "client")]
            LayerParams::Draft(_) => None,
        });
        Some(InboundParts { method, context, params, replaced })
    }

    /// Sends the call of a client's application.
    #[cfg(feature = "client")]
    fn send(self) -> SendFuture<Reply> {
        match (self.replaced, self.params) {
            (None, LayerParams::Draft(call)) => call.send(None),
            (Some(LayerParams::Draft(call)), LayerParams::Raw(raw)) => call.send(Some(raw)),
            _ => Box::pin(ready(other_request())),
        }
    }

    /// The parameters.
    #[cfg(feature = "client")]
    pub(in crate::front) fn into_raw(self) -> Option<Raw> {
        match self.params {
            LayerParams::Raw(raw) => raw,
            LayerParams::Draft(_) => self.params().cloned(),
        }
    }

    fn replace(&mut self, params: Raw) {
        let before = core::mem::replace(&mut self.params, LayerParams::Raw(Some(params)));
        self.replaced.get_or_insert(before);
    }

    // --- Its connection ---

    /// The side that the layer stands in.
    pub fn side(&self) -> Side {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(_) => Side::Server,
            #[cfg(feature = "client")]
            _ => Side::Client,
        }
    }

    /// Whether the other side made the request, or the application of this one.
    pub fn direction(&self) -> MessageDirection {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(_) => MessageDirection::Received,
            #[cfg(feature = "client")]
            Origin::Server(..) => MessageDirection::Received,
            #[cfg(feature = "client")]
            Origin::Application(..) | Origin::Host(_) => MessageDirection::Sent,
        }
    }

    /// The era of the connection; `None` before a client knows it.
    pub fn era(&self) -> Option<Era> {
        self.revision().map(Revision::era)
    }

    /// The protocol revision in use; `None` before a client knows it.
    pub fn revision(&self) -> Option<Revision> {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(ref context) => Some(context.revision()),
            #[cfg(feature = "client")]
            _ => self.server().map(|server| server.revision),
        }
    }

    /// The name and version of the other side, as it reports them. For display and logs only: they prove nothing.
    pub fn peer(&self) -> Option<&Implementation> {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(ref context) => context.client(),
            #[cfg(feature = "client")]
            _ => self.server()?.implementation.as_ref(),
        }
    }

    /// In a host, the name of the server in its configuration.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// In a server, the principal on whose behalf the request is made, if the transport knows one.
    pub fn principal(&self) -> Option<&Principal> {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(ref context) => context.principal(),
            #[cfg(feature = "client")]
            _ => None,
        }
    }

    /// The owner whose quota the request uses: in a server its principal, or the address it came from.
    pub fn owner(&self) -> QuotaOwner {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(ref context) => context.owner(),
            #[cfg(feature = "client")]
            _ => QuotaOwner::LOCAL,
        }
    }

    /// The clock of the connection.
    pub fn clock(&self) -> Arc<dyn Clock> {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(ref context) => context.connection().clock().clone(),
            #[cfg(feature = "client")]
            Origin::Server(_, ref clock) | Origin::Host(ref clock) => clock.clone(),
            #[cfg(feature = "client")]
            Origin::Application(ref link, _) => link.clock().clone(),
        }
    }

    /// The number of the attempt, from 1. A client of 2026-07-28 repeats its request with the input that the server
    /// requires, and this server counts the attempts in the sealed state that the client returns. `None` if the client
    /// returns no such state with its answers, or one that is not valid any more. Every other request has one attempt: a
    /// client's layers stand outside of its repetitions.
    ///
    /// This opens the state; [`is_retry`](Self::is_retry) only looks for one. Where a handler resolves its input without
    /// `Context::elicit` and its like, by states of its own, they are not counted.
    pub fn attempt(&self) -> Option<u32> {
        match &self.origin {
            #[cfg(feature = "server")]
            Origin::Client(context) => match context.input_rounds() {
                Some(rounds) => rounds.attempt(context.inbound_request()),
                None => (!self.is_retry()).then_some(1),
            },
            #[cfg(feature = "client")]
            _ => Some(1),
        }
    }

    /// Whether a client of 2026-07-28 repeats its request, with the input or the state of an earlier attempt.
    pub fn is_retry(&self) -> bool {
        let Some(params) = self.params() else { return false };
        let has = |name| first_member(params.as_str(), name).is_ok_and(|value| value.is_some());
        self.direction() == MessageDirection::Received && (has("requestState") || has("inputResponses"))
    }
}

#[cfg(feature = "server")]
impl LayerRequest {
    /// In a server, the context of the request, as its handler gets it.
    pub fn context(&self) -> Option<&Context> {
        match self.origin {
            Origin::Client(ref context) => Some(context),
            #[cfg(feature = "client")]
            _ => None,
        }
    }

    /// In a server, what the adapter attached to the request: the head of the HTTP request, for example.
    pub fn attachments(&self) -> Option<&Attachments> {
        Some(self.context()?.attachments())
    }
}

#[cfg(feature = "client")]
impl LayerRequest {
    /// In a client, the server, once it is known.
    pub fn server(&self) -> Option<&ServerInfo> {
        match self.origin {
            #[cfg(feature = "server")]
            Origin::Client(_) => None,
            Origin::Server(ref context, _) => context.server(),
            Origin::Application(ref link, ref server) => server.get_or_init(|| link.server()).as_deref(),
            Origin::Host(_) => None,
        }
    }
}

/// Answers of a layer.
impl LayerRequest {
    /// The reply that denies the request. For a call of a tool, a server's is a result with `isError` whose text is the
    /// reason: the model reads it. Any other is an error of the code [`INVALID_REQUEST`](code::INVALID_REQUEST), which the
    /// application of a client gets as [`Error::Layer`](crate::front::Error::Layer).
    pub fn deny(&self, reason: impl Into<String>) -> Reply {
        let reason = reason.into();
        #[cfg(feature = "server")]
        if self.side() == Side::Server && &*self.method == CallTool::NAME {
            return Reply::result(CallToolResult::error(reason));
        }
        Reply::error(code::INVALID_REQUEST, reason)
    }
}

debug_fields! { LayerRequest { method } }

/// What a layer goes on to: the layers inside of it, and then the handler or the connection.
#[must_use = "without `run` the request goes no further"]
pub struct Next<M: HandlerMode = SendHandlers> {
    layers: Layers<M>,
    /// The position of the next layer.
    position: usize,
    inside: Inside<M>,
}

/// What is inside of all layers.
enum Inside<M: HandlerMode> {
    /// The handler of a router, which waits for the request.
    #[cfg(feature = "server")]
    Handler(M::HandlerFuture, Arc<HandlerLink>),
    /// The call of a client's application, which its request holds.
    #[cfg(feature = "client")]
    Call,
    #[cfg(feature = "client")]
    Client(Innermost<M>),
}

/// Answers a request of this client's server, or makes one of a host.
#[cfg(feature = "client")]
pub(in crate::front) type Innermost<M> =
    Box<dyn FnOnce(LayerRequest) -> <M as HandlerMode>::HandlerFuture + Send>;

impl<M: HandlerMode> Next<M> {
    /// Goes on to the handler of a router, which gets the request by `link`.
    #[cfg(feature = "server")]
    pub(in crate::front) fn handler(
        layers: Layers<M>,
        handler: M::HandlerFuture,
        link: Arc<HandlerLink>,
    ) -> Self {
        Self { layers, position: 0, inside: Inside::Handler(handler, link) }
    }

    /// Goes on to the call of a client's application.
    #[cfg(feature = "client")]
    pub(in crate::front) fn call(layers: Layers<M>) -> Self {
        Self { layers, position: 0, inside: Inside::Call }
    }

    /// Goes on within a client or host.
    #[cfg(feature = "client")]
    pub(in crate::front) fn client(layers: Layers<M>, innermost: Innermost<M>) -> Self {
        Self { layers, position: 0, inside: Inside::Client(innermost) }
    }

    /// Goes on with the request that the layer got; any other may fail. Code of a handler may run before the future is
    /// polled. Dropping the future cancels the request from here on.
    pub fn run(mut self, request: LayerRequest) -> M::HandlerFuture {
        if let Some(layer) = self.layers.at(self.position) {
            self.position = self.position.saturating_add(1);
            return layer.request(request, self);
        }
        match self.inside {
            #[cfg(feature = "server")]
            Inside::Handler(handler, link) => {
                link.pass(request);
                handler
            }
            #[cfg(feature = "client")]
            Inside::Call => M::wrap_future(request.send()),
            #[cfg(feature = "client")]
            Inside::Client(innermost) => innermost(request),
        }
    }

    /// Goes on with the request, and lets `after` change or replace the reply.
    ///
    /// Layers that are generic over the mode use it; others may await [`run`](Self::run) in an `async` block.
    pub fn run_then(
        self,
        request: LayerRequest,
        after: impl FnOnce(Reply) -> Reply + Send + 'static,
    ) -> M::HandlerFuture {
        M::then(self.run(request), Box::new(after))
    }

    /// Answers in place of all that is inside of the layer.
    ///
    /// Layers that are generic over the mode use it; others may return `Box::pin(async { … })`.
    pub fn answer(self, reply: Reply) -> M::HandlerFuture {
        M::wrap_future(Box::pin(ready(reply)))
    }
}

debug_fields! { [M: HandlerMode] Next<M> { position } }

/// What the layers and the handler of a request to this server share with its driver.
#[cfg(feature = "server")]
#[derive(Default)]
pub(in crate::front) struct HandlerLink(Mutex<HandlerState>);

#[cfg(feature = "server")]
#[derive(Default)]
struct HandlerState {
    /// The request that the layers have passed on, until the handler starts.
    request: Option<InboundParts>,
    /// The reply with which the driver ends a handler that waits for the client.
    reply: Option<Reply>,
    waker: Option<Waker>,
    /// The thread on which the driver polls the outermost layer, while it does.
    driver: Option<ThreadId>,
}

#[cfg(feature = "server")]
impl HandlerLink {
    /// Passes the request on to the handler, which starts when it is polled.
    fn pass(&self, request: LayerRequest) {
        let request = request.into_inbound();
        lock(&self.0).request = request;
    }

    /// Takes the request; `None` if the layers passed on another than they got.
    pub(in crate::front) fn take_request(&self) -> Option<InboundParts> {
        lock(&self.0).request.take()
    }

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
    pub(in crate::front) fn is_driver_here(&self) -> bool {
        lock(&self.0).driver == Some(thread::current().id())
    }

    /// Takes the reply, or stores the waker until there is one.
    pub(in crate::front) fn take_reply(&self, waker: &Waker) -> Option<Reply> {
        let waker = waker.clone();
        update(&self.0, |state, wakers| {
            wakers.discard(state.waker.replace(waker));
            state.reply.take()
        })
    }
}
