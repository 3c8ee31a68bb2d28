//! The state that handles, connections and the driver of a host share.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn, ready};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_lite::Stream;
use futures_lite::future::{Boxed, or};
use futures_util::task::AtomicWaker;
use mcp_proto::Instant;
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::layer::Layers;
use mcp_proto::front::{Client, Error};
use mcp_proto::host::config::{Config, Fingerprint, ServerEntry, ServerId, TransportSpec};
use mcp_proto::host::consent::{Approval, ApprovalRequest, Approvals};
use mcp_proto::host::control::{
    CallId, CallOutcome, ControlPlane, Delivery, Failure, Generation, ServerState, Status,
};
use mcp_proto::host::skills::SkillCatalogue;
use mcp_proto::host::tools::{Catalogue, Freshness, ItemKind, UpdateReport};
use mcp_proto::peer::client::KnownEra;
use mcp_proto::schema::Meta;
use mcp_proto::skills::SkillManifest;

use super::events::{
    CallEnd, CallError, CallPhase, Counters, EventQueue, HostEvent, ItemCounts, ServerReport, StartSteps,
    StderrTail,
};
#[cfg(feature = "tracing")]
use super::trace::TracedEvents;
#[cfg(feature = "auth")]
use crate::auth::KnownRecord;
use crate::time::RuntimeClock;

/// What keeps a host open: the last clone of its handle, or of a pending request, closes it.
pub(super) struct OpenHost {
    pub(super) shared: Arc<Shared>,
    /// The layers around the calls of the application.
    pub(super) layers: Layers,
}

/// A question to the user whether a skill may be loaded.
pub(super) struct SkillQuestion {
    pub(super) skill: Arc<SkillManifest>,
    pub(super) is_answered: AtomicBool,
}

impl Drop for OpenHost {
    fn drop(&mut self) {
        self.shared.command(|state, now| state.plane.close_now(now));
    }
}

pub(super) struct Shared {
    pub(super) clock: RuntimeClock,
    state: Mutex<State>,
    /// Never locked while `state` is.
    catalogue: Mutex<Catalogue>,
}

pub(super) struct State {
    pub(super) plane: ControlPlane,
    pub(super) entries: BTreeMap<ServerId, Arc<ServerEntry>>,
    pub(super) approvals: Approvals,
    pub(super) skills: SkillCatalogue,
    /// The skills, by their names, about which the user is being asked.
    pub(super) skill_questions: BTreeMap<String, Arc<SkillQuestion>>,
    /// The requests that show a file of variables, with the meanings of their entries.
    pub(super) requests: BTreeMap<ServerId, (Fingerprint, ApprovalRequest)>,
    pub(super) connections: BTreeMap<ServerId, Connection>,
    /// The records of tokens with which the last connections of servers ended.
    #[cfg(feature = "auth")]
    pub(super) known_records: BTreeMap<ServerId, KnownRecord>,
    pub(super) calls: BTreeMap<CallId, CallRecord>,
    /// The queues of the listeners.
    listeners: BTreeMap<u64, EventQueue>,
    next_key: u64,
    /// The eras of servers, by their connections.
    pub(super) eras: BTreeMap<Fingerprint, KnownEra>,
    pub(super) counters: Counters,
    /// Those of each server that is configured.
    pub(super) server_counters: BTreeMap<ServerId, Counters>,
    /// A configuration whose stored values are not read yet.
    pub(super) new_config: Option<Config>,
    /// Whether the stored values of a configuration are being read.
    pub(super) is_loading: bool,
    pub(super) unsaved: Unsaved,
    pub(super) is_gate_passed: bool,
    is_closed: bool,
    /// The waker of the driver's task.
    pub(super) driver: Option<Waker>,
    pub(super) first_poll: FirstPoll,
    /// Tasks that wait for servers to start or for the end.
    waiting: BTreeMap<u64, Waker>,
    /// Tasks to wake once the lock is released.
    wakes: Vec<Waker>,
    /// Events to trace once the lock is released.
    #[cfg(feature = "tracing")]
    traced: TracedEvents,
}

