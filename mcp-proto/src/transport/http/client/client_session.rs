//! The client's session with the server, and the messages that open it.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::mem;
use core::time::Duration;

use crate::schema::{Era, Initialized, Notification};

use super::outbox::OneWayMessage;

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
    id: Option<Arc<str>>,
    /// The number of the session, which tells exchanges of earlier sessions from those of this one.
    generation: u32,
    gate: SendGate,
    /// Whether the server has answered a request in this session.
    has_answered: bool,
    /// The number of consecutive sessions lost before any request was answered.
    fruitless_renewals: u32,
    /// Whether the server has opened a stream for a GET.
    offers_stream: bool,
    /// The notification that opens the session, if it has to be resent.
    initialized: Option<OneWayMessage>,
    /// Notifications and replies that were not sent, to be resent after a delay.
    paused_posts: VecDeque<OneWayMessage>,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        //= C4.18 "treat as secret"
        let Self { generation, gate, has_answered, fruitless_renewals, offers_stream, .. } = self;
        f.debug_struct("ClientSession")
            .field("generation", generation)
            .field("gate", gate)
            .field("has_answered", has_answered)
            .field("fruitless_renewals", fruitless_renewals)
            .field("offers_stream", offers_stream)
            .finish_non_exhaustive()
    }
}

impl ClientSession {
    // --- Getters ---

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn gate(&self) -> SendGate {
        self.gate
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    pub(super) fn fruitless_renewals(&self) -> u32 {
        self.fruitless_renewals
    }

    pub(super) fn offers_stream(&self) -> bool {
        self.offers_stream
    }

    // --- Begin and end ---

    pub(super) fn set_id(&mut self, id: Option<String>) {
        self.id = id.map(Arc::from);
    }

    /// Begins a session once the server's era is known.
    ///
    /// A modern server has no session and accepts requests at once; a legacy one is sent `notifications/initialized`
    /// first.
    pub(super) fn begin(&mut self, era: Era) {
        match era {
            Era::Modern => {
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

    // --- The gate ---

    pub(super) fn close_gate(&mut self) {
        self.gate = SendGate::Closed;
    }

    /// Takes the notification that opens the session, if the gate is closed; returns any other message.
    pub(super) fn start_opening(&mut self, post: OneWayMessage) -> Option<OneWayMessage> {
        if self.gate != SendGate::Closed || !opens_session(&post) {
            return Some(post);
        }
        self.gate = SendGate::Opening;
        self.initialized = Some(post);
        None
    }

    /// Returns whether the gate opens after this message.
    pub(super) fn is_opened_by(&self, post: &OneWayMessage) -> bool {
        self.gate == SendGate::Opening && opens_session(post)
    }

    /// Opens the gate if it was waiting for `notifications/initialized`; returns whether it was.
    pub(super) fn open_gate(&mut self) -> bool {
        let opening = self.gate == SendGate::Opening;
        if opening {
            self.gate = SendGate::Open;
        }
        opening
    }

    // --- Messages to resend ---

    /// Stores the notification that opens the session, to resend it.
    pub(super) fn keep_initialized(&mut self, post: OneWayMessage) {
        self.initialized = Some(post);
    }

    pub(super) fn take_initialized(&mut self) -> Option<OneWayMessage> {
        self.initialized.take()
    }

    /// Stores a message that was not sent until its delay ends; returns `false` if `limit` messages are stored already.
    pub(super) fn pause_post(&mut self, post: OneWayMessage, limit: usize) -> bool {
        let has_room = self.paused_posts.len() < limit;
        if has_room {
            self.paused_posts.push_back(post);
        }
        has_room
    }

    pub(super) fn take_paused_posts(&mut self) -> VecDeque<OneWayMessage> {
        mem::take(&mut self.paused_posts)
    }

    // --- Reactions of the server ---

    /// Records that a request was answered.
    pub(super) fn note_answered(&mut self) {
        self.has_answered = true;
        self.fruitless_renewals = 0;
    }

    /// Records that the session has lasted, even without an answered request.
    pub(super) fn note_stable(&mut self) {
        self.fruitless_renewals = 0;
    }

    /// Records that the session was lost before any request was answered.
    pub(super) fn note_fruitless(&mut self) {
        self.fruitless_renewals = self.fruitless_renewals.saturating_add(1);
    }

    /// Records that the server has opened a stream for a GET.
    pub(super) fn note_stream_offered(&mut self) {
        self.offers_stream = true;
    }
}

fn opens_session(post: &OneWayMessage) -> bool {
    post.notification.as_ref().is_some_and(|(method, _)| **method == *Initialized::NAME)
}
