//! What a client answers when the server asks.

mod method_rules;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;

use crate::front::handler::error::IntoAnswer;
use crate::front::handler::params::decode_params;
use crate::front::handler::reply::Reply;
use crate::front::{Handler, HandlerMode, LocalHandlers, SendHandlers};
use crate::peer::RequestId;
use crate::peer::client::ServerInfo;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::legacy::ClientTaskRequests;
use crate::schema::{
    ClientCapabilities, ClientCapability, CreateMessage, Elicit, Json, ListRoots, Method, Revision,
};

/// The handlers of what a server may ask its client for: text from a model, input from a person, the roots to work in.
///
/// What is registered here is what the client declares to servers, and nothing else. Servers up to 2025-11-25 ask by
/// requests of their own, newer ones before they finish one of the client's; the handlers are the same.
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
pub struct ClientHandlers<M: HandlerMode = SendHandlers> {
    handlers: BTreeMap<&'static str, M::Handler<Option<Raw>, ClientContext>>,
    capabilities: ClientCapabilities,
    /// Whether what servers ask may become a task.
    tasks: bool,
}

impl ClientHandlers<SendHandlers> {
    /// No handlers yet. They must be `Send`; [`local`](ClientHandlers::local) takes others.
    pub fn new() -> Self {
        Self::empty()
    }
}

