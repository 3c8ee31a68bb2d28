//! What clients ask of tasks: `tasks/*`, in either form.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::errors::{runs_elsewhere, store_failed};
use super::registry::TaskLookup;
use super::running::RunningTask;
use super::{StoreError, StoredTaskState, TaskRecord, TaskService};
use crate::front::handler::context::Context;
use crate::front::handler::params::decode_params;
use crate::front::handler::reply::Reply;
use crate::front::handler::task::related_task;
use crate::front::running_handlers::SendFuture;
use crate::peer::server::missing_capabilities;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask, legacy};
use crate::schema::{
    ClientCapabilities, ClientCapability, EmptyResult, Era, InputResponses, Json, Method, meta,
};

/// What is asked.
enum TaskMethod {
    Get,
    Update,
    Cancel,
    LegacyGet,
    LegacyResult,
    LegacyList,
    LegacyCancel,
}

/// Answers a request that concerns tasks; `None` if it does not. A page of a list has `page` tasks.
pub(in crate::front) fn answer(
    service: &Arc<TaskService>,
    method: &str,
    params: Option<&Raw>,
    context: &Context,
    page: usize,
) -> Option<SendFuture<Reply>> {
    let asking = match (context.era(), method) {
        (Era::Modern, GetTask::NAME) => TaskMethod::Get,
        (Era::Modern, UpdateTask::NAME) => TaskMethod::Update,
        (Era::Modern, CancelTask::NAME) => TaskMethod::Cancel,
        (Era::Legacy, legacy::GetTask::NAME) => TaskMethod::LegacyGet,
        (Era::Legacy, legacy::TaskResult::NAME) => TaskMethod::LegacyResult,
        (Era::Legacy, legacy::ListTasks::NAME) => TaskMethod::LegacyList,
        (Era::Legacy, legacy::CancelTask::NAME) => TaskMethod::LegacyCancel,
        _ => return None,
    };
    let asked =
        TaskRequest { service: service.clone(), context: context.clone(), params: params.cloned(), page };
    Some(Box::pin(async move {
        let answered = match asking {
            TaskMethod::Get => asked.get().await,
            TaskMethod::Update => asked.update().await,
            TaskMethod::Cancel => asked.cancel().await,
            TaskMethod::LegacyGet => asked.legacy_get().await,
            TaskMethod::LegacyResult => asked.legacy_result().await,
            TaskMethod::LegacyList => asked.legacy_list().await,
            TaskMethod::LegacyCancel => asked.legacy_cancel().await,
        };
        answered.unwrap_or_else(Reply::Error)
    }))
}

struct TaskRequest {
    service: Arc<TaskService>,
    context: Context,
    params: Option<Raw>,
    page: usize,
}

impl TaskRequest {
    /// S11.9: the owner is compared each time.
    async fn lookup(&self, id: &str) -> Result<TaskLookup, ErrorObject> {
        self.service.registry.lookup(id, self.context.principal(), self.service.now()).await
    }

    /// How a task is doing, what other instances have made of it included.
    async fn record(&self, id: &str) -> Result<TaskRecord, ErrorObject> {
        let live = match self.lookup(id).await? {
            TaskLookup::Running(live) => live,
            TaskLookup::Stored(record) => return Ok(*record),
        };
        let store = &self.service.registry.config.store;
        if store.is_shared()
            && !live.has_ended()
            && let Ok(Some(kept)) = store.get(id).await
        {
            live.merge(kept);
        }
        Ok(self.visible_record(&live).await)
    }

    /// How a task is doing that runs here. What other instances can not know yet is told once they can: the client may
    /// answer it at one of them.
    async fn visible_record(&self, live: &RunningTask) -> TaskRecord {
        if self.service.registry.config.store.is_shared() { live.saved_record().await } else { live.record() }
    }

    /// What is to reach the instance that runs a task needs a store by which it does.
    fn require_shared_store(&self) -> Result<(), ErrorObject> {
        if self.service.registry.config.store.is_shared() { Ok(()) } else { Err(runs_elsewhere()) }
    }

    fn params<M: Method>(&self) -> Result<M::Params, ErrorObject> {
        decode_params::<M>(self.params.clone())
    }

    /// S11.7
    fn require_declared(&self) -> Result<(), ErrorObject> {
        let needed = ClientCapability::TasksExtension;
        if self.context.client_capabilities().has(needed) {
            return Ok(());
        }
        Err(missing_capabilities(ClientCapabilities::default().with(needed)))
    }

    // --- 2026-07-28 ---

    /// S11.3
    async fn get(&self) -> Result<Reply, ErrorObject> {
        self.require_declared()?;
        let params = self.params::<GetTask>()?;
        Ok(Reply::result(self.record(&params.task_id).await?.detailed()))
    }

    /// S11.8
    async fn update(&self) -> Result<Reply, ErrorObject> {
        self.require_declared()?;
        let params = self.params::<UpdateTask>()?;
        match self.lookup(&params.task_id).await? {
            TaskLookup::Running(live) => live.take_answers(&params.input_responses)?,
            TaskLookup::Stored(record) => self.store_answers(*record, &params.input_responses).await?,
        }
        Ok(Reply::result(EmptyResult::new()))
    }

