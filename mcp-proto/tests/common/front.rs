//! A client's handle and driver, polled one step at a time, whose server the test plays.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use mcp_proto::Bytes;
use mcp_proto::adapter::{self, ClientDriver};
use mcp_proto::front::{Client, ClientHandlers, HandlerMode, SendHandlers};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, LinkAction, State};
use mcp_proto::transport::StreamClient;
use serde_json::Value;

use super::messages::{LEGACY, answer, discover_result, initialize_result, parse_lines};
use super::polling::{TestClock, WakeCounter};

pub use super::client::config;

pub struct ClientHarness<H: HandlerMode = SendHandlers> {
    pub client: Client,
    pub driver: ClientDriver<StreamClient, H>,
    pub clock: Arc<TestClock>,
    /// How often the driver was woken.
    pub wakes: Arc<WakeCounter>,
    waker: Waker,
    lines: VecDeque<Value>,
    pub links: Vec<LinkAction>,
}

impl ClientHarness<SendHandlers> {
    /// A client of a modern server with every capability.
    pub fn modern() -> Self {
        Self::modern_with(ClientHandlers::new())
    }

    /// A client of a server of 2025-11-25 with every capability.
    pub fn legacy() -> Self {
        Self::legacy_with(ClientHandlers::new())
    }
}

impl<H: HandlerMode> ClientHarness<H> {
    /// A client whose link is open: it has written its first request.
    pub fn open(mut config: ClientConfig, handlers: ClientHandlers<H>) -> Self {
        config.capabilities = handlers.capabilities().clone();
        let clock = Arc::new(TestClock::default());
        let (client, driver) = adapter::client(StreamClient::new(config), clock.clone(), handlers);
        let (wakes, waker) = WakeCounter::new();
        let mut front =
            Self { client, driver, clock, wakes, waker, lines: VecDeque::new(), links: Vec::new() };
        front.turn();
        assert_eq!(front.links.pop(), Some(LinkAction::Open));
        front.driver.lock(|machine, now| machine.handle_open(now));
        front.turn();
        front
    }

    pub fn modern_with(handlers: ClientHandlers<H>) -> Self {
        let mut front = Self::open(config(), handlers);
        let id = front.expect("server/discover");
        front.answer(&id, discover_result());
        assert_eq!(front.client.state(), State::Ready);
        front
    }

    pub fn legacy_with(handlers: ClientHandlers<H>) -> Self {
        let mut config = config();
        config.era_policy = EraPolicy::LegacyOnly;
        let mut front = Self::open(config, handlers);
        let id = front.expect("initialize");
        front.answer(&id, initialize_result(LEGACY));
        assert_eq!(front.expect("notifications/initialized"), Value::Null);
        assert_eq!(front.client.state(), State::Ready);
        front
    }

    /// Polls the driver until it makes no progress, as an executor does when its task is woken.
    pub fn turn(&mut self) {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let polled = self.driver.poll(&mut cx, |machine, _| {
                if let Some(action) = machine.poll_link() {
                    return Poll::Ready((Some(action), Vec::new()));
                }
                let mut out = Vec::new();
                if machine.poll_transmit(&mut out) { Poll::Ready((None, out)) } else { Poll::Pending }
            });
            match polled {
                Poll::Ready((action, out)) => {
                    self.links.extend(action);
                    self.lines.extend(parse_lines(&out));
                }
                // A handler that woke itself wants another turn.
                Poll::Pending if self.wakes.take() > 0 => {}
                Poll::Pending => break,
            }
        }
    }

    /// Lets time pass, and the machine act on it.
    pub fn advance(&mut self, duration: Duration) {
        self.clock.advance(duration);
        self.driver.lock(|machine, now| machine.handle_timeout(now));
        self.turn();
    }

    pub fn try_line(&mut self) -> Option<Value> {
        self.turn();
        self.lines.pop_front()
    }

    #[track_caller]
    pub fn line(&mut self) -> Value {
        self.try_line().expect("nothing was written")
    }

    /// The next line must be of `method`; returns its id.
    #[track_caller]
    pub fn expect(&mut self, method: &str) -> Value {
        let line = self.line();
        assert_eq!(line["method"], method, "{line}");
        line["id"].clone()
    }

    #[track_caller]
    pub fn expect_silence(&mut self) {
        assert_eq!(self.try_line(), None);
    }

    pub fn receive(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.driver.lock(|machine, now| machine.handle_input(now, Bytes::from(text)));
        self.turn();
    }

    pub fn answer(&mut self, id: &Value, result: Value) {
        self.receive(&[answer(id, result)]);
    }

    /// The server ends.
    pub fn end(&mut self, detail: &str) {
        self.driver.lock(|machine, now| machine.handle_eof(now, detail));
        self.turn();
    }
}
