//! A host with a clock that tests advance.

use super::*;

pub(super) struct Host {
    pub(super) plane: ControlPlane,
    pub(super) now: Instant,
}

impl Host {
    pub(super) fn new<const N: usize>(servers: [(&str, ServerPolicy); N]) -> Self {
        let mut host = Self { plane: ControlPlane::new(ControlConfig::default()), now: Instant::ORIGIN };
        host.configure(servers);
        host
    }

    pub(super) fn configure<const N: usize>(&mut self, servers: [(&str, ServerPolicy); N]) {
        self.plane.configure(self.now, servers.map(|(name, policy)| (id(name), policy)));
    }

    pub(super) fn actions(&mut self) -> Vec<Action> {
        core::iter::from_fn(|| self.plane.poll_action()).collect()
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.plane.poll_event()).collect()
    }

    pub(super) fn status(&self, name: &str) -> Status {
        self.plane.server(id(name)).expect("it is configured").status
    }

    /// Polls the only action, which asks for a connection.
    pub(super) fn connect(&mut self, name: &str) -> Generation {
        match self.actions()[..] {
            [Action::Connect { server, generation }] if server == id(name) => generation,
            ref other => panic!("no connection alone: {other:?}"),
        }
    }

    pub(super) fn connected(&mut self, name: &str) -> Generation {
        let generation = self.connect(name);
        self.plane.handle_connected(self.now, id(name), generation);
        generation
    }

    pub(super) fn ended(&mut self, name: &str, generation: Generation, failure: Option<Failure>) {
        self.plane.handle_ended(self.now, id(name), generation, failure);
    }

    pub(super) fn call(&mut self, name: &str) -> CallId {
        self.plane.call(self.now, id(name), CallOptions::default()).expect("the server accepts calls")
    }

    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(timeout) = self.plane.poll_timeout().filter(|&timeout| timeout <= end) {
            self.now = self.now.max(timeout);
            self.plane.handle_timeout(self.now);
            assert!(self.plane.poll_timeout().is_none_or(|timeout| timeout > self.now));
        }
        self.now = end;
    }

    /// Advances to the next attempt; returns the pause before it.
    pub(super) fn next_attempt(&mut self, name: &str) -> Duration {
        let state = self.plane.server(id(name)).expect("it is configured");
        let pause = state.next_attempt.expect("an attempt is due").saturating_since(self.now);
        self.advance(pause);
        pause
    }

    pub(super) fn outcome(&mut self, call: CallId) -> Option<CallOutcome> {
        self.events().into_iter().find_map(|event| match event {
            Event::Ended { call: ended, outcome } if ended == call => Some(outcome),
            _ => None,
        })
    }
}
