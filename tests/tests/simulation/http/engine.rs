//! A model of the engine that instances share: commands and replies are late or lost, connections break, and a failover
//! forgets the last writes.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use mcp_proto::adapter::Clock as _;
use mcp_proto::front::http::{Change, ChangeRelay, ChangeStream, PublishFuture};
use mcp_proto::front::tasks::{StoreError, StoreFuture, TaskPage, TaskRecord, TaskStore};
use mcp_proto::front::{Claim, ClaimError, ClaimFuture, ClaimOutcome, SingleUse, UseId};
use mcp_proto::peer::Principal;
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::SimulationRng;
use mcp_proto::{Instant, UnixTime};
use smol::stream;

/// How long an instance waits for a reply.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most writes that a failover forgets.
const MOST_FORGOTTEN: usize = 6;
/// States are refused that were sealed before a failover, or less than this after it.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// The engine, which survives the instances. There are no faults until it is [started](Self::start).
#[derive(Clone, Debug, Default)]
pub struct Engine(Arc<Mutex<EngineState>>);

#[derive(Debug, Default)]
struct EngineState {
    /// Decides about faults; `None` without any.
    dice: Option<SimulationRng>,
    is_used: bool,
    records: Records,
    /// The last version of a task: a failover forgets none.
    version: u64,
    /// The records before each of the last writes, oldest first.
    history: VecDeque<Records>,
    lost_before: Option<UnixTime>,
    links: Vec<LinkState>,
    counts: EngineCounts,
}

#[derive(Clone, Debug, Default)]
struct Records {
    tasks: BTreeMap<String, TaskRecord>,
    used: BTreeMap<UseId, UnixTime>,
}

/// What happened to an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounts {
    pub failovers: u32,
    /// Commands without a reply.
    pub unanswered: u32,
    /// Claims of a state that was used before.
    pub repeated: u32,
    /// Claims of a state that a failover may have forgotten.
    pub forgotten: u32,
    /// Subscriptions of instances that missed changes.
    pub missed: u32,
}

impl EngineCounts {
    pub fn add(&mut self, other: Self) {
        self.failovers += other.failovers;
        self.unanswered += other.unanswered;
        self.repeated += other.repeated;
        self.forgotten += other.forgotten;
        self.missed += other.missed;
    }
}

/// The connection of an instance.
#[derive(Debug)]
struct LinkState {
    open_at: Instant,
    /// When its subscription is open again, if it is lost.
    subscribes_at: Option<Instant>,
    changes: VecDeque<Change>,
    waker: Option<Waker>,
}

/// What happens to a command.
#[derive(Default)]
struct CommandPlan {
    request: Duration,
    reply: Duration,
    is_request_lost: bool,
    is_reply_lost: bool,
}

impl Engine {
    fn state(&self) -> MutexGuard<'_, EngineState> {
        self.0.lock().unwrap()
    }

    /// Begins the faults, unless they have begun before.
    pub fn start(&self, seed: u64) {
        let mut state = self.state();
        if !state.is_used {
            state.is_used = true;
            state.dice = Some(SimulationRng::new(seed));
        }
    }

    /// Ends all faults. A connection that is down comes back when it would have.
    pub fn stop_faults(&self) {
        self.state().dice = None;
    }

    pub fn is_used(&self) -> bool {
        self.state().is_used
    }

    pub fn counts(&self) -> EngineCounts {
        self.state().counts
    }

    /// Connects an instance.
    pub fn link(&self, clock: &Arc<SimulatedClock>) -> EngineLink {
        let mut state = self.state();
        // Changes may be published before its subscription is open.
        let subscribes_at = Some(Instant::ORIGIN);
        let (changes, waker) = (VecDeque::new(), None);
        state.links.push(LinkState { open_at: Instant::ORIGIN, subscribes_at, changes, waker });
        EngineLink { engine: self.clone(), clock: clock.clone(), index: state.links.len() - 1 }
    }
}

impl EngineState {
    /// Decides what happens to a command of an instance, and whether something happens to the engine.
    fn plan(&mut self, index: usize, now: Instant, unix: UnixTime) -> CommandPlan {
        let Some(mut dice) = self.dice.take() else { return CommandPlan::default() };
        let mut millis = |most: u64| Duration::from_millis(dice.below(most));
        let (down, keepalive) = (now + millis(5000), millis(10_000));
        let delays = [millis(3000), millis(300), millis(10), Duration::ZERO, Duration::ZERO];
        if dice.chance(5) {
            let forgotten = 1 + usize::try_from(dice.below(MOST_FORGOTTEN as u64)).unwrap();
            self.fail_over(forgotten, unix);
            self.links.iter_mut().for_each(|link| link.cut(down, keepalive));
        } else if dice.chance(10) {
            self.links[index].cut(down, keepalive);
        }
        let mut delay = || *dice.choose(&delays).unwrap();
        let (request, reply) = (delay(), delay());
        let (is_request_lost, is_reply_lost) = (dice.chance(20), dice.chance(20));
        self.dice = Some(dice);
        CommandPlan { request, reply, is_request_lost, is_reply_lost }
    }

    fn fail_over(&mut self, forgotten: usize, unix: UnixTime) {
        let kept = self.history.len().saturating_sub(forgotten);
        self.records = self.history.get(kept).cloned().unwrap_or_else(|| self.records.clone());
        self.history.clear();
        self.lost_before = Some(unix + CLOCK_TOLERANCE);
        self.counts.failovers += 1;
    }

