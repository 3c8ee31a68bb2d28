//! The legacy session of a client: opened by `initialize`, renewed when the server has lost it. Notifications and replies,
//! one of which opens it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use alloc::collections::VecDeque;
use core::mem;
use core::time::Duration;

use crate::Instant;
use crate::peer::LostReason;
use crate::peer::client::{CloseReason, Diagnostic};
use crate::rpc::Text;
use crate::schema::{Era, Revision};
use crate::transport::http::{ExchangeId, SentState, header};

use super::HttpClient;
use super::exchange::ExchangeKind;
use super::outbox::OneWayMessage;
use super::outbox::RequestHeaders;
use super::response::{ExchangeOutcome, ResumePoint, is_success};

/// How long the response to a notification or a reply may take to end.
pub(super) const POST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the session lets requests be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SendGate {
    /// No: the server is not known.
    #[default]
    Closed,
    /// Not yet: `notifications/initialized` is being sent, and some servers refuse earlier requests.
    Opening,
    /// Yes: requests are sent.
    Open,
}

/// The client's session with the server. The session id is a secret.
#[derive(Default)]
pub(super) struct ClientSession {
    pub(super) id: Option<Text>,
    /// The number of the session, which tells exchanges of earlier sessions from those of this one.
    pub(super) generation: u32,
    pub(super) gate: SendGate,
    /// Whether the server has answered a request in this session.
    pub(super) has_answered: bool,
    /// The number of consecutive sessions lost before any request was answered.
    pub(super) fruitless_renewals: u32,
    /// Whether the server has opened a stream for a GET.
    pub(super) offers_stream: bool,
    /// The notification that opens the session, if it has to be resent.
    initialized: Option<OneWayMessage>,
    /// Notifications and replies that were not sent, to be resent after a delay.
    paused_posts: VecDeque<OneWayMessage>,
}

//= C4.18 "treat as secret"
debug_fields! { ClientSession { generation, gate, has_answered, fruitless_renewals, offers_stream } }

impl ClientSession {
    /// Begins a session once the server's era is known.
    ///
    /// A modern server has no session and accepts requests at once; a legacy one is sent `notifications/initialized`
    /// first.
    pub(super) fn begin(&mut self, era: Era) {
        match era {
            Era::Modern => {
                //= K17 "2026-07-28 ignores it"
                self.id = None;
                self.gate = SendGate::Open;
            }
            Era::Legacy => self.gate = SendGate::Closed,
        }
    }

    /// Discards the lost session and everything in it, replies included.
    pub(super) fn discard(&mut self) {
        let mut paused_posts = mem::take(&mut self.paused_posts);
        paused_posts.retain(|post| post.notification.is_some());
        *self = Self {
            generation: self.generation.wrapping_add(1),
            fruitless_renewals: self.fruitless_renewals.saturating_add(1),
            paused_posts,
            ..Self::default()
        };
    }

    /// Ends the session with the connection: no message is sent any more.
    pub(super) fn end(&mut self) {
        self.gate = SendGate::Closed;
        self.initialized = None;
        self.paused_posts.clear();
        self.id = None;
    }

    /// Returns whether the gate opens after this message.
    pub(super) fn is_opened_by(&self, post: &OneWayMessage) -> bool {
        self.gate == SendGate::Opening && post.opens_session()
    }
}

impl HttpClient {
    /// Records that the server has answered a request.
    pub(super) fn note_answered(&mut self) {
        self.session.has_answered = true;
        self.session.fruitless_renewals = 0;
        self.detection.is_era_proven = true;
        if let Some(events) = &mut self.legacy_sse {
            events.failures = 0;
        }
    }

    /// Whether a new session may be opened without a request that needs it: not if the server has lost many in a row.
    pub(super) fn may_renew_unasked(&self) -> bool {
        self.session.fruitless_renewals < self.config.backoff.attempts
    }

    /// Opens a new session in place of one that the server has lost. Returns whether it does.
    pub(super) fn renew_session(&mut self, now: Instant) -> bool {
        if self.session.id.is_none() {
            return false;
        }
        let Some(version) = self.peer.server().map(|server| server.revision) else { return false };
        if !self.peer.restart_detection() {
            return false;
        }
        self.discard_session(now);
        //= K17 "404 opens a new session"
        //= C4.19 "404 to a request with a session id → new `initialize` without session id"
        let act = self.detection.repeat_handshake(now, version);
        self.perform_detection(now, act);
        true
    }

    /// Discards the session and everything that depends on it.
    pub(super) fn discard_session(&mut self, now: Instant) {
        self.peer.report(Diagnostic::SessionLost);
        self.session.discard();
        self.timers.opening = None;
        self.outbox.drop_replies();
        self.stop_listening();
        for number in self.peer.carried(|call| call.streams.has_position()) {
            self.abort_call_exchange(number);
            self.handle_broken_call(now, number, "the session was lost", ResumePoint::default());
        }
        if self.legacy_sse.is_none() {
            self.fail_accepted_calls(now, "the session was lost");
        }
    }

