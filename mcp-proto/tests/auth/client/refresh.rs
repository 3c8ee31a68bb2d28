//! The renewal of a token by two processes that share a store, in every order of their steps.

use core::time::Duration;

use mcp_proto::auth::client::{Event, RequestAuth};
use mcp_proto::transport::http::Verb;

use super::config;
use super::sim::{Fault, Host, Outcome, SERVER, World};
use crate::common::exhaustive::{Drive, Model, Search, exhaust, explore};

/// Later than the end of the token.
const LATE: Duration = Duration::from_secs(4000);

#[derive(Clone, Copy, Debug)]
enum Choice {
    /// A process needs the token for a request.
    Request(usize),
    /// A process carries out an action.
    Step(usize),
    /// An exchange of a process is answered.
    Answer(usize),
    /// An exchange of a process fails.
    Fail(usize, Failure),
    Timeout,
    /// A process logs out.
    Logout(usize),
    /// A process ends.
    Die(usize),
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    Network,
    Unavailable,
}

struct Process {
    host: Host,
    is_alive: bool,
    /// Whether it has nothing to do until an input.
    is_idle: bool,
    /// The number of outcomes before it began to wait, if a request waits.
    waits: Option<usize>,
}

impl Process {
    fn has_outcome(&self) -> bool {
        self.waits.is_none_or(|before| self.host.verdicts() > before)
    }
}

struct Refresh {
    world: World,
    processes: [Process; 2],
    requests: [usize; 2],
    has_failed: bool,
    has_logged_out: bool,
    /// Whether a process has died between a renewal and its storage: then the others have a token that is used up.
    has_lost_token: bool,
    timeouts: usize,
}

impl Refresh {
    fn live(&self) -> impl Iterator<Item = usize> {
        (0..2).filter(|&at| self.processes[at].is_alive)
    }

    fn request(&mut self, at: usize) {
        self.requests[at] += 1;
        let process = &mut self.processes[at];
        process.is_idle = false;
        let before = process.host.verdicts();
        let auth = process.host.machine.credentials(process.host.now, Verb::Post, SERVER);
        if matches!(auth, RequestAuth::Wait) {
            process.waits = process.waits.or(Some(before));
        }
    }

    fn step(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.is_idle = !process.host.step(&mut self.world);
        let due = process.host.machine.poll_timeout();
        assert!(
            !process.is_idle || due.is_none_or(|due| due > process.host.now.instant),
            "contract 5: {due:?}"
        );
    }

    fn answer(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.is_idle = false;
        let fetch = process.host.held.pop_front().expect("there is an exchange");
        process.host.exchange(&mut self.world, &fetch);
    }

    /// The next deadline of the processes that have nothing to do.
    fn due(&self) -> Option<Duration> {
        let now = self.processes[0].host.now.instant;
        let due = self.live().filter_map(|at| self.processes[at].host.machine.poll_timeout()).min()?;
        Some(due.saturating_since(now))
    }

    fn pass(&mut self, time: Duration) {
        for process in &mut self.processes {
            process.host.pass(time);
            if process.is_alive {
                process.is_idle = false;
                let now = process.host.now;
                process.host.machine.handle_timeout(now);
                let due = process.host.machine.poll_timeout();
                assert!(due.is_none_or(|due| due > now.instant), "contract 5: {due:?}");
            }
        }
    }

    fn check(&self) {
        let issuer = &self.world.issuers[super::sim::ISSUER];
        assert!(issuer.reused == 0 || self.has_lost_token, "a refresh token is used twice");
    }
}

impl Model for Refresh {
    type Choice = Choice;
    const IS_OBSERVED_WHOLE: bool = false;

