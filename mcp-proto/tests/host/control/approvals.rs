//! The approval of a server against its start, in every order: it changes, is approved, refused and taken back while it
//! connects, ends and is called.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::*;
use crate::exhaustive::{Drive, Model, Search, exhaust, explore};

/// The server, and the policies with the contents that it has in turn. They are digests, which take long.
static SERVER: LazyLock<(ServerId, [ServerPolicy; 2])> = LazyLock::new(|| {
    let policy_of = |command: &str| {
        let mut policy = local(command);
        policy.approval = Some(policy.connection);
        policy.call_timeout = 60 * SECOND;
        policy
    };
    (id("project"), ["a", "b"].map(policy_of))
});

fn server() -> ServerId {
    SERVER.0
}

fn content_at(at: usize) -> Fingerprint {
    SERVER.1[at].connection
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    /// The server is configured with one of the contents.
    Configure(usize),
    Remove,
    /// The user approves one of the contents.
    Approve(usize),
    Refuse(usize),
    Revoke,
    Call,
    Reconnect,
    /// The driver polls an action.
    Act,
    Connected,
    /// The connection ends, as was asked for or by itself.
    Ended,
    Answer,
    Timeout,
    Close,
}

struct Approvals {
    drive: Drive,
    plane: ControlPlane,
    now: Instant,
    /// The content that is configured.
    content: Option<usize>,
    /// Whether the user approves each content.
    approved: [bool; 2],
    /// Whether the user was asked for each content, and has not answered.
    asked: [bool; 2],
    /// The connection of the driver, and the content with which it was started.
    open: Option<(Generation, usize)>,
    is_connected: bool,
    /// Whether the end of the connection was asked for.
    is_ending: bool,
    calls: BTreeMap<CallId, Option<CallOutcome>>,
    sent: Vec<(CallId, Generation)>,
    has_ended: bool,
    is_closing: bool,
    is_closed: bool,
    timeouts: usize,
    observed: [String; 2],
}

impl Approvals {
    fn configure(&mut self, content_of: Option<usize>) {
        // A host that closes ignores it.
        if !self.is_closing {
            self.content = content_of;
        }
        let policy = content_of.map(|at| {
            let mut policy = SERVER.1[at];
            policy.is_approved = self.approved[at];
            (server(), policy)
        });
        self.plane.configure(self.now, policy);
    }

    fn is_approved(&self) -> bool {
        self.content.is_some_and(|content| self.approved[content])
    }

    fn act(&mut self) -> bool {
        let Some(action) = self.plane.poll_action() else { return false };
        let _ = writeln!(self.observed[0], "{action:?}");
        match action {
            Action::Connect { generation, .. } => {
                assert!(self.is_approved(), "a server starts that is not approved");
                assert_eq!(self.open, None, "there are two connections");
                self.open = Some((generation, self.content.expect("it is configured")));
                (self.is_connected, self.is_ending) = (false, false);
            }
            Action::Disconnect { generation, .. } => {
                assert_eq!(self.open.map(|(open, _)| open), Some(generation));
                self.is_ending = true;
            }
            Action::Send { call, generation, .. } => {
                assert!(self.is_connected && !self.is_ending, "there is no connection");
                let (open, started_with) = self.open.expect("there is a connection");
                assert_eq!((open, Some(started_with)), (generation, self.content), "it is another server");
                assert!(self.is_approved(), "a call goes to a server that is not approved");
                assert_eq!(self.calls[&call], None, "the call has ended");
                self.sent.push((call, generation));
            }
            Action::Abort { call } => self.sent.retain(|(sent, _)| *sent != call),
            Action::AskApproval { content: asked, .. } => {
                let at = self.content.expect("it is configured");
                assert_eq!(asked, content_at(at), "the user is asked for another content");
                assert!(!self.approved[at], "the user has approved it");
                self.asked[at] = true;
            }
            Action::CheckLogin { .. } => panic!("a local server has no login"),
        }
        true
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.plane.poll_event() {
            assert!(!self.is_closed, "{event:?} follows the end");
            match event {
                Event::Ended { call, outcome } => {
                    let _ = writeln!(self.observed[1], "{event:?}");
                    let before = self.calls.insert(call, Some(outcome));
                    assert_eq!(before, Some(None), "a call is unknown or ends twice");
                }
                Event::Closed => self.is_closed = true,
                // Changes between two polls are one event.
                _ => {}
            }
        }
    }

    fn tick(&mut self) {
        self.plane.handle_timeout(self.now);
        let next = self.plane.poll_timeout();
        assert!(next.is_none_or(|next| next > self.now), "contract 5: {next:?} at {:?}", self.now);
    }

    fn end(&mut self) {
        let (generation, _) = self.open.take().expect("there is a connection");
        self.sent.clear();
        let failure = if self.is_ending { None } else { transient() };
        self.plane.handle_ended(self.now, server(), generation, failure);
    }

    fn answer_call(&mut self) {
        let (call, generation) = self.sent.remove(0);
        self.plane.handle_delivery(self.now, call, generation, Delivery::Answered);
    }

    fn check(&mut self) {
        if self.drive != Drive::Chunked {
            self.poll_events();
        }
        if let Some(state) = self.plane.server(server()) {
            let runs = matches!(state.status, Status::Starting | Status::Connected | Status::Reconnecting);
            assert!(!runs || self.content.is_none() || self.is_approved(), "{state:?} without an approval");
        }
    }