/// The connection of a server, or the attempt to make one.
pub(super) struct Connection {
    pub(super) generation: Generation,
    pub(super) stop: Stop,
    pub(super) stderr: StderrTail,
    /// The client, once it can be used.
    pub(super) client: Option<Client>,
    pub(super) steps: StartSteps,
    /// When the present step began.
    pub(super) step_began: Instant,
    pub(super) diagnostics: u64,
    /// Whether its prompts and resources are listed, which are read after its tools.
    pub(super) is_listed: bool,
}

/// The first poll of the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstPoll {
    Awaited,
    /// Its absence was reported.
    Missed,
    Done,
}

/// Time after which an unpolled driver is reported.
const FIRST_POLL: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn publish(&mut self, event: HostEvent) {
        #[cfg(feature = "tracing")]
        self.traced.push(&event);
        for queue in self.listeners.values_mut() {
            queue.push(event.clone());
            self.wakes.extend(queue.waker.take());
        }
    }

    pub(super) fn pass_gate(&mut self) {
        self.is_gate_passed = true;
        self.publish(HostEvent::GatePassed);
        self.wake_waiting();
    }

    /// Wakes the tasks that wait for a state, which check it again.
    pub(super) fn wake_waiting(&mut self) {
        self.wakes.extend(std::mem::take(&mut self.waiting).into_values());
    }

    /// Whether every server of the newest configuration is connected or has failed.
    pub(super) fn has_settled(&self) -> bool {
        let is_configured = self.new_config.is_none() && !self.is_loading;
        let is_starting = |id, status| status == Status::Starting && self.entries.contains_key(&id);
        is_configured && !self.plane.servers().any(|(id, server)| is_starting(id, server.status))
    }

    /// Counts for the host and for a server.
    pub(super) fn count(&mut self, server: ServerId, count: impl Fn(&mut Counters)) {
        count(&mut self.counters);
        if self.entries.contains_key(&server) {
            count(self.server_counters.entry(server).or_default());
        }
    }

    /// The connection of a server, if it is still this one.
    pub(super) fn connection(&mut self, server: ServerId, generation: Generation) -> Option<&mut Connection> {
        self.connections.get_mut(&server).filter(|connection| connection.generation == generation)
    }

    /// Whether the lists of a server were read, or it has no connection.
    pub(super) fn is_listed(&self, server: ServerId) -> bool {
        self.connections.get(&server).is_none_or(|connection| connection.is_listed)
    }

    /// A key of a listener or of one who waits.
    fn next_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key = key.saturating_add(1);
        key
    }

    /// Sets the record with which the last connection of a server ended; `None` if its client has no store of tokens.
    #[cfg(feature = "auth")]
    pub(super) fn set_known_record(&mut self, server: ServerId, record: Option<KnownRecord>) {
        match record {
            Some(record) => _ = self.known_records.insert(server, record),
            None => _ = self.known_records.remove(&server),
        }
    }

    /// Finds out whether another process has stored tokens for a server since it needed authorization.
    pub(super) fn check_login(&self, server: ServerId) -> Boxed<bool> {
        #[cfg(feature = "auth")]
        if let Some(record) = self.known_records.get(&server).cloned() {
            return Box::pin(async move { record.has_new_tokens().await });
        }
        let _ = server;
        Box::pin(ready(false))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn set_closed(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.connections.clear();
            self.publish(HostEvent::Closed);
            self.wake_waiting();
        }
    }

    pub(super) fn name(&self, server: ServerId) -> Option<Arc<str>> {
        self.entries.get(&server).map(|entry| entry.name().into())
    }

    /// The request of a server that is not approved, and whether it is whole: its file of variables and the login of the
    /// user are in it, or there is none.
    pub(super) fn request(&self, entry: &ServerEntry) -> Option<(ApprovalRequest, bool)> {
        let request = entry.permit(&self.approvals).err()?;
        let shown = self.requests.get(&entry.id()).filter(|(meaning, _)| *meaning == entry.meaning());
        Some(match shown {
            Some((_, shown)) => (shown.clone(), true),
            None => {
                let is_program = matches!(entry.spec().transport, TransportSpec::Stdio(_));
                let is_whole = is_program && request.env_file().is_none();
                (*request, is_whole)
            }
        })
    }

    /// Adds an approval.
    pub(super) fn approve(&mut self, approval: Approval) {
        if approval.skill().is_none() {
            self.requests.remove(&approval.server_id());
        }
        self.unsaved.add_approvals(approval.server_id());
        self.approvals.insert(approval);
    }

    /// Ends a server whose file of variables is not the approved one, and asks the user about the file.
    pub(super) fn ask_again(&mut self, now: Instant, entry: &ServerEntry, request: ApprovalRequest) {
        if self.entries.get(&entry.id()).is_none_or(|known| known.meaning() != entry.meaning()) {
            return;
        }
        self.approvals.revoke_server(request.path(), request.server());
        self.requests.insert(entry.id(), (entry.meaning(), request));
        // It is configured, so that it is known, unless the host is closed.
        let _ = self.plane.revoke_approval(now, entry.id());
    }

    /// Passes the end of a call to its future, and reports it.
    pub(super) fn end_call(&mut self, now: Instant, id: CallId, outcome: CallOutcome) {
        let Some(record) = self.calls.remove(&id) else { return };
        let CallRecord { server: server_id, name: server, method, item, meta, began, call } = record;
        let phase = if call.was_sent() { CallPhase::Sent } else { CallPhase::Waiting };
        let failed = |error: String| {
            let end = error.floor_char_boundary(Failure::LIMIT);
            CallEnd::Failed { phase, error: error.get(..end).unwrap_or_default().into() }
        };
        let lost = |error: CallError| (failed(error.to_string()), Some(error));
        let (end, error) = match outcome {
            CallOutcome::Answered | CallOutcome::Refused => (call.summary().unwrap_or_else(failed), None),
            CallOutcome::TimedOut => lost(CallError::TimedOut),
            CallOutcome::Cancelled => (CallEnd::Cancelled { phase }, Some(CallError::Call(Error::Cancelled))),
            CallOutcome::Lost => lost(CallError::Lost),
            // It may have had effects, whatever ended it.
            CallOutcome::Unavailable(_) if call.was_sent() => lost(CallError::Lost),
            CallOutcome::Unavailable(status) => {
                let failure = self.plane.server(server_id).and_then(|server| server.failure.cloned());
                let failure = failure.map(Box::new);
                let error = CallError::Unavailable { server: server.clone(), status, failure };
                (failed(format!("the server is unavailable: {status}")), Some(error))
            }
            CallOutcome::Removed => lost(CallError::Removed),
            _ => lost(CallError::Closed),
        };
        self.count(server_id, |counters| counters.count(outcome));
        self.wakes.extend(call.end(error));
        let latency = now.saturating_since(began);
        //= F105 "each call with its time, outcome and trace"
        self.publish(HostEvent::CallEnded { server, method, item, meta, latency, end });
    }
}

