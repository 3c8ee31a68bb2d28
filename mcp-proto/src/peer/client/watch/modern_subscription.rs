//! Listening to a modern server: one `subscriptions/listen` for all that is of interest, whatever becomes of it.
//!
//! | what happens | what follows |
//! |---|---|
//! | something else is of interest | another listen for that, once none is unanswered |
//! | it is acknowledged | it takes the place of the one before, which is ended |
//! | it is lost | another one after a pause; what it was to tell may have changed |
//! | the server ends it | nothing more is heard, unless another one was on its way |
//! | it is refused | nothing more is heard of what the one before does not tell |
//! | nothing is of interest any more | all are ended |
//!
//! Over HTTP each has a stream of its own. What was sent on the stream of the one before may then come after the
//! acknowledgement of its successor, so it is kept for a while; on one channel nothing overtakes.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::Instant;
use crate::backoff::BackoffTimer;
use crate::peer::Outcome;

use super::retry_class::{RefusalKind, RetryClass};
use super::{ChannelKind, OnServerEnd, WatchConfig, WatchFilter};

/// How long a listen must last to count as one that works, whether anything comes on it or not.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// How long what was replaced may still say what it had to say (HTTP): as long as a segment that was lost on the way
/// takes to be sent again.
#[cfg(feature = "http")]
const REPLACED_GRACE: Duration = Duration::from_secs(2);

/// One that was sent and is not acknowledged.
#[derive(Debug)]
struct PendingListen {
    number: i64,
    requested: WatchFilter,
    /// When it should have been acknowledged.
    until: Instant,
}

/// One that was acknowledged.
#[derive(Debug)]
struct OpenListen {
    number: i64,
    requested: WatchFilter,
    granted: WatchFilter,
    since: Instant,
    had_notification: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenAction {
    /// Nothing, for now.
    Idle,
    /// To listen for all that is of interest.
    Listen,
    /// To end this one.
    End(i64),
}

/// What has become of listening.
#[derive(Debug)]
pub(super) enum ListenUpdate {
    /// Nothing that anybody needs to know.
    None,
    /// The server is heard.
    Resumed,
    /// It is not, for now.
    Interrupted,
    /// It is, but something may have been missed.
    Missed,
    /// It has ended listening, and this side leaves it at that.
    Ended,
    /// It does not tell what it was asked last.
    Refused(Outcome),
}

#[derive(Debug)]
pub(super) struct ModernSubscription {
    channel: ChannelKind,
    on_server_end: OnServerEnd,
    opening: Option<PendingListen>,
    open: Option<OpenListen>,
    /// Those that were replaced, with the time at which they are ended.
    replaced: BTreeMap<i64, Instant>,
    backoff: BackoffTimer,
}

impl ModernSubscription {
    pub(super) fn new(config: &WatchConfig, channel: ChannelKind) -> Self {
        Self {
            channel,
            on_server_end: config.on_server_end,
            opening: None,
            open: None,
            replaced: BTreeMap::new(),
            backoff: config.backoff_timer(),
        }
    }

    /// What is to be done now, where `wanted` is of interest. To be asked until it is to rest.
    pub(super) fn next(&mut self, now: Instant, wanted: &WatchFilter) -> ListenAction {
        if let Some((&number, _)) = self.replaced.iter().find(|&(_, &until)| until <= now) {
            self.replaced.remove(&number);
            return ListenAction::End(number);
        }
        if wanted.is_empty() {
            return self.end_all();
        }
        if let Some(late) = self.opening.take_if(|opening| opening.until <= now) {
            self.backoff.fail(now, Duration::ZERO);
            return ListenAction::End(late.number);
        }
        if self.opening.is_some() || self.open.as_ref().is_some_and(|open| open.requested == *wanted) {
            self.backoff.clear();
            return ListenAction::Idle;
        }
        if self.backoff.is_waiting(now) { ListenAction::Idle } else { ListenAction::Listen }
    }

    /// Ends them, one at a time.
    pub(super) fn end_all(&mut self) -> ListenAction {
        self.backoff.clear();
        let number = (self.opening.take().map(|opening| opening.number))
            .or_else(|| self.open.take().map(|open| open.number))
            .or_else(|| self.replaced.pop_first().map(|(number, _)| number));
        number.map_or(ListenAction::Idle, ListenAction::End)
    }

