//! The client's handlers of requests and notifications of the server.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;

use super::context::{AnswerRule, ClientContext, RootAccess};
use super::layers::{HandlerStart, LayeredAnswer};
use crate::front::handler_error::IntoAnswer;
use crate::front::layer::{IntoLayer, Layers};
use crate::front::mode::NotificationHandlers;
use crate::front::notification::NotificationQueue;
use crate::front::params::decode_as;
use crate::front::reply::Reply;
use crate::front::{Clock, CustomRequest, Handler, HandlerMode, LocalHandlers, Notification, SendHandlers};
use crate::ordered_map::OrderedMap;
use crate::peer::AnyResult;
use crate::peer::client::{ClientCommands, ServerInfo};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema;
use crate::schema::tasks::legacy::ClientTaskRequests;
use crate::schema::{
    ClientCapabilities, ClientCapability, CreateMessage, CreateMessageParams, CreateMessageResult,
    CustomParams, CustomResult, Elicit, ElicitParams, ElicitResult, Extension, Json, ListRoots,
    ListRootsParams, ListRootsResult, Method, MethodInfo, Params, Revision, Root,
};

/// The handlers of a server's requests to its client: sampling, elicitation and roots.
///
/// The client declares exactly the capabilities that are registered here. Servers up to 2025-11-25 send requests of
/// their own, newer ones request input before they finish a request of the client; the handlers are the same.
///
/// ```
/// use mcp_proto::front::{ClientHandlers, HandlerError};
/// use mcp_proto::schema::{ElicitResult, ListRootsResult, Root};
///
/// let handlers = ClientHandlers::new()
///     .roots(async |_, _| ListRootsResult::new(vec![Root::new("file:///home/me/project")]))
///     .elicitation(async |params, cx| {
///         // Show who asks, and what; let the person decline.
///         Ok::<_, HandlerError>(ElicitResult::decline())
///     });
/// assert!(handlers.capabilities().sampling.is_none());
/// ```
#[must_use = "handlers do nothing until a client has them"]
pub struct ClientHandlers<M: HandlerMode = SendHandlers> {
    handlers: OrderedMap<Cow<'static, str>, M::Handler<Option<Raw>, ClientContext>>,
    /// The handler of requests that have no other.
    fallback: Option<M::Handler<(String, Option<Raw>), ClientContext>>,
    notifications: NotificationHandlers<M, ClientContext>,
    /// The capabilities of the registered handlers, and those that the application declares.
    declared: ClientCapabilities,
    //= F16 "are declared only where a handler is given"
    /// Those of them that the handlers can answer for.
    capabilities: ClientCapabilities,
    extensions: Vec<Extension>,
    /// Whether the server's requests may become tasks.
    tasks: bool,
    root_access: Option<RootAccess>,
    layers: Layers,
}

impl ClientHandlers<SendHandlers> {
    /// Creates an empty set of handlers, which must be `Send`; [`local`](ClientHandlers::local) takes others.
    pub fn new() -> Self {
        Self::empty()
    }
}

impl ClientHandlers<LocalHandlers> {
    /// Creates an empty set of handlers that need not be `Send`; then the driver is not `Send` either.
    pub fn local() -> Self {
        Self::empty()
    }
}

impl Default for ClientHandlers<SendHandlers> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: HandlerMode> ClientHandlers<M> {
    fn empty() -> Self {
        Self {
            handlers: OrderedMap::new(),
            fallback: None,
            notifications: NotificationHandlers::new(),
            declared: ClientCapabilities::new(),
            capabilities: ClientCapabilities::new(),
            extensions: Vec::new(),
            tasks: false,
            root_access: None,
            layers: Layers::new(),
        }
    }

