//! Input requests of task handlers: delivered through the task itself in 2026-07-28, and as requests in 2025-11-25,
//! which the status of the task announces to the client.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::task::Wake;

use super::RunningTask;
use crate::Instant;
use crate::front::handler::connection::{HandlerTask, SendReport, TaskFuture, related_task_meta};
use crate::front::handler::inbound_request::InboundRequest;
use crate::front::request_slots::RequestLink;
use crate::front::wakers::lock;
use crate::front::{Error, Request};
use crate::peer::progress_pacer::{ProgressPacer, ProgressRate};
use crate::peer::server::{Cancellation, check_content, exceeds, required_capabilities};
use crate::peer::{RequestError, RequiredCapability};
use crate::rpc::Raw;
use crate::schema::{
    CreateMessage, Elicit, Era, InputRequest, ListRoots, Meta, Method, Number, ResultFields,
};

impl HandlerTask for RunningTask {
    fn id(&self) -> &str {
        self.id()
    }

    fn set_status(&self, message: String) {
        self.status(message);
    }

    fn report_progress(&self, progress: &Number, per_second: u32, send: SendReport) {
        self.report_progress(progress, per_second, send);
    }

    fn has_ended(&self) -> bool {
        self.has_ended()
    }

    fn wait_ended(&self) -> TaskFuture<'_, ()> {
        Box::pin(self.wait_ended())
    }

    fn cancellation(&self) -> Option<Cancellation> {
        self.cancellation()
    }

    fn request_input<'a>(
        self: Arc<Self>,
        request: &'a InboundRequest,
        key: &'a str,
        input: InputRequest,
    ) -> TaskFuture<'a, Result<Raw, Error>> {
        Box::pin(request_input(self, request, key, input))
    }
}

async fn request_input(
    task: Arc<RunningTask>,
    request: &InboundRequest,
    key: &str,
    input: InputRequest,
) -> Result<Raw, Error> {
    let method = input.method().unwrap_or_default();
    if let Some(needed) =
        required_capabilities(&input).find(|needed| !request.client_capabilities().has(*needed))
    {
        return Err(Error::NotSent(RequestError::Capability {
            method: method.into(),
            needed: RequiredCapability::Client(needed),
        }));
    }
    check_content(&input)?;
    if request.context.era == Era::Modern {
        request.connection.check_texts(&input)?;
    }
    // The task has ended, and its handler is about to be dropped.
    let Some(open) = task.open_input(key, input.clone()) else { return Err(Error::Cancelled) };
    match request.context.era {
        Era::Modern => open.answer().await.ok_or(Error::Cancelled),
        Era::Legacy => send_as_request(&task, request, input).await,
    }
}

async fn send_as_request(
    task: &RunningTask,
    request: &InboundRequest,
    input: InputRequest,
) -> Result<Raw, Error> {
    // If each request has its own stream, the client awaits this one on the stream of `tasks/result`.
    let of = if request.connection.has_streams() { Some(task.next_result_request().await) } else { None };
    let link = request.connection.clone().request_link(of);
    let related = related_task_meta(task.id());
    match input {
        InputRequest::Elicit(params) => send::<Elicit>(link, params, related).await,
        InputRequest::CreateMessage(params) => send::<CreateMessage>(link, params, related).await,
        InputRequest::ListRoots(params) => send::<ListRoots>(link, params, related).await,
        InputRequest::Unknown(_) => {
            let refusal = RequestError::Revision { method: "".into(), revision: request.revision() };
            Err(Error::NotSent(refusal))
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

/// The progress of one task.
#[derive(Default)]
pub(super) struct TaskProgress {
    /// The last value sent or waiting to be sent.
    last: Option<Number>,
    /// Paces the reports, once there are any.
    pacer: Option<ProgressPacer<(), SendReport>>,
}

impl RunningTask {
    pub(super) fn report_progress(&self, progress: &Number, per_second: u32, send: SendReport) {
        let now = self.clock.now();
        let due = {
            let mut state = lock(&self.state);
            let has_ended = state.end.is_some();
            let TaskProgress { last, pacer } = &mut state.progress;
            if has_ended || last.as_ref().is_some_and(|last| !exceeds(progress, last)) {
                return;
            }
            *last = Some(progress.clone());
            //= S6.2 "rate limit"
            let pacer = pacer.get_or_insert_with(|| ProgressPacer::new(ProgressRate::spaced(per_second)));
            pacer.offer(now, (), send, 0)
        };
        match due {
            Some(send) => send(),
            // The runner's timer may have to fire earlier now.
            None => self.waker().wake_by_ref(),
        }
    }

    /// Sends the waiting report, if its time has come.
    pub(super) fn send_due_progress(&self, now: Instant) {
        let due = lock(&self.state).progress.pacer.as_mut().and_then(|pacer| pacer.pop_due(now));
        if let Some(((), send, _)) = due {
            send();
        }
    }

    /// Sends the waiting report before the task ends.
    pub(super) fn send_last_progress(&self) {
        let last = lock(&self.state).progress.pacer.as_mut().and_then(|pacer| pacer.remove(())?.last);
        if let Some((send, _)) = last {
            send();
        }
    }

    /// When the waiting report is sent.
    pub(super) fn progress_due(&self) -> Option<Instant> {
        lock(&self.state).progress.pacer.as_ref()?.deadline()
    }
}
