//! Watches: change notifications of every era, for as long as the connection lasts.
//!
//! Each watch has a filter of its own. The client asks the server to report the union of all filters: a modern
//! one with one request that [listens](modern_subscription), a legacy one with a [subscription](legacy_subscriptions)
//! for each resource.

mod config;
mod drive;
mod filter;
mod legacy_subscriptions;
mod modern_subscription;
mod notify;
mod pending_events;
mod registry;
mod retry_class;
mod state;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Instant;
use crate::peer::event_queue::EventQueue;
use crate::peer::topic::Topic;
use crate::peer::{Outcome, RequestId};
use crate::schema::ClientCapability;

use super::{ClientConfig, Event, ServerInfo};

pub use config::{OnServerEnd, WatchConfig, WatchStart};
pub(super) use drive::NotificationScope;
pub use filter::{Change, ChangeEvidence, WatchFilter};
pub use state::{WatchEnd, WatchId, WatchState};

use config::ChannelKind;
use registry::WatchRegistry;

/// The application's watches, and the channel that carries their notifications.
#[derive(Debug)]
pub(super) struct Watches {
    config: WatchConfig,
    /// Whether this client may watch tasks.
    can_watch_tasks: bool,
    channel: ChannelKind,
    /// Whether messages outside of any request cannot be received (legacy revisions over HTTP).
    lacks_event_stream: bool,
    /// Created by the first watch.
    registry: Option<Box<WatchRegistry>>,
}

impl Watches {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self {
            config: config.watch,
            can_watch_tasks: config.capabilities.has(ClientCapability::TasksExtension),
            channel: ChannelKind::default(),
            lacks_event_stream: false,
            registry: None,
        }
    }

    /// The registry, created by the first watch; `server` is set if the client is ready.
    fn open_registry(
        &mut self,
        server: Option<&ServerInfo>,
        events: &mut EventQueue<Event>,
    ) -> &mut WatchRegistry {
        let Self { config, can_watch_tasks, channel, lacks_event_stream, ref mut registry } = *self;
        registry.get_or_insert_with(|| {
            let mut registry = Box::new(WatchRegistry::new(config, can_watch_tasks));
            if let Some(server) = server {
                registry.begin(server, channel, events);
                registry.lacks_event_stream = lacks_event_stream;
            }
            registry
        })
    }

    /// When the watches next have work to do, if nothing else happens first.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.registry.as_ref()?.deadline()
    }

    /// Queues the outcome of a request that a watch has made.
    pub(super) fn queue_outcome(&mut self, request: RequestId, outcome: Outcome) {
        if let Some(registry) = &mut self.registry {
            registry.ended.push((request, outcome));
            registry.dirty = true;
        }
    }

    /// Completes an event that leaves the queue; `false` if it has become void meanwhile.
    pub(super) fn complete_event(&mut self, event: &mut Event) -> bool {
        self.registry.as_mut().is_none_or(|registry| registry.pending.complete(event))
    }

    /// The covered part of a watch's filter: without what is `missing`.
    pub(super) fn covered_topics(&self, watch: WatchId, missing: &WatchFilter) -> Vec<Topic> {
        self.registry.as_ref().map_or_else(Vec::new, |registry| registry.covered_topics(watch, missing))
    }
}
