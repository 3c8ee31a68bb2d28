//! Fuzzing of the control plane of a host, with a driver that keeps its side of the contract.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use arbitrary::{Arbitrary, Unstructured};

use crate::Instant;
use crate::host::config::{ServerEntry, ServerId, ServerSpec, TimeoutOverrides};
use crate::host::control::{
    Action, CallId, CallOptions, ControlConfig, ControlPlane, Delivery, Event, Failure, FailureKind,
    Generation, Repeat, ServerPolicy,
};

#[derive(Arbitrary, Debug)]
enum Operation {
    Advance(u16),
    Configure(Vec<(Server, Policy)>),
    SetEnabled(Server, bool),
    Reconnect(Server),
    Call(Server, Option<u16>, bool),
    Cancel(u8),
    PollAction,
    PollEvent,
    Connected(u8),
    Ended(u8, u8),
    Deliver(u8, u8),
    Approve(Server, bool),
    Hold(Server),
    Release(Server),
    HandleTimeout,
    Close,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Server(u8);

impl Server {
    fn entry(self, command: u8) -> ServerEntry {
        let name = format!("server {}", self.0 % 4);
        let command = format!("command {}", command % 2);
        let spec = match self.0 % 2 {
            0 => ServerSpec::stdio(command, ["--stdio"]),
            _ => ServerSpec::http(format!("https://example.com/{}", command.len())),
        };
        ServerEntry::user(name, spec)
    }

    fn id(self) -> ServerId {
        self.entry(0).id()
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Policy {
    command: u8,
    enabled: bool,
    approval: Option<bool>,
    required: bool,
    lazy: Option<u8>,
    start: Option<u8>,
}

impl Policy {
    fn of(self, server: Server) -> ServerPolicy {
        let entry = server.entry(self.command);
        let mut policy = ServerPolicy::new(&entry, &TimeoutOverrides::default());
        policy.enabled = self.enabled;
        policy.approval = self.approval.map(|_| entry.meaning());
        policy.is_approved = self.approval == Some(true);
        policy.required = self.required;
        policy.lazy = self.lazy.map(|seconds| Duration::from_secs(seconds.into()));
        policy.start_timeout =
            self.start.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into()));
        policy
    }
}

/// A driver with a record of its connections and calls.
#[derive(Debug)]
struct Driver {
    plane: ControlPlane,
    now: Instant,
    /// The connections that were asked for and have not ended.
    open: BTreeMap<ServerId, Generation>,
    /// All connections there were: reports of past ones are ignored.
    known: Vec<(ServerId, Generation)>,
    sent: Vec<(CallId, Generation)>,
    accepted: Vec<CallId>,
    ended: BTreeSet<CallId>,
    is_closed: bool,
    /// All outputs, in order.
    actions: Vec<Action>,
    events: Vec<Event>,
}

impl Driver {
    fn act(&mut self) -> bool {
        let Some(action) = self.plane.poll_action() else { return false };
        self.actions.push(action);
        match action {
            Action::Connect { server, generation } => {
                assert_eq!(self.open.insert(server, generation), None, "two connections to one server");
                self.known.push((server, generation));
            }
            Action::Disconnect { server, generation } => {
                assert_eq!(self.open.get(&server), Some(&generation), "there is no such connection");
            }
            Action::Send { call, server, generation } => {
                assert_eq!(self.open.get(&server), Some(&generation), "there is no such connection");
                assert!(!self.ended.contains(&call), "the call has ended");
                self.sent.push((call, generation));
            }
            Action::Abort { call } => assert!(self.sent.iter().any(|(sent, _)| *sent == call)),
            Action::AskApproval { .. } => {}
        }
        true
    }

    fn observe(&mut self) -> bool {
        let Some(event) = self.plane.poll_event() else { return false };
        self.events.push(event);
        assert!(!self.is_closed, "an event after the last one");
        match event {
            Event::Ended { call, .. } => {
                assert!(self.accepted.contains(&call));
                assert!(self.ended.insert(call), "a call ends once");
            }
            Event::Closed => self.is_closed = true,
            _ => {}
        }
        true
    }

    fn handle_timeout(&mut self) {
        self.plane.handle_timeout(self.now);
        assert!(self.plane.poll_timeout().is_none_or(|timeout| timeout > self.now));
    }

    fn end(&mut self, server: ServerId, generation: Generation, kind: u8) {
        if self.open.get(&server) == Some(&generation) {
            self.open.remove(&server);
        }
        let kind = match kind % 4 {
            0 => FailureKind::Permanent,
            1 => FailureKind::NeedsAuthorization,
            _ => FailureKind::Transient,
        };
        self.plane.handle_ended(self.now, server, generation, Some(Failure::new(kind, "it ended")));
    }

