//! Properties of the authorization client in any sequence of inputs.

use core::time::Duration;

use mcp_proto::auth::client::{
    Action, AuthConfig, Event, PendingLogin, Record, RecordError, RecordVersion, Redirect, RefusedRequest,
    RequestAuth, RetryDecision, SaveOutcome, StoredRecord,
};
use mcp_proto::auth::{Fetch, FetchId, Now, Secret};
use mcp_proto::transport::http::Verb;
use mcp_proto::{Bytes, Instant, UnixTime};
use proptest::prelude::*;

use super::sim::{Host, SERVER, World};

#[derive(Clone, Debug)]
enum Input {
    Credentials,
    Challenged { status: u16, header: usize, current: bool, attempt: u32 },
    Login,
    Logout,
    GiveUp,
    Finish { good: bool },
    BeginLogin,
    FinishLogin { good: bool },
    Carry,
    Answer { at: usize, kind: usize },
    Stray { id: u64 },
    Store { kind: usize },
    Event,
    Pass { instant: i64, unix: i64 },
    Timeout,
    EndTokens,
}

const HEADERS: [&str; 6] = [
    "Bearer",
    "Bearer scope=\"a\"",
    "Bearer error=\"insufficient_scope\", scope=\"b\"",
    "DPoP error=\"use_dpop_nonce\"",
    "Bearer resource_metadata=\"https://mcp.example.com/about\"",
    "garbage \"",
];

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let challenged =
        (prop_oneof![Just(401_u16), Just(403), any::<u16>()], 0..HEADERS.len(), any::<bool>(), 0..8_u32);
    let challenged = challenged.prop_map(|(status, header, current, attempt)| Input::Challenged {
        status,
        header,
        current,
        attempt,
    });
    let time = prop_oneof![Just(0_i64), 0..20_i64, 3000..5000_i64, -100_000..100_000_i64];
    let input = prop_oneof![
        4 => Just(Input::Credentials),
        4 => challenged,
        1 => Just(Input::Login),
        1 => Just(Input::Logout),
        1 => Just(Input::GiveUp),
        2 => any::<bool>().prop_map(|good| Input::Finish { good }),
        1 => Just(Input::BeginLogin),
        2 => any::<bool>().prop_map(|good| Input::FinishLogin { good }),
        8 => Just(Input::Carry),
        8 => (0..4_usize, 0..8_usize).prop_map(|(at, kind)| Input::Answer { at, kind }),
        1 => (0..40_u64).prop_map(|id| Input::Stray { id }),
        2 => (0..6_usize).prop_map(|kind| Input::Store { kind }),
        3 => Just(Input::Event),
        2 => (time.clone(), time).prop_map(|(instant, unix)| Input::Pass { instant, unix }),
        3 => Just(Input::Timeout),
        1 => Just(Input::EndTokens),
    ];
    prop::collection::vec(input, 1..120)
}

/// A host whose every step the test decides.
struct Driver {
    host: Host,
    world: World,
    /// Exchanges without a response.
    open: Vec<Fetch>,
    /// The pending request to the store.
    store: Option<Action>,
    page: Option<String>,
    /// The login that the client has begun for any process, and its page.
    begun: Option<(String, Box<PendingLogin>)>,
    /// Whether the client has announced a wait, and not yet its end.
    waits: bool,
    /// Whether a logout is pending.
    leaves: bool,
}

impl Driver {
    fn new(config: AuthConfig) -> Self {
        let mut world = World::new();
        world.nonce = None;
        let mut host = Host::new(config, 7);
        host.holds = true;
        Self {
            host,
            world,
            open: Vec::new(),
            store: None,
            page: None,
            begun: None,
            waits: false,
            leaves: false,
        }
    }

