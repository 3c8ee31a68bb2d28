//! Both drivers on a simulated HTTP network.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Link, PairOptions};
use crate::Instant;
use crate::adapter;
use crate::front::{Client, ClientHandlers, Clock as _, HandlerMode, ServedRouter};
use crate::testing::SimulatedClock;
use crate::testing::driven::DrivenClient;
use crate::testing::http::{FrontPeer, HttpPair, NetworkConditions};
use crate::transport::http::client::{HttpClient, HttpClientConfig};
use crate::transport::http::server::HttpServerConfig;

const URL: &str = "http://localhost/mcp";

pub(super) struct HttpLink<H: HandlerMode> {
    pair: HttpPair<DrivenClient<HttpClient, H>>,
    clock: Arc<SimulatedClock>,
}

impl<H: HandlerMode> HttpLink<H> {
    pub(super) fn connect<M: HandlerMode>(
        router: ServedRouter<M>,
        handlers: ClientHandlers<H>,
        options: PairOptions,
        clock: Arc<SimulatedClock>,
    ) -> (Client, Self) {
        let PairOptions { client, network, seed, .. } = options;
        let config = HttpServerConfig::new(router.router().config());
        let server = FrontPeer::new(router, config, clock.clone(), seed);
        let mut config = HttpClientConfig::new(client, URL);
        config.seed = seed;
        let machine = HttpClient::new(config, clock.now()).expect("the URL is valid");
        let (client, driver) = adapter::client(machine, clock.clone(), handlers);
        let mut pair = HttpPair::new(DrivenClient::new(driver, clock.clone()), Box::new(server), seed);
        pair.log = Some(Vec::new());
        pair.conditions = NetworkConditions {
            latency: network.latency..=network.latency,
            chunk: network.chunk,
            ..NetworkConditions::RELIABLE
        };
        (client, Self { pair, clock })
    }
}

impl<H: HandlerMode> Link for HttpLink<H> {
    fn run_due(&mut self) {
        // The test may have set the clock.
        match self.clock.now().saturating_since(self.pair.now()) {
            Duration::ZERO => self.pair.run_due(),
            ahead => self.pair.jump_clock(ahead),
        }
    }

    fn step(&mut self) -> bool {
        let moved = self.pair.step(Instant::from_origin(Duration::MAX));
        self.clock.set(self.pair.now());
        moved
    }

    fn transcript(&self) -> &[String] {
        self.pair.log.as_deref().unwrap_or_default()
    }
}
