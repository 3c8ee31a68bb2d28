//! The `tasks/*` methods, in both forms of tasks.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::future::Future;

use super::TaskLookup;
use super::running::RunningTask;
use super::{StoreError, StoredTaskState, TaskRecord, TaskService, TaskStore};
use crate::front::handler::connection::related_task;
use crate::front::handler::context::Context;
use crate::front::params::decode_params;
use crate::front::reply::Reply;
use crate::front::wakers::SendFuture;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask, legacy};
use crate::schema::{EmptyResult, Era, InputResponses, Json, Method, meta};

/// Answers a request about tasks; `None` if it is another request. A page of a list has `page` tasks.
pub(in crate::front) fn answer(
    service: &Arc<TaskService>,
    method: &str,
    params: Option<&Raw>,
    context: &Context,
    page: usize,
) -> Option<SendFuture<Reply>> {
    let asked = || {
        let (service, context) = (service.clone(), context.clone());
        TaskRequest { service, context, params: params.cloned(), page }
    };
    Some(match (context.era(), method) {
        (Era::Modern, GetTask::NAME) => boxed(asked().get()),
        (Era::Modern, UpdateTask::NAME) => boxed(asked().update()),
        (Era::Modern, CancelTask::NAME) => boxed(asked().cancel()),
        (Era::Legacy, legacy::GetTask::NAME) => boxed(asked().legacy_get()),
        (Era::Legacy, legacy::TaskResult::NAME) => boxed(asked().legacy_result()),
        (Era::Legacy, legacy::ListTasks::NAME) => boxed(asked().legacy_list()),
        (Era::Legacy, legacy::CancelTask::NAME) => boxed(asked().legacy_cancel()),
        _ => return None,
    })
}

fn boxed(answering: impl Future<Output = Result<Reply, Reply>> + Send + 'static) -> SendFuture<Reply> {
    Box::pin(async move { answering.await.unwrap_or_else(|refusal| refusal) })
}

struct TaskRequest {
    service: Arc<TaskService>,
    context: Context,
    params: Option<Raw>,
    page: usize,
}

impl TaskRequest {
    //= S11.9 "authorization on every tasks/*"
    /// The owner is compared on every access.
    async fn lookup(&self, id: &str) -> Result<TaskLookup, Reply> {
        self.service.registry.lookup(id, self.context.principal(), self.service.now()).await
    }

    /// Returns the record of a task, including changes by other instances.
    async fn record(&self, id: &str) -> Result<TaskRecord, Reply> {
        let live = match self.lookup(id).await? {
            TaskLookup::Running(live) => live,
            TaskLookup::Stored(record) => return Ok(*record),
        };
        let store = self.store();
        if store.is_shared()
            && !live.has_ended()
            && let Ok(Some(kept)) = store.get(id).await
        {
            live.merge(kept);
        }
        self.visible_record(&live).await
    }

    /// Returns the record of a task that runs here. With a shared store, it contains only changes that the store has:
    /// the client may answer them at another instance, which must not report a task as running that has ended.
    async fn visible_record(&self, live: &RunningTask) -> Result<TaskRecord, Reply> {
        if self.store().is_shared() { Ok(live.saved_record().await?) } else { Ok(live.record()) }
    }

    /// Checks that the store is shared, so that changes reach the instance that runs the task.
    fn require_shared_store(&self) -> Result<(), ErrorObject> {
        if self.store().is_shared() {
            return Ok(());
        }
        Err(ErrorObject::new(code::INTERNAL_ERROR, "the task runs in another instance of this server"))
    }

    fn store(&self) -> &dyn TaskStore {
        &*self.service.registry.config.store
    }

    fn params<M: Method>(&self) -> Result<M::Params, ErrorObject> {
        decode_params::<M>(self.params.clone())
    }

    // --- 2026-07-28 ---

    //= S11.3 "tasks/get returns full state for status"
    async fn get(self) -> Result<Reply, Reply> {
        let params = self.params::<GetTask>()?;
        Ok(Reply::result(self.record(&params.task_id).await?.detailed()))
    }

    async fn update(self) -> Result<Reply, Reply> {
        let params = self.params::<UpdateTask>()?;
        match self.lookup(&params.task_id).await? {
            TaskLookup::Running(live) => live.take_answers(&params.input_responses)?,
            TaskLookup::Stored(record) => self.store_answers(*record, &params.input_responses).await?,
        }
        //= S11.8 "update/cancel acked with empty complete result"
        Ok(Reply::result(EmptyResult::new()))
    }

