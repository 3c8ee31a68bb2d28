//! Requests to the client while its own request is answered, with the same handler code in either era.
//!
//! A legacy client receives a request, and the handler waits for the answer. A client of 2026-07-28 receives the input
//! request in the result: the handler runs as far as it can, is dropped, and runs again from its start when the client
//! sends its request again with the answers. Between the rounds the server stores nothing: earlier answers and the
//! values of [`run_once`](super::context::Context::run_once) travel with the client, sealed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::{Connection, InboundRequest, related_task_meta};
use super::context::Context;
use crate::front::handler_error::HandlerError;
use crate::front::params::{custom_params, request_params};
use crate::front::request::RequestLink;
use crate::front::request_slots::{FollowQueue, RequestTable};
use crate::front::tasks::running::RunningTask;
use crate::front::wakers::SendFuture;
use crate::front::{Error, Request};
use crate::peer::server::{check_content, check_page_url, required_capabilities};
use crate::peer::{
    AnyParams, InboundId, Outcome, OutgoingRequest, RequestError, RequestId, RequiredCapability,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{
    At, ClientCapability, CreateMessage, CreateMessageParams, CustomMethod, Elicit, ElicitParams,
    ElicitUrlParams, Era, FormError, InputRequest, ListRoots, ListRootsParams, Meta, Method, Notification,
    ResultFields, UrlElicitationData, meta,
};

impl<S> Context<S> {
    /// Asks the user of the client. The answer tells whether the user accepted.
    ///
    /// The same code works for clients of either era. A legacy client receives a request, and the handler waits for the
    /// answer. A client of 2026-07-28 receives the question in the result of its own request, and sends that again with
    /// the answers: the handler **is dropped where it waits, and runs again from its start**, on any instance of the
    /// server that receives the request. Questions that were answered before resolve at once. Therefore
    ///
    /// - work before an answer that has an effect, costs much or may return different values goes into
    ///   [`run_once`](Self::run_once);
    /// - `key` names the question: each question of a handler has its own key, the same in each run, and its content
    ///   follows from the request and from the answers before;
    /// - independent questions are better asked in one round, by joining the futures, than in one round after the
    ///   other.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError, Router};
    /// use mcp_proto::schema::{BooleanSchema, ElicitAction, ElicitParams, ElicitSchema, Json, Tool};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Delete {
    ///     path: String,
    /// }
    ///
    /// async fn delete(Delete { path }: Delete, cx: Context) -> Result<String, HandlerError> {
    ///     let form = ElicitSchema::new([("sure", BooleanSchema::new().into())]);
    ///     let answer = cx.elicit("sure", ElicitParams::form(format!("Really delete {path}?"), form)).await?;
    ///     if answer.action != ElicitAction::Accept {
    ///         return Ok("Nothing was deleted.".to_owned());
    ///     }
    ///     // …
    ///     Ok(format!("{path} is deleted."))
    /// }
    ///
    /// let tool = Tool::new("delete", "Deletes a file", Json::empty_object());
    /// let router = Router::new("files", "1.0.0").tool_with(tool, delete);
    /// # drop(router);
    /// ```
    ///
    /// Never ask for a password or another secret by a form: the client sees it. Use [`elicit_url`](Self::elicit_url). A
    /// form with a field [named like a secret](crate::schema::ElicitSchema::secret_field) is an error.
    ///
    /// A modern client that did not declare the capability is answered by
    /// [`MISSING_REQUIRED_CLIENT_CAPABILITY`](crate::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY); one with an
    /// invalid answer, or whose request state is no longer valid for it, by
    /// [`INVALID_PARAMS`](crate::rpc::code::INVALID_PARAMS). In both cases the handler is dropped while it waits.
    ///
    /// Modern clients can be asked during `tools/call`, `prompts/get` and `resources/read`, and with the feature
    /// `seal`; the answers so far are sealed (`Router::seal`) and stored by the client.
    ///
    /// # Errors
    /// If the client cannot be asked; for legacy clients also every error of a [request](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    pub fn elicit(&self, key: impl Into<String>, params: ElicitParams) -> InputFuture<Elicit> {
        InputFuture::elicit(&self.without_state(), key.into(), params)
    }

    /// Asks the user to visit a web page, for data that the client must not see.
    ///
    /// Such data is a password, a payment, or the consent to a third party's access. Works like
    /// [`elicit`](Self::elicit).
    ///
    /// The answer tells whether the user agreed to open the page, not what they did there: the server of the page finds
    /// that out, and must also check that the same user visits it. The client and its user see the URL: it must contain
    /// no secrets, and must not grant access without a login. A URL that no client could open, that holds credentials, or
    /// that is neither `https` nor on this machine is an error.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError, Router, without_arguments};
    /// use mcp_proto::schema::{ElicitAction, Json, Tool};
    ///
    /// # async fn is_linked(cx: &Context) -> bool { true }
    /// async fn calendar(cx: Context) -> Result<&'static str, HandlerError> {
    ///     if !is_linked(&cx).await {
    ///         let page = cx.elicit_url("link", "Please link your calendar.", "https://mcp.example/link");
    ///         if page.await?.action != ElicitAction::Accept || !is_linked(&cx).await {
    ///             return Ok("The calendar is not linked.");
    ///         }
    ///     }
    ///     Ok("Nothing today.")
    /// }
    ///
    /// let tool = Tool::new("calendar", "Lists today's meetings", Json::empty_object());
    /// let router = Router::new("calendar", "1.0.0").tool_with(tool, without_arguments(calendar));
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests>
    pub fn elicit_url(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> InputFuture<Elicit> {
        self.elicit(key, ElicitParams::url(message, url))
    }

    /// Returns the error that makes the client show a page and retry (2025-11-25).
    ///
    /// Unlike [`elicit_url`](Self::elicit_url), it does not wait for the user's visit: the client shows the page, and
    /// sends its request again once the server [notifies](ElicitationCompletion) it that the user is done. At other
    /// revisions, and for a client that does not support pages, it is an error with a message, and no completion
    /// follows.
    ///
    /// [`elicit_url`](Self::elicit_url) works at every revision.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>
    pub fn require_url(
        &self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> (HandlerError, Option<ElicitationCompletion>) {
        let (message, url) = (message.into(), url.into());
        if let Err(why) = check_page_url(&url) {
            return (HandlerError::new(why), None);
        }
        let needed = ClientCapability::ElicitationUrl;
        if !self.revision().differences().url_elicitation_error || !self.client_capabilities().has(needed) {
            return (HandlerError::new(message), None);
        }
        let id = self.inbound_request().random_id();
        let mut page = ElicitUrlParams::new(message.as_str(), url);
        page.elicitation_id = Some(id.clone());
        let error = ErrorObject::new(code::URL_ELICITATION_REQUIRED, message);
        //= S9.7 "-32042 lists url elicitations with ids"
        let error = match Raw::encode(&At(&UrlElicitationData::new([page]), self.revision())) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        };
        (error.into(), Some(ElicitationCompletion { connection: self.connection().clone(), id }))
    }
}

impl InputFuture<Elicit> {
    /// Like [`new`](Self::new), but gives a web page an id, where the revision has them, and checks the content of a
    /// form against its schema.
    fn elicit(context: &Context, key: String, mut params: ElicitParams) -> Self {
        let mut completion = None;
        if let ElicitParams::Url(page) = &mut params {
            if let Err(why) = check_page_url(&page.url) {
                return Self::failed(RequestError::UnsafePage(why));
            }
            if context.revision().differences().url_elicitation_error {
                let id =
                    page.elicitation_id.get_or_insert_with(|| context.inbound_request().random_id()).clone();
                completion = Some(ElicitationCompletion { connection: context.connection().clone(), id });
            }
        }
        let (asked, revision) = (params.clone(), context.revision());
        let asking =
            Self::with_check(context, key, params, move |answer| asked.validate_answer(answer, revision));
        Self { completion, ..asking }
    }

    /// Returns the handle that notifies the client when the user is done with the page (2025-11-25). `None` at other
    /// revisions: clients of 2026-07-28 find out by sending their request again.
    ///
    /// The server of the page may keep the handle longer than the handler runs.
    pub fn completion(&self) -> Option<ElicitationCompletion> {
        self.completion.clone()
    }
}

impl<S> Context<S> {
    /// Asks the client's model. Works like [`elicit`](Self::elicit).
    ///
    /// A handler may answer the model's calls of tools by another request with their results, at most
    /// [`Limits::input_rounds`](crate::Limits::input_rounds) times for one request of the client: then a request with
    /// results fails with [`RequestError::ToolLoop`](crate::peer::RequestError::ToolLoop). To end such a loop with a text, set the
    /// [choice of tools](CreateMessageParams::tool_choice) of the last request to `none`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>
    pub fn sample(&self, key: impl Into<String>, params: CreateMessageParams) -> InputFuture<CreateMessage> {
        let context = self.without_state();
        if params.sends_tool_results()
            && let Err(error) = context.count_tool_round()
        {
            return InputFuture::failed(error);
        }
        InputFuture::new(&context, key.into(), params)
    }

    /// Asks for the client's roots, the directories that the server may use. Works like [`elicit`](Self::elicit).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    pub fn roots(&self, key: impl Into<String>) -> InputFuture<ListRoots> {
        InputFuture::new(&self.without_state(), key.into(), ListRootsParams::new())
    }
}

