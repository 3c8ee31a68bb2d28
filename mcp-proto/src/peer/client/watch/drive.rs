//! Integration of watches into the client: commands, notifications, requests.

use alloc::sync::Arc;

use crate::Instant;
use crate::peer::client::incoming_requests::decode;
use crate::peer::client::request_record::{ClientRequest, RequestOwner};
use crate::peer::client::{Client, Diagnostic, Event, Phase, ServerInfo};
use crate::peer::event_queue::EventQueue;
use crate::peer::topic::{ListKind, Topic};
use crate::peer::{Outbox, Outcome, OutgoingRequest, ReissuePolicy, RequestError, RequestId, RequestOptions};
use crate::prelude::*;
use crate::rpc::{Raw, Text};
use crate::schema::tasks::legacy::TaskStatusChanged;
use crate::schema::tasks::{TaskIdParams, TaskUpdated};
use crate::schema::{
    Era, Method, Notification, ResourceUpdated, ResourceUpdatedParams, SubscribeResource,
    SubscribeResourceParams, SubscriptionsAcknowledged, SubscriptionsAcknowledgedParams, SubscriptionsListen,
    SubscriptionsListenParams, UnsubscribeResource, UnsubscribeResourceParams,
};

use super::WatchFilter;
use super::legacy_subscriptions::LegacySubscriptions;
use super::modern_subscription::{ListenUpdate, ModernSubscription};
use super::registry::{LegacyWatches, WatchMechanism, WatchRegistry};
use super::{ChannelKind, RetryClass, WatchAction, WatchId, WatchStart};

/// The recipients of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peer::client) enum NotificationScope {
    /// The watches alone.
    WatchesOnly,
    /// The watches and the application.
    Everyone,
}

impl Client {
    // --- Commands ---

    /// Adds a watch.
    pub(crate) fn watch(
        &mut self,
        now: Instant,
        interest: WatchFilter,
        since: WatchStart,
        out: &mut dyn Outbox,
    ) -> Result<WatchId, RequestError> {
        if matches!(self.connection.phase, Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed) {
            return Err(RequestError::Closed);
        }
        let ready = matches!(self.connection.phase, Phase::Ready);
        let server = self.server.as_ref().filter(|_| ready);
        let watching = self.watches.open_registry(server, &mut self.events);
        let id = watching.add(interest, since);
        watching.confirm_watch(id, &mut self.events);
        self.advance_watches(now, out);
        Ok(id)
    }

    /// Replaces the filter of a watch.
    pub(crate) fn set_watch_filter(
        &mut self,
        now: Instant,
        watch: WatchId,
        interest: WatchFilter,
        out: &mut dyn Outbox,
    ) {
        if self.is_closed() {
            return;
        }
        if let Some(watching) = &mut self.watches.registry {
            watching.change(watch, interest);
            watching.confirm_watch(watch, &mut self.events);
            self.advance_watches(now, out);
        }
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&mut self, now: Instant, watch: WatchId, out: &mut dyn Outbox) {
        if let Some(watching) = &mut self.watches.registry {
            watching.remove(watch);
            self.advance_watches(now, out);
        }
    }

    // --- Getters ---

    /// The watches with their filters, to set up again when the application reconnects. Available also when the
    /// connection is over.
    pub fn watches(&self) -> impl Iterator<Item = (WatchId, &WatchFilter)> {
        let watches = self.watches.registry.iter().flat_map(|watching| &watching.watches);
        watches.map(|(&id, watch)| (id, &watch.filter))
    }

    // --- Shared with the other modules ---

    /// Starts the watches on a server that is now known.
    pub(in crate::peer::client) fn begin_watches(&mut self, now: Instant, out: &mut dyn Outbox) {
        self.watches.lacks_event_stream = false;
        if self.is_closed() {
            return;
        }
        let channel = self.watches.channel;
        if let (Some(watching), Some(server)) = (&mut self.watches.registry, &self.server) {
            watching.begin(server, channel, &mut self.events);
            watching.confirm_all(&mut self.events);
            self.advance_watches(now, out);
        }
    }

