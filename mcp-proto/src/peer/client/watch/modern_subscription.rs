//! The subscription at a modern server: one `subscriptions/listen` request for all watches.
//!
//! | event | reaction |
//! |---|---|
//! | the filter changes | another listen request for the new one, once none is unacknowledged |
//! | the request is acknowledged | it replaces the previous one, which is ended |
//! | the subscription is lost | another request after a pause; its topics may have changed |
//! | the server ends it | the subscription ends, unless another request was in flight |
//! | the request is refused | topics that the previous one does not cover are not reported |
//! | the filter is empty | all requests are ended |
//!
//! Over HTTP each request has a stream of its own. Notifications sent on the previous stream may then arrive after the
//! acknowledgement of its successor, so it is kept for a while; on a single channel the order is fixed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use core::time::Duration;

use crate::Instant;
use crate::backoff::BackoffTimer;
use crate::ordered_map::OrderedMap;
use crate::peer::{Outcome, RequestId};

use super::{ChannelKind, OnServerEnd, RefusalKind, RetryClass, WatchAction, WatchConfig, WatchFilter};

/// The time that a listen request must last to count as working, with or without notifications.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// Grace period for a replaced stream (HTTP): the time in which TCP retransmits a lost segment.
const REPLACED_GRACE: Duration = Duration::from_secs(2);

/// A listen request that was sent and is not acknowledged yet.
#[derive(Debug)]
struct PendingListen {
    request: RequestId,
    requested: WatchFilter,
    /// The deadline for its acknowledgement.
    until: Instant,
}

/// A listen request that was acknowledged.
#[derive(Debug)]
struct OpenListen {
    request: RequestId,
    requested: WatchFilter,
    granted: WatchFilter,
    since: Instant,
    had_notification: bool,
}

/// A change in the state of the subscription.
#[derive(Debug)]
pub(super) enum ListenUpdate {
    /// No change that matters to watches.
    None,
    /// Notifications arrive again.
    Resumed,
    /// Notifications do not arrive, for now.
    Interrupted,
    /// Notifications arrive, but some may have been missed.
    Missed,
    /// The server has ended the subscription, and the configuration says not to renew it.
    Ended,
    /// The server has refused the last listen request.
    Refused(Outcome),
}

#[derive(Debug)]
pub(super) struct ModernSubscription {
    channel: ChannelKind,
    on_server_end: OnServerEnd,
    opening: Option<PendingListen>,
    open: Option<OpenListen>,
    /// Replaced listen requests, with the time at which they are ended.
    replaced: OrderedMap<RequestId, Instant>,
    backoff: BackoffTimer,
}

impl ModernSubscription {
    pub(super) fn new(config: &WatchConfig, channel: ChannelKind) -> Self {
        Self {
            channel,
            on_server_end: config.on_server_end,
            opening: None,
            open: None,
            replaced: OrderedMap::new(),
            backoff: config.backoff_timer(),
        }
    }

    /// The next action for the filter `wanted`. Call until it returns `None`.
    pub(super) fn next(&mut self, now: Instant, wanted: WatchFilter) -> Option<WatchAction> {
        if let Some((&request, _)) = self.replaced.iter().find(|&(_, &until)| until <= now) {
            self.replaced.remove(&request);
            return Some(WatchAction::End(request));
        }
        if wanted.is_empty() {
            return self.take_request().map(WatchAction::End);
        }
        if let Some(late) = self.opening.take_if(|opening| opening.until <= now) {
            self.backoff.fail(now, Duration::ZERO);
            return Some(WatchAction::End(late.request));
        }
        if self.opening.is_some() || self.open.as_ref().is_some_and(|open| open.requested == wanted) {
            self.backoff.clear();
            return None;
        }
        (!self.backoff.is_waiting(now)).then_some(WatchAction::Listen(wanted))
    }

    /// Takes a listen request that is to be ended; call until it returns `None`.
    pub(super) fn take_request(&mut self) -> Option<RequestId> {
        self.backoff.clear();
        (self.opening.take().map(|opening| opening.request))
            .or_else(|| self.open.take().map(|open| open.request))
            .or_else(|| self.replaced.pop_first().map(|(request, _)| request))
    }

    /// Notes that a listen request was sent, with the deadline for its acknowledgement.
    pub(super) fn note_sent(&mut self, request: RequestId, asked: WatchFilter, until: Instant) {
        self.backoff.clear();
        self.opening = Some(PendingListen { request, requested: asked, until });
    }

