//! What clients ask of tasks: `tasks/*`, in either form.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::desk::{Found, failed};
use super::live::Live;
use super::runner::looking;
use super::{Home, Standing, StoreError, TaskRecord};
use crate::front::Context;
use crate::front::handling::SendFuture;
use crate::front::reply::{Reply, decode_params};
use crate::peer::server::missing_capabilities;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask, legacy};
use crate::schema::{
    ClientCapabilities, ClientCapability, EmptyResult, Era, InputResponses, Json, Method, meta,
};

/// What is asked.
enum Asking {
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
    home: &Arc<Home>,
    method: &str,
    params: Option<&Raw>,
    context: &Context,
    page: usize,
) -> Option<SendFuture<Reply>> {
    let asking = match (context.era(), method) {
        (Era::Modern, GetTask::NAME) => Asking::Get,
        (Era::Modern, UpdateTask::NAME) => Asking::Update,
        (Era::Modern, CancelTask::NAME) => Asking::Cancel,
        (Era::Legacy, legacy::GetTask::NAME) => Asking::LegacyGet,
        (Era::Legacy, legacy::TaskResult::NAME) => Asking::LegacyResult,
        (Era::Legacy, legacy::ListTasks::NAME) => Asking::LegacyList,
        (Era::Legacy, legacy::CancelTask::NAME) => Asking::LegacyCancel,
        _ => return None,
    };
    let asked = Asked { home: home.clone(), context: context.clone(), params: params.cloned(), page };
    Some(Box::pin(async move {
        let answered = match asking {
            Asking::Get => asked.get().await,
            Asking::Update => asked.update().await,
            Asking::Cancel => asked.cancel().await,
            Asking::LegacyGet => asked.legacy_get().await,
            Asking::LegacyResult => asked.legacy_result().await,
            Asking::LegacyList => asked.legacy_list().await,
            Asking::LegacyCancel => asked.legacy_cancel().await,
        };
        answered.unwrap_or_else(Reply::Error)
    }))
}

struct Asked {
    home: Arc<Home>,
    context: Context,
    params: Option<Raw>,
    page: usize,
}

impl Asked {
    /// S11.9: the owner is compared each time.
    async fn look(&self, id: &str) -> Result<Found, ErrorObject> {
        self.home.desk.look(id, self.context.principal(), self.home.now()).await
    }

    /// How a task is doing, what other instances have made of it included.
    async fn record(&self, id: &str) -> Result<TaskRecord, ErrorObject> {
        let live = match self.look(id).await? {
            Found::Here(live) => live,
            Found::Stored(record) => return Ok(*record),
        };
        let store = &self.home.desk.config.store;
        if store.is_shared()
            && !live.is_over()
            && let Ok(Some(kept)) = store.get(id).await
        {
            live.learn(kept);
        }
        Ok(self.shown(&live).await)
    }

    /// How a task is doing that runs here. What other instances can not know yet is told once they can: the client may
    /// answer it at one of them.
    async fn shown(&self, live: &Live) -> TaskRecord {
        if self.home.desk.config.store.is_shared() { live.kept().await } else { live.record() }
    }

    /// What is to reach the instance that runs a task needs a store by which it does.
    fn shared(&self) -> Result<(), ErrorObject> {
        if self.home.desk.config.store.is_shared() { Ok(()) } else { Err(elsewhere()) }
    }

    fn params<M: Method>(&self) -> Result<M::Params, ErrorObject> {
        decode_params::<M>(self.params.clone())
    }

    /// S11.7
    fn declared(&self) -> Result<(), ErrorObject> {
        let needed = ClientCapability::TasksExtension;
        if self.context.client_capabilities().has(needed) {
            return Ok(());
        }
        Err(missing_capabilities(ClientCapabilities::default().with(needed)))
    }

    // --- 2026-07-28 ---

    /// S11.3
    async fn get(&self) -> Result<Reply, ErrorObject> {
        self.declared()?;
        let params = self.params::<GetTask>()?;
        Ok(Reply::result(self.record(&params.task_id).await?.detailed()))
    }