    /// It was sent, to be acknowledged in time.
    pub(super) fn note_sent(&mut self, number: i64, asked: WatchFilter, until: Instant) {
        self.backoff.clear();
        self.opening = Some(PendingListen { number, requested: asked, until });
    }

    /// It could not be sent.
    pub(super) fn note_not_sent(&mut self, now: Instant) {
        self.backoff.fail(now, Duration::ZERO);
    }

    /// The server says what it will tell.
    pub(super) fn handle_acknowledged(
        &mut self,
        now: Instant,
        number: i64,
        granted: WatchFilter,
    ) -> ListenUpdate {
        let Some(opening) = self.opening.take_if(|opening| opening.number == number) else {
            return ListenUpdate::None;
        };
        if let Some(before) = self.open.take() {
            let linger = match self.channel {
                ChannelKind::Shared => Duration::ZERO,
                #[cfg(feature = "http")]
                ChannelKind::Separate => REPLACED_GRACE,
            };
            self.replaced.insert(before.number, now + linger);
        }
        let PendingListen { number, requested: asked, .. } = opening;
        self.open =
            Some(OpenListen { number, requested: asked, granted, since: now, had_notification: false });
        ListenUpdate::Resumed
    }

    /// Something was told on this one. A server that forgets to acknowledge has done so.
    pub(super) fn handle_notification(&mut self, now: Instant, number: i64) -> ListenUpdate {
        if let Some(open) = self.open.as_mut().filter(|open| open.number == number) {
            open.had_notification = true;
        }
        match &self.opening {
            Some(opening) if opening.number == number => {
                let granted = opening.requested.clone();
                self.handle_acknowledged(now, number, granted)
            }
            _ => ListenUpdate::None,
        }
    }

    /// This one has ended.
    pub(super) fn handle_ended(&mut self, now: Instant, number: i64, fate: RetryClass) -> ListenUpdate {
        if self.replaced.remove(&number).is_some() {
            return if matches!(fate, RetryClass::Done) { ListenUpdate::None } else { ListenUpdate::Missed };
        }
        if self.opening.take_if(|opening| opening.number == number).is_some() {
            return self.handle_open_failed(now, fate);
        }
        let Some(open) = self.open.take_if(|open| open.number == number) else { return ListenUpdate::None };
        if open.had_notification || now.saturating_since(open.since) >= STEADY_AFTER {
            self.backoff.reset();
        }
        // The next one is on its way.
        if self.opening.is_some() {
            return ListenUpdate::Interrupted;
        }
        match fate {
            RetryClass::Done if self.on_server_end == OnServerEnd::Stop => ListenUpdate::Ended,
            RetryClass::Lost(least) => {
                self.backoff.fail(now, least);
                ListenUpdate::Interrupted
            }
            // It had been granted before.
            RetryClass::Done | RetryClass::Refused(..) => {
                self.backoff.fail(now, Duration::ZERO);
                ListenUpdate::Interrupted
            }
        }
    }

    fn handle_open_failed(&mut self, now: Instant, fate: RetryClass) -> ListenUpdate {
        match fate {
            RetryClass::Done if self.on_server_end == OnServerEnd::Stop => ListenUpdate::Ended,
            RetryClass::Refused(outcome, mind)
                if mind == RefusalKind::Permanent || self.backoff.is_exhausted() =>
            {
                // What is asked for without it, if there is anything, is not asked for at once.
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

    /// Whether this one is of these.
    pub(super) fn owns_request(&self, number: i64) -> bool {
        self.opening.as_ref().is_some_and(|opening| opening.number == number)
            || self.open.as_ref().is_some_and(|open| open.number == number)
            || self.replaced.contains_key(&number)
    }

    /// What the one that was sent last asks for.
    pub(super) fn opening(&self, number: i64) -> Option<&WatchFilter> {
        self.opening.as_ref().filter(|opening| opening.number == number).map(|opening| &opening.requested)
    }

    /// What was asked for and what was granted, if the server is heard.
    pub(super) fn open(&self) -> Option<(&WatchFilter, &WatchFilter)> {
        self.open.as_ref().map(|open| (&open.requested, &open.granted))
    }
}
