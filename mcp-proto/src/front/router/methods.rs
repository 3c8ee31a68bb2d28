//! The methods and notifications that a router handles, and the capabilities and extensions that it declares.

use alloc::borrow::Cow;
use core::future::Future;

use super::dispatch::reply;
use super::{Context, Handler, HandlerMode, Router, RouterError};
use crate::front::handler::inbound_request::NotificationContext;
use crate::front::handler::output::ResultOrInput;
use crate::front::handler_error::IntoAnswer;
use crate::front::notification::NotificationQueue;
use crate::front::params::{decode_as, decode_params};
use crate::front::{CustomRequest, Notification};
use crate::peer::admission::is_reserved_for_tasks;
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::{
    self, CacheHint, Cancelled, CustomParams, CustomResult, Discover, EmptyResult, Extension, ExtensionError,
    Initialize, Initialized, IntoResult, Json, Meta, Method, MethodInfo, Notification as _, Progress,
    ResultFields, Revision, ServerCapability, SubscriptionsListen,
};

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the handler of any method, in place of the router's own: for lists that change, for example. The router
    /// declares the capability that the method requires.
    ///
    /// A cacheable result includes its lifetime: a list as a [`CachedPage`](crate::schema::CachedPage), any other
    /// result as [`Cached`](crate::schema::Cached).
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::{CachedPage, ListTools, ListToolsResult};
    ///
    /// let router = Router::new("changing", "1.0.0").handler::<ListTools, _, _>(async |_params, _| {
    ///     CachedPage::new(Duration::from_secs(5), ListToolsResult::new(Vec::new()))
    /// });
    /// # drop(router);
    /// ```
    pub fn handler<T, F, H>(mut self, handler: H) -> Self
    where
        T: Method<Result: Send>,
        F: Future<Output: IntoAnswer<<T::Result as ResultFields>::HandlerOutput>> + 'static,
        H: Fn(T::Params, Context<S>) -> F + Handler<M, T::Params, Context<S>, F>,
    {
        let erased = handler.erase(
            self.state.clone(),
            |params, context: &Context| Ok((decode_params::<T>(params)?, context.revision())),
            |revision: Revision, output: F::Output| {
                let answer = output.into_answer().map(IntoResult::into_result);
                reply(answer.map(ResultOrInput::<T::Result>::Result), revision)
            },
        );
        self.contents.methods.insert(T::NAME.into(), erased);
        if !MethodInfo::all().any(|info| info.name == T::NAME) {
            self.refuse_reserved(T::NAME);
            self.contents.custom_methods.push(T::NAME.into());
        }
        //= R5 "raw handlers checked"
        match T::INFO.server_capability {
            Some(capability) => self.declare(capability),
            None => self,
        }
    }

    /// Sets the handler of a method by its name: an extension's, or one of the protocol's, which it answers in place of
    /// the router. It takes the parameters undecoded and returns the result. The handshake, subscriptions and tasks are
    /// [reserved](RouterError::Reserved).
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::EmptyResult;
    ///
    /// let router = Router::new("printer", "1.0.0").custom("com.example/status", async |_params, _| {
    ///     let mut result = EmptyResult::new();
    ///     result.extra.insert("paper", "low");
    ///     result
    /// });
    /// # drop(router);
    /// ```
    pub fn custom<F, H>(mut self, method: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<EmptyResult>> + 'static,
        H: Fn(CustomParams, Context<S>) -> F + Handler<M, CustomParams, Context<S>, F>,
    {
        let method = method.into();
        let name = method.clone();
        let erased = handler.erase(
            self.state.clone(),
            move |params, context: &Context| Ok((decode_as(&name, params)?, context.revision())),
            |revision: Revision, output: F::Output| {
                reply(output.into_answer().map(ResultOrInput::Result), revision)
            },
        );
        self.refuse_reserved(&method);
        self.contents.custom_methods.push(method.clone());
        self.contents.methods.insert(method.into(), erased);
        self
    }

    setters! {
        /// Sets the number of items on one page of a list. Default 1,000.
        pub fn page_size(self, items: usize) { self.contents.page_size = items }

        /// Declares a capability that does not follow from the registrations.
        ///
        /// Examples: lists change, resources can be subscribed to, the server logs.
        pub fn declare(self, capability: ServerCapability) {
            self.contents.capabilities = self.contents.capabilities.with(capability)
        }
    }

    /// Sets all capabilities.
    #[cfg(feature = "trace-file")]
    pub(in crate::front) fn with_capabilities(mut self, capabilities: schema::ServerCapabilities) -> Self {
        self.contents.capabilities = capabilities;
        self
    }

    /// Declares an extension with its settings: an object. To register its methods and result types as well, see
    /// [`with_extension`](Self::with_extension).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extensions>
    pub fn extension(mut self, identifier: impl Into<String>, settings: impl Into<Json>) -> Self {
        let identifier = identifier.into();
        if !Meta::is_extension(&identifier) {
            self.record_error(RouterError::Extension { identifier: identifier.clone() });
        }
        self.contents.capabilities.extensions.get_or_insert_default().insert(identifier, settings);
        self
    }

    /// Registers an extension, and declares it. Its methods have handlers by [`handler`](Self::handler) or
    /// [`custom`](Self::custom), which are called only for clients that declare the extension too. Only to those, every
    /// handler may return a result of one of its types.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::{CustomResult, Extension, ExtensionMethod, ResultType};
    ///
    /// let printing = Extension::new("com.example/printing")?
    ///     .with_method(ExtensionMethod::new("com.example/print").with_name_param("printer"))
    ///     .with_result_type("com.example/queued");
    /// let router = Router::new("printer", "1.0.0")
    ///     .with_extension(printing)
    ///     .custom("com.example/print", async |_params, _| {
    ///         let mut queued = CustomResult::new();
    ///         queued.result_type = Some(ResultType::Other("com.example/queued".into()));
    ///         queued.extra.insert("position", 3);
    ///         queued
    ///     });
    /// assert!(router.check().is_ok());
    /// # Ok::<(), mcp_proto::schema::InvalidExtensionError>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>
    pub fn with_extension(mut self, extension: Extension) -> Self {
        let declared = self.contents.capabilities.extension(extension.identifier());
        if declared.is_some_and(|declared| declared != extension.settings()) {
            let identifier = extension.identifier().into();
            self.record_error(RouterError::Extensions { error: ExtensionError::Duplicate { identifier } });
        }
        self.contents.capabilities.declare_extensions([&extension]);
        self.contents.extensions.push(extension);
        self
    }

    /// Sets the handler of requests that have no other: for proxies, which pass everything on.
    ///
    /// Without it, such requests are answered with [`METHOD_NOT_FOUND`](crate::rpc::code::METHOD_NOT_FOUND). Requests
    /// of the protocol reach it only if their capability is [declared](Self::declare). Those of tools, resources and
    /// prompts never do, since the router answers them: pass them on by [`custom`](Self::custom).
    ///
    /// ```
    /// use mcp_proto::front::{Client, CustomRequest, Error, HandlerError, Router};
    ///
    /// fn proxy(upstream: Client) -> Router {
    ///     Router::new("proxy", "1.0.0").fallback(move |request: CustomRequest, _| {
    ///         let upstream = upstream.clone();
    ///         async move {
    ///             let answer = upstream.request_custom(request.method, request.params).await;
    ///             answer.map_err(|error| match error {
    ///                 // With the code and the data of the server.
    ///                 Error::Peer(error) => HandlerError::from(error),
    ///                 error => error.into(),
    ///             })
    ///         }
    ///     })
    /// }
    /// # drop(proxy);
    /// ```
    pub fn fallback<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<CustomResult>> + 'static,
        H: Fn(CustomRequest, Context<S>) -> F + Handler<M, CustomRequest, Context<S>, F>,
    {
        let erased = handler.erase(
            self.state.clone(),
            |(method, params): (String, Option<Raw>), context: &Context| {
                let params = decode_as(&method, params)?;
                Ok((CustomRequest::new(method, params), context.revision()))
            },
            |revision: Revision, output: F::Output| {
                reply(output.into_answer().map(ResultOrInput::Result), revision)
            },
        );
        self.contents.fallback = Some(erased);
        self
    }

    /// Sets the handler of the client's notifications `N`.
    ///
    /// Handlers of notifications run one at a time for each connection, in the order of arrival. At most 256
    /// notifications wait for that, and at most 1 MiB of them; the oldest are dropped, and
    /// [`NotificationsDropped`](crate::peer::server::Diagnostic::NotificationsDropped) reports them. Notifications whose
    /// parameters do not match `N` are ignored. Over HTTP, a client of 2026-07-28 gets the answer to its POST once the
    /// handler has finished.
    ///
    /// Every notification is also an [event](crate::front::ServerEvent::Notification).
    pub fn notification<N, F, H>(mut self, handler: H) -> Self
    where
        N: schema::Notification,
        F: Future<Output = ()> + 'static,
        H: Fn(N::Params, NotificationContext<S>) -> F + Handler<M, N::Params, NotificationContext<S>, F>,
    {
        self.refuse_reserved(N::NAME);
        self.contents.notifications.insert(Cow::Borrowed(N::NAME), self.state.clone(), handler);
        self
    }

    /// Sets the handler of the client's notifications of this name. As [`notification`](Self::notification) otherwise.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    ///
    /// let router = Router::new("printer", "1.0.0")
    ///     .on_notification("com.example/paperAdded", async |params, _| println!("{:?}", params.extra));
    /// assert!(router.check().is_ok());
    /// ```
    pub fn on_notification<F, H>(mut self, name: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output = ()> + 'static,
        H: Fn(CustomParams, NotificationContext<S>) -> F
            + Handler<M, CustomParams, NotificationContext<S>, F>,
    {
        let name = name.into();
        self.refuse_reserved(&name);
        self.contents.notifications.insert(Cow::Owned(name), self.state.clone(), handler);
        self
    }

    /// Sets the handler of the client's notifications that the protocol does not define and that have no other handler.
    /// As [`notification`](Self::notification) otherwise.
    pub fn notification_fallback<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output = ()> + 'static,
        H: Fn(Notification, NotificationContext<S>) -> F
            + Handler<M, Notification, NotificationContext<S>, F>,
    {
        self.contents.notifications.set_fallback(self.state.clone(), handler);
        self
    }

    /// Creates the queue of a connection's notifications that have handlers, if there are any.
    pub(in crate::front) fn notification_queue(&self) -> Option<Box<NotificationQueue<NotificationContext>>> {
        self.contents.notifications.queue()
    }

    /// Starts the handler of a notification, if there is one.
    pub(in crate::front) fn start_notification(
        &self,
        notification: Notification,
        context: NotificationContext,
    ) -> Option<M::HandlerFuture> {
        let handler = self.contents.notifications.start(notification, context)?;
        Some(self.spawned(handler, None))
    }

    /// Records the error for a handler of a name that the tasks extension reserves, and for one that would never be
    /// called, because the machine handles the message itself.
    fn refuse_reserved(&mut self, name: &str) {
        const RESERVED: [&str; 6] = [
            Initialize::NAME,
            Discover::NAME,
            SubscriptionsListen::NAME,
            Initialized::NAME,
            Cancelled::NAME,
            Progress::NAME,
        ];
        if RESERVED.contains(&name) || is_reserved_for_tasks(name) {
            self.record_error(RouterError::Reserved { name: name.into() });
        }
    }

    /// Declares an experimental capability with its settings: a JSON object. Clients read it in
    /// [`ServerCapabilities::experimental`](crate::schema::ServerCapabilities::experimental); handlers read those of
    /// their client in [`Context::experimental`](super::Context::experimental).
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use serde_json::json;
    ///
    /// let router = Router::new("plotter", "1.0.0").experimental("charts", json!({ "formats": ["svg"] }));
    /// assert!(router.check().is_ok());
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#servercapabilities-experimental>
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<Json>) -> Self {
        let (name, settings) = (name.into(), settings.into());
        if !settings.is_object() {
            self.record_error(RouterError::Experimental { name: name.clone() });
        }
        self.contents.capabilities.experimental.get_or_insert_default().insert(name, settings);
        self
    }

    /// Sets the cache hint of a method's results that have none themselves: lists, resources, `server/discover`. By
    /// default, results are [not cached](CacheHint::none).
    ///
    /// All pages of a list have the same cache scope, as the specification demands: a handler of the list method can
    /// set the lifetime of a page, but not its scope.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::{CacheHint, ListTools};
    ///
    /// let router = Router::new("calculator", "1.0.0")
    ///     .cache::<ListTools>(CacheHint::public(Duration::from_secs(3600)));
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>
    pub fn cache<T: Method<Result: crate::schema::Cacheable>>(mut self, hint: CacheHint) -> Self {
        self.contents.cache_hints.insert(T::NAME, hint);
        self
    }
}