    /// S11.8
    async fn update(&self) -> Result<Reply, ErrorObject> {
        self.declared()?;
        let params = self.params::<UpdateTask>()?;
        match self.look(&params.task_id).await? {
            Found::Here(live) => live.take_answers(&params.input_responses)?,
            Found::Stored(record) => self.leave_answers(*record, &params.input_responses).await?,
        }
        Ok(Reply::result(EmptyResult::new()))
    }

    /// Leaves answers in the store, where the instance that runs the task finds them.
    async fn leave_answers(
        &self,
        mut record: TaskRecord,
        responses: &InputResponses,
    ) -> Result<(), ErrorObject> {
        loop {
            if !record.standing.is_terminal() {
                self.shared()?;
            }
            if !record.take_answers(responses)? {
                return Ok(());
            }
            record.updated_at = self.home.now().max(record.updated_at);
            match self.home.desk.config.store.update(record.clone()).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Conflict) => match self.look(&record.id).await? {
                    Found::Here(live) => return live.take_answers(responses),
                    Found::Stored(newer) => record = *newer,
                },
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Whatever the task has come to, the wish is acknowledged.
    async fn cancel(&self) -> Result<Reply, ErrorObject> {
        self.declared()?;
        let params = self.params::<CancelTask>()?;
        let found = self.look(&params.task_id).await?;
        self.give_up(found).await?;
        Ok(Reply::result(EmptyResult::new()))
    }

    /// Cancels a task, unless it has ended; how it is then.
    async fn give_up(&self, mut found: Found) -> Result<TaskRecord, ErrorObject> {
        loop {
            let record = match found {
                Found::Here(live) => {
                    live.end(Standing::Cancelled);
                    return Ok(self.shown(&live).await);
                }
                Found::Stored(record) if record.standing.is_terminal() => return Ok(*record),
                Found::Stored(record) => *record,
            };
            // The instance that runs it learns of it when it next looks, or has something to store.
            let updated_at = self.home.now().max(record.updated_at);
            let cancelled =
                TaskRecord { updated_at, standing: Standing::Cancelled, answers: BTreeMap::new(), ..record };
            match self.home.desk.config.store.update(cancelled.clone()).await {
                Ok(()) => return Ok(cancelled),
                Err(StoreError::Conflict) => found = self.look(&cancelled.id).await?,
                Err(error) => return Err(failed(error)),
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
            match self.look(&id).await? {
                Found::Here(live) => {
                    // What the task asks the client goes out with this request.
                    let _awaiting = live.await_by(self.context.id());
                    live.over().await;
                    break self.shown(&live).await.standing;
                }
                Found::Stored(record) if record.standing.is_terminal() => break record.standing,
                Found::Stored(record) => {
                    self.shared()?;
                    self.home.pause(looking(record.poll_interval)).await?;
                }
            }
        };
        match standing {
            Standing::Completed(result) => result_of(&id, &result).map(Reply::result),
            Standing::Failed(error) => Err(error),
            _ => Err(ErrorObject::new(code::INTERNAL_ERROR, format!("the task {id:?} was cancelled"))),
        }
    }

    async fn legacy_list(&self) -> Result<Reply, ErrorObject> {
        let params = self.params::<legacy::ListTasks>()?;
        let (owner, now) = (self.context.principal(), self.home.now());
        let store = &self.home.desk.config.store;
        let page = store.list(owner, params.cursor.as_deref(), self.page.max(1)).await.map_err(failed)?;
        let shown = page.tasks.into_iter().filter(|record| {
            // A store that mixes owners up must not show them to one another.
            record.owner.as_ref() == owner && !record.is_expired(now)
        });
        let tasks = shown.map(|record| match self.home.desk.find(&record.id, owner) {
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
        let found = self.look(&params.task_id).await?;
        let was_over = match &found {
            Found::Here(live) => live.is_over(),
            Found::Stored(record) => record.standing.is_terminal(),
        };
        let record = self.give_up(found).await?;
        if was_over || record.standing != Standing::Cancelled {
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
    result.meta.insert(meta::RELATED_TASK, related(id));
    Ok(result)
}

/// What marks a message as that of a task (2025-11-25).
pub(super) fn related(id: &str) -> Json {
    let task = legacy::RelatedTask::new(String::from(id));
    Json::encode(&task).unwrap_or_else(|_| Json::null())
}

fn elsewhere() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, "the task runs in another instance of this server")
}