impl Shared {
    pub(super) fn new(
        clock: RuntimeClock,
        plane: ControlPlane,
        approvals: Approvals,
        skills: SkillCatalogue,
        catalogue: Catalogue,
    ) -> Self {
        let state = State {
            plane,
            entries: BTreeMap::new(),
            approvals,
            skills,
            skill_questions: BTreeMap::new(),
            requests: BTreeMap::new(),
            connections: BTreeMap::new(),
            #[cfg(feature = "auth")]
            known_records: BTreeMap::new(),
            calls: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next_key: 0,
            eras: BTreeMap::new(),
            counters: Counters::default(),
            server_counters: BTreeMap::new(),
            new_config: None,
            is_loading: false,
            unsaved: Unsaved::default(),
            is_gate_passed: false,
            is_closed: false,
            driver: None,
            first_poll: FirstPoll::Awaited,
            waiting: BTreeMap::new(),
            wakes: Vec::new(),
            #[cfg(feature = "tracing")]
            traced: TracedEvents::default(),
        };
        Self { clock, state: Mutex::new(state), catalogue: Mutex::new(catalogue) }
    }

    /// Changes the state. Wakers and subscribers are called after the lock is released.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        self.with_locked((), |(), state, now| act(state, now))
    }

    /// Changes the state and what is locked already, and releases both before wakers and subscribers are called.
    fn with_locked<L, T>(&self, mut locked: L, act: impl FnOnce(&mut L, &mut State, Instant) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut locked, &mut state, now);
        let wakes = std::mem::take(&mut state.wakes);
        #[cfg(feature = "tracing")]
        let traced = std::mem::take(&mut state.traced);
        drop(state);
        drop(locked);
        #[cfg(feature = "tracing")]
        traced.emit();
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Changes the state, and wakes the driver.
    pub(super) fn command<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        self.with(|state, now| {
            let result = act(state, now);
            state.wakes.extend(state.driver.take());
            result
        })
    }

    /// Changes the catalogue and the state, and wakes the driver.
    pub(super) fn command_both<T>(&self, act: impl FnOnce(&mut Catalogue, &mut State, Instant) -> T) -> T {
        let catalogue = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        self.with_locked(catalogue, |catalogue, state, now| {
            let result = act(catalogue, state, now);
            state.wakes.extend(state.driver.take());
            result
        })
    }

    /// Reports on all servers, or on one, in no order.
    pub(super) fn reports(&self, only: Option<ServerId>) -> Vec<ServerReport> {
        self.visible_catalogue(|catalogue| {
            let items = item_counts(catalogue);
            self.with(|state, _| {
                let servers = state.plane.servers().filter(|(id, _)| only.is_none_or(|only| only == *id));
                let reports = servers.filter_map(|(id, server)| {
                    let entry = state.entries.get(&id)?;
                    let mut report = self.report(state, entry, &server);
                    report.lists = catalogue.freshness(entry.name()).unwrap_or_default();
                    report.items = items.get(entry.name()).copied().unwrap_or_default();
                    Some(report)
                });
                reports.collect()
            })
        })
    }

    /// A report whose lists are not filled in.
    fn report(&self, state: &State, entry: &Arc<ServerEntry>, server: &ServerState<'_>) -> ServerReport {
        // An instant of this host that its clock cannot represent does not exist.
        let at = |instant| self.clock.at(instant).unwrap_or_else(|| self.clock.timers().now());
        let id = entry.id();
        let connection = state.connections.get(&id);
        let client = connection.and_then(|connection| connection.client.as_ref());
        ServerReport {
            id,
            name: entry.name().into(),
            status: server.status,
            since: at(server.since),
            failure: server.failure.cloned(),
            stderr: connection.map(|connection| connection.stderr.text()).unwrap_or_default(),
            attempts: server.attempts,
            next_attempt: server.next_attempt.map(at),
            grace_ends: server.grace_ends.map(at),
            start_time: connection.and_then(|connection| connection.steps.until_ready()),
            steps: connection.map(|connection| connection.steps).unwrap_or_default(),
            lists: Freshness::default(),
            items: ItemCounts::default(),
            info: client.and_then(Client::server),
            counters: state.server_counters.get(&id).copied().unwrap_or_default(),
            diagnostics: connection.map_or(0, |connection| connection.diagnostics),
            entry: entry.clone(),
        }
    }

    /// Reads the catalogue, in which servers that are off or not approved are withdrawn.
    pub(super) fn visible_catalogue<T>(&self, read: impl FnOnce(&mut Catalogue) -> T) -> T {
        self.catalogue(|catalogue| {
            self.with(|state, _| {
                for entry in state.entries.values() {
                    catalogue.set_withdrawn(entry.name(), state.is_withdrawn(entry));
                }
            });
            read(catalogue)
        })
    }

    /// Changes or reads the catalogue.
    pub(super) fn catalogue<T>(&self, act: impl FnOnce(&mut Catalogue) -> T) -> T {
        act(&mut self.catalogue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until `is_done`, or until the host is closed.
    pub(super) async fn wait(&self, is_done: impl Fn(&State) -> bool) {
        let is_over = |state: &State| (state.is_closed || is_done(state)).then_some(());
        let waiter = Waiter::new(self);
        let waiting = poll_fn(|cx| waiter.poll(cx, is_over));
        or(waiting, self.report_unpolled_driver()).await;
    }

    /// Reports a driver that nothing polls. Never ends.
    pub(super) async fn report_unpolled_driver<T>(&self) -> T {
        if self.with(|state, _| state.first_poll == FirstPoll::Awaited) {
            self.clock.sleep_in_handle(FIRST_POLL).await;
            self.with(|state, _| {
                if state.first_poll == FirstPoll::Awaited && !state.is_closed {
                    state.first_poll = FirstPoll::Missed;
                    state.publish(HostEvent::DriverNotPolled);
                }
            });
        }
        pending().await
    }
}

/// The visible items of each server.
fn item_counts(catalogue: &Catalogue) -> BTreeMap<&str, ItemCounts> {
    let mut counts = BTreeMap::<&str, ItemCounts>::new();
    let mut add = |entry, count: fn(&mut ItemCounts) -> &mut usize| {
        *count(counts.entry(entry).or_default()) += 1;
    };
    catalogue.tools().for_each(|entry| add(entry.server, |counts| &mut counts.tools));
    catalogue.prompts().for_each(|entry| add(entry.server, |counts| &mut counts.prompts));
    catalogue.resources().for_each(|entry| add(entry.server, |counts| &mut counts.resources));
    catalogue.templates().for_each(|entry| add(entry.server, |counts| &mut counts.resources));
    counts
}

/// One place among those who wait for servers.
pub(super) struct Waiter<S: Deref<Target = Shared>> {
    shared: S,
    key: u64,
}

impl<S: Deref<Target = Shared>> Waiter<S> {
    pub(super) fn new(shared: S) -> Self {
        let key = shared.with(|state, _| state.next_key());
        Self { shared, key }
    }

    /// Polls for a value, which a server that starts, changes or ends may bring.
    pub(super) fn poll<T>(&self, cx: &Context<'_>, find: impl Fn(&State) -> Option<T>) -> Poll<T> {
        let waker = cx.waker().clone();
        // A waker that is left over is dropped outside of the lock: its task may use the host.
        let (polled, _left) = self.shared.with(|state, _| match find(state) {
            Some(found) => (Poll::Ready(found), Some(waker)),
            None => (Poll::Pending, state.waiting.insert(self.key, waker)),
        });
        polled
    }
}

impl<S: Deref<Target = Shared>> Drop for Waiter<S> {
    fn drop(&mut self) {
        drop(self.shared.with(|state, _| state.waiting.remove(&self.key)));
    }
}

/// Ends the task of a connection, from outside of it. Only one future at a time waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<StopOrder>);

#[derive(Debug, Default)]
struct StopOrder {
    failure: OnceLock<Option<Failure>>,
    waker: AtomicWaker,
}

impl Stop {
    /// Orders the end, because of `failure` if there is one. Only the first order counts.
    pub(super) fn stop(&self, failure: Option<Failure>) {
        let _ = self.0.failure.set(failure);
        self.0.waker.wake();
    }

    /// Runs `work` until it is done, or until the end is ordered: returns the reason then.
    pub(super) async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, Option<Failure>> {
        let ordered = poll_fn(|cx| {
            self.0.waker.register(cx.waker());
            self.0.failure.get().cloned().map_or(Poll::Pending, |failure| Poll::Ready(Err(failure)))
        });
        or(ordered, async { Ok(work.await) }).await
    }
}

/// A stream of events of a host. It does not keep the host open.
///
/// At most 1,024 events are queued, and 4 MiB of what servers wrote: beyond that the oldest are dropped. Of diagnostics
/// at most 256 are queued: beyond that new ones are dropped. [`HostEvent::Missed`] counts both.
#[must_use = "streams do nothing unless polled"]
pub struct HostEvents {
    shared: Arc<Shared>,
    key: u64,
}

impl HostEvents {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let key = shared.with(|state, _| {
            let key = state.next_key();
            let mut queue = EventQueue::default();
            if state.is_closed {
                queue.push(HostEvent::Closed);
            }
            state.listeners.insert(key, queue);
            key
        });
        Self { shared, key }
    }

    /// The next event; `None` after [`HostEvent::Closed`].
    pub async fn next(&mut self) -> Option<HostEvent> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<HostEvent>> {
        let waker = cx.waker().clone();
        let (polled, _left) = self.shared.with(|state, _| {
            let Some(queue) = state.listeners.get_mut(&self.key) else {
                return (Poll::Ready(None), Some(waker));
            };
            let missed = Some(std::mem::take(&mut queue.missed)).filter(|count| *count > 0);
            let missed = missed.map(|count| HostEvent::Missed { count });
            match missed.or_else(|| queue.pop()) {
                None if !state.is_closed => (Poll::Pending, queue.waker.replace(waker)),
                event => (Poll::Ready(event), Some(waker)),
            }
        });
        polled
    }
}