    /// Handles a notification that may be about a change.
    pub(in crate::peer::client) fn handle_watch_notification(
        &mut self,
        now: Instant,
        method: &Text,
        params: Option<&Raw>,
        subscription: Option<RequestId>,
    ) -> NotificationScope {
        let modern = self.era() == Some(Era::Modern);
        let Some(watching) = &mut self.watches.registry else { return NotificationScope::Everyone };
        let is_own = |request: &ClientRequest| request.owner == RequestOwner::Watch;
        let request = subscription.filter(|&id| self.requests.get(id).is_some_and(is_own));
        if modern && request.is_none() {
            return NotificationScope::Everyone;
        }
        let scope = match request {
            Some(request) if &**method == SubscriptionsAcknowledged::NAME => {
                watching.handle_acknowledged(now, request, params, &mut self.events)
            }
            request => watching.handle_notification(now, request, method, params, modern, &mut self.events),
        };
        match scope {
            Ok(scope) => scope,
            Err(error) => {
                self.report(Diagnostic::InvalidNotification { method: method.clone(), error });
                NotificationScope::WatchesOnly
            }
        }
    }

    /// Sends the requests that the watches need now.
    pub(crate) fn advance_watches(&mut self, now: Instant, out: &mut dyn Outbox) {
        if !matches!(self.connection.phase, Phase::Ready) {
            return;
        }
        let Some(mut watching) = self.watches.registry.take_if(|watching| watching.is_due(now)) else {
            return;
        };
        watching.dirty = false;
        while let Some(ask) = watching.next_request(now, &mut self.events) {
            match ask {
                //= C6.6 "Stop: close the stream (HTTP) or notifications/cancelled (stdio)"
                WatchAction::End(request) => self.cancel_own(request, out),
                WatchAction::Listen(interest) => {
                    let params = SubscriptionsListenParams::new(interest.to_subscription_filter());
                    let sent = self.send_watch_request::<SubscriptionsListen>(now, &params, out);
                    let until = now + self.config.request_timeout;
                    if let WatchMechanism::Modern(listening) = &mut watching.mechanism {
                        match sent {
                            Ok(request) => listening.note_sent(request, interest, until),
                            Err(_) => listening.note_not_sent(now),
                        }
                    }
                }
                WatchAction::Subscribe(uri) => {
                    let params = SubscribeResourceParams::new(&*uri);
                    let sent = self.send_watch_request::<SubscribeResource>(now, &params, out);
                    watching.note_subscribe_sent(now, uri, sent, &mut self.events);
                }
                WatchAction::Unsubscribe(uri) => {
                    let params = UnsubscribeResourceParams::new(&*uri);
                    let sent = self.send_watch_request::<UnsubscribeResource>(now, &params, out);
                    watching.note_subscribe_sent(now, uri, sent, &mut self.events);
                }
            }
        }
        self.watches.registry = Some(watching);
    }

    /// Sends a request whose outcome goes to the watches.
    fn send_watch_request<M: Method>(
        &mut self,
        now: Instant,
        params: &M::Params,
        out: &mut dyn Outbox,
    ) -> Result<RequestId, RequestError> {
        let listens = M::NAME == SubscriptionsListen::NAME;
        let reissue = if listens { ReissuePolicy::Never } else { ReissuePolicy::WhereSafe };
        let options = RequestOptions::default().reissue(reissue);
        let id = self.send(now, OutgoingRequest::new::<M>(params, options), out)?;
        if let Some(request) = self.requests.get_mut(id) {
            request.owner = RequestOwner::Watch;
        }
        Ok(id)
    }
}

/// Support for transports with separate streams (legacy revisions over HTTP).
impl Client {
    /// Sets that messages travel in exchanges of their own; `seed` makes this client's pauses differ from those of
    /// others.
    pub(crate) fn set_separate_exchanges(&mut self, seed: u64) {
        self.watches.channel = ChannelKind::Separate;
        self.watches.config.seed = seed;
    }

