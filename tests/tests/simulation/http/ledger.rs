//! State that survives a server: executed calls, the list of tools, and tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mcp_proto::UnixTime;
use mcp_proto::front::LiveRouter;
use mcp_proto::front::tasks::{MemoryStore, StoreFuture, TaskPage, TaskRecord, TaskStore};
use mcp_proto::peer::Principal;
use mcp_proto::testing::SimulatedClock;

use super::engine::Engine;
use super::router::{RESOURCE, change_tools};

/// State that survives a server; all instances of a server share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// How often the tools ran, by the call's argument.
    runs: Arc<Mutex<BTreeMap<u64, u32>>>,
    /// The calls that ran by a state which is valid once.
    ran_by_state: Arc<Mutex<BTreeSet<u64>>>,
    tools: Arc<Mutex<ToolList>>,
    /// Violations that the servers observed. They are recorded because a panic in a handler is contained, and would
    /// look like an error of the handler.
    violations: Arc<Mutex<Vec<String>>>,
    /// How often a forgery was refused.
    refused: Arc<Mutex<u32>>,
    /// The store of tasks.
    pub tasks: Arc<SharedStore>,
    /// What instances share otherwise, if they share an engine.
    pub engine: Engine,
}

/// Version of the list of tools, that of the resource, and the routers of the instances with their clocks.
#[derive(Debug, Default)]
struct ToolList {
    version: u64,
    resource_version: u64,
    routers: Vec<(LiveRouter, Arc<SimulatedClock>)>,
}

impl Ledger {
    /// Records that the tool ran with this argument.
    pub fn note_run(&self, n: u64) {
        *self.runs.lock().unwrap().entry(n).or_default() += 1;
    }

    /// Records that the tool ran with this argument, by a state that the client returned.
    pub fn note_run_by_state(&self, n: u64) {
        self.ran_by_state.lock().unwrap().insert(n);
        self.note_run(n);
    }

    /// Whether the tool ran with this argument by a state which can be used once.
    pub fn is_single_use(&self, n: u64) -> bool {
        self.engine.is_used() && self.ran_by_state.lock().unwrap().contains(&n)
    }

    /// Replaces the routers whose tools change.
    pub fn set_routers(&self, routers: Vec<(LiveRouter, Arc<SimulatedClock>)>) {
        let replaced = std::mem::replace(&mut self.tools.lock().unwrap().routers, routers);
        drop(replaced);
    }

    /// Changes the list of tools, if a server of this workspace can notify of it.
    pub fn change_tools(&self) {
        let routers = {
            let mut tools = self.tools.lock().unwrap();
            tools.version += u64::from(!tools.routers.is_empty());
            tools.routers.clone()
        };
        for (router, clock) in routers {
            change_tools(&router, self, &clock);
        }
    }

    /// Changes the resource, as an instance knows; the others learn it from that one.
    pub fn change_resource(&self, random: u64) {
        let router = {
            let mut tools = self.tools.lock().unwrap();
            let Some(count) = std::num::NonZeroU64::new(tools.routers.len() as u64) else { return };
            tools.resource_version += 1;
            tools.routers[usize::try_from(random % count).unwrap()].0.clone()
        };
        router.resource_updated(RESOURCE);
    }

    /// The current version of the resource.
    pub fn resource_version(&self) -> u64 {
        self.tools.lock().unwrap().resource_version
    }

    /// The current version of the list of tools.
    pub fn version(&self) -> u64 {
        self.tools.lock().unwrap().version
    }

    /// How often the tool ran with this argument.
    pub fn count(&self, n: u64) -> u32 {
        self.runs.lock().unwrap().get(&n).copied().unwrap_or(0)
    }

    /// Records that a forgery was rejected.
    pub fn note_refusal(&self) {
        *self.refused.lock().unwrap() += 1;
    }

    /// How many forgeries were rejected.
    pub fn refused(&self) -> u32 {
        *self.refused.lock().unwrap()
    }

    /// Records a violation.
    pub fn report_violation(&self, fault: String) {
        self.violations.lock().unwrap().push(fault);
    }

    /// Asserts that there was no violation.
    #[track_caller]
    pub fn assert_clean(&self) {
        let faults = self.violations.lock().unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

/// Tasks in memory that the instances of a server share, in the place of a database.
#[derive(Debug, Default)]
pub struct SharedStore(MemoryStore);

impl TaskStore for SharedStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.0.create(record)
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        self.0.get(id)
    }

    fn update(&self, record: TaskRecord) -> StoreFuture<'_, u64> {
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