impl Stream for HostEvents {
    type Item = HostEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HostEvent>> {
        self.poll(cx)
    }
}

impl Drop for HostEvents {
    fn drop(&mut self) {
        drop(self.shared.with(|state, _| state.listeners.remove(&self.key)));
    }
}

debug_fields! { HostEvents => "HostEvents" }

/// Values that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// The servers of which something is new.
    pub(super) servers: BTreeSet<ServerId>,
    /// Whether anything is more than a list, which can be read again.
    pub(super) is_urgent: bool,
    /// The servers whose approvals, or those of whose skills, are others.
    pub(super) approvals: BTreeSet<ServerId>,
}

impl Unsaved {
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.approvals.is_empty()
    }

    /// Something is new of this server.
    pub(super) fn add(&mut self, server: ServerId, is_urgent: bool) {
        self.servers.insert(server);
        self.is_urgent |= is_urgent;
    }

    /// The user has approved or revoked something of this server.
    pub(super) fn add_approvals(&mut self, server: ServerId) {
        self.is_urgent = true;
        self.approvals.insert(server);
    }
}

/// A call as the host knows it.
pub(super) struct CallRecord {
    pub(super) server: ServerId,
    pub(super) name: Arc<str>,
    pub(super) method: &'static str,
    pub(super) item: Option<Arc<str>>,
    pub(super) meta: Option<Arc<Meta>>,
    pub(super) began: Instant,
    pub(super) call: Arc<dyn SendCall>,
}

