//! The application of a fuzzed client, over any transport.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::harness::{RunState, check_limits, pick, pick_key, timeout};
use crate::peer::client::{
    ClientCommands, ClientConfig, ClientTransport, EraPolicy, Event, Keepalive, TaskCommand, WatchFilter,
    WatchId, WatchStart, WatchState,
};
use crate::peer::{AnyResult, InboundId, LostReason, RequestOptions};
use crate::rpc::ErrorObject;
use crate::schema::{
    Implementation, Method, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};

pub(super) fn config(mode: u8, keepalive: bool, tight: bool) -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("fuzz", "0"));
    config.era_policy =
        [EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly][usize::from(mode % 3)];
    config.keepalive = keepalive.then_some(Keepalive::PRESET);
    if tight {
        config.limits.message_bytes = 256;
        config.limits.events = 16;
        config.limits.requests_out = 4;
        config.limits.requests_in = 2;
        config.limits.queued_bytes = 1024;
        config.limits.reply_bytes = 1024;
        config.cache.entries = 1;
        config.cache.bytes = 1500;
        config.cache.stale_if_error = Duration::from_secs(1);
    }
    config
}

pub(super) struct Application<T> {
    pub(super) client: T,
    pub(super) run: RunState,
    inbound: Vec<InboundId>,
    /// The watches, and whether the end of each was reported.
    watches: BTreeMap<WatchId, bool>,
}

impl<T: ClientTransport> Application<T> {
    pub(super) fn new(client: T, run: RunState) -> Self {
        Self { client, run, inbound: Vec::new(), watches: BTreeMap::new() }
    }

    pub(super) fn request<M: Method>(&mut self, params: &M::Params, options: RequestOptions) {
        self.run.accept(ClientCommands::new(&mut self.client, self.run.now).request::<M>(params, options));
    }

    pub(super) fn listen(&mut self) {
        let params = SubscriptionsListenParams::new(SubscriptionFilter::default());
        self.request::<SubscriptionsListen>(&params, RequestOptions::default());
    }

    /// Sends a command for the one task that all servers have.
    pub(super) fn task(&mut self, command: u8, timeout_ms: Option<u16>) {
        let command =
            [TaskCommand::Follow, TaskCommand::Status, TaskCommand::Cancel][usize::from(command % 3)];
        self.run.accept(ClientCommands::new(&mut self.client, self.run.now).task(
            "t",
            command,
            timeout(timeout_ms),
        ));
    }

    pub(super) fn cancel(&mut self, which: u8) {
        if let Some(request) = self.run.pick_request(which) {
            ClientCommands::new(&mut self.client, self.run.now).cancel(request, None);
        }
    }

    /// Answers a request of the server twice.
    pub(super) fn respond(&mut self, which: u8, result: &dyn AnyResult) {
        if let Some(request) = pick(&self.inbound, which) {
            ClientCommands::new(&mut self.client, self.run.now).respond(request, Ok(result));
            ClientCommands::new(&mut self.client, self.run.now)
                .respond(request, Err(ErrorObject::new(1, "twice")));
        }
    }

    pub(super) fn watch(&mut self, filter: u8, before: bool) {
        let start = if before { WatchStart::Before } else { WatchStart::Now };
        let watch = ClientCommands::new(&mut self.client, self.run.now).watch(watch_filter(filter), start);
        self.run.note(&watch);
        if let Ok(watch) = watch {
            assert!(self.watches.insert(watch, false).is_none(), "a handle is used twice");
        }
    }

    pub(super) fn set_watch_filter(&mut self, which: u8, filter: u8) {
        if let Some(watch) = pick_key(&self.watches, which) {
            ClientCommands::new(&mut self.client, self.run.now).set_watch_filter(watch, watch_filter(filter));
        }
    }

    pub(super) fn unwatch(&mut self, which: u8) {
        if let Some(watch) = pick_key(&self.watches, which) {
            ClientCommands::new(&mut self.client, self.run.now).unwatch(watch);
        }
    }

    pub(super) fn close(&mut self) {
        ClientCommands::new(&mut self.client, self.run.now).close();
    }

    pub(super) fn abort(&mut self, reason: LostReason) {
        ClientCommands::new(&mut self.client, self.run.now).abort(reason);
    }

    pub(super) fn handle_event(&mut self, event: Event) {
        match event {
            Event::Outcome { request, .. } => self.run.resolve(request),
            Event::Progress { request, .. }
            | Event::PartialResult { request, .. }
            | Event::TaskStatus { request, .. } => self.run.check_pending(request),
            Event::Changed { watch, .. } => {
                assert_eq!(self.watches.get(&watch), Some(&false), "a change follows the end of its watch");
            }
            Event::Watch { watch, state } => {
                let over = matches!(state, WatchState::Ended(_));
                let before = self.watches.insert(watch, over);
                assert_eq!(before, Some(false), "a state follows the end of its watch: {state:?}");
            }
            Event::Request { id, .. } => self.inbound.push(id),
            Event::Closed(_) => self.run.closed = true,
            _ => {}
        }
    }

    pub(super) fn check(&self, queued: usize) {
        let peer = self.client.peer();
        peer.check();
        // The machine polls tasks by itself, and drops the polls of requests that have their outcome.
        check_limits(&peer.config().limits, queued, 4096, peer.in_flight());
        let (usage, most) = (peer.cache_usage(), &peer.config().cache);
        assert!(
            usage.entries <= most.entries && usage.bytes <= most.bytes,
            "contract 8: {usage:?} of {most:?}"
        );
    }
}

/// A watch filter from the bits of a number.
fn watch_filter(bits: u8) -> WatchFilter {
    let parts: [fn(WatchFilter) -> WatchFilter; 5] = [
        WatchFilter::tools,
        WatchFilter::prompts,
        WatchFilter::resources,
        |filter| filter.resource("fuzz:r"),
        |filter| filter.task("t"),
    ];
    let parts = parts.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    parts.fold(WatchFilter::new(), |filter, (_, add)| add(filter))
}