    /// The token has ended, or ends soon and is renewed early.
    fn start(case: usize, _: Drive) -> Self {
        let mut world = World::new();
        let mut hosts = [1, 2].map(|seed| Host::new(config(), seed));
        for host in &mut hosts {
            host.call(&mut world);
            host.drive(&mut world);
            host.pass(if case == 0 { LATE } else { Duration::from_secs(3590) });
            host.holds = true;
        }
        let alive = |host| Process { host, is_alive: true, is_idle: true, waits: None };
        Self {
            world,
            processes: hosts.map(alive),
            requests: [0; 2],
            has_failed: false,
            has_logged_out: false,
            has_lost_token: false,
            timeouts: 0,
        }
    }

    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for at in self.live() {
            let process = &self.processes[at];
            if self.requests[at] < 1 {
                choices.push(Choice::Request(at));
            }
            if !process.is_idle {
                choices.push(Choice::Step(at));
            }
            if !process.host.held.is_empty() {
                choices.push(Choice::Answer(at));
                if !self.has_failed {
                    choices.extend([Failure::Network, Failure::Unavailable].map(|one| Choice::Fail(at, one)));
                }
            }
            if !self.has_failed && self.requests[at] > 0 {
                choices.extend([Choice::Logout(at), Choice::Die(at)]);
            }
        }
        if self.timeouts < 2 && self.due().is_some() {
            choices.push(Choice::Timeout);
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Request(at) => self.request(at),
            Choice::Step(at) => self.step(at),
            Choice::Answer(at) => self.answer(at),
            Choice::Fail(at, failure) => {
                self.has_failed = true;
                let fault = match failure {
                    Failure::Network => Fault::Network,
                    Failure::Unavailable => Fault::Status(503),
                };
                self.world.faults.insert(self.world.log.len(), fault);
                self.answer(at);
            }
            Choice::Timeout => {
                self.timeouts += 1;
                self.pass(self.due().expect("there is a deadline"));
                // What is answered after its timeout is lost to the process.
                for at in self.live().collect::<Vec<_>>() {
                    exhaust(|| {
                        self.step(at);
                        !self.processes[at].is_idle
                    });
                }
            }
            Choice::Logout(at) => {
                (self.has_failed, self.has_logged_out) = (true, true);
                let process = &mut self.processes[at];
                process.is_idle = false;
                process.host.machine.logout(process.host.now);
            }
            Choice::Die(at) => {
                self.has_failed = true;
                let process = &mut self.processes[at];
                process.is_alive = false;
                self.has_lost_token = !process.is_idle && self.world.issuer().renewals > 0;
            }
        }
        self.check();
    }

    fn observations(&self) -> String {
        self.processes.iter().map(|process| &*process.host.shown).collect()
    }

    /// The processes take their steps in turn, and the authorization server answers if it `recovers`.
    fn finish(mut self, recovers: bool) {
        self.processes.iter_mut().for_each(|process| process.is_idle = false);
        for rounds in 0.. {
            assert!(rounds < 2000, "they never come to rest: {:?}", self.world.log);
            let busy: Vec<_> = self.live().filter(|&at| !self.processes[at].is_idle).collect();
            busy.iter().for_each(|&at| self.step(at));
            self.check();
            if !busy.is_empty() {
                continue;
            }
            let waiting: Vec<_> =
                self.live().filter(|&at| !self.processes[at].host.held.is_empty()).collect();
            if recovers && !waiting.is_empty() {
                waiting.iter().for_each(|&at| self.answer(at));
                continue;
            }
            let Some(due) = self.due() else { break };
            self.pass(due);
        }
        let live: Vec<_> = self.live().collect();
        for &at in &live {
            assert!(self.processes[at].has_outcome(), "a request waits for ever");
        }
        let failed = |event: &Event| matches!(event, Event::Failed(_));
        let any_failed = live.iter().any(|&at| self.processes[at].host.events.iter().any(failed));
        let may_fail = !recovers || self.has_failed || self.timeouts > 0;
        assert!(may_fail || !any_failed, "a renewal fails");
        if !recovers {
            return;
        }
        let asked = self.requests != [0; 2];
        let renewals = self.world.issuer().renewals;
        assert!(may_fail || renewals == u32::from(asked), "{renewals} renewals");
        for at in live {
            let host = &mut self.processes[at].host;
            host.holds = false;
            assert!(matches!(host.call(&mut self.world), Outcome::Answered(_)), "a request fails");
            let may_ask = self.has_logged_out || self.has_lost_token;
            assert!(may_ask || host.pages() <= 1, "the user logs in again");
            host.keeps_secrets(&self.world);
        }
        self.check();
    }
}

#[test]
fn two_processes_renew_a_token_once_in_every_order() {
    explore::<Refresh>(Search {
        name: "token refresh",
        cases: 2,
        depth: 5,
        least_paths: 800,
        least_states: 800,
    });
}
