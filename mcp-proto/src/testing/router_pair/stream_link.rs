//! Both drivers on a simulated byte stream.

use alloc::string::String;
use alloc::sync::Arc;

use super::{Link, PairOptions};
use crate::adapter;
use crate::front::{Client, ClientHandlers, Clock as _, HandlerMode, ServedRouter};
use crate::testing::clock::SimulatedTask;
use crate::testing::driven::{DrivenClient, DrivenServer};
use crate::testing::{CountingEntropy, Pair, SimulatedClock};
use crate::transport::StreamClient;

pub(super) struct StreamLink<M: HandlerMode, H: HandlerMode> {
    pair: Pair<DrivenClient<StreamClient, H>, DrivenServer<M>>,
    clock: Arc<SimulatedClock>,
}

impl<M: HandlerMode, H: HandlerMode> StreamLink<M, H> {
    pub(super) fn connect(
        router: ServedRouter<M>,
        handlers: ClientHandlers<H>,
        options: PairOptions,
        clock: Arc<SimulatedClock>,
    ) -> (Client, Self) {
        let entropy = Arc::new(CountingEntropy::new(options.seed));
        let (client, driver) = adapter::client(StreamClient::new(options.client), clock.clone(), handlers);
        let task = SimulatedTask::new();
        let server = DrivenServer { router, clock: clock.clone(), entropy, driver: None, task };
        let pair = Pair::join(DrivenClient::new(driver, clock.clone()), server, options.network);
        (client, Self { pair, clock })
    }
}

impl<M: HandlerMode, H: HandlerMode> Link for StreamLink<M, H> {
    fn run_due(&mut self) {
        self.pair.now = self.clock.now();
        self.pair.run_due();
    }

    fn step(&mut self) -> bool {
        let moved = self.pair.step();
        self.clock.set(self.pair.now);
        moved
    }

    fn transcript(&self) -> &[String] {
        &self.pair.log
    }
}