    /// Stores answers for the instance that runs the task.
    async fn store_answers(&self, mut record: TaskRecord, responses: &InputResponses) -> Result<(), Reply> {
        loop {
            if !record.state.is_terminal() {
                self.require_shared_store()?;
            }
            if !record.take_answers(responses)? {
                return Ok(());
            }
            record.updated_at = self.service.now().max(record.updated_at);
            match self.store().update(record.clone()).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict) => match self.lookup(&record.id).await? {
                    TaskLookup::Running(live) => return Ok(live.take_answers(responses)?),
                    TaskLookup::Stored(newer) => record = *newer,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Acknowledges the cancellation, whatever the state of the task.
    async fn cancel(self) -> Result<Reply, Reply> {
        let params = self.params::<CancelTask>()?;
        let found = self.lookup(&params.task_id).await?;
        self.cancel_task(found).await?;
        //= S11.8 "update/cancel acked with empty complete result"
        Ok(Reply::result(EmptyResult::new()))
    }

    /// Cancels a task unless it has ended. Returns its record after that.
    async fn cancel_task(&self, mut found: TaskLookup) -> Result<TaskRecord, Reply> {
        loop {
            let record = match found {
                TaskLookup::Running(live) => {
                    live.end(StoredTaskState::Cancelled);
                    return self.visible_record(&live).await;
                }
                TaskLookup::Stored(record) if record.state.is_terminal() => return Ok(*record),
                TaskLookup::Stored(record) => *record,
            };
            // The instance that runs it reads the change at its next refresh or save.
            let updated_at = self.service.now().max(record.updated_at);
            let cancelled = TaskRecord {
                updated_at,
                state: StoredTaskState::Cancelled,
                answers: BTreeMap::new(),
                ..record
            };
            match self.store().update(cancelled.clone()).await {
                Ok(_) => return Ok(cancelled),
                Err(StoreError::Conflict) => found = self.lookup(&cancelled.id).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    // --- 2025-11-25 ---

    async fn legacy_get(self) -> Result<Reply, Reply> {
        let params = self.params::<legacy::GetTask>()?;
        Ok(Reply::result(self.record(&params.task_id).await?.legacy_info()))
    }

    /// Waits until the task has ended, and returns the result of its call.
    async fn legacy_result(self) -> Result<Reply, Reply> {
        let params = self.params::<legacy::TaskResult>()?;
        let id = params.task_id;
        let standing = loop {
            match self.lookup(&id).await? {
                TaskLookup::Running(live) => {
                    // The task's input requests are sent on the stream of this request.
                    let _awaiting = live.add_result_waiter(self.context.id());
                    //= S11.11 "tasks/result blocks"
                    live.wait_ended().await;
                    break self.visible_record(&live).await?.state;
                }
                TaskLookup::Stored(record) if record.state.is_terminal() => break record.state,
                TaskLookup::Stored(record) => {
                    self.require_shared_store()?;
                    self.service.sleep(record.refresh_interval()).await?;
                }
            }
        };
        match standing {
            StoredTaskState::Completed(result) => Ok(Reply::result(result_of(&id, &result)?)),
            StoredTaskState::Failed(error) => Err(error.into()),
            _ => Err(Reply::error(code::INTERNAL_ERROR, format!("the task {id:?} was cancelled"))),
        }
    }

    //= R7 "what can be got can be listed"
    async fn legacy_list(self) -> Result<Reply, Reply> {
        let params = self.params::<legacy::ListTasks>()?;
        let (owner, now) = (self.context.principal(), self.service.now());
        let store = self.store();
        let page = store.list(owner, params.cursor.as_deref(), self.page.max(1)).await?;
        let shown = page.tasks.into_iter().filter(|record| {
            // A store that confuses owners must not expose their tasks to each other.
            record.owner.as_ref() == owner && !record.is_expired(now)
        });
        let tasks = shown.map(|record| match self.service.registry.find(&record.id, owner) {
            Some(live) if !store.is_shared() => live.record().legacy_task(),
            _ => record.legacy_task(),
        });
        let mut result = legacy::ListTasksResult::new(tasks.collect::<Vec<_>>());
        result.next_cursor = page.next;
        Ok(Reply::result(result))
    }

    //= R7 "cancelled by `tasks/cancel` alone"
    /// A task that has ended cannot be cancelled.
    async fn legacy_cancel(self) -> Result<Reply, Reply> {
        let params = self.params::<legacy::CancelTask>()?;
        let found = self.lookup(&params.task_id).await?;
        let was_over = match &found {
            TaskLookup::Running(live) => live.has_ended(),
            TaskLookup::Stored(record) => record.state.is_terminal(),
        };
        let record = self.cancel_task(found).await?;
        //= S11.11 "cancel terminal → -32602"
        if was_over || record.state != StoredTaskState::Cancelled {
            let message = format!("the task {:?} is already {}", record.id, record.legacy_status().as_str());
            return Err(Reply::error(code::INVALID_PARAMS, message));
        }
        Ok(Reply::result(record.legacy_info()))
    }
}

/// Returns the result of a task, with the metadata that relates it to the task.
fn result_of(id: &str, result: &Json) -> Result<EmptyResult, ErrorObject> {
    let mut result: EmptyResult = result.decode().map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, format!("the stored result cannot be read: {error}"))
    })?;
    //= R7 "on the `tasks/result` answer"
    result.meta.insert(meta::RELATED_TASK, related_task(id));
    Ok(result)
}