    /// The records, for a write.
    fn write(&mut self) -> &mut Records {
        self.history.push_back(self.records.clone());
        if self.history.len() > MOST_FORGOTTEN {
            self.history.pop_front();
        }
        &mut self.records
    }

    fn claim(&mut self, claim: &Claim) -> ClaimOutcome {
        if let Some(before) = self.lost_before.filter(|before| claim.since < *before) {
            self.counts.forgotten += 1;
            return ClaimOutcome::Forgotten { before };
        }
        if self.records.used.contains_key(&claim.id) {
            self.counts.repeated += 1;
            return ClaimOutcome::Repeated;
        }
        self.write().used.insert(claim.id, claim.expires);
        ClaimOutcome::First
    }

    fn create(&mut self, record: TaskRecord) -> Result<(), StoreError> {
        if self.records.tasks.contains_key(&record.id) {
            return Err(StoreError::Conflict);
        }
        self.write().tasks.insert(record.id.clone(), record);
        Ok(())
    }

    fn update(&mut self, mut record: TaskRecord) -> Result<u64, StoreError> {
        let stored = self.records.tasks.get(&record.id).map(|stored| stored.version);
        if stored != Some(record.version) {
            return Err(StoreError::Conflict);
        }
        self.version += 1;
        record.version = self.version;
        self.write().tasks.insert(record.id.clone(), record);
        Ok(self.version)
    }

    fn publish(&mut self, changes: &[Change]) {
        for link in self.links.iter_mut().filter(|link| link.subscribes_at.is_none()) {
            link.changes.extend(changes.iter().cloned());
            link.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl LinkState {
    /// Breaks the connection until then; the instance notices the end of its subscription by a keep-alive.
    fn cut(&mut self, until: Instant, keepalive: Duration) {
        self.open_at = self.open_at.max(until);
        self.subscribes_at = Some(self.open_at + keepalive);
        self.changes.clear();
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

/// The engine, as an instance has it.
#[derive(Clone, Debug)]
pub struct EngineLink {
    engine: Engine,
    clock: Arc<SimulatedClock>,
    index: usize,
}

impl EngineLink {
    /// Sends a command. Without a reply, it was executed or not.
    async fn run<T>(self, execute: impl FnOnce(&mut EngineState) -> T) -> Result<T, String> {
        let plan = self.engine.state().plan(self.index, self.clock.now(), self.clock.unix_time());
        self.clock.sleep(plan.request).await;
        let done = {
            let mut state = self.engine.state();
            let arrives = state.links[self.index].open_at <= self.clock.now() && !plan.is_request_lost;
            arrives.then(|| execute(&mut state))
        };
        if let Some(done) = done.filter(|_| !plan.is_reply_lost) {
            self.clock.sleep(plan.reply).await;
            return Ok(done);
        }
        self.engine.state().counts.unanswered += 1;
        self.clock.sleep(TIMEOUT).await;
        Err("no reply from 192.0.2.1".to_owned())
    }

    fn store<T>(
        &self,
        execute: impl FnOnce(&mut EngineState) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'static, T>
    where
        T: Send + 'static,
    {
        let running = self.clone().run(execute);
        Box::pin(async { running.await.map_err(StoreError::Failed)? })
    }

    /// The next change of another instance.
    async fn next_change(&self) -> Change {
        loop {
            let change = poll_fn(|cx| {
                let link = &mut self.engine.state().links[self.index];
                if link.subscribes_at.is_some() {
                    return Poll::Ready(None);
                }
                let change = link.changes.pop_front();
                if change.is_none() {
                    link.waker = Some(cx.waker().clone());
                }
                change.map_or(Poll::Pending, |change| Poll::Ready(Some(change)))
            });
            if let Some(change) = change.await {
                return change;
            }
            let due = self.engine.state().links[self.index].subscribes_at;
            self.clock.sleep(due.unwrap_or_default().saturating_since(self.clock.now())).await;
            let state = &mut *self.engine.state();
            // It may have been lost again meanwhile.
            if state.links[self.index].subscribes_at.take_if(|due| *due <= self.clock.now()).is_some() {
                state.counts.missed += 1;
                return Change::Any;
            }
        }
    }
}

impl TaskStore for EngineLink {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.store(|engine| engine.create(record))
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        let id = id.to_owned();
        self.store(move |engine| Ok(engine.records.tasks.get(&id).cloned()))
    }

    fn update(&self, record: TaskRecord) -> StoreFuture<'_, u64> {
        self.store(|engine| engine.update(record))
    }

    fn list<'a>(
        &'a self,
        _owner: Option<&'a Principal>,
        _after: Option<&'a str>,
        _most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        Box::pin(async { Err(StoreError::Failed("the simulated host lists no tasks".to_owned())) })
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        self.store(move |engine| {
            engine.records.tasks.retain(|_, task| task.expires_at().is_none_or(|end| end > now));
            Ok(())
        })
    }
}

impl SingleUse for EngineLink {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        let running = self.clone().run(move |engine| engine.claim(&claim));
        Box::pin(async { running.await.map_err(ClaimError::Failed) })
    }
}

impl ChangeRelay for EngineLink {
    fn publish(&self, changes: Vec<Change>) -> PublishFuture {
        Box::pin(self.clone().run(move |engine| engine.publish(&changes)))
    }

    fn subscribe(&self) -> ChangeStream {
        Box::pin(stream::unfold(self.clone(), |link| async {
            let change = link.next_change().await;
            Some((change, link))
        }))
    }
}