    /// Adds a [layer](crate::front::layer) of the client: around the calls of its application and the requests of the server
    /// that handlers answer, inside of those added before. `ClientOptions::layer` of the adapters does the same.
    ///
    /// It must be `Send + Sync`, even where the handlers are local.
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    /// use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next};
    ///
    /// /// Names the tenant in each request.
    /// struct Tenant(&'static str);
    ///
    /// impl Layer for Tenant {
    ///     fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
    ///         match request.set_meta("com.example/tenant", self.0) {
    ///             Ok(()) => next.run(request),
    ///             Err(error) => next.answer(error.into()),
    ///         }
    ///     }
    /// }
    ///
    /// let handlers = ClientHandlers::new().layer(Tenant("north"));
    /// # drop(handlers);
    /// ```
    pub fn layer(mut self, layer: impl IntoLayer<SendHandlers>) -> Self {
        self.layers.push(layer);
        self
    }

    /// Adds layers outside of those of the handlers.
    pub fn within_layers(mut self, outer: &Layers) -> Self {
        let inner = core::mem::replace(&mut self.layers, outer.clone());
        self.layers.extend(&inner);
        self
    }

    /// The layers, the outermost first.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    //= F103 "The sampling handler is a function"
    /// Sets the handler of requests for text from a model (`sampling/createMessage`).
    ///
    /// The user should see each request, and each answer before it is sent. Conversations that are invalid for a model
    /// never reach the handler ([`CreateMessageParams::check`](crate::schema::CreateMessageParams::check)), and answers
    /// that call forbidden tools, or omit a required tool call, are not sent ([`ToolRule`](crate::schema::ToolRule)).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>
    pub fn sampling<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<CreateMessageResult>> + 'static,
        H: Fn(CreateMessageParams, ClientContext) -> F + Handler<M, CreateMessageParams, ClientContext, F>,
    {
        self.declared = self.declared.with(ClientCapability::Sampling);
        self.handler::<CreateMessage, F, H>(handler)
    }

    /// Sets the handler of requests for input by a form (`elicitation/create`). To accept requests by URL as well,
    /// declare that with [`declare`](Self::declare).
    ///
    /// The user must see which server asks, and be able to decline; for a page, show the content of
    /// [`UrlConsent`](crate::consent::UrlConsent). Pages that it rejects never reach the handler.
    ///
    /// The initial values of a form's fields are its [`defaults`](crate::schema::ElicitSchema::defaults). Answers that
    /// do not match the form ([`ElicitSchema::check`](crate::schema::ElicitSchema::check)) are not sent: the server
    /// receives an error instead.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    pub fn elicitation<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<ElicitResult>> + 'static,
        H: Fn(ElicitParams, ClientContext) -> F + Handler<M, ElicitParams, ClientContext, F>,
    {
        //= C10.1 "Capability declared with ≥1 of `form`,`url`"
        self.declared = self.declared.with(ClientCapability::ElicitationForm);
        self.handler::<Elicit, F, H>(handler)
    }

    /// Sets the handler of requests for the roots that the server may work in (`roots/list`). They are `file://` URIs
    /// of directories that the user has approved; others are not sent ([`Root::check`](crate::schema::Root::check)).
    /// [`root_access`](Self::root_access) leaves out those that cannot be read.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    pub fn roots<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<ListRootsResult>> + 'static,
        H: Fn(ListRootsParams, ClientContext) -> F + Handler<M, ListRootsParams, ClientContext, F>,
    {
        self.declared = self.declared.with(ClientCapability::Roots);
        self.handler::<ListRoots, F, H>(handler)
    }

    /// Leaves out the roots for which `is_accessible` returns `false`, such as directories that no longer exist. Default:
    /// all roots that the handler returns are sent. The driver calls `is_accessible`; it must return quickly.
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    /// use mcp_proto::schema::{ListRootsResult, Root};
    ///
    /// let handlers = ClientHandlers::new()
    ///     .roots(async |_, _| ListRootsResult::new(vec![Root::new("file:///home/me/project")]))
    ///     .root_access(|root| root.path().is_ok_and(|path| std::fs::read_dir(path).is_ok()));
    /// # drop(handlers);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots#implementation-guidelines>
    pub fn root_access(mut self, is_accessible: impl Fn(&Root) -> bool + Send + Sync + 'static) -> Self {
        self.root_access = Some(RootAccess::new(is_accessible));
        self
    }

    /// Declares that the roots may change: [`Client::roots_changed`](super::Client::roots_changed) reports each change.
    pub fn roots_change(mut self) -> Self {
        self.declared = self.declared.with(ClientCapability::RootsListChanged);
        self.note_handled();
        self
    }