impl ClientHandlers<LocalHandlers> {
    /// No handlers yet. They may hold what is not `Send`; then neither is the driver.
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
        Self { handlers: BTreeMap::new(), capabilities: ClientCapabilities::new(), tasks: false }
    }

    /// Answers requests for text from a model (`sampling/createMessage`).
    ///
    /// People should see what is asked and what is answered before it goes out. Conversations that no model can be given
    /// never reach the handler ([`CreateMessageParams::check`](crate::schema::CreateMessageParams::check)), and answers
    /// that call tools they may not call, or none where they must, do not go out ([`ToolRule`](crate::schema::ToolRule)).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>
    #[must_use]
    pub fn sampling<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<<CreateMessage as Method>::Result>> + 'static,
        H: Fn(<CreateMessage as Method>::Params, ClientContext) -> F
            + Handler<M, <CreateMessage as Method>::Params, ClientContext, F>,
    {
        self.capabilities = self.capabilities.with(ClientCapability::Sampling);
        self.checked_handler::<CreateMessage, F, H>(handler)
    }

    /// Answers requests for input by a form (`elicitation/create`). To take those by URL as well, say so with
    /// [`declare`](Self::declare).
    ///
    /// People must be shown which server asks, and be able to decline; of a page, what
    /// [`UrlConsent`](crate::consent::UrlConsent) says. Pages that it refuses never reach the handler.
    ///
    /// What the server would have in the fields of a form at first are its
    /// [`defaults`](crate::schema::ElicitSchema::defaults). Answers that are not what the form
    /// [asks for](crate::schema::ElicitSchema::check) do not go out: the handler is answered for by an error.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    #[must_use]
    pub fn elicitation<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<<Elicit as Method>::Result>> + 'static,
        H: Fn(<Elicit as Method>::Params, ClientContext) -> F
            + Handler<M, <Elicit as Method>::Params, ClientContext, F>,
    {
        self.capabilities = self.capabilities.with(ClientCapability::ElicitationForm);
        self.checked_handler::<Elicit, F, H>(handler)
    }

    /// Answers requests for the roots that the server may work in (`roots/list`). They are `file:` URIs of directories
    /// that the person has agreed to; others do not go out ([`Root::check`](crate::schema::Root::check)).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    #[must_use]
    pub fn roots<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<<ListRoots as Method>::Result>> + 'static,
        H: Fn(<ListRoots as Method>::Params, ClientContext) -> F
            + Handler<M, <ListRoots as Method>::Params, ClientContext, F>,
    {
        self.capabilities = self.capabilities.with(ClientCapability::Roots);
        self.checked_handler::<ListRoots, F, H>(handler)
    }

    /// Declares that the roots may change: [`Client::roots_changed`](super::Client::roots_changed) says when.
    #[must_use]
    pub fn roots_change(mut self) -> Self {
        self.capabilities = self.capabilities.with(ClientCapability::RootsListChanged);
        self
    }

    /// Lets servers of 2025-11-25 make tasks of what they ask for: of sampling and elicitation, as far as there are
    /// handlers for them. The handlers are the same; a server that makes a task asks for its result later.
    ///
    /// At most 256 tasks are kept, each for an hour at most, and only as long as the connection.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>
    #[must_use]
    pub fn tasks(mut self) -> Self {
        self.tasks = true;
        self.declare_tasks();
        self
    }

    fn declare_tasks(&mut self) {
        if !self.tasks {
            return;
        }
        let present = || Some(Json::empty_object());
        let mut requests = ClientTaskRequests::new();
        if self.handlers.contains_key(CreateMessage::NAME) {
            requests.sampling.get_or_insert_default().create_message = present();
        }
        if self.handlers.contains_key(Elicit::NAME) {
            requests.elicitation.get_or_insert_default().create = present();
        }
        let tasks = self.capabilities.tasks.get_or_insert_default();
        tasks.list = present();
        tasks.cancel = present();
        tasks.requests = Some(requests);
    }

    /// Whether requests of this server may become tasks.
    pub(super) fn accepts_tasks(&self, server: Option<&ServerInfo>) -> bool {
        self.tasks && server.is_some_and(|server| server.revision == Revision::V2025_11_25)
    }

    /// Whether there is a handler for this method.
    pub(super) fn has_handler(&self, method: &str) -> bool {
        self.handlers.contains_key(method)
    }

    /// Answers requests of any method. The capability that it needs is for [`declare`](Self::declare).
    #[must_use]
    pub fn handler<T, F, H>(mut self, handler: H) -> Self
    where
        T: Method<Result: Send>,
        F: Future<Output: IntoAnswer<T::Result>> + 'static,
        H: Fn(T::Params, ClientContext) -> F + Handler<M, T::Params, ClientContext, F>,
    {
        let erased = handler.erase(
            |params: Option<Raw>, _: &ClientContext| match decode_params::<T>(params) {
                Ok(params) => Ok((params, ())),
                Err(error) => Err(Reply::Error(error)),
            },
            |(), output: F::Output| match output.into_answer() {
                Ok(result) => Reply::result(result),
                Err(error) => Reply::Error(error.into_object(|uri| {
                    ErrorObject::new(code::INTERNAL_ERROR, format!("there is no resource {uri}"))
                })),
            },
        );
        self.handlers.insert(T::NAME, erased);
        self.declare_tasks();
        self
    }

    /// Declares more than follows from what is registered: subcapabilities, extensions.
    #[must_use]
    pub fn declare(mut self, change: impl FnOnce(&mut ClientCapabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// What the client is to declare.
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.capabilities
    }

    pub(super) fn start(
        &self,
        method: &str,
        params: Option<Raw>,
        context: ClientContext,
    ) -> Result<M::HandlerFuture, Reply> {
        match self.handlers.get(method) {
            Some(handler) => Ok(handler(params, context)),
            None => {
                Err(Reply::error(code::METHOD_NOT_FOUND, format!("this client does not answer {method}")))
            }
        }
    }
}

impl<M: HandlerMode> fmt::Debug for ClientHandlers<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers.keys()).finish()
    }
}

/// On whose behalf a handler of a client runs.
#[derive(Clone, Debug)]
pub struct ClientContext {
    server: Option<Arc<ServerInfo>>,
    request: Option<RequestId>,
}

impl ClientContext {
    pub(super) fn new(server: Option<Arc<ServerInfo>>, request: Option<RequestId>) -> Self {
        Self { server, request }
    }

    /// The server that asks, as it calls itself.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.server.as_deref()
    }

    /// The request of this side that can not be finished before the answer (the [id](crate::front::Call::id) of a call),
    /// if the server asks for that reason; `None` if it asks by a request of its own.
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }
}