/// An input request to the client, as the future of its answer. See [`Context::elicit`].
///
/// Nothing is sent before it is polled. To request several inputs in one round, join several of these.
#[must_use = "the input is requested when this is awaited"]
pub struct InputFuture<M: Method> {
    future: SendFuture<Result<M::Result, Error>>,
    completion: Option<ElicitationCompletion>,
}

impl<M> InputFuture<M>
where
    M: Method<Params: Into<InputRequest> + Send>,
{
    fn failed(error: RequestError) -> Self {
        Self { future: Box::pin(async move { Err(error.into()) }), completion: None }
    }

    fn new(context: &Context, key: String, params: M::Params) -> Self {
        Self::with_check(context, key, params, Ok)
    }

    /// Creates an input request whose answer `take` checks.
    fn with_check(
        context: &Context,
        key: String,
        params: M::Params,
        take: impl FnOnce(M::Result) -> Result<M::Result, FormError> + Send + 'static,
    ) -> Self {
        let context = context.clone();
        let future = Box::pin(async move {
            let answer = match (context.task(), context.input_rounds()) {
                // Without input rounds, of which the feature `seal` is a part.
                (None, None) if context.era() == Era::Modern => {
                    let method = M::NAME.into();
                    return Err(RequestError::Feature { method, feature: "seal" }.into());
                }
                (None, None) => context.request::<M>(params).await?,
                (Some(task), _) => {
                    let answer = request_by_task(task, context.inbound_request(), &key, params.into());
                    Outcome::Result(answer.await?).decode::<M>()?
                }
                (None, Some(rounds)) => {
                    let request = context.inbound_request();
                    return rounds.request_input::<M>(request, key, params.into(), take).await;
                }
            };
            //= S9.6 "SHOULD validate data"
            take(answer).map_err(Error::Form)
        });
        Self { future, completion: None }
    }
}

