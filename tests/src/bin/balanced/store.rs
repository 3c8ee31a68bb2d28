//! Tasks in a folder that several processes share: a file for each, changed under the lock of the folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use mcp_proto::UnixTime;
use mcp_proto::front::tasks::{StoreError, StoreFuture, TaskPage, TaskRecord, TaskStore};
use mcp_proto::peer::Principal;

#[derive(Clone)]
pub(crate) struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Runs a closure under the lock, on a thread where it may block.
    fn locked<'a, T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let store = self.clone();
        Box::pin(smol::unblock(move || {
            let lock = File::create(store.folder.join("lock")).map_err(failed)?;
            // Released when the file is closed.
            lock.lock().map_err(failed)?;
            act(&store)
        }))
    }

    /// The file of a task, or `None` for an identifier that this server did not issue. Clients choose what they send.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let is_ours = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| self.folder.join(format!("{id}.json")))
    }

    fn read(&self, id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let Some(path) = self.path(id) else { return Ok(None) };
        match fs::read_to_string(path) {
            Ok(text) => TaskRecord::from_json(&text).map(Some).map_err(failed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn write(&self, record: &TaskRecord) -> Result<(), StoreError> {
        let path =
            self.path(&record.id).ok_or_else(|| failed("the task identifier is not one of this server"))?;
        fs::write(path, record.to_json().map_err(failed)?.as_str()).map_err(failed)
    }

    fn all(&self) -> Result<Vec<TaskRecord>, StoreError> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let id = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == "json") {
                all.extend(self.read(id)?);
            }
        }
        all.sort_by_key(|record| (record.created_at, record.id.clone()));
        Ok(all)
    }
}

fn failed(error: impl ToString) -> StoreError {
    StoreError::Failed(error.to_string())
}

impl TaskStore for FolderStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.locked(move |store| match store.read(&record.id)? {
            Some(_) => Err(StoreError::Conflict),
            None => store.write(&record),
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        let id = id.to_owned();
        self.locked(move |store| store.read(&id))
    }

    fn update(&self, mut record: TaskRecord) -> StoreFuture<'_, ()> {
        self.locked(move |store| {
            let kept = store.read(&record.id)?;
            if kept.is_none_or(|kept| kept.version != record.version) {
                return Err(StoreError::Conflict);
            }
            record.version = record.version.saturating_add(1);
            store.write(&record)
        })
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        let (owner, after) = (owner.cloned(), after.map(str::to_owned));
        self.locked(move |store| {
            let mut tasks = store.all()?;
            tasks.retain(|record| record.owner == owner);
            if let Some(after) = after {
                let last = tasks.iter().position(|record| record.id == after).ok_or(StoreError::Cursor)?;
                tasks.drain(..=last);
            }
            let next = tasks.get(most).and_then(|_| Some(tasks.get(most.checked_sub(1)?)?.id.clone()));
            tasks.truncate(most);
            Ok(TaskPage { tasks, next })
        })
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        self.locked(move |store| {
            for record in store.all()? {
                if let Some(path) = store.path(&record.id)
                    && record.expires_at().is_some_and(|end| end <= now)
                {
                    fs::remove_file(path).map_err(failed)?;
                }
            }
            Ok(())
        })
    }
}
