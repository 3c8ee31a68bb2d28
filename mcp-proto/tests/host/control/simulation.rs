//! A hundred servers that crash, hang, flap, lie and change their tools over simulated hours.

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::host::tools::{Catalogue, NameScheme, ServerSettings};
use mcp_proto::schema::Tool;
use serde_json::json;

use super::*;

const SERVERS: u64 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Names of tools that are alike once they are cut to the characters of a model's names.
const TOOLS: [&str; 8] = [
    "read_file",
    "read.file",
    "read file",
    "_read_file",
    "read__file",
    "réad_file",
    "read_file_0hzouwaqoaltw",
    "READ_FILE",
];

/// A later report of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Connected(ServerId, Generation),
    Ended(ServerId, Generation),
    Delivered(CallId, Generation, u8),
}

/// Numbers that repeat with their seed.
struct Random(u64);

impl Random {
    fn up_to(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % (limit + 1)
    }
}

struct World {
    plane: ControlPlane,
    now: Instant,
    rng: Random,
    faulty: bool,
    agenda: BTreeSet<(Instant, u64, Happening)>,
    next: u64,
    /// The connections that the driver has open, with those that connect.
    open: BTreeMap<ServerId, Generation>,
    attempts: Vec<Instant>,
    calls: BTreeMap<CallId, Option<CallOutcome>>,
    names: BTreeMap<ServerId, String>,
    catalogue: Catalogue,
    /// The server and the tool that each name has meant.
    meanings: BTreeMap<String, (String, String)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut config = ControlConfig::default();
        config.seed = seed;
        Self {
            plane: ControlPlane::new(config),
            now: Instant::ORIGIN,
            rng: Random(seed),
            faulty: true,
            agenda: BTreeSet::new(),
            next: 0,
            open: BTreeMap::new(),
            attempts: Vec::new(),
            calls: BTreeMap::new(),
            names: (0..SERVERS).map(|n| (id(&n.to_string()), n.to_string())).collect(),
            catalogue: Catalogue::default(),
            meanings: BTreeMap::new(),
        }
    }

    /// The server lists some tools, in any order, some of them twice or with another description than before.
    fn list(&mut self, server: ServerId) {
        let count = self.rng.up_to(10);
        let tools: Vec<Tool> = (0..count)
            .map(|_| {
                let name = TOOLS[self.rng.up_to(TOOLS.len() as u64 - 1) as usize];
                Tool::new(name, format!("Version {}", self.rng.up_to(3)), json!({ "type": "object" }))
            })
            .collect();
        let distinct: BTreeSet<_> = tools.iter().map(|tool| tool.name.clone()).collect();
        let name = &self.names[&server];
        self.catalogue.update(name, tools).expect("the server was added");
        let listed = self.catalogue.snapshot(name).and_then(|snapshot| snapshot.tools).expect("its tools");
        assert_eq!(listed.len(), distinct.len(), "every tool is there once");
    }

    /// Restarts the host: what it knows of tools is lost, but no name may mean another tool than before.
    fn forget_tools(&mut self) {
        self.catalogue = Catalogue::default();
        for name in self.names.values() {
            self.catalogue.add_server(name, ServerSettings::default());
        }
    }

    fn check_names(&mut self) {
        for tool in self.catalogue.tools() {
            assert!(tool.name.len() <= NameScheme::MAX_BYTES);
            let meaning = (tool.server.to_owned(), tool.item.name.clone());
            let first = self.meanings.entry(tool.name.to_owned()).or_insert_with(|| meaning.clone());
            assert_eq!(*first, meaning, "{} has another meaning", tool.name);
        }
    }

    fn later(&mut self, most: Duration, happening: Happening) {
        let pause = Duration::from_millis(self.rng.up_to(most.as_millis() as u64));
        self.next += 1;
        self.agenda.insert((self.now + pause, self.next, happening));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { server, generation } => {
                self.attempts.push(self.now);
                assert_eq!(self.open.insert(server, generation), None, "one connection at a time");
                let fault = if self.faulty { self.rng.up_to(3) } else { 3 };
                match fault {
                    // It crashes at once, or hangs, or lives shortly, or works.
                    0 => self.later(SECOND, Happening::Ended(server, generation)),
                    1 => {}
                    2 => {
                        self.later(SECOND, Happening::Connected(server, generation));
                        self.later(20 * SECOND, Happening::Ended(server, generation));
                    }
                    _ => {
                        self.later(SECOND, Happening::Connected(server, generation));
                        if self.faulty {
                            self.later(1000 * SECOND, Happening::Ended(server, generation));
                        }
                    }
                }
            }
            Action::Disconnect { server, generation } => {
                assert_eq!(self.open.get(&server), Some(&generation));
                self.later(SECOND, Happening::Ended(server, generation));
            }
            Action::Send { call, server, generation } => {
                assert_eq!(self.open.get(&server), Some(&generation));
                assert_eq!(self.calls.get(&call), Some(&None), "an ended call is not sent");
                let fate = if self.faulty { self.rng.up_to(9) as u8 } else { 9 };
                self.later(5 * SECOND, Happening::Delivered(call, generation, fate));
            }
            Action::Abort { call } => assert!(self.calls.contains_key(&call)),
            Action::AskApproval { .. } => panic!("nothing needs approval here"),
            Action::CheckLogin { server, generation } => {
                let is_new = self.rng.up_to(3) == 0;
                self.plane.handle_login(self.now, server, generation, is_new);
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Connected(server, generation) => {
                if self.open.get(&server) == Some(&generation) {
                    self.list(server);
                    self.plane.handle_connected(self.now, server, generation);
                }
            }
            Happening::Ended(server, generation) => {
                if self.open.get(&server) == Some(&generation) {
                    self.open.remove(&server);
                    self.catalogue.mark_stale(&self.names[&server]);
                    let kind = match self.rng.up_to(100) {
                        0 if self.faulty => FailureKind::Permanent,
                        1 if self.faulty => FailureKind::NeedsAuthorization,
                        _ => FailureKind::Transient,
                    };
                    self.plane.handle_ended(
                        self.now,
                        server,
                        generation,
                        Some(Failure::new(kind, "a fault")),
                    );
                }
            }
            Happening::Delivered(call, generation, fate) => {
                let delivery = match fate {
                    0 => Delivery::NotSent,
                    1 => Delivery::Lost,
                    2 => return,
                    3 => Delivery::ExchangeLost,
                    _ => Delivery::Answered,
                };
                self.plane.handle_delivery(self.now, call, generation, delivery);
            }
        }
    }

    fn settle(&mut self) {
        while let Some(action) = self.plane.poll_action() {
            self.act(action);
        }
        while let Some(event) = self.plane.poll_event() {
            if let Event::Ended { call, outcome } = event {
                let end = self.calls.get_mut(&call).expect("the call was made");
                assert_eq!(end.replace(outcome), None, "a call ends once");
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let happening = self.agenda.first().map(|&(at, ..)| at);
            let next = [happening, self.plane.poll_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(&(at, ..)) = self.agenda.first().filter(|(at, ..)| *at <= self.now) {
                let (_, _, happening) = self.agenda.pop_first().expect("there is one");
                assert!(at <= self.now);
                self.happen(happening);
            }
            self.plane.handle_timeout(self.now);
            let next = self.plane.poll_timeout();
            assert!(next.is_none_or(|next| next > self.now), "a deadline that is due was left: {next:?}");
        }
        self.now = end;
    }

    fn statuses(&self) -> BTreeMap<Status, usize> {
        let mut counts = BTreeMap::new();
        for (_, state) in self.plane.servers() {
            *counts.entry(state.status).or_default() += 1;
        }
        counts
    }
}

/// C3.6
#[test]
fn hundred_faulty_servers_are_all_connected_once_their_faults_stop() {
    for seed in 1..=8 {
        let mut world = World::new(seed);
        world.forget_tools();
        let names: Vec<ServerId> = (0..SERVERS).map(|n| id(&n.to_string())).collect();
        let policy = |n: usize| {
            let mut policy = if n.is_multiple_of(2) { local("a") } else { remote("a") };
            policy.lazy = n.is_multiple_of(5).then_some(60 * SECOND);
            policy.starts_to_list = n.is_multiple_of(10);
            policy.shares_logins = n.is_multiple_of(3);
            policy
        };
        let policies: Vec<_> = names.iter().enumerate().map(|(n, &name)| (name, policy(n))).collect();
        world.plane.configure(world.now, policies);

        let mut reconnections = 0;
        for minute in 0..240 {
            let before = world.attempts.len();
            let mut commanded = if minute == 0 { SERVERS as usize } else { 0 };
            for _ in 0..20 {
                let server = names[world.rng.up_to(SERVERS - 1) as usize];
                let repeat = if world.rng.up_to(1) == 0 { Repeat::IfLost } else { Repeat::IfNotSent };
                let options = CallOptions { repeat, timeout: None };
                if let Ok(call) = world.plane.call(world.now, server, options) {
                    world.calls.insert(call, None);
                    commanded += 1;
                }
                if world.rng.up_to(20) == 0 {
                    let _ = world.plane.reconnect(world.now, server);
                    commanded += 1;
                }
                world.run(MINUTE / 20);
            }
            if world.rng.up_to(59) == 0 {
                world.forget_tools();
            }
            let server = names[world.rng.up_to(SERVERS - 1) as usize];
            if world.open.contains_key(&server) {
                world.list(server);
            }
            world.check_names();
            let made = world.attempts.len() - before;
            // A call or a command may start a server; all other attempts are bounded.
            assert!(made <= 2 * 60 + commanded, "{made} attempts in minute {minute}");
            reconnections += made;
        }
        assert!(reconnections > 300, "the servers did fail");

        // The faults stop, once those under way have happened. What waits for a person is reconnected by hand.
        world.faulty = false;
        world.run(1040 * SECOND);
        let stopped: Vec<ServerId> = world.plane.servers().map(|(name, _)| name).collect();
        for name in stopped {
            let status = world.plane.server(name).unwrap().status;
            if matches!(status, Status::Suspended | Status::Failed | Status::NeedsAuthorization) {
                world.plane.reconnect(world.now, name).unwrap();
            }
        }
        // The longest pause, and one start.
        world.run(300 * SECOND + 30 * SECOND);
        let statuses = world.statuses();
        let running = statuses.get(&Status::Connected).copied().unwrap_or_default();
        let idle = statuses.get(&Status::Idle).copied().unwrap_or_default();
        assert_eq!(running + idle, SERVERS as usize, "seed {seed}: {statuses:?}");
        assert!(idle <= SERVERS as usize / 5);

        // Every call has ended, and nothing is left of any.
        assert_eq!(world.plane.open_calls(), 0);
        assert!(world.calls.values().all(Option::is_some));
        let answered =
            world.calls.values().filter(|outcome| **outcome == Some(CallOutcome::Answered)).count();
        assert!(answered > 0);
        assert!(world.meanings.len() > 500, "{} names", world.meanings.len());

        world.plane.close(world.now);
        world.run(10 * SECOND);
        assert_eq!(world.plane.poll_timeout(), None);
        assert_eq!(world.plane.servers().count(), 0);
        assert!(world.open.is_empty(), "every connection was ended");
    }
}
