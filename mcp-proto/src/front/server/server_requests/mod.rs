//! Asking the client while its request is answered: by the same code of a handler in either era.
//!
//! A legacy client is asked by a request, and the handler waits for the answer. One of 2026-07-28 is asked by the result:
//! the handler is run as far as it comes, then dropped, and run again from its start when the client sends its request
//! again with the answers. In between nothing is kept here: what has been answered before, and what the handler has
//! [kept](super::Context::keep), travels with the client, sealed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

#[cfg(feature = "seal")]
mod input_rounds;
#[cfg(feature = "seal")]
mod sealing;
#[cfg(feature = "seal")]
mod single_use;
#[cfg(feature = "seal")]
mod state_binding;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, ready};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use super::Connection;
use super::context::Context;
use crate::consent::{UrlConsent, UrlWarning};
use crate::front::running_handlers::SendFuture;
use crate::front::tasks::{RunningTask, request_task_input};
use crate::front::{Error, HandlerError};
use crate::peer::{Outcome, RequestError};
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{
    At, ClientCapability, Elicit, ElicitParams, ElicitUrlParams, FormError, InputRequest, Method,
    UrlElicitationData,
};

#[cfg(feature = "seal")]
pub(crate) use input_rounds::InputRounds;
#[cfg(feature = "seal")]
pub(crate) use sealing::Sealing;
#[cfg(feature = "seal")]
pub use single_use::{SingleUse, StateId, StateUse, UsedStates};

/// How the client is asked.
pub(crate) enum InputMechanism<'a> {
    /// By a request, which is refused unless the client is a legacy one.
    ServerRequests,
    /// By the result.
    #[cfg(feature = "seal")]
    InputRounds(&'a InputRounds),
    /// By a task.
    Task(&'a Arc<RunningTask>),
}

/// A question to the client: the future of its answer. See [`Context::elicit`].
///
/// Nothing is asked before it is polled. To ask several things at once, join several of these.
#[must_use = "nothing is asked unless it is awaited"]
pub struct InputFuture<M: Method> {
    future: SendFuture<Result<M::Result, Error>>,
    completion: Option<ElicitationCompletion>,
}

impl<M> InputFuture<M>
where
    M: Method<Params: Into<InputRequest> + Send>,
{
    pub(super) fn new(context: &Context, key: String, params: M::Params) -> Self {
        Self::with_check(context, key, params, Ok)
    }

    /// A question whose answer `take` has a look at.
    fn with_check(
        context: &Context,
        key: String,
        params: M::Params,
        take: impl FnOnce(M::Result) -> Result<M::Result, FormError> + Send + 'static,
    ) -> Self {
        let context = context.clone();
        let future = Box::pin(async move {
            let answer = match context.input_mechanism() {
                InputMechanism::ServerRequests => context.request::<M>(params).await?,
                InputMechanism::Task(task) => {
                    decode::<M>(request_task_input(task, &context, &key, params.into()).await?)?
                }
                #[cfg(feature = "seal")]
                InputMechanism::InputRounds(rounds) => {
                    return rounds.request_input::<M>(&context, key, params.into(), take).await;
                }
            };
            take(answer).map_err(Error::Form)
        });
        Self { future, completion: None }
    }
}

impl InputFuture<Elicit> {
    /// As [`new`](Self::new); a page on the web gets an id, where the revision has them, and a form must be filled in as
    /// it asks.
    pub(super) fn elicit(context: &Context, key: String, mut params: ElicitParams) -> Self {
        let mut completion = None;
        if let ElicitParams::Url(page) = &params
            && let Err(why) = check_url(&page.url)
        {
            let refused = Box::pin(ready(Err(RequestError::UnsafePage(why).into())));
            return Self { future: refused, completion };
        }
        if let ElicitParams::Url(page) = &mut params
            && context.revision().differences().url_elicitation_error
        {
            let id = page.elicitation_id.get_or_insert_with(|| context.random_id()).clone();
            completion = Some(ElicitationCompletion { connection: context.connection().clone(), id });
        }
        let (asked, revision) = (params.clone(), context.revision());
        let asking =
            Self::with_check(context, key, params, move |answer| asked.take_answer(answer, revision));
        Self { completion, ..asking }
    }

    /// What tells the client that the person is done with the page (2025-11-25); nothing where clients are not told:
    /// those of 2026-07-28 find out by sending their request again.
    ///
    /// It may be kept for whoever serves the page, longer than the handler runs.
    pub fn completion(&self) -> Option<ElicitationCompletion> {
        self.completion.clone()
    }
}

impl<M: Method> Future for InputFuture<M> {
    type Output = Result<M::Result, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(cx)
    }
}

impl<M: Method> fmt::Debug for InputFuture<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("method", &M::NAME).finish_non_exhaustive()
    }
}

/// Tells the client that asked for it that the person is done with a page on the web (2025-11-25): see
/// [`Ask::completion`].
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
#[derive(Clone)]
pub struct ElicitationCompletion {
    connection: Arc<Connection>,
    id: String,
}

impl ElicitationCompletion {
    /// The id by which the client knows the page: random, to be found again by whoever serves it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells the client. Returns whether it is still there to be told.
    pub fn notify(&self) -> bool {
        self.connection.command(|_, machine, now, _| machine.at(now).elicitation_complete(&self.id))
    }
}

impl fmt::Debug for ElicitationCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Whether a person may be sent to a page: only where a client could open it, and never with credentials in its address.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
fn check_url(url: &str) -> Result<(), String> {
    let page = UrlConsent::new(url).map_err(|fault| fault.to_string())?;
    if page.warnings().contains(&UrlWarning::UserInfo) {
        return Err("the address of the page holds credentials".into());
    }
    Ok(())
}

/// What a client of 2025-11-25 is answered that is to show a page to the person before it makes its request again.
pub(super) fn require_url(
    context: &Context,
    message: String,
    url: String,
) -> (HandlerError, Option<ElicitationCompletion>) {
    if let Err(why) = check_url(&url) {
        return (HandlerError::new(why), None);
    }
    let needed = ClientCapability::ElicitationUrl;
    if !context.revision().differences().url_elicitation_error || !context.client_capabilities().has(needed) {
        return (HandlerError::new(message), None);
    }
    let id = context.random_id();
    let mut page = ElicitUrlParams::new(message.as_str(), url);
    page.elicitation_id = Some(id.clone());
    let error = ErrorObject::new(code::URL_ELICITATION_REQUIRED, message);
    let error = match Raw::encode(&At(&UrlElicitationData::new([page]), context.revision())) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    };
    (error.into(), Some(ElicitationCompletion { connection: context.connection().clone(), id }))
}

/// The result of a method of the client.
fn decode<M: Method>(raw: Raw) -> Result<M::Result, Error> {
    Outcome::Result(raw).decode::<M>().map_err(Error::from)
}