    fn take(&mut self, input: &Input) {
        let now = self.host.now;
        match input {
            Input::Credentials => {
                let admission = self.host.machine.credentials(now, Verb::Post, SERVER);
                self.host.show(&admission);
                self.waits |= matches!(admission, RequestAuth::Wait);
            }
            Input::Challenged { status, header, current, attempt } => {
                let used = match self.host.machine.credentials(now, Verb::Post, SERVER) {
                    RequestAuth::Ready { generation: stamp, .. } => stamp.filter(|_| *current),
                    RequestAuth::Wait => {
                        self.waits = true;
                        None
                    }
                };
                let refused = RefusedRequest {
                    status: *status,
                    www_authenticate: Some(HEADERS[*header]),
                    generation: used,
                    attempt: *attempt,
                    nonce: Some("nonce"),
                };
                let standing = self.host.machine.handle_challenge(now, &refused);
                self.host.show(&standing);
                self.waits |= standing == RetryDecision::Wait;
            }
            Input::Login => {
                self.host.machine.login(now);
                self.waits = true;
            }
            Input::Logout => {
                self.host.machine.logout(now);
                self.leaves = true;
            }
            Input::GiveUp => self.host.machine.cancel_page(now),
            Input::Finish { good } => self.finish(*good),
            Input::BeginLogin => {
                self.host.machine.begin_login(now, None);
                self.waits = true;
            }
            Input::FinishLogin { good } => self.finish_login(*good),
            Input::Carry => {
                if let Some(action) = self.host.machine.poll_action() {
                    self.carry(action);
                }
            }
            Input::Answer { at, kind } => self.answer(*at, *kind),
            Input::Stray { id } => {
                let id = FetchId::new(*id + 1000);
                self.host.machine.handle_answer(now, id, 200, &[("a", "b")], Bytes::from_static(b"{}"));
                self.host.machine.handle_failed(now, id, "stray");
                self.host.machine.handle_assertion(now, Ok(Secret::new("assert-stray")));
            }
            Input::Store { kind } => self.answer_store(*kind),
            Input::Event => drop(self.poll_event()),
            Input::Pass { instant, unix } => {
                let shift = |clock: Duration, by: i64| {
                    let by_abs = Duration::from_secs(by.unsigned_abs());
                    if by < 0 { clock.saturating_sub(by_abs) } else { clock + by_abs }
                };
                self.host.now = Now {
                    instant: Instant::from_origin(shift(now.instant.since_origin(), *instant)),
                    unix: UnixTime::from_epoch(shift(now.unix.since_epoch(), *unix)),
                };
            }
            Input::Timeout => self.timeout(),
            Input::EndTokens => self.world.end_tokens(),
        }
    }

    fn finish(&mut self, good: bool) {
        let now = self.host.now;
        let Some(page) = self.page.clone() else { return };
        let back = self.world.issuer().agree(&page);
        let redirect = if good { Redirect::parse(&back) } else { Redirect::parse("?code=x&state=y") };
        let finished = self.host.machine.finish(now, redirect);
        self.host.show(&finished);
    }

    fn finish_login(&mut self, good: bool) {
        let now = self.host.now;
        let Some((page, login)) = &self.begun else { return };
        let back = self.world.issuer().agree(page);
        let redirect = if good { Redirect::parse(&back) } else { Redirect::parse("?code=x&state=y") };
        let finished = self.host.machine.finish_login(now, login, redirect);
        self.host.show(&finished);
        self.waits |= finished.is_ok();
    }

    fn carry(&mut self, action: Action) {
        self.host.show(&action);
        match action {
            Action::Fetch(fetch) => {
                assert!(self.open.is_empty(), "one exchange at a time");
                self.open.push(fetch);
            }
            Action::Abort(id) => {
                // The response may just have arrived.
                assert!(self.open.iter().all(|fetch| fetch.id == id));
                self.open.clear();
            }
            Action::Assertion(_) => {
                self.host.machine.handle_assertion(self.host.now, Err("there is none".into()));
            }
            store => {
                assert!(self.store.is_none(), "one request to the store at a time");
                self.store = Some(store);
            }
        }
    }

    fn answer(&mut self, at: usize, kind: usize) {
        if at >= self.open.len() {
            return;
        }
        let fetch = self.open.remove(at);
        let now = self.host.now;
        match kind {
            0 => self.host.machine.handle_failed(now, fetch.id, "gone"),
            1 => self.host.machine.handle_answer(now, fetch.id, 503, &[("a", "b")], Bytes::new()),
            2 => self.host.machine.handle_answer(now, fetch.id, 404, &[("a", "b")], Bytes::new()),
            _ => self.host.exchange(&mut self.world, &fetch),
        }
    }

    fn answer_store(&mut self, kind: usize) {
        let now = self.host.now;
        // The client ignores responses that it has not requested.
        match self.store {
            Some(Action::Load) => {
                self.host.machine.handle_stored(now, Ok(SaveOutcome::Done(RecordVersion(99))))
            }
            _ => self.host.machine.handle_loaded(now, Ok(None)),
        }
        match self.store.take() {
            Some(Action::Load) if kind == 0 => self.host.machine.handle_loaded(now, Err("broken".into())),
            Some(Action::Load) => self.host.machine.handle_loaded(now, self.world.store.load()),
            Some(Action::Store { .. }) if kind == 0 => {
                self.host.machine.handle_stored(now, Err("full".into()))
            }
            Some(Action::Store { .. }) if kind == 1 => {
                self.world.store.clear();
                self.host.machine.handle_stored(now, Ok(SaveOutcome::Conflict(None)));
            }
            Some(Action::Store { .. }) if kind == 2 && self.world.store.stored().is_none() => {
                let foreign = StoredRecord { record: Record::default(), version: RecordVersion(0) };
                self.host.machine.handle_stored(now, Ok(SaveOutcome::Conflict(Some(foreign))));
            }
            Some(Action::Store { record, expected }) => {
                let saved = self.world.store.store(record, expected);
                self.host.machine.handle_stored(now, saved);
            }
            _ => {}
        }
    }