impl<M: Method> Future for InputFuture<M> {
    type Output = Result<M::Result, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(cx)
    }
}

debug_fields! { [M: Method] InputFuture<M> { method = M::NAME } }

/// Notifies a client that the user is done with a web page (2025-11-25).
///
/// See [`InputFuture::completion`].
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
#[derive(Clone, Debug)]
pub struct ElicitationCompletion {
    connection: Arc<Connection>,
    id: String,
}

impl ElicitationCompletion {
    /// The random id by which the client knows the page, and the server of the page finds this handle.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends the notification. Returns whether the client is still connected.
    pub fn notify(&self) -> bool {
        //= S9.7 "elicitation/complete only to the originator and with the id"
        self.connection.act(|mut server| server.elicitation_complete(&self.id))
    }
}

impl<S> Context<S> {
    /// Runs `work` once, however often the handler runs for one request of a client.
    ///
    /// A 2026-07-28 client stores the value, sealed, until the request is answered. Each piece of work has its own key.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, HandlerError, Router};
    /// # use mcp_proto::schema::{ElicitParams, ElicitSchema, Json, Map, Tool};
    /// # #[derive(serde::Deserialize)] struct Book { seat: u32 }
    /// # async fn reserve(seat: u32) -> Result<u64, std::io::Error> { Ok(7) }
    /// async fn book(Book { seat }: Book, cx: Context) -> Result<String, HandlerError> {
    ///     // A failure is a value that serializes, too.
    ///     let reserved = cx.run_once("reservation", async { reserve(seat).await.map_err(|error| error.to_string()) }).await;
    ///     let reservation = reserved.map_err(HandlerError::new)?;
    ///     let form = ElicitParams::form("Who travels?", ElicitSchema::new(Map::new()));
    ///     let traveller = cx.elicit("traveller", form).await?;
    ///     # drop(traveller);
    ///     Ok(format!("Booked: {reservation}"))
    /// }
    /// # drop(Router::new("seats", "1").tool_with(Tool::new("book", "", Json::empty_object()), book));
    /// ```
    ///
    /// The client cannot read or change the value, nor use it for another principal or another request. It can return
    /// it more than once, unless each state is valid once (`Router::single_use`).
    pub async fn run_once<T, F>(&self, key: impl AsRef<str>, work: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = T>,
    {
        match self.input_rounds().filter(|_| self.task().is_none()) {
            Some(rounds) => rounds.run_once(self.inbound_request(), key.as_ref(), work).await,
            None => work.await,
        }
    }

    /// Sends a request to the client, where the revision lets servers do that (2025-11-25 and earlier). To request
    /// input from clients of every revision, see [`elicit`](Self::elicit).
    ///
    /// It fails if the client did not declare the capability, and dropping the future cancels the request.
    pub fn request<M: Method>(&self, params: M::Params) -> Request<M> {
        self.to_legacy_client(M::NAME, || Ok(params), Request::new)
    }

    /// Sends a request by its name to the client, where the revision lets servers do that (2025-11-25 and earlier).
    /// `params` is any value that serializes to a JSON object, or to `null` for none.
    ///
    /// The result is passed on undecoded. If the protocol defines a method of this name, its rules apply.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, Error};
    /// # use serde_json::json;
    /// # async fn example(cx: Context) -> Result<(), Error> {
    /// let confirmed = cx.request_custom("com.example/confirm", json!({ "pages": 300 })).await?;
    /// println!("{:?}", confirmed.extra.get("by"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_custom(&self, method: impl Into<String>, params: impl Serialize) -> Request<CustomMethod> {
        let method = method.into();
        self.to_legacy_client(
            &method,
            || request_params(params),
            |link, params| Request::by_name(link, method.as_str(), params),
        )
    }