    /// The next action of a driver without faults, and of a user who approves everything.
    fn serve(&mut self) -> bool {
        if self.act() {
            return true;
        }
        if let Some(at) = self.asked.iter().position(|asked| *asked) {
            self.apply(Choice::Approve(at));
        } else if self.open.is_some() && self.is_ending {
            self.end();
        } else if self.open.is_some() && !self.is_connected {
            self.apply(Choice::Connected);
        } else if !self.sent.is_empty() {
            self.answer_call();
        } else {
            return false;
        }
        true
    }

    /// Lets time pass until nothing is left to do, or the driver and the user do nothing.
    fn settle(&mut self, serves: bool, until: impl Fn(&Self) -> bool) {
        for _ in 0..500 {
            exhaust(|| {
                let any = serves && self.serve();
                self.poll_events();
                any
            });
            self.poll_events();
            if until(self) {
                return;
            }
            let due = self.plane.poll_timeout().expect("something ends everything");
            self.now = self.now.max(due);
            self.tick();
        }
        panic!("it never comes to rest");
    }
}

impl Model for Approvals {
    type Choice = Choice;
    const IS_OBSERVED_WHOLE: bool = false;

    /// The case says which contents the user has approved before.
    fn start(case: usize, drive: Drive) -> Self {
        let mut model = Self {
            drive,
            plane: ControlPlane::new(ControlConfig::default()),
            now: Instant::ORIGIN,
            content: None,
            approved: [case & 1 == 1, case & 2 == 2],
            asked: [false; 2],
            open: None,
            is_connected: false,
            is_ending: false,
            calls: BTreeMap::new(),
            sent: Vec::new(),
            has_ended: false,
            is_closing: false,
            is_closed: false,
            timeouts: 0,
            observed: Default::default(),
        };
        model.configure(Some(0));
        model.check();
        model
    }

    fn choices(&self) -> Vec<Choice> {
        if self.is_closed {
            return Vec::new();
        }
        let mut choices = vec![Choice::Act, Choice::Revoke, Choice::Reconnect];
        choices.extend((0..2).filter(|&at| self.content != Some(at)).map(Choice::Configure));
        if self.content.is_some() {
            choices.push(Choice::Remove);
        }
        for at in (0..2).filter(|&at| self.asked[at]) {
            choices.extend([Choice::Approve(at), Choice::Refuse(at)]);
        }
        if self.calls.is_empty() {
            choices.push(Choice::Call);
        }
        if self.open.is_some() {
            if !self.is_connected {
                choices.push(Choice::Connected);
            }
            if self.is_ending || !self.has_ended {
                choices.push(Choice::Ended);
            }
        }
        if !self.sent.is_empty() {
            choices.push(Choice::Answer);
        }
        if self.timeouts < 2 && self.plane.poll_timeout().is_some() {
            choices.push(Choice::Timeout);
        }
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Configure(at) => self.configure(Some(at)),
            Choice::Remove => self.configure(None),
            Choice::Approve(at) | Choice::Refuse(at) => {
                let is_approved = matches!(choice, Choice::Approve(_));
                self.asked[at] = false;
                self.approved[at] |= is_approved;
                self.plane.handle_approval(self.now, server(), content_at(at), is_approved);
            }
            Choice::Revoke => {
                if let Some(at) = self.content {
                    self.approved[at] = false;
                }
                let _ = self.plane.revoke_approval(self.now, server());
            }
            Choice::Call => {
                if let Ok(call) = self.plane.call(self.now, server(), CallOptions::default()) {
                    self.calls.insert(call, None);
                }
            }
            Choice::Reconnect => _ = self.plane.reconnect(self.now, server()),
            Choice::Act => _ = self.act(),
            Choice::Connected => {
                self.is_connected = true;
                let (generation, _) = self.open.expect("there is a connection");
                self.plane.handle_connected(self.now, server(), generation);
            }
            Choice::Ended => {
                self.has_ended |= !self.is_ending;
                self.end();
            }
            Choice::Answer => self.answer_call(),
            Choice::Timeout => {
                self.timeouts += 1;
                let due = self.plane.poll_timeout().expect("there is a deadline");
                self.now = self.now.max(due);
                self.tick();
            }
            Choice::Close => {
                self.is_closing = true;
                self.plane.close(self.now);
            }
        }
        self.check();
    }

    fn observations(&self) -> String {
        self.observed[0].clone()
    }

    fn finish(mut self, recovers: bool) {
        self.poll_events();
        self.settle(recovers, |model| model.calls.values().all(Option::is_some));
        if recovers && !self.is_closing && self.content.is_some() {
            // The user is asked again for what was refused.
            let _ = self.plane.reconnect(self.now, server());
            let is_connected = |model: &Self| {
                let state = model.plane.server(server());
                state.is_some_and(|state| state.status == Status::Connected)
            };
            self.settle(true, is_connected);
        }
        self.plane.close(self.now);
        self.settle(recovers, |model| model.is_closed);
        assert_eq!((self.plane.open_calls(), self.plane.servers().count()), (0, 0));
        assert_eq!(self.plane.poll_timeout(), None, "a timeout remains after the end");
    }
}

#[test]
fn server_starts_only_with_its_approval_in_every_order() {
    explore::<Approvals>(Search {
        name: "approvals",
        cases: 4,
        depth: 4,
        least_paths: 10_000,
        least_states: 10_000,
    });
}
