//! A process: one machine, driven.

use core::time::Duration;
use std::collections::VecDeque;

use mcp_proto::auth::client::{
    Action, AuthClient, AuthConfig, AuthError, Event, Redirect, RequestAuth, RetryDecision, TokenGeneration,
};
use mcp_proto::auth::{Fetch, FetchId, Now, Secret};
use mcp_proto::transport::http::Verb;
use mcp_proto::{Bytes, Instant, UnixTime};

use super::{SERVER, World};

/// The user's reaction to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserAction {
    /// The user agrees.
    Agree,
    /// The user does nothing.
    Ignore,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered after being sent this many times.
    Answered(u32),
    /// It failed.
    Failed(AuthError),
    /// It still waits.
    Waiting,
}

/// A request of the application in flight.
#[derive(Default)]
pub(crate) struct Call {
    attempt: u32,
    used: Option<TokenGeneration>,
}

pub(crate) struct Host {
    pub(crate) machine: AuthClient,
    pub(crate) now: Now,
    pub(crate) user: UserAction,
    /// The host's answer to a request for an assertion.
    pub(crate) assertion: Result<Secret, String>,
    pub(crate) events: Vec<Event>,
    pub(crate) aborted: Vec<FetchId>,
    /// Exchanges without a response, if they are held.
    pub(crate) held: VecDeque<Fetch>,
    pub(crate) holds: bool,
    /// Everything that was shown: events, errors and debug output.
    pub(crate) shown: String,
    pub(crate) asked: Vec<mcp_proto::auth::client::AssertionRequest>,
}