    fn run(&mut self, operation: &Operation) {
        let now = self.now;
        match *operation {
            Operation::Advance(milliseconds) => {
                self.now = now + Duration::from_millis(u64::from(milliseconds).saturating_mul(4));
            }
            Operation::Configure(ref servers) => {
                let servers = servers.iter().map(|&(server, policy)| (server.id(), policy.of(server)));
                self.plane.configure(now, servers);
            }
            Operation::SetEnabled(server, enabled) => {
                let _ = self.plane.set_enabled(now, server.id(), enabled);
            }
            Operation::Reconnect(server) => _ = self.plane.reconnect(now, server.id()),
            Operation::Call(server, timeout, may_repeat) => {
                let options = CallOptions {
                    timeout: timeout.map(|milliseconds| Duration::from_millis(milliseconds.into())),
                    repeat: if may_repeat { Repeat::IfLost } else { Repeat::IfNotSent },
                };
                self.accepted.extend(self.plane.call(now, server.id(), options));
            }
            Operation::Cancel(call) => {
                if let Some(call) = pick(&self.accepted, call) {
                    self.plane.cancel(now, call);
                }
            }
            Operation::PollAction => _ = self.act(),
            Operation::PollEvent => _ = self.observe(),
            Operation::Connected(which) => {
                if let Some((server, generation)) = pick(&self.known, which) {
                    // One that has ended does not come back.
                    if self.open.get(&server) == Some(&generation) {
                        self.plane.handle_connected(now, server, generation);
                    }
                }
            }
            Operation::Ended(which, kind) => {
                if let Some((server, generation)) = pick(&self.known, which) {
                    self.end(server, generation, kind);
                }
            }
            Operation::Deliver(which, delivery) => {
                if let Some((call, generation)) = pick(&self.sent, which) {
                    let delivery = match delivery % 4 {
                        0 => Delivery::NotSent,
                        1 => Delivery::Lost,
                        2 => Delivery::ExchangeLost,
                        _ => Delivery::Answered,
                    };
                    self.plane.handle_delivery(now, call, generation, delivery);
                }
            }
            Operation::Approve(server, is_approved) => {
                for command in 0..2 {
                    let content = server.entry(command).meaning();
                    self.plane.handle_approval(now, server.id(), content, is_approved);
                }
            }
            Operation::Hold(server) => _ = self.plane.hold(now, server.id()),
            Operation::Release(server) => self.plane.release(now, server.id()),
            Operation::HandleTimeout => self.handle_timeout(),
            Operation::Close => self.plane.close(now),
        }
    }

    /// Closes the host: nothing is left of anything.
    fn finish(&mut self) {
        self.plane.close(self.now);
        while self.act() {}
        for (server, generation) in core::mem::take(&mut self.open) {
            self.end(server, generation, 2);
        }
        while self.act() | self.observe() {}
        assert!(self.is_closed);
        assert_eq!(self.plane.open_calls(), 0);
        assert_eq!(self.plane.poll_timeout(), None);
        assert_eq!(self.plane.servers().count(), 0);
        assert_eq!(self.ended.len(), self.accepted.len(), "every call has ended");
    }
}

fn pick<T: Copy>(items: &[T], which: u8) -> Option<T> {
    items.get(usize::from(which).checked_rem(items.len())?).copied()
}

/// Applies operations to a control plane, in any order and at any time: each call ends once, there is one connection to
/// a server at most, closing ends everything, and the same operations give the same outputs.
pub fn host_control(data: &[u8]) {
    let Ok(operations) = Vec::<Operation>::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let [one, other] = [outputs(&operations), outputs(&operations)];
    assert_eq!(one, other, "the outputs repeat");
}

fn outputs(operations: &[Operation]) -> (Vec<Action>, Vec<Event>) {
    let config = ControlConfig { attempts_per_minute: 3, calls: 8, ..ControlConfig::default() };
    let mut driver = Driver {
        plane: ControlPlane::new(config),
        now: Instant::ORIGIN,
        open: BTreeMap::new(),
        known: Vec::new(),
        sent: Vec::new(),
        accepted: Vec::new(),
        ended: BTreeSet::new(),
        is_closed: false,
        actions: Vec::new(),
        events: Vec::new(),
    };
    for operation in operations {
        driver.run(operation);
    }
    driver.finish();
    (driver.actions, driver.events)
}
