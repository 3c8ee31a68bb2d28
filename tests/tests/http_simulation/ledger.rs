//! What outlives a server: what its tools have done, what they are, and its tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mcp_proto::UnixTime;
use mcp_proto::front::http::HttpHandle;
use mcp_proto::front::tasks::{MemoryStore, StoreFuture, TaskPage, TaskRecord, TaskStore};
use mcp_proto::peer::Principal;
use mcp_proto::peer::server::ListKind;

/// What outlives a server. The instances of one that runs more than once share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// How often the tools ran, by the argument of the call.
    runs: Arc<Mutex<BTreeMap<u64, u32>>>,
    tools: Arc<Mutex<ToolList>>,
    /// What the servers have seen that must not happen. What panics in a handler is contained, and would pass for an
    /// error of the handler's.
    violations: Arc<Mutex<Vec<String>>>,
    /// How often a forgery was refused.
    refused: Arc<Mutex<u32>>,
    /// Where tasks are kept.
    pub tasks: Arc<SharedStore>,
}

/// The list of tools, as far as it matters, and who tells of its changes.
#[derive(Debug, Default)]
struct ToolList {
    version: u64,
    handles: Vec<HttpHandle>,
}

impl Ledger {
    /// Notes that the tool ran with this argument.
    pub fn note_run(&self, n: u64) {
        *self.runs.lock().unwrap().entry(n).or_default() += 1;
    }

    /// Servers begin to serve in place of those before; they tell of changes from now on.
    pub fn set_servers(&self, handles: Vec<HttpHandle>) {
        self.tools.lock().unwrap().handles = handles;
    }

    /// The list of tools changes, if there is a server of this workspace that could tell.
    pub fn change_tools(&self) {
        let handles = {
            let mut tools = self.tools.lock().unwrap();
            tools.version += u64::from(!tools.handles.is_empty());
            tools.handles.clone()
        };
        for handle in handles {
            handle.list_changed(ListKind::Tools);
        }
    }

    /// What the list of tools is now.
    pub fn version(&self) -> u64 {
        self.tools.lock().unwrap().version
    }

    /// How often it did.
    pub fn count(&self, n: u64) -> u32 {
        self.runs.lock().unwrap().get(&n).copied().unwrap_or(0)
    }

    /// A forgery was refused.
    pub fn note_refusal(&self) {
        *self.refused.lock().unwrap() += 1;
    }

    /// How often one was.
    pub fn refused(&self) -> u32 {
        *self.refused.lock().unwrap()
    }

    /// Something has happened that must not.
    pub fn report_violation(&self, fault: String) {
        self.violations.lock().unwrap().push(fault);
    }

    /// Nothing has happened that must not.
    #[track_caller]
    pub fn assert_clean(&self) {
        let faults = self.violations.lock().unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

/// Tasks in memory that the instances of a server share, as if it were a database.
#[derive(Debug, Default)]
pub struct SharedStore(MemoryStore);

impl TaskStore for SharedStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.0.create(record)
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        self.0.get(id)
    }

    fn update(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.0.update(record)
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        self.0.list(owner, after, most)
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        self.0.expire(now)
    }
}