/// A call of any method.
pub(super) trait SendCall: Send + Sync {
    /// Sends it over this client, unless its item is hidden by now, and keeps the answer.
    fn send(self: Arc<Self>, shared: Arc<Shared>, client: Client, is_http: bool) -> Boxed<Sent>;

    /// Whether it was sent, and may have reached the server.
    fn was_sent(&self) -> bool;

    /// The summary of the answer for events; the text of an error.
    fn summary(&self) -> Result<CallEnd, String>;

    /// Ends it; returns the waker of its future.
    fn end(&self, error: Option<CallError>) -> Option<Waker>;
}

/// The outcome of sending a call once.
pub(super) struct Sent {
    pub(super) delivery: Delivery,
    /// Why the connection must end, if the answer says so.
    pub(super) failure: Option<Failure>,
}

impl State {
    /// Reports a change of the catalogue.
    pub(super) fn publish_update(&mut self, server: &Arc<str>, kind: ItemKind, report: UpdateReport) {
        let UpdateReport { changes, collisions, rejected, rejected_count, .. } = report;
        self.publish(HostEvent::CatalogueChanged { server: server.clone(), kind });
        if !changes.is_empty() {
            self.publish(HostEvent::PinsChanged { server: server.clone(), changes: changes.into() });
        }
        for collision in collisions {
            self.publish(HostEvent::Collision(Arc::new(collision)));
        }
        if rejected_count > 0 {
            let (server, items) = (server.clone(), rejected.into());
            self.publish(HostEvent::Rejected { server, items, count: rejected_count });
        }
    }
}
