//! What the handler of a task asks of the client: in 2026-07-28 by the task itself, in 2025-11-25 by a request, for which
//! the status of the task prepares the client.

use alloc::sync::Arc;

use super::RunningTask;
use crate::front::server::ServerLink;
use crate::front::{Context, Error, Request};
use crate::peer::server::required_capability;
use crate::peer::{RequestError, RequiredCapability};
use crate::rpc::Raw;
use crate::schema::{CreateMessage, Elicit, Era, InputRequest, ListRoots, Meta, Method, ResultFields};

/// Asks the client on behalf of a task, under a key like `key`. The answer is not decoded.
pub(crate) async fn request_task_input(
    task: &Arc<RunningTask>,
    context: &Context,
    key: &str,
    request: InputRequest,
) -> Result<Raw, Error> {
    let method = request.method().unwrap_or_default();
    if let Some(needed) =
        required_capability(&request).filter(|needed| !context.client_capabilities().has(*needed))
    {
        return Err(Error::NotSent(RequestError::Capability {
            method: method.into(),
            needed: RequiredCapability::Client(needed),
        }));
    }
    // The task has ended, and its handler is about to be dropped.
    let Some(open) = task.request_input(key, request.clone()) else { return Err(Error::Cancelled) };
    match context.era() {
        Era::Modern => open.answer().await.ok_or(Error::Cancelled),
        Era::Legacy => send_as_request(task, context, request).await,
    }
}

async fn send_as_request(
    task: &Arc<RunningTask>,
    context: &Context,
    request: InputRequest,
) -> Result<Raw, Error> {
    let connection = context.connection().clone();
    // Where requests have streams of their own, the client awaits this one on that of `tasks/result`.
    let of = if connection.read(|_, machine| machine.has_streams()) {
        Some(task.next_result_request().await)
    } else {
        None
    };
    let link = Arc::new(ServerLink { connection, on_behalf_of: of });
    let related = task.related_meta();
    match request {
        InputRequest::Elicit(params) => send::<Elicit>(link, params, related).await,
        InputRequest::CreateMessage(params) => send::<CreateMessage>(link, params, related).await,
        InputRequest::ListRoots(params) => send::<ListRoots>(link, params, related).await,
        InputRequest::Unknown(_) => {
            let refusal = RequestError::Revision { method: "".into(), revision: context.revision() };
            Err(Error::NotSent(refusal))
        }
    }
}

async fn send<M: Method<Result: ResultFields>>(
    link: Arc<ServerLink>,
    params: M::Params,
    related: Meta,
) -> Result<Raw, Error> {
    let result = Request::<M>::new(link, Ok(params)).meta(related).await?;
    Raw::encode(&result).map_err(|error| Error::NotSent(RequestError::Encode(alloc::format!("{error}"))))
}