    /// Lets servers of 2025-11-25 turn their sampling and elicitation requests into tasks.
    ///
    /// This applies to the requests that have handlers. The handlers are the same; a server that creates a task fetches
    /// its result later.
    ///
    /// At most 256 tasks are stored, each for an hour at most, and no longer than the connection.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>
    pub fn tasks(mut self) -> Self {
        self.tasks = true;
        self.declare_tasks();
        self
    }

    fn declare_tasks(&mut self) {
        if !self.tasks {
            return self.note_handled();
        }
        let present = || Some(Json::empty_object());
        let mut requests = ClientTaskRequests::new();
        if self.handlers.contains_key(CreateMessage::NAME) {
            requests.sampling.get_or_insert_default().create_message = present();
        }
        if self.handlers.contains_key(Elicit::NAME) {
            requests.elicitation.get_or_insert_default().create = present();
        }
        let tasks = self.declared.tasks.get_or_insert_default();
        tasks.list = present();
        tasks.cancel = present();
        tasks.requests = Some(requests);
        self.note_handled();
    }

    /// Whether requests of this server may become tasks.
    pub(super) fn accepts_tasks(&self, server: Option<&ServerInfo>) -> bool {
        self.tasks && server.is_some_and(|server| server.revision == Revision::V2025_11_25)
    }

    /// Whether there is a handler for this method.
    pub(super) fn has_handler(&self, method: &str) -> bool {
        self.handlers.contains_key(method)
    }

    /// Sets the handler of any method. Declare the capability that it requires with [`declare`](Self::declare).
    ///
    /// A method that the protocol does not define reaches the client from servers of 2025-11-25 and earlier. Requests
    /// and answers of [`sampling`](Self::sampling), [`elicitation`](Self::elicitation) and [`roots`](Self::roots) are
    /// checked here too.
    pub fn handler<T, F, H>(mut self, handler: H) -> Self
    where
        T: Method<Result: Send>,
        F: Future<Output: IntoAnswer<T::Result>> + 'static,
        H: Fn(T::Params, ClientContext) -> F + Handler<M, T::Params, ClientContext, F>,
    {
        self.insert::<_, T::Result, F>(Cow::Borrowed(T::NAME), handler);
        self.declare_tasks();
        self
    }

    /// Sets the handler of a method, whose requests and answers are checked.
    fn insert<P: Params, R: AnyResult + Send + 'static, F>(
        &mut self,
        method: Cow<'static, str>,
        handler: impl Handler<M, P, ClientContext, F>,
    ) where
        F: Future<Output: IntoAnswer<R>> + 'static,
    {
        let name = method.clone();
        let decode = move |params: Option<Raw>, context: &ClientContext| {
            let rule = AnswerRule::of(&name, params.as_ref(), context.root_access.as_ref())?;
            Ok((decode_as(&name, params)?, rule))
        };
        let encode = |rule: AnswerRule, output: F::Output| answer(&rule, output);
        self.handlers.insert(method, handler.erase(Arc::default(), decode, encode));
    }

    /// Declares capabilities that do not follow from the handlers: subcapabilities, extensions.
    ///
    /// A declaration of sampling, elicitation or roots counts once there is a handler for them, and one of tasks once
    /// [`tasks`](Self::tasks) is set: without them the client would refuse what it declares.
    pub fn declare(mut self, change: impl FnOnce(&mut ClientCapabilities)) -> Self {
        change(&mut self.declared);
        self.note_handled();
        self
    }

    /// The capabilities that the client must declare: those that its handlers can answer for.
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.capabilities
    }

    /// Starts the handler of a request, within the layers if there are any.
    pub(super) fn start(
        &self,
        method: &str,
        params: Option<Raw>,
        mut context: ClientContext,
        clock: &Arc<dyn Clock>,
    ) -> Result<M::HandlerFuture, Reply> {
        context.root_access.clone_from(&self.root_access);
        let start = match (self.handlers.get(method), &self.fallback) {
            (Some(handler), _) => HandlerStart::Method(handler.clone()),
            (None, Some(fallback)) => HandlerStart::Fallback(method.into(), fallback.clone()),
            (None, None) => {
                let message = format!("this client does not answer {method}");
                return Err(Reply::error(code::METHOD_NOT_FOUND, message));
            }
        };
        if self.layers.is_empty() {
            return Ok(start.start(params, context));
        }
        let layers = self.layers.clone();
        let answer = LayeredAnswer::new(layers, method, params, (context, clock.clone()), start);
        Ok(M::wrap_holder::<LayeredAnswer<SendHandlers>>(answer))
    }
}