    /// Leaves answers in the store, where the instance that runs the task finds them.
    async fn store_answers(
        &self,
        mut record: TaskRecord,
        responses: &InputResponses,
    ) -> Result<(), ErrorObject> {
        loop {
            if !record.state.is_terminal() {
                self.require_shared_store()?;
            }
            if !record.take_answers(responses)? {
                return Ok(());
            }
            record.updated_at = self.service.now().max(record.updated_at);
            match self.service.registry.config.store.update(record.clone()).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Conflict) => match self.lookup(&record.id).await? {
                    TaskLookup::Running(live) => return live.take_answers(responses),
                    TaskLookup::Stored(newer) => record = *newer,
                },
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    /// Whatever the task has come to, the wish is acknowledged.
    async fn cancel(&self) -> Result<Reply, ErrorObject> {
        self.require_declared()?;
        let params = self.params::<CancelTask>()?;
        let found = self.lookup(&params.task_id).await?;
        self.cancel_task(found).await?;
        Ok(Reply::result(EmptyResult::new()))
    }

    /// Cancels a task, unless it has ended; how it is then.
    async fn cancel_task(&self, mut found: TaskLookup) -> Result<TaskRecord, ErrorObject> {
        loop {
            let record = match found {
                TaskLookup::Running(live) => {
                    live.end(StoredTaskState::Cancelled);
                    return Ok(self.visible_record(&live).await);
                }
                TaskLookup::Stored(record) if record.state.is_terminal() => return Ok(*record),
                TaskLookup::Stored(record) => *record,
            };
            // The instance that runs it learns of it when it next looks, or has something to store.
            let updated_at = self.service.now().max(record.updated_at);
            let cancelled = TaskRecord {
                updated_at,
                state: StoredTaskState::Cancelled,
                answers: BTreeMap::new(),
                ..record
            };
            match self.service.registry.config.store.update(cancelled.clone()).await {
                Ok(()) => return Ok(cancelled),
                Err(StoreError::Conflict) => found = self.lookup(&cancelled.id).await?,
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    // --- 2025-11-25 ---

    async fn legacy_get(&self) -> Result<Reply, ErrorObject> {
        let params = self.params::<legacy::GetTask>()?;
        Ok(Reply::result(self.record(&params.task_id).await?.legacy_info()))
    }

    /// Waits until the task has ended, and says what the call would have said.
    async fn legacy_result(&self) -> Result<Reply, ErrorObject> {
        let params = self.params::<legacy::TaskResult>()?;
        let id = params.task_id;
        let standing = loop {
            match self.lookup(&id).await? {
                TaskLookup::Running(live) => {
                    // What the task asks the client goes out with this request.
                    let _awaiting = live.add_result_waiter(self.context.id());
                    live.wait_ended().await;
                    break self.visible_record(&live).await.state;
                }
                TaskLookup::Stored(record) if record.state.is_terminal() => break record.state,
                TaskLookup::Stored(record) => {
                    self.require_shared_store()?;
                    self.service.sleep(record.refresh_interval()).await?;
                }
            }
        };
        match standing {
            StoredTaskState::Completed(result) => result_of(&id, &result).map(Reply::result),
            StoredTaskState::Failed(error) => Err(error),
            _ => Err(ErrorObject::new(code::INTERNAL_ERROR, format!("the task {id:?} was cancelled"))),
        }
    }

    async fn legacy_list(&self) -> Result<Reply, ErrorObject> {
        let params = self.params::<legacy::ListTasks>()?;
        let (owner, now) = (self.context.principal(), self.service.now());
        let store = &self.service.registry.config.store;
        let page =
            store.list(owner, params.cursor.as_deref(), self.page.max(1)).await.map_err(store_failed)?;
        let shown = page.tasks.into_iter().filter(|record| {
            // A store that mixes owners up must not show them to one another.
            record.owner.as_ref() == owner && !record.is_expired(now)
        });
        let tasks = shown.map(|record| match self.service.registry.find(&record.id, owner) {
            Some(live) => live.record().legacy_task(),
            None => record.legacy_task(),
        });
        let mut result = legacy::ListTasksResult::new(tasks.collect::<Vec<_>>());
        result.next_cursor = page.next;
        Ok(Reply::result(result))
    }

    /// A task that has ended can't be cancelled.
    async fn legacy_cancel(&self) -> Result<Reply, ErrorObject> {
        let params = self.params::<legacy::CancelTask>()?;
        let found = self.lookup(&params.task_id).await?;
        let was_over = match &found {
            TaskLookup::Running(live) => live.has_ended(),
            TaskLookup::Stored(record) => record.state.is_terminal(),
        };
        let record = self.cancel_task(found).await?;
        if was_over || record.state != StoredTaskState::Cancelled {
            let message = format!("the task {:?} is {} already", record.id, record.legacy_status().as_str());
            return Err(ErrorObject::new(code::INVALID_PARAMS, message));
        }
        Ok(Reply::result(record.legacy_info()))
    }
}

/// The result of a task, marked as that.
fn result_of(id: &str, result: &Json) -> Result<EmptyResult, ErrorObject> {
    let mut result: EmptyResult = result.decode().map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, format!("the result that was kept can't be read: {error}"))
    })?;
    result.meta.insert(meta::RELATED_TASK, related_task(id));
    Ok(result)
}
