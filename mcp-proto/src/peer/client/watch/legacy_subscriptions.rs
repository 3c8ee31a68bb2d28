//! Resource subscriptions of a legacy session: one for each watched resource.
//!
//! Requests may overtake each other over HTTP, so only one per resource is in flight at a time.
//!
//! | state of the resource | while watched | while not watched |
//! |---|---|---|
//! | off | subscribe | remove it |
//! | subscribing, or unsubscribing | wait for the answer | wait for the answer |
//! | on | do nothing | unsubscribe |
//! | refused | do nothing | remove it |
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>

use alloc::sync::Arc;
use core::time::Duration;

use crate::Instant;
use crate::backoff::BackoffTimer;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::RequestId;

use super::{RefusalKind, RetryClass, WatchAction, WatchConfig};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubscriptionState {
    Off,
    Subscribing,
    Subscribed,
    Unsubscribing,
    Refused,
}

#[derive(Debug)]
struct ResourceSubscription {
    wanted: bool,
    state: SubscriptionState,
    /// Whether the request in flight belongs to a session that is over.
    outdated: bool,
}

#[derive(Debug)]
pub(super) struct LegacySubscriptions {
    subscriptions: OrderedMap<Arc<str>, ResourceSubscription>,
    /// The resources of the requests in flight.
    in_flight: OrderedMap<RequestId, Arc<str>>,
    /// Resources that may need a request.
    due: OrderedSet<Arc<str>>,
    /// Resources whose requests failed, to be retried later.
    failed: OrderedSet<Arc<str>>,
    backoff: BackoffTimer,
}

impl LegacySubscriptions {
    pub(super) fn new(config: &WatchConfig) -> Self {
        Self {
            subscriptions: OrderedMap::new(),
            in_flight: OrderedMap::new(),
            due: OrderedSet::new(),
            failed: OrderedSet::new(),
            backoff: config.backoff_timer(),
        }
    }

    /// Adds a resource that a watch now covers.
    pub(super) fn subscribe(&mut self, uri: &Arc<str>) {
        let off = || ResourceSubscription { wanted: true, state: SubscriptionState::Off, outdated: false };
        self.subscriptions.entry(uri.clone()).or_insert_with(off).wanted = true;
        self.due.insert(uri.clone());
    }

    /// Removes a resource that no watch covers any more.
    pub(super) fn unsubscribe(&mut self, uri: &Arc<str>) {
        if let Some(subscription) = self.subscriptions.get_mut(uri) {
            subscription.wanted = false;
            self.due.insert(uri.clone());
        }
    }

    /// Subscribes to all resources again, because the server has lost the session.
    pub(super) fn resubscribe_all(&mut self) {
        for (uri, subscription) in self.subscriptions.iter_mut() {
            match subscription.state {
                SubscriptionState::Subscribing | SubscriptionState::Unsubscribing => {
                    subscription.outdated = true
                }
                SubscriptionState::Subscribed | SubscriptionState::Refused => {
                    subscription.state = SubscriptionState::Off
                }
                SubscriptionState::Off => {}
            }
            self.due.insert(uri.clone());
        }
        self.backoff.reset();
    }

    /// The next request to send; call until it returns `None`.
    pub(super) fn next(&mut self, now: Instant) -> Option<WatchAction> {
        if self.backoff.due().is_some() && !self.backoff.is_waiting(now) {
            self.backoff.clear();
            self.due.append(&mut self.failed);
        }
        while let Some(uri) = self.due.pop_first() {
            let Some(subscription) = self.subscriptions.get_mut(&uri) else { continue };
            match (subscription.wanted, subscription.state) {
                (true, SubscriptionState::Off) if !self.failed.contains(&uri) => {
                    subscription.state = SubscriptionState::Subscribing;
                    return Some(WatchAction::Subscribe(uri));
                }
                (false, SubscriptionState::Subscribed) => {
                    subscription.state = SubscriptionState::Unsubscribing;
                    return Some(WatchAction::Unsubscribe(uri));
                }
                (false, SubscriptionState::Off | SubscriptionState::Refused) => {
                    self.failed.remove(&uri);
                    self.subscriptions.remove(&uri);
                }
                _ => {}
            }
        }
        if self.failed.is_empty() {
            self.backoff.clear();
        }
        None
    }

    /// Notes that a request about this resource was sent.
    pub(super) fn note_sent(&mut self, request: RequestId, uri: Arc<str>) {
        self.in_flight.insert(request, uri);
    }

    /// Handles the end of a request, or the failure to send it. Returns the resource whose coverage is now known.
    pub(super) fn handle_ended(
        &mut self,
        now: Instant,
        request: RequestId,
        class: RetryClass,
    ) -> Option<Arc<str>> {
        let uri = self.in_flight.remove(&request)?;
        self.resolve(now, uri, class)
    }

    /// Applies the end of a request about this resource.
    pub(super) fn resolve(&mut self, now: Instant, uri: Arc<str>, class: RetryClass) -> Option<Arc<str>> {
        let subscription = self.subscriptions.get_mut(&uri)?;
        let (outdated, before) = (core::mem::take(&mut subscription.outdated), subscription.state);
        let state = match (before, class) {
            _ if outdated => SubscriptionState::Off,
            // Whether or not the request worked, the subscription no longer counts.
            (SubscriptionState::Unsubscribing, _) => SubscriptionState::Off,
            (_, RetryClass::Done) => {
                self.backoff.reset();
                SubscriptionState::Subscribed
            }
            (_, RetryClass::Refused(_, kind))
                if kind == RefusalKind::Permanent || self.backoff.is_exhausted() =>
            {
                SubscriptionState::Refused
            }
            (_, RetryClass::Lost(least)) => {
                self.fail(now, &uri, least);
                SubscriptionState::Off
            }
            (_, RetryClass::Refused(..)) => {
                self.fail(now, &uri, Duration::ZERO);
                SubscriptionState::Off
            }
        };
        if let Some(subscription) = self.subscriptions.get_mut(&uri) {
            subscription.state = state;
        }
        self.due.insert(uri.clone());
        Some(uri)
    }

    /// Schedules a retry. Requests that fail together count as one failure.
    fn fail(&mut self, now: Instant, uri: &Arc<str>, least: Duration) {
        if self.backoff.due().is_none() {
            self.backoff.fail(now, least);
        }
        self.failed.insert(uri.clone());
    }

    /// Abandons the requests in flight, and returns them.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = RequestId> {
        core::mem::take(&mut self.in_flight).into_keys()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.backoff.due()
    }

    // --- Getters ---

    /// Whether the server reports changes of this resource, once that is known.
    pub(super) fn is_covered(&self, uri: &str) -> Option<bool> {
        match self.subscriptions.get(uri)?.state {
            SubscriptionState::Subscribed => Some(true),
            SubscriptionState::Refused => Some(false),
            SubscriptionState::Off | SubscriptionState::Subscribing | SubscriptionState::Unsubscribing => {
                None
            }
        }
    }
}
