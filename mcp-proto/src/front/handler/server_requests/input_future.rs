//! A question to the client, as the future of its answer.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, ready};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use super::elicitation_completion::ElicitationCompletion;
use crate::front::Error;
use crate::front::handler::context::Context;
use crate::front::handler::input_rounds::InputRounds;
use crate::front::handler::task::HandlerTask;
use crate::front::running_handlers::SendFuture;
use crate::peer::{Outcome, RequestError};
use crate::schema::{
    CreateMessage, CreateMessageParams, Era, FormError, InputRequest, ListRoots, ListRootsParams, Method,
};

/// The mechanism that delivers input requests to the client.
pub(super) enum InputMechanism<'a> {
    /// By requests of the server, which only legacy clients accept.
    ServerRequests,
    /// By the result of the client's request (2026-07-28).
    InputRounds(&'a InputRounds),
    /// By a task.
    Task(&'a Arc<dyn HandlerTask>),
}

impl<'a> InputMechanism<'a> {
    pub(super) fn of<S>(context: &'a Context<S>) -> Self {
        match (context.task(), context.input_rounds()) {
            (Some(task), _) => Self::Task(task),
            (None, Some(rounds)) => Self::InputRounds(rounds),
            (None, None) => Self::ServerRequests,
        }
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
            return InputFuture { future: Box::pin(ready(Err(error.into()))), completion: None };
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
    pub(super) future: SendFuture<Result<M::Result, Error>>,
    pub(super) completion: Option<ElicitationCompletion>,
}

impl<M> InputFuture<M>
where
    M: Method<Params: Into<InputRequest> + Send>,
{
    pub(super) fn new(context: &Context, key: String, params: M::Params) -> Self {
        Self::with_check(context, key, params, Ok)
    }

    /// Creates an input request whose answer `take` checks.
    pub(super) fn with_check(
        context: &Context,
        key: String,
        params: M::Params,
        take: impl FnOnce(M::Result) -> Result<M::Result, FormError> + Send + 'static,
    ) -> Self {
        let context = context.clone();
        let future = Box::pin(async move {
            let answer = match InputMechanism::of(&context) {
                // Without input rounds, of which the feature `seal` is a part.
                InputMechanism::ServerRequests if context.era() == Era::Modern => {
                    let method = M::NAME.into();
                    return Err(RequestError::Feature { method, feature: "seal" }.into());
                }
                InputMechanism::ServerRequests => context.request::<M>(params).await?,
                InputMechanism::Task(task) => {
                    let answer = task.clone().request_input(context.inbound_request(), &key, params.into());
                    Outcome::Result(answer.await?).decode::<M>()?
                }
                InputMechanism::InputRounds(rounds) => {
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

impl<M: Method> fmt::Debug for InputFuture<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputFuture").field("method", &M::NAME).finish_non_exhaustive()
    }
}