    /// Returns whether there was one.
    fn poll_event(&mut self) -> bool {
        let Some(event) = self.host.machine.poll_event() else { return false };
        self.host.show(&event);
        match &event {
            Event::NeedsAuthorization(page) => self.page = Some(page.url.clone()),
            Event::PageObsolete => self.page = None,
            Event::LoginBegun(page, login) => self.begun = Some((page.url.clone(), login.clone())),
            Event::Ready(_) | Event::Failed(_) => {
                self.waits = false;
            }
            Event::LoggedOut => self.leaves = false,
            _ => {}
        }
        true
    }

    fn timeout(&mut self) {
        let now = self.host.now;
        self.host.machine.handle_timeout(now);
        let next = self.host.machine.poll_timeout();
        assert!(next.is_none_or(|next| next > now.instant), "{next:?} is not after {now:?}");
    }

    /// Carries out all actions until none is left.
    fn rest(&mut self) {
        for _ in 0..3000 {
            if let Some(action) = self.host.machine.poll_action() {
                self.carry(action);
            } else if self.store.is_some() {
                self.answer_store(5);
            } else if !self.open.is_empty() {
                self.answer(0, 7);
            } else if let Some(due) = self.host.machine.poll_timeout() {
                let late = due.saturating_since(self.host.now.instant);
                self.host.pass(late);
                self.timeout();
            } else {
                break;
            }
        }
        while self.poll_event() {}
        assert!(!self.host.machine.is_busy());
        assert!(!self.leaves, "a logout never ends");
        assert!(!self.waits, "the client waits for ever: {:?}", self.host.machine);
    }
}

fn configs() -> Vec<AuthConfig> {
    use mcp_proto::auth::client::{DpopKey, Grant};
    let mut bound = super::config();
    bound.dpop = Some(DpopKey::Provided(std::sync::Arc::new(super::sim::FakeKey)));
    let mut machine = super::config().client_id("https://a.example/x");
    machine.grant = Grant::ClientCredentials;
    let mut workload = super::config();
    workload.grant = Grant::JwtBearer;
    vec![super::config(), bound, machine, workload]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// No wait is endless, no deadline repeats, at most one exchange and one request to the store are open, and no
    /// secret is shown.
    #[test]
    fn every_wait_ends_in_any_sequence_of_inputs(inputs in inputs(), kind in 0..4_usize) {
        let mut driver = Driver::new(configs().remove(kind));
        if kind == 1 {
            driver.world.metadata(serde_json::json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
        }
        for input in &inputs {
            driver.take(input);
        }
        driver.rest();
        driver.host.keeps_secrets(&driver.world);
    }

    /// Equal inputs produce equal outputs.
    #[test]
    fn equal_inputs_produce_equal_outputs(inputs in inputs()) {
        let run = || {
            let mut driver = Driver::new(super::config());
            for input in &inputs {
                driver.take(input);
            }
            driver.rest();
            (driver.host.shown, driver.world.log, driver.world.store.text())
        };
        prop_assert_eq!(run(), run());
    }

    /// Any bytes decode as a record or as none.
    #[test]
    fn any_bytes_decode_as_a_record_or_as_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Record::from_json(&bytes).is_err());
    }
}

#[test]
fn record_round_trips() {
    let mut driver = Driver::new(super::config());
    driver.host.holds = false;
    driver.host.call(&mut driver.world);
    let text = driver.world.store.text();
    let record = Record::from_json(text.as_bytes()).unwrap();
    assert_eq!(record.to_json().expose(), text);
    assert_eq!(format!("{record:?}"), "Record(..)");
    for cut in 0..text.len() {
        assert!(Record::from_json(&text.as_bytes()[..cut]).is_err());
    }
    let later = text.replacen("\"version\":1", "\"version\":2", 1);
    assert_eq!(Record::from_json(later.as_bytes()).err(), Some(RecordError::Version));
}