    /// Notes that messages outside of any request arrive from now on; earlier ones may have been missed.
    pub(crate) fn note_event_stream_open(&mut self) {
        self.watches.lacks_event_stream = false;
        if self.is_closed() {
            return;
        }
        if let Some(watching) = &mut self.watches.registry {
            watching.lacks_event_stream = false;
            watching.mark_stale();
            watching.confirm_all(&mut self.events);
        }
    }

    /// Notes that messages outside of any request no longer arrive.
    pub(crate) fn note_event_stream_lost(&mut self) {
        self.watches.lacks_event_stream = true;
        if self.is_closed() {
            return;
        }
        if let Some(watching) = &mut self.watches.registry {
            watching.lacks_event_stream = true;
            watching.interrupt(&mut self.events);
        }
    }

    /// Interrupts the watches because a legacy server has lost the session.
    pub(in crate::peer::client) fn interrupt_watches(&mut self) {
        if let Some(watching) = self
            .watches
            .registry
            .as_mut()
            .filter(|watching| matches!(watching.mechanism, WatchMechanism::Legacy(_)))
        {
            watching.interrupt(&mut self.events);
        }
    }

    /// Whether the watches have work to do.
    pub(crate) fn has_pending_watches(&self) -> bool {
        matches!(self.connection.phase, Phase::Ready)
            && self.watches.registry.as_ref().is_some_and(|watching| watching.dirty)
    }
}

impl WatchRegistry {
    /// Starts on a server that is now known, or known again after a new handshake: a legacy server has lost the earlier
    /// subscriptions.
    pub(super) fn begin(
        &mut self,
        server: &ServerInfo,
        channel: ChannelKind,
        events: &mut EventQueue<Event>,
    ) {
        self.dirty = true;
        self.lacks_event_stream = false;
        match (server.era, &self.mechanism) {
            (Era::Modern, WatchMechanism::Modern(_)) => {}
            (Era::Modern, _) => {
                self.interrupt(events);
                self.abandon();
                self.mechanism =
                    WatchMechanism::Modern(Box::new(ModernSubscription::new(&self.config, channel)));
            }
            (Era::Legacy, _) => {
                self.interrupt(events);
                self.begin_legacy(server);
            }
        }
    }

    fn begin_legacy(&mut self, server: &ServerInfo) {
        let keeping = match core::mem::replace(&mut self.mechanism, WatchMechanism::Unknown) {
            WatchMechanism::Legacy(legacy) => {
                let mut keeping = legacy.subscriptions;
                keeping.resubscribe_all();
                keeping
            }
            before => {
                self.mechanism = before;
                self.abandon();
                LegacySubscriptions::new(&self.config)
            }
        };
        let mut legacy = LegacyWatches::new(server, keeping);
        for topic in self.index.keys() {
            legacy.subscribe(topic);
        }
        self.mechanism = WatchMechanism::Legacy(Box::new(legacy));
    }

    /// Abandons all requests that the watches have made.
    fn abandon(&mut self) {
        match &mut self.mechanism {
            WatchMechanism::Unknown => {}
            WatchMechanism::Modern(listening) => {
                self.abandoned.extend(core::iter::from_fn(|| listening.take_request()));
            }
            WatchMechanism::Legacy(legacy) => self.abandoned.extend(legacy.subscriptions.abandon()),
        }
        self.mechanism = WatchMechanism::Unknown;
    }

    /// The next request to send, after the outcomes of earlier ones are processed.
    fn next_request(&mut self, now: Instant, events: &mut EventQueue<Event>) -> Option<WatchAction> {
        for (request, outcome) in core::mem::take(&mut self.ended) {
            self.resolve_watch_request(now, request, outcome, events);
        }
        if let Some(request) = self.abandoned.pop_last() {
            return Some(WatchAction::End(request));
        }
        let wanted = matches!(self.mechanism, WatchMechanism::Modern(_))
            .then(|| self.combined_filter())
            .unwrap_or_default();
        match &mut self.mechanism {
            WatchMechanism::Unknown => None,
            WatchMechanism::Modern(listening) => listening.next(now, wanted),
            WatchMechanism::Legacy(legacy) => legacy.subscriptions.next(now),
        }
    }

