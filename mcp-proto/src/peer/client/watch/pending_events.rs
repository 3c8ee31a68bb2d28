//! The queued events of watches: each change and each state once, with its latest content.

use alloc::collections::BTreeMap;

use crate::peer::client::Event;
use crate::peer::event_queue::EventQueue;
use crate::peer::topic::{ListKind, Topic};
use crate::prelude::*;
use crate::rpc::Raw;

use super::filter::{Change, ChangeEvidence};
use super::{WatchId, WatchState};

/// The contents of the queued events. Each change and each state is queued once; its event gets the latest content when
/// it leaves the queue.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    changes: BTreeMap<(WatchId, Topic), (Option<Raw>, ChangeEvidence)>,
    states: BTreeMap<WatchId, WatchState>,
}

impl PendingEvents {
    /// Queues a change.
    pub(super) fn push_change(
        &mut self,
        id: WatchId,
        topic: Topic,
        update: Option<Raw>,
        why: ChangeEvidence,
        events: &mut EventQueue<Event>,
    ) {
        if let Some(pending) = self.changes.get_mut(&(id, topic.clone())) {
            // The latest status of a task replaces all earlier ones; any other change only says that the topic has
            // changed.
            if update.is_some() || why == ChangeEvidence::MaybeMissed {
                *pending = (update, why);
            }
            return;
        }
        let bytes = topic.bytes().saturating_add(update.as_ref().map_or(0, |update| update.as_bytes().len()));
        self.changes.insert((id, topic.clone()), (update, why));
        events.push(Event::Changed { watch: id, change: Change::new(topic, None), evidence: why }, bytes);
    }

    /// Queues a state, other than the last one.
    pub(super) fn push_state(&mut self, id: WatchId, state: WatchState, events: &mut EventQueue<Event>) {
        if self.states.insert(id, state).is_none() {
            events.push(Event::Watch { watch: id, state: WatchState::Interrupted }, 0);
        }
    }

    pub(super) fn has_change(&self, id: WatchId, topic: &Topic) -> bool {
        self.changes.contains_key(&(id, topic.clone()))
    }

    /// Completes an event that leaves the queue; `false` if it has become void meanwhile.
    pub(super) fn complete(&mut self, event: &mut Event) -> bool {
        match event {
            Event::Changed { watch, change, evidence: why } => {
                let topic = change.topic();
                let Some((update, latest)) = self.changes.remove(&(*watch, topic.clone())) else {
                    return false;
                };
                *change = Change::new(topic, update);
                *why = latest;
            }
            Event::Watch { state: WatchState::Ended(_), .. } => {}
            Event::Watch { watch, state } => {
                let Some(latest) = self.states.remove(watch) else { return false };
                *state = latest;
            }
            _ => {}
        }
        true
    }

    /// Removes a change of a topic that a watch no longer covers.
    pub(super) fn remove_change(&mut self, id: WatchId, topic: &Topic) {
        self.changes.remove(&(id, topic.clone()));
    }

    /// Removes all events of a watch.
    pub(super) fn remove_watch(&mut self, id: WatchId) {
        self.states.remove(&id);
        let first = (id, Topic::List(ListKind::Tools));
        let waiting: Vec<Topic> = (self.changes.range(first..))
            .take_while(|((watch, _), _)| *watch == id)
            .map(|((_, topic), _)| topic.clone())
            .collect();
        for topic in waiting {
            self.changes.remove(&(id, topic));
        }
    }
}