    /// Notes that a listen request could not be sent.
    pub(super) fn note_not_sent(&mut self, now: Instant) {
        self.backoff.fail(now, Duration::ZERO);
    }

    /// Handles an acknowledgement with the filter that the server grants.
    pub(super) fn handle_acknowledged(
        &mut self,
        now: Instant,
        request: RequestId,
        granted: WatchFilter,
    ) -> ListenUpdate {
        let Some(opening) = self.opening.take_if(|opening| opening.request == request) else {
            return ListenUpdate::None;
        };
        if let Some(before) = self.open.take() {
            let linger = match self.channel {
                ChannelKind::Shared => Duration::ZERO,
                ChannelKind::Separate => REPLACED_GRACE,
            };
            self.replaced.insert(before.request, now + linger);
        }
        let PendingListen { request, requested: asked, .. } = opening;
        self.open =
            Some(OpenListen { request, requested: asked, granted, since: now, had_notification: false });
        ListenUpdate::Resumed
    }

    /// Handles a notification on this request. It counts as an acknowledgement if the server has sent none.
    pub(super) fn handle_notification(&mut self, now: Instant, request: RequestId) -> ListenUpdate {
        if let Some(open) = self.open.as_mut().filter(|open| open.request == request) {
            open.had_notification = true;
        }
        match &self.opening {
            Some(opening) if opening.request == request => {
                let granted = opening.requested.clone();
                self.handle_acknowledged(now, request, granted)
            }
            _ => ListenUpdate::None,
        }
    }

    /// Handles the end of this request.
    pub(super) fn handle_ended(
        &mut self,
        now: Instant,
        request: RequestId,
        class: RetryClass,
    ) -> ListenUpdate {
        if self.replaced.remove(&request).is_some() {
            return if matches!(class, RetryClass::Done) { ListenUpdate::None } else { ListenUpdate::Missed };
        }
        if self.opening.take_if(|opening| opening.request == request).is_some() {
            return self.handle_open_failed(now, class);
        }
        let Some(open) = self.open.take_if(|open| open.request == request) else { return ListenUpdate::None };
        if open.had_notification || now.saturating_since(open.since) >= STEADY_AFTER {
            self.backoff.reset();
        }
        // The next request is in flight.
        if self.opening.is_some() {
            return ListenUpdate::Interrupted;
        }
        match class {
            RetryClass::Done if self.on_server_end == OnServerEnd::Stop => ListenUpdate::Ended,
            RetryClass::Lost(least) => {
                self.backoff.fail(now, least);
                ListenUpdate::Interrupted
            }
            // It was acknowledged before.
            RetryClass::Done | RetryClass::Refused(..) => {
                self.backoff.fail(now, Duration::ZERO);
                ListenUpdate::Interrupted
            }
        }
    }

    fn handle_open_failed(&mut self, now: Instant, class: RetryClass) -> ListenUpdate {
        match class {
            // One that is always ended before it is open is none.
            RetryClass::Done if self.on_server_end == OnServerEnd::Stop || self.backoff.is_exhausted() => {
                ListenUpdate::Ended
            }
            RetryClass::Refused(outcome, kind)
                if kind == RefusalKind::Permanent || self.backoff.is_exhausted() =>
            {
                // Topics that only the next request would add are not requested at once.
                self.backoff.fail(now, Duration::ZERO);
                ListenUpdate::Refused(outcome)
            }
            RetryClass::Lost(least) => {
                self.backoff.fail(now, least);
                ListenUpdate::None
            }
            RetryClass::Done | RetryClass::Refused(..) => {
                self.backoff.fail(now, Duration::ZERO);
                ListenUpdate::None
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let opening = self.opening.as_ref().map(|opening| opening.until);
        [self.replaced.values().min().copied(), opening, self.backoff.due()].into_iter().flatten().min()
    }

    // --- Getters ---

    /// The filter of the last listen request, if that is `request` and unacknowledged.
    pub(super) fn opening(&self, request: RequestId) -> Option<&WatchFilter> {
        self.opening.as_ref().filter(|opening| opening.request == request).map(|opening| &opening.requested)
    }

    /// The requested filter and the granted one, if the subscription is open.
    pub(super) fn open(&self) -> Option<(&WatchFilter, &WatchFilter)> {
        self.open.as_ref().map(|open| (&open.requested, &open.granted))
    }
}