impl Host {
    pub(crate) fn new(config: AuthConfig, seed: u8) -> Self {
        let start = Duration::from_secs(1_785_240_000);
        Self {
            machine: AuthClient::new(config, SERVER, [seed; 32]).unwrap(),
            now: Now { instant: Instant::ORIGIN, unix: UnixTime::from_epoch(start) },
            user: UserAction::Agree,
            assertion: Err("there is none".into()),
            events: Vec::new(),
            aborted: Vec::new(),
            held: VecDeque::new(),
            holds: false,
            shown: String::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn show(&mut self, thing: &impl core::fmt::Debug) {
        self.shown.push_str(&format!("{thing:?}\n"));
    }

    /// Advances both clocks.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = Now { instant: self.now.instant + time, unix: self.now.unix + time };
    }

    /// Carries out one action or event. Returns whether there was one.
    pub(crate) fn step(&mut self, world: &mut World) -> bool {
        if let Some(action) = self.machine.poll_action() {
            self.show(&action);
            match action {
                Action::Fetch(fetch) if self.holds => self.held.push_back(fetch),
                Action::Fetch(fetch) => self.exchange(world, &fetch),
                Action::Abort(id) => {
                    self.held.retain(|fetch| fetch.id != id);
                    self.aborted.push(id);
                }
                Action::Load => self.machine.handle_loaded(self.now, world.store.load()),
                Action::Store { record, expected } => {
                    let saved = world.store.store(record, expected);
                    self.machine.handle_stored(self.now, saved);
                }
                Action::Assertion(request) => {
                    self.asked.push(request);
                    self.machine.handle_assertion(self.now, self.assertion.clone());
                }
                other => panic!("{other:?}"),
            }
            return true;
        }
        let Some(event) = self.machine.poll_event() else { return false };
        self.show(&event);
        if let (Event::NeedsAuthorization(page), UserAction::Agree) = (&event, self.user) {
            let owner = page
                .url
                .split('?')
                .next()
                .unwrap()
                .trim_end_matches("/authorize")
                .trim_end_matches("/oauth")
                .to_owned();
            let back = world.issuers.get_mut(&owner).unwrap().agree(&page.url);
            let _ = self.machine.finish(self.now, Redirect::parse(&back));
        }
        self.events.push(event);
        true
    }

    /// Answers an exchange.
    pub(crate) fn exchange(&mut self, world: &mut World, fetch: &Fetch) {
        match world.answer(fetch) {
            None => {}
            Some(Err(detail)) => self.machine.handle_failed(self.now, fetch.id, &detail),
            Some(Ok(answer)) => {
                let body = Bytes::from(answer.body);
                self.machine.handle_answer(
                    self.now,
                    fetch.id,
                    answer.status,
                    &answer.fields.as_slice(),
                    body,
                );
            }
        }
    }

    /// Continues until every action is carried out, without advancing time.
    pub(crate) fn drive(&mut self, world: &mut World) {
        for _ in 0..1000 {
            if !self.step(world) {
                let machine = format!("{:?} {:?}", self.machine, self.machine.status());
                self.shown.push_str(&machine);
                return;
            }
        }
        panic!("it never comes to rest: {:?}", world.log);
    }

    /// Continues until nothing happens any more, advancing time if needed.
    pub(crate) fn settle(&mut self, world: &mut World) {
        for _ in 0..1000 {
            self.drive(world);
            let Some(due) = self.machine.poll_timeout() else { return };
            let late = due.saturating_since(self.now.instant);
            self.pass(late);
            self.machine.handle_timeout(self.now);
            assert!(self.machine.poll_timeout().is_none_or(|next| next > due), "it is still due at {due:?}");
        }
        panic!("it never comes to rest: {:?}", world.log);
    }

    /// A request that is repeated until it has an outcome.
    pub(crate) fn call(&mut self, world: &mut World) -> Outcome {
        let mut call = Call::default();
        for _ in 0..50 {
            match self.advance(world, &mut call) {
                Some(Outcome::Waiting) => {
                    let before = self.verdicts();
                    self.settle(world);
                    match self.events.iter().filter(|event| is_verdict(event)).nth(before) {
                        Some(Event::Failed(error)) => return Outcome::Failed(error.clone()),
                        Some(_) => {}
                        None => return Outcome::Waiting,
                    }
                }
                Some(outcome) => return outcome,
                None => {}
            }
        }
        panic!("it never ends: {:?}", world.log);
    }

    /// Sends a request once, if it may be sent. `None` if it must be sent again at once.
    pub(crate) fn advance(&mut self, world: &mut World, call: &mut Call) -> Option<Outcome> {
        let (headers, stamp) = match self.machine.credentials(self.now, Verb::Post, SERVER) {
            RequestAuth::Wait => return Some(Outcome::Waiting),
            RequestAuth::Ready { headers, generation: stamp } => (headers, stamp),
        };
        self.show(&headers);
        call.used = stamp;
        let refusal = match world.request(&headers) {
            Ok(()) => return Some(Outcome::Answered(call.attempt + 1)),
            Err(refusal) => refusal,
        };
        let standing = self.machine.handle_challenge(self.now, &refusal.at(call.used, call.attempt));
        self.show(&standing);
        call.attempt += 1;
        match standing {
            RetryDecision::Retry => None,
            RetryDecision::Wait => Some(Outcome::Waiting),
            RetryDecision::Fail(error) => Some(Outcome::Failed(error)),
        }
    }

    pub(crate) fn verdicts(&self) -> usize {
        self.events.iter().filter(|event| is_verdict(event)).count()
    }

    pub(crate) fn pages(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::NeedsAuthorization(_))).count()
    }

    /// The URL of the last page that the user was sent to.
    pub(crate) fn shown_page(&self) -> String {
        let url = |event: &'_ Event| match event {
            Event::NeedsAuthorization(page) => Some(page.url.clone()),
            _ => None,
        };
        self.events.iter().rev().find_map(url).expect("no page was shown")
    }

    /// Checks that no secret was shown.
    pub(crate) fn keeps_secrets(&self, world: &World) {
        for secret in world.secrets() {
            assert!(!self.shown.contains(&secret), "{secret} was shown: {}", self.shown);
        }
    }
}

pub(crate) fn is_verdict(event: &Event) -> bool {
    matches!(event, Event::Ready(_) | Event::Failed(_))
}