/// The reply to a request, from the output of its handler, if that satisfies the rule.
fn answer<R: AnyResult + Send + 'static>(rule: &AnswerRule, output: impl IntoAnswer<R>) -> Reply {
    match output.into_answer() {
        Ok(result) => match rule.check(&result) {
            Ok(None) => Reply::result(result),
            Ok(Some(accessible)) => Reply::result(accessible),
            Err(error) => Reply::Error(error),
        },
        Err(error) => Reply::Error(error.into_object(|uri| {
            ErrorObject::new(code::INTERNAL_ERROR, format!("there is no resource {uri}"))
        })),
    }
}

impl<M: HandlerMode> fmt::Debug for ClientHandlers<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers.keys()).finish()
    }
}

impl<M: HandlerMode> ClientHandlers<M> {
    /// Registers an extension, and declares it. The client sends its messages to servers that declare it too, and
    /// accepts results of its types from them:
    /// [`Error::ExtensionResult`](crate::front::Error::ExtensionResult), or the result itself of a
    /// [request by name](crate::front::Client::request_custom).
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    /// use mcp_proto::schema::{Extension, ExtensionMethod};
    ///
    /// let printing = Extension::new("com.example/printing")?
    ///     .with_method(ExtensionMethod::new("com.example/print").with_name_param("printer"))
    ///     .with_result_type("com.example/queued");
    /// let handlers = ClientHandlers::new().with_extension(printing);
    /// assert!(handlers.capabilities().has_extension("com.example/printing"));
    /// # Ok::<(), mcp_proto::schema::InvalidExtensionError>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    pub fn with_extension(mut self, extension: Extension) -> Self {
        self.declared.declare_extensions([&extension]);
        self.extensions.push(extension);
        self.note_handled();
        self
    }

    /// Sets the handler of a request by its name, from servers of 2025-11-25 and earlier: newer ones send no requests.
    /// It takes the parameters undecoded and returns the result. For sampling, elicitation and roots it takes the place of
    /// their own handlers; its answers are checked as theirs are.
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    /// use mcp_proto::schema::CustomResult;
    ///
    /// let handlers = ClientHandlers::new().custom("com.example/confirm", async |params, _| {
    ///     let mut result = CustomResult::new();
    ///     result.extra.insert("confirmed", params.extra.contains("pages"));
    ///     result
    /// });
    /// # drop(handlers);
    /// ```
    pub fn custom<F, H>(mut self, method: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<CustomResult>> + 'static,
        H: Fn(CustomParams, ClientContext) -> F + Handler<M, CustomParams, ClientContext, F>,
    {
        self.insert::<_, CustomResult, F>(Cow::Owned(method.into()), handler);
        self
    }

    /// Sets the handler of the server's requests that the protocol does not define and that have no other handler: for
    /// proxies, which pass everything on. Without it, they are answered with
    /// [`METHOD_NOT_FOUND`](crate::rpc::code::METHOD_NOT_FOUND).
    pub fn fallback<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<CustomResult>> + 'static,
        H: Fn(CustomRequest, ClientContext) -> F + Handler<M, CustomRequest, ClientContext, F>,
    {
        let erased = handler.erase(
            Arc::default(),
            |(method, params): (String, Option<Raw>), _: &ClientContext| match decode_as(&method, params) {
                Ok(params) => Ok((CustomRequest::new(method, params), ())),
                Err(error) => Err(Reply::Error(error)),
            },
            |(), output: F::Output| answer(&AnswerRule::None, output),
        );
        self.fallback = Some(erased);
        self
    }

    /// Sets the handler of the server's notifications `N`.
    ///
    /// Handlers of notifications run one at a time, in the order of arrival. At most 256 notifications wait for that,
    /// and at most 1 MiB of them; the oldest are dropped, and
    /// [`NotificationsDropped`](crate::peer::client::Diagnostic::NotificationsDropped) reports them. Notifications whose
    /// parameters do not match `N` are ignored.
    ///
    /// Every notification is also an [event](crate::front::Event::Notification). Those of a
    /// [subscription](crate::front::Subscription), progress and cancellations reach no handler.
    pub fn notification<N, F, H>(mut self, handler: H) -> Self
    where
        N: schema::Notification,
        F: Future<Output = ()> + 'static,
        H: Fn(N::Params, ClientContext) -> F + Handler<M, N::Params, ClientContext, F>,
    {
        self.notifications.insert(Cow::Borrowed(N::NAME), Arc::default(), handler);
        self
    }

    /// Sets the handler of the server's notifications of this name. As [`notification`](Self::notification) otherwise.
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    ///
    /// let handlers = ClientHandlers::new()
    ///     .on_notification("com.example/paperLow", async |params, _| println!("{:?}", params.extra));
    /// # drop(handlers);
    /// ```
    pub fn on_notification<F, H>(mut self, name: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output = ()> + 'static,
        H: Fn(CustomParams, ClientContext) -> F + Handler<M, CustomParams, ClientContext, F>,
    {
        self.notifications.insert(Cow::Owned(name.into()), Arc::default(), handler);
        self
    }

    /// Sets the handler of the server's notifications that the protocol does not define and that have no other handler.
    /// As [`notification`](Self::notification) otherwise.
    pub fn notification_fallback<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output = ()> + 'static,
        H: Fn(Notification, ClientContext) -> F + Handler<M, Notification, ClientContext, F>,
    {
        self.notifications.set_fallback(Arc::default(), handler);
        self
    }

    /// Registers the extensions with a machine, and makes it pass on the requests that have handlers here.
    pub(super) fn register(&self, client: &mut ClientCommands<'_>) {
        let is_defined = |name: &str| MethodInfo::all().any(|info| info.name == name);
        let custom = self.handlers.keys().filter(|name| !is_defined(name));
        let custom = custom.map(|name| name.clone().into_owned()).collect();
        client.register(self.extensions.clone(), custom, self.fallback.is_some());
    }

    /// Creates the queue of the notifications that have handlers, if there are any.
    pub(super) fn notification_queue(&self) -> Option<Box<NotificationQueue<()>>> {
        self.notifications.queue()
    }

    /// Starts the handler of a notification, if there is one.
    pub(super) fn start_notification(
        &self,
        notification: Notification,
        context: ClientContext,
    ) -> Option<M::HandlerFuture> {
        self.notifications.start(notification, context)
    }

    /// Computes the capabilities that the client declares: without those whose requests would find no handler.
    pub(super) fn note_handled(&mut self) {
        let mut handled = self.declared.clone();
        //= C1.17 "declare only what the client really handles"
        //= C11.1 "Declare `sampling` (and `sampling.tools`, `sampling.context`) only if handled"
        if !self.has_handler(CreateMessage::NAME) {
            handled.sampling = None;
        }
        if !self.has_handler(Elicit::NAME) {
            handled.elicitation = None;
        }
        if !self.has_handler(ListRoots::NAME) {
            handled.roots = None;
        }
        if !self.tasks {
            handled.tasks = None;
        }
        self.capabilities = handled;
    }

    /// Declares an experimental capability with its settings: an object. Servers read it with
    /// [`ClientCapabilities::experimental`](crate::schema::ClientCapabilities::experimental).
    ///
    /// ```
    /// use mcp_proto::front::ClientHandlers;
    /// use serde_json::json;
    ///
    /// let handlers = ClientHandlers::new().experimental("charts", json!({ "formats": ["svg"] }));
    /// assert!(handlers.capabilities().experimental("charts").is_some());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#clientcapabilities-experimental>
    pub fn experimental(self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        self.declare(|declared| {
            declared.experimental.get_or_insert_default().insert(name, settings);
        })
    }
}
