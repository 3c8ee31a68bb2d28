//! Handlers of notifications, and of requests that the protocol does not define.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::future::Future;

use super::method_rules::AnswerRule;
use super::{ClientContext, ClientHandlers, answer};
use crate::front::handler_error::IntoAnswer;
use crate::front::notification_handlers::{NotificationQueue, decode_notification, no_reply};
use crate::front::params::decode_as;
use crate::front::reply::Reply;
use crate::front::{CustomRequest, Handler, HandlerMode, Notification};
use crate::peer::client::Client;
use crate::rpc::Raw;
use crate::schema::{self, CustomParams, CustomResult, Extension, MethodInfo};

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
    #[must_use]
    pub fn with_extension(mut self, extension: Extension) -> Self {
        self.capabilities.declare_extensions([&extension]);
        self.extensions.push(extension);
        self
    }

    /// Sets the handler of a request that the protocol does not define, from servers of 2025-11-25 and earlier: newer
    /// ones send no requests. It takes the parameters undecoded and returns the result.
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
    #[must_use]
    pub fn custom<F, H>(mut self, method: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<CustomResult>> + 'static,
        H: Fn(CustomParams, ClientContext) -> F + Handler<M, CustomParams, ClientContext, F>,
    {
        let method = method.into();
        let name = method.clone();
        let erased = handler.erase(
            Arc::default(),
            move |params: Option<Raw>, context: &ClientContext| {
                let rule = AnswerRule::of(&name, params.as_ref(), context).map_err(Reply::Error)?;
                Ok((decode_as(&name, params).map_err(Reply::Error)?, rule))
            },
            |rule: AnswerRule, output: F::Output| answer(&rule, output),
        );
        self.handlers.insert(Cow::Owned(method), erased);
        self
    }

    /// Sets the handler of the server's requests that the protocol does not define and that have no other handler: for
    /// proxies, which pass everything on. Without it, they are answered with
    /// [`METHOD_NOT_FOUND`](crate::rpc::code::METHOD_NOT_FOUND).
    #[must_use]
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
    #[must_use]
    pub fn notification<N, F, H>(mut self, handler: H) -> Self
    where
        N: schema::Notification,
        F: Future<Output = ()> + 'static,
        H: Fn(N::Params, ClientContext) -> F + Handler<M, N::Params, ClientContext, F>,
    {
        let erased = handler.erase(Arc::default(), decode_notification, |(), ()| no_reply());
        self.notifications.insert(Cow::Borrowed(N::NAME), erased);
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
    #[must_use]
    pub fn on_notification<F, H>(mut self, name: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output = ()> + 'static,
        H: Fn(CustomParams, ClientContext) -> F + Handler<M, CustomParams, ClientContext, F>,
    {
        let erased = handler.erase(Arc::default(), decode_notification, |(), ()| no_reply());
        self.notifications.insert(Cow::Owned(name.into()), erased);
        self
    }

    /// Sets the handler of the server's notifications that the protocol does not define and that have no other handler.
    /// As [`notification`](Self::notification) otherwise.
    #[must_use]
    pub fn notification_fallback<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output = ()> + 'static,
        H: Fn(Notification, ClientContext) -> F + Handler<M, Notification, ClientContext, F>,
    {
        let erased = handler.erase(
            Arc::default(),
            |notification: Notification, _: &ClientContext| Ok((notification, ())),
            |(), ()| no_reply(),
        );
        self.notifications.set_fallback(erased);
        self
    }

    /// Registers the extensions with a machine, and makes it pass on the requests that have handlers here.
    pub(in crate::front::client) fn register(&self, client: &mut Client) {
        let is_defined = |name: &str| MethodInfo::all().any(|info| info.name == name);
        let custom = self.handlers.keys().filter(|name| !is_defined(name));
        client.add_extensions(self.extensions.iter().cloned());
        client.answer_custom(custom.map(|name| name.clone().into_owned()), self.fallback.is_some());
    }

    /// Creates the queue of the notifications that have handlers, if there are any.
    pub(in crate::front::client) fn notification_queue(&self) -> Option<Box<NotificationQueue<()>>> {
        self.notifications.queue()
    }

    /// Starts the handler of a notification, if there is one.
    pub(in crate::front::client) fn start_notification(
        &self,
        notification: Notification,
        context: ClientContext,
    ) -> Option<M::HandlerFuture> {
        self.notifications.start(notification, context)
    }
}
