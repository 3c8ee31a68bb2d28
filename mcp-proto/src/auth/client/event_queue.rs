//! Events queued for the application.

use alloc::collections::VecDeque;
use core::mem::discriminant;

use super::event::Event;

/// The queue of events. A later event replaces those that it makes pointless.
#[derive(Default)]
pub(super) struct EventQueue(VecDeque<Event>);

impl EventQueue {
    pub(super) fn push(&mut self, event: Event) {
        let is_outcome = |event: &Event| matches!(event, Event::Ready(_) | Event::Failed(_));
        self.0.retain(|earlier| {
            discriminant(earlier) != discriminant(&event) && !(is_outcome(earlier) && is_outcome(&event))
        });
        self.0.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }

    /// Removes the request to open a page. Returns whether it was still queued.
    pub(super) fn remove_page(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|event| !matches!(event, Event::NeedsAuthorization(_)));
        self.0.len() != before
    }
}
