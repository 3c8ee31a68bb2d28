//! The phase of the connection, its public state, and the actions for its link.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::Instant;
use crate::peer::event_queue::EventQueue;

use super::{ConnectProgress, Event, LinkAction, State};

/// The phase of a connection, which is finer than its public [`State`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The first link has not been requested.
    Disconnected,
    /// A link was requested.
    Connecting,
    /// The link is open; detection is running.
    Detecting,
    /// The server is known.
    Ready,
    /// No further request is accepted; those in flight may finish until the deadline.
    Finishing { until: Instant },
    /// The sending half was closed; the other side has until the deadline to close its own.
    Ending { until: Instant },
    /// The connection is over.
    Closed,
}

impl Phase {
    /// Whether messages are still processed.
    pub(super) fn is_receiving(self) -> bool {
        matches!(self, Self::Detecting | Self::Ready | Self::Finishing { .. } | Self::Ending { .. })
    }

    /// The deadline of a connection that is closing.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Finishing { until } | Self::Ending { until } => Some(until),
            _ => None,
        }
    }
}

/// The connection of a client, without its messages.
#[derive(Debug)]
pub(super) struct Connection {
    phase: Phase,
    state: State,
    actions: VecDeque<LinkAction>,
    /// The last progress report on connecting.
    progress: Option<Box<ConnectProgress>>,
}

impl Connection {
    /// A connection whose link is still to be opened.
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Disconnected,
            state: State::Disconnected,
            actions: VecDeque::from([LinkAction::Open]),
            progress: None,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Sets the public state, and reports it if it is another one.
    pub(super) fn set_state(&mut self, state: State, events: &mut EventQueue<Event>) {
        if self.state != state {
            if matches!(state, State::Ready | State::Disconnected) {
                self.progress = None;
            }
            self.state = state;
            events.push(Event::State(state), 0);
        }
    }

    pub(super) fn progress(&self) -> Option<&ConnectProgress> {
        self.progress.as_deref()
    }

    /// Reports the progress of connecting, if it has changed.
    pub(super) fn report_progress(&mut self, progress: ConnectProgress, events: &mut EventQueue<Event>) {
        if progress.differs(self.progress()) {
            let bytes = progress.bytes();
            events.push_or_drop(Event::Connecting(Box::new(progress.clone())), bytes);
            self.progress = Some(Box::new(progress));
        }
    }

    // --- The link ---

    pub(super) fn request(&mut self, action: LinkAction) {
        self.actions.push_back(action);
    }

    /// Drops the actions that were not taken.
    pub(super) fn clear_actions(&mut self) {
        self.actions.clear();
    }

    /// The next action; the sending half is closed only once all output is `flushed`.
    pub(super) fn poll_action(&mut self, flushed: bool) -> Option<LinkAction> {
        self.actions.pop_front_if(|action| flushed || *action != LinkAction::CloseWrite)
    }
}
