//! The state that handles, connections and the driver of a host share.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::Client;
use mcp_proto::host::config::{Config, Fingerprint, ServerEntry, ServerId};
use mcp_proto::host::consent::{Approval, ApprovalRequest, Approvals};
use mcp_proto::host::control::{CallId, CallOutcome, ControlPlane, Generation, Status};
use mcp_proto::host::tools::Catalogue;
use mcp_proto::peer::client::KnownEra;

use super::calls::CallRecord;
use super::events::{HostEvent, Listeners};
use super::failure::StderrTail;
use super::report::Counters;
use super::stop::Stop;
use super::storage::saving::Unsaved;
use super::trace::TracedEvents;
use crate::time::RuntimeClock;

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
    /// The requests that show a file of variables, with the meanings of their entries.
    pub(super) requests: BTreeMap<ServerId, (Fingerprint, ApprovalRequest)>,
    pub(super) connections: BTreeMap<ServerId, Connection>,
    pub(super) calls: BTreeMap<CallId, CallRecord>,
    pub(super) listeners: Listeners,
    /// The eras of servers, by their connections.
    pub(super) eras: BTreeMap<Fingerprint, KnownEra>,
    pub(super) counters: Counters,
    /// A configuration whose stored values are not read yet.
    pub(super) new_config: Option<Config>,
    /// Whether the stored values of a configuration are being read.
    pub(super) is_loading: bool,
    pub(super) unsaved: Unsaved,
    pub(super) is_gate_passed: bool,
    pub(super) is_closed: bool,
    /// The waker of the driver's task.
    pub(super) driver: Option<Waker>,
    /// Tasks that wait for servers to start or for the end.
    waiting: Vec<Waker>,
    /// Tasks to wake once the lock is released.
    wakes: Vec<Waker>,
    /// Events to trace once the lock is released.
    traced: TracedEvents,
}

/// The connection of a server, or the attempt to make one.
pub(super) struct Connection {
    pub(super) generation: Generation,
    pub(super) stop: Stop,
    pub(super) stderr: StderrTail,
    pub(super) began: Instant,
    /// The client, once it can be used.
    pub(super) client: Option<Client>,
    /// How long it took until the client could be used.
    pub(super) start_time: Option<Duration>,
}

impl State {
    pub(super) fn publish(&mut self, event: HostEvent) {
        self.traced.push(&event);
        self.listeners.publish(&event, &mut self.wakes);
    }

    pub(super) fn pass_gate(&mut self) {
        self.is_gate_passed = true;
        self.publish(HostEvent::GatePassed);
        self.wake_waiting();
    }

    /// Wakes the tasks that wait for a state, which check it again.
    pub(super) fn wake_waiting(&mut self) {
        self.wakes.append(&mut self.waiting);
    }

    /// Whether every server of the newest configuration is connected or has failed.
    pub(super) fn has_settled(&self) -> bool {
        let is_configured = self.new_config.is_none() && !self.is_loading;
        is_configured && self.plane.servers().all(|(_, server)| server.status != Status::Starting)
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

    /// The request of a server that is not approved, and whether its file of variables is in it or needs not be.
    pub(super) fn request(&self, entry: &ServerEntry) -> Option<(ApprovalRequest, bool)> {
        let request = entry.permit(&self.approvals).err()?;
        let shown = self.requests.get(&entry.id()).filter(|(meaning, _)| *meaning == entry.meaning());
        Some(match shown {
            Some((_, shown)) => (shown.clone(), true),
            None => {
                let is_whole = request.env_file().is_none();
                (*request, is_whole)
            }
        })
    }

    /// Adds an approval.
    pub(super) fn approve(&mut self, approval: Approval) {
        self.requests.remove(&ServerId::project(approval.path(), approval.server()));
        self.unsaved.approve(approval.clone());
        self.approvals.insert(approval);
    }

    /// Ends a server whose file of variables is not the approved one, and asks the user about the file.
    pub(super) fn ask_again(&mut self, now: Instant, entry: &ServerEntry, request: ApprovalRequest) {
        if self.entries.get(&entry.id()).is_none_or(|known| known.meaning() != entry.meaning()) {
            return;
        }
        self.approvals.revoke(request.path(), request.server());
        self.requests.insert(entry.id(), (entry.meaning(), request));
        // It is configured, so that it is known, unless the host is closed.
        let _ = self.plane.revoke_approval(now, entry.id());
    }

    /// Passes the end of a call to its future, and reports it.
    pub(super) fn end_call(&mut self, now: Instant, id: CallId, outcome: CallOutcome) {
        let Some(call) = self.calls.remove(&id) else { return };
        let failure = self.plane.server(call.server).and_then(|server| server.failure.cloned());
        let (event, waker) = call.end(now, outcome, failure);
        self.counters.count(outcome);
        self.publish(event);
        self.wakes.extend(waker);
    }
}

impl Shared {
    pub(super) fn new(
        clock: RuntimeClock,
        plane: ControlPlane,
        approvals: Approvals,
        catalogue: Catalogue,
    ) -> Self {
        let state = State {
            plane,
            entries: BTreeMap::new(),
            approvals,
            requests: BTreeMap::new(),
            connections: BTreeMap::new(),
            calls: BTreeMap::new(),
            listeners: Listeners::default(),
            eras: BTreeMap::new(),
            counters: Counters::default(),
            new_config: None,
            is_loading: false,
            unsaved: Unsaved::default(),
            is_gate_passed: false,
            is_closed: false,
            driver: None,
            waiting: Vec::new(),
            wakes: Vec::new(),
            traced: Default::default(),
        };
        Self { clock, state: Mutex::new(state), catalogue: Mutex::new(catalogue) }
    }

    /// Changes the state. Wakers and subscribers are called after the lock is released.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state, now);
        let wakes = std::mem::take(&mut state.wakes);
        let traced = std::mem::take(&mut state.traced);
        drop(state);
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

    /// Changes or reads the catalogue.
    pub(super) fn catalogue<T>(&self, act: impl FnOnce(&mut Catalogue) -> T) -> T {
        act(&mut self.catalogue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until `is_done`, or until the host is closed.
    pub(super) async fn wait(&self, is_done: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            self.with(|state, _| {
                if state.is_closed || is_done(state) {
                    return Poll::Ready(());
                }
                if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.waiting.push(cx.waker().clone());
                }
                Poll::Pending
            })
        })
        .await;
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
