//! Our async handles over both state machines, with bytes carried by hand.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mcp_proto::adapter::{self, ClientDriver, Entropy, ServerDriver, SystemClock};
use mcp_proto::front::layer::Layer;
use mcp_proto::front::{Client, ClientHandlers, Router};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, LinkAction, State};
use mcp_proto::schema::{Implementation, Tool};
use mcp_proto::transport::{StreamClient, StreamServer};
use serde::Deserialize;

use crate::pair::Wire;

/// A client handle and its driver, a router and its driver, joined in memory.
pub(crate) struct FrontPair {
    pub(crate) client: Client,
    driver: ClientDriver<StreamClient>,
    server: ServerDriver<StreamServer>,
    up: Wire,
    down: Wire,
}

/// Entropy that is not random: this benchmark needs none.
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(4);
    }
}

/// A layer that does nothing.
struct Empty;

impl Layer for Empty {}

#[derive(Deserialize)]
struct Echo {
    message: String,
}

impl FrontPair {
    pub(crate) fn ready(mode: EraPolicy) -> Self {
        Self::layered(mode, false, false)
    }

    /// A pair with an empty layer in the router, or in the client.
    pub(crate) fn layered(mode: EraPolicy, in_router: bool, in_client: bool) -> Self {
        let tool = Tool::new("echo", "Returns its message", serde_json::json!({ "type": "object" }));
        let mut router = Router::new("echo", "1.0.0").tool_with(tool, async |Echo { message }, _| message);
        let mut handlers = ClientHandlers::new();
        if in_router {
            router = router.layer(Empty);
        }
        if in_client {
            handlers = handlers.layer(Empty);
        }
        let clock = Arc::new(SystemClock::new());
        let machine = StreamServer::new(router.config());
        let (_, server) = adapter::server(machine, clock.clone(), Arc::new(NoEntropy), router);
        let mut config = ClientConfig::new(Implementation::new("benchmark", "1.0.0"));
        config.era_policy = mode;
        let (client, driver) = adapter::client(StreamClient::new(config), clock, handlers);
        let (up, down) = Default::default();
        let mut front = Self { client, driver, server, up, down };
        // With layers a poll may move nothing: they see output between two polls.
        while front.client.state() != State::Ready {
            front.carry();
        }
        while front.carry() || front.carry() {}
        front
    }

    pub(crate) fn carry(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut moved = false;
        let sent = self.driver.poll(&mut cx, |machine, now| {
            if machine.poll_link() == Some(LinkAction::Open) {
                machine.handle_open(now);
            }
            self.up.carry(|out| machine.poll_transmit(out)).map_or(Poll::Pending, Poll::Ready)
        });
        if let Poll::Ready(bytes) = sent {
            self.server.lock(|machine, now| machine.handle_input(now, bytes));
            moved = true;
        }
        let sent = self.server.poll(&mut cx, |machine, _| {
            self.down.carry(|out| machine.poll_transmit(out)).map_or(Poll::Pending, Poll::Ready)
        });
        if let Poll::Ready(bytes) = sent {
            self.driver.lock(|machine, now| machine.handle_input(now, bytes));
            moved = true;
        }
        moved
    }
}