    /// Makes a request on behalf of this one, where the revision has requests of servers.
    fn to_legacy_client<M: Method>(
        &self,
        method: &str,
        params: impl FnOnce() -> Result<M::Params, Error>,
        make: impl FnOnce(Arc<dyn RequestLink>, Result<M::Params, Error>) -> Request<M>,
    ) -> Request<M> {
        // A session may be open on the same connection, but this request does not belong to it.
        let params = match self.era() {
            Era::Legacy => params(),
            //= S1.9 "Never send JSON-RPC requests"
            //= S2.2 "No requests on stdout"
            Era::Modern => {
                let (method, revision) = (method.into(), self.revision());
                Err(Error::NotSent(RequestError::Revision { method, revision }))
            }
        };
        let request = make(self.connection().clone().request_link(Some(self.id())), params);
        match self.task() {
            //= R7 "related-task meta on every message"
            Some(task) => request.meta(related_task_meta(task.id())),
            None => request,
        }
    }

    /// Sends the client a notification that the protocol does not define, on the stream of the request.
    ///
    /// # Errors
    /// If it cannot be sent: the request is answered or cancelled, the client reads nothing, or the name is one of the
    /// protocol's ([`RequestError::Reserved`]), which other methods send.
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.send_notification(N::NAME, params)
    }

    /// Sends the client a notification by its name, on the stream of the request. `params` is any value that serializes
    /// to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, Error};
    /// # use serde_json::json;
    /// # fn example(cx: &Context) -> Result<(), Error> {
    /// cx.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let mut params = custom_params(params)?;
        if let (Some(task), Era::Legacy) = (self.task(), self.era()) {
            params.meta.insert(meta::RELATED_TASK, super::connection::related_task(task.id()));
        }
        self.send_notification(method, &params)
    }

    /// The request of a task is answered already: its notifications belong to the session.
    fn send_notification(&self, method: &str, params: &dyn AnyParams) -> Result<(), Error> {
        let request = self.task().is_none().then(|| self.id());
        Ok(self.connection().act(|mut server| server.notify_custom(request, method, params))?)
    }
}