    /// Appends the headers that every request of the session carries:
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header>
    pub(super) fn with_session_headers(&self, mut headers: RequestHeaders) -> RequestHeaders {
        let server = self.peer.server().filter(|server| server.era == Era::Legacy);
        if let Some(server) = server.filter(|server| server.revision >= Revision::V2025_06_18) {
            //= F43 "`MCP-Protocol-Version` is sent once the version is known"
            //= C4.5 "Header `MCP-Protocol-Version` (negotiated) on every request after initialize"
            headers.push((header::PROTOCOL_VERSION.into(), Text::from_static(server.revision.as_str())));
        }
        if let Some(session) = &self.session.id {
            //= F42 "`Mcp-Session-Id` is stored and sent from then on"
            //= C4.18 "send it on all later requests"
            headers.push((header::SESSION_ID.into(), session.clone()));
        }
        headers
    }

    // --- Notifications and replies ---

    /// Sends the notification that opens the session.
    pub(super) fn open_session(&mut self, now: Instant, post: OneWayMessage) {
        self.session.gate = SendGate::Opening;
        self.session.initialized = Some(post);
        self.resend_initialized(now);
    }

    pub(super) fn send_post(&mut self, now: Instant, post: OneWayMessage) {
        // The message may have been queued before the server's era was known, or for another era. Replies are legacy.
        let era = post.notification.as_ref().map_or(Era::Legacy, |(_, revision)| revision.era());
        if self.peer.server().map(|server| server.era) != Some(era) {
            return;
        }
        if let Ok(exchange) = self.open_exchange(ExchangeKind::Post(post)) {
            self.limit_post_response(now, exchange);
        }
    }

    //= F66 "Notifications have a timeout"
    /// Limits the time of a one-way message's exchange: its response is not needed, but the exchange occupies a slot.
    pub(super) fn limit_post_response(&mut self, now: Instant, exchange: ExchangeId) {
        self.exchanges.set_deadline(exchange, Some(now + self.config.client.request_timeout));
    }

    /// Handles a successful response head to a one-way message.
    pub(super) fn handle_post_accepted(&mut self, id: ExchangeId, post: &OneWayMessage) {
        let generation = self.exchanges.get(id).map(|exchange| exchange.generation);
        if self.session.is_opened_by(post) && generation == Some(self.session.generation) {
            self.open_gate();
        }
    }

    fn open_gate(&mut self) {
        if self.session.gate == SendGate::Opening {
            self.session.gate = SendGate::Open;
            self.timers.opening = None;
            //= F10 "after `notifications/initialized` and delays nothing"
            //= K3 "The GET stream is opened after `notifications/initialized`"
            self.start_listening();
        }
    }

    /// Handles a one-way message that was not accepted, or whose outcome is unknown.
    pub(super) fn handle_post_end(
        &mut self,
        now: Instant,
        post: OneWayMessage,
        is_current: bool,
        ended: ExchangeOutcome,
    ) {
        if !is_current {
            return;
        }
        let opens = self.session.is_opened_by(&post);
        let refusal = match ended {
            // An intermediary, most likely. A server that never received `notifications/initialized` sends no messages
            // of its own.
            ExchangeOutcome::NoAnswer(error) | ExchangeOutcome::Broken { refused: Some(error), .. }
                if opens
                    && matches!(error.status, 408 | 425 | 429 | 502..=504)
                    && post.failures < self.config.backoff.attempts =>
            {
                return self.retry_post_later(now, post, "");
            }
            ExchangeOutcome::Error { http: error, .. }
            | ExchangeOutcome::NoAnswer(error)
            | ExchangeOutcome::Broken { refused: Some(error), .. } => Some(error),
            ExchangeOutcome::Broken { sent: SentState::NotSent, detail, .. }
            | ExchangeOutcome::Unreachable { detail } => {
                return self.retry_post_later(now, post, &detail);
            }
            ExchangeOutcome::Broken { detail, .. } if opens => {
                return self.retry_post_later(now, post, &detail);
            }
            _ => None,
        };
        if let Some(error) = refusal.filter(|error| !is_success(error.status)) {
            if error.status == 404 && self.may_renew_unasked() && self.renew_session(now) {
                return;
            }
            let method = post.notification.map_or("a reply".into(), |(method, _)| method);
            self.peer.report(Diagnostic::MessageRejected { message: method.into(), error: *error });
        }
        if opens {
            self.open_gate();
        }
    }

    fn retry_post_later(&mut self, now: Instant, mut post: OneWayMessage, detail: &str) {
        let backoff = self.config.backoff;
        let opens = self.session.is_opened_by(&post);
        if post.failures >= backoff.attempts {
            if opens {
                self.peer.close_lost(CloseReason::Lost(LostReason::Disconnected(detail.into())));
            }
            return;
        }
        let pause = backoff.pause(post.failures, &mut self.rng);
        post.failures = post.failures.saturating_add(1);
        if opens {
            self.session.initialized = Some(post);
            self.timers.opening = Some(now + pause);
        } else if self.session.paused_posts.len() < self.limits().exchanges {
            self.session.paused_posts.push_back(post);
            self.timers.posts.get_or_insert(now + pause);
        }
    }

    /// Sends `notifications/initialized` again.
    ///
    /// If it was sent already and the server has not responded in time, opens the gate.
    pub(super) fn resend_initialized(&mut self, now: Instant) {
        match self.session.initialized.take() {
            Some(post) => {
                self.send_post(now, post);
                self.timers.opening = Some(now + POST_RESPONSE_TIMEOUT);
            }
            None => self.open_gate(),
        }
    }

    /// Queues the one-way messages whose delay has ended.
    pub(super) fn resend_posts(&mut self) {
        for post in mem::take(&mut self.session.paused_posts) {
            self.outbox.push_post(post);
        }
    }
}