    /// Processes the outcome of a request of the watches.
    fn resolve_watch_request(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: Outcome,
        events: &mut EventQueue<Event>,
    ) {
        self.abandoned.remove(&request);
        let class = RetryClass::from(outcome);
        match &mut self.mechanism {
            WatchMechanism::Unknown => {}
            WatchMechanism::Modern(listening) => {
                let change = listening.handle_ended(now, request, class);
                self.apply_listen_update(change, events);
            }
            WatchMechanism::Legacy(legacy) => {
                if let Some(uri) = legacy.subscriptions.handle_ended(now, request, class) {
                    self.confirm_topic(&Topic::Resource(uri), events);
                }
            }
        }
    }

    /// Notes that a resource was subscribed to or unsubscribed from, if the request could be sent.
    fn note_subscribe_sent(
        &mut self,
        now: Instant,
        uri: Arc<str>,
        sent: Result<RequestId, RequestError>,
        events: &mut EventQueue<Event>,
    ) {
        let WatchMechanism::Legacy(legacy) = &mut self.mechanism else { return };
        match sent {
            Ok(request) => legacy.subscriptions.note_sent(request, uri),
            Err(refusal) => {
                let class = RetryClass::from(Outcome::Refused(refusal));
                if let Some(uri) = legacy.subscriptions.resolve(now, uri, class) {
                    self.confirm_topic(&Topic::Resource(uri), events);
                }
            }
        }
    }

    fn handle_acknowledged(
        &mut self,
        now: Instant,
        request: RequestId,
        params: Option<&Raw>,
        events: &mut EventQueue<Event>,
    ) -> Result<NotificationScope, String> {
        let WatchMechanism::Modern(listening) = &mut self.mechanism else {
            return Ok(NotificationScope::WatchesOnly);
        };
        let params: SubscriptionsAcknowledgedParams = decode(params)?;
        if let Some(asked) = listening.opening(request) {
            let granted = asked.granted(&params.notifications);
            let change = listening.handle_acknowledged(now, request, granted);
            self.dirty = true;
            self.apply_listen_update(change, events);
        }
        Ok(NotificationScope::WatchesOnly)
    }

    /// Handles a notification, on the subscription `request` if it is a modern one.
    fn handle_notification(
        &mut self,
        now: Instant,
        request: Option<RequestId>,
        method: &str,
        params: Option<&Raw>,
        modern: bool,
        events: &mut EventQueue<Event>,
    ) -> Result<NotificationScope, String> {
        let owned = request.is_some();
        if let (Some(request), WatchMechanism::Modern(listening)) = (request, &mut self.mechanism)
            && let change = listening.handle_notification(now, request)
            && !matches!(change, ListenUpdate::None)
        {
            self.dirty = true;
            self.apply_listen_update(change, events);
        }
        let task = if modern { TaskUpdated::NAME } else { TaskStatusChanged::NAME };
        let list = ListKind::ALL.into_iter().find(|list| list.notification() == method);
        match (list, method) {
            (Some(list), _) => _ = self.notify_changed(&Topic::List(list), None, events),
            (None, ResourceUpdated::NAME) => {
                let params: ResourceUpdatedParams = decode(params)?;
                self.notify_resource(&params.uri, events);
            }
            (None, method) if method == task => {
                let id: TaskIdParams = decode(params)?;
                self.notify_changed(&Topic::Task(id.task_id.as_str().into()), params, events);
            }
            // It is unexpected here, and is passed on unchanged.
            _ => return Ok(NotificationScope::Everyone),
        }
        Ok(if owned { NotificationScope::WatchesOnly } else { NotificationScope::Everyone })
    }
}