async fn request_by_task(
    task: &Arc<RunningTask>,
    request: &InboundRequest,
    key: &str,
    input: InputRequest,
) -> Result<Raw, Error> {
    let method = input.method().unwrap_or_default();
    if let Some(needed) =
        required_capabilities(&input).find(|needed| !request.state.context.client_capabilities.has(*needed))
    {
        let (method, needed) = (method.into(), RequiredCapability::Client(needed));
        return Err(RequestError::Capability { method, needed }.into());
    }
    check_content(&input)?;
    if request.state.context.era == Era::Modern {
        request.connection.act(|mut server| server.check_texts(&input))?;
    }
    // The task has ended, and its handler is about to be dropped.
    let Some(open) = task.open_input(key, input.clone()) else { return Err(Error::Cancelled) };
    match request.state.context.era {
        Era::Modern => open.answer().await.ok_or(Error::Cancelled),
        Era::Legacy => send_as_request(task, request, input).await,
    }
}

async fn send_as_request(
    task: &RunningTask,
    request: &InboundRequest,
    input: InputRequest,
) -> Result<Raw, Error> {
    // If each request has its own stream, the client awaits this one on the stream of `tasks/result`.
    let of = if request.connection.act(|mut server| server.has_streams()) {
        Some(task.next_result_request().await)
    } else {
        None
    };
    let link = request.connection.clone().request_link(of);
    let related = related_task_meta(task.id());
    match input {
        InputRequest::Elicit(params) => send::<Elicit>(link, params, related).await,
        InputRequest::CreateMessage(params) => send::<CreateMessage>(link, params, related).await,
        InputRequest::ListRoots(params) => send::<ListRoots>(link, params, related).await,
        InputRequest::Unknown(_) => {
            Err(RequestError::Revision { method: "".into(), revision: request.state.context.revision }.into())
        }
    }
}

async fn send<M: Method<Result: ResultFields>>(
    link: Arc<dyn RequestLink>,
    params: M::Params,
    related: Meta,
) -> Result<Raw, Error> {
    let result = Request::<M>::new(link, Ok(params)).meta(related).await?;
    Raw::encode(&result).map_err(|error| Error::NotSent(RequestError::Encode(alloc::format!("{error}"))))
}

/// A connection as the requests to the client see it.
#[derive(Debug)]
pub(in crate::front) struct ServerLink {
    pub(in crate::front) connection: Arc<Connection>,
    pub(in crate::front) on_behalf_of: Option<InboundId>,
}

impl RequestLink for ServerLink {
    fn send(&self, request: OutgoingRequest<'_>, follow: FollowQueue) -> Result<RequestId, Error> {
        self.connection.command(|core, machine, now, _| {
            core.check_open()?;
            let request = machine.at(now).send(self.on_behalf_of, request)?;
            core.common.slots.open(request, follow);
            Ok(request)
        })
    }

    fn table(&self) -> &dyn RequestTable {
        &self.connection
    }

    #[cfg(feature = "client")]
    fn clock(&self) -> &Arc<dyn crate::front::Clock> {
        self.connection.clock()
    }

    fn abandon(&self, request: RequestId, reason: Option<&str>) {
        self.connection.command(|core, machine, now, wakers| {
            core.common.slots.close(request, wakers);
            machine.at(now).cancel(request, reason);
        });
    }
}

impl Connection {
    /// The link for requests to the client, either on behalf of one of the client's requests or independent of them.
    pub(in crate::front) fn request_link(
        self: Arc<Self>,
        on_behalf_of: Option<InboundId>,
    ) -> Arc<ServerLink> {
        Arc::new(ServerLink { connection: self, on_behalf_of })
    }
}
