//! Events for watches: changes and states.

use alloc::sync::Arc;

use crate::ordered_set::OrderedSet;
use crate::peer::Outcome;
use crate::peer::client::Event;
use crate::peer::event_queue::{EventQueue, Pressure};
use crate::peer::topic::Topic;
use crate::prelude::*;
use crate::rpc::Raw;

use super::modern_subscription::ListenUpdate;
use super::registry::{Watch, WatchMechanism, WatchRegistry};
use super::{ChangeEvidence, WatchFilter};
use super::{WatchEnd, WatchId, WatchState};

/// The maximum number of parents of a resource to search for watches: deeper paths are not sensible.
const MAX_PARENTS: usize = 64;

impl WatchRegistry {
    // --- Changes ---

    /// Notifies the watches of a list or a task. Returns whether there are any.
    pub(super) fn notify_changed(
        &mut self,
        topic: &Topic,
        update: Option<&Raw>,
        events: &mut EventQueue<Event>,
    ) -> bool {
        let interested: Vec<WatchId> = self.index.get(topic).into_iter().flatten().copied().collect();
        for &id in &interested {
            self.pending.push_change(
                id,
                topic.clone(),
                update.map(Raw::detached),
                ChangeEvidence::Notified,
                events,
            );
        }
        !interested.is_empty()
    }

    /// Notifies the watches of a changed resource or of one of its parents. If there are none, the server uses another
    /// name for a watched resource: all watches of resources are notified.
    pub(super) fn notify_resource(&mut self, uri: &str, events: &mut EventQueue<Event>) -> bool {
        let topic = Topic::Resource(uri.into());
        let mut notified = self.notify_changed(&topic, None, events);
        let mut above: Vec<(WatchId, Topic)> = Vec::new();
        for parent in parents(uri).take(MAX_PARENTS) {
            let parent = Topic::Resource(parent.into());
            let interested = self.index.get(&parent).into_iter().flatten();
            above.extend(interested.map(|&id| (id, parent.clone())));
        }
        if !notified && above.is_empty() {
            let first = Topic::Resource(Arc::from(""));
            for (topic, interested) in self.index.range(first..) {
                match topic {
                    Topic::Resource(_) => above.extend(interested.iter().map(|&id| (id, topic.clone()))),
                    _ => break,
                }
            }
        }
        let mut done = OrderedSet::new();
        for (id, parent) in above {
            notified = true;
            if !done.insert(id) || self.pending.has_change(id, &topic) {
                continue;
            }
            // The server can send any number of such names: if the queue has no room, the watched name stands for all.
            let room = events.pressure(topic.bytes()) == Pressure::None;
            let (topic, why) = if room {
                (topic.clone(), ChangeEvidence::Notified)
            } else {
                (parent, ChangeEvidence::MaybeMissed)
            };
            self.pending.push_change(id, topic, None, why, events);
        }
        notified
    }

    // --- States ---

    /// Interrupts all watches, because notifications no longer arrive.
    pub(super) fn interrupt(&mut self, events: &mut EventQueue<Event>) {
        let mut interrupted = Vec::new();
        for (&id, watch) in self.watches.iter_mut() {
            watch.reported_missing = None;
            if core::mem::take(&mut watch.is_covered) {
                watch.stale = true;
                interrupted.push(id);
            }
        }
        for id in interrupted {
            self.pending.push_state(id, WatchState::Interrupted, events);
        }
    }

    /// Marks all topics as possibly changed, although notifications arrive.
    pub(super) fn mark_stale(&mut self) {
        for watch in self.watches.values_mut().filter(|watch| watch.is_covered) {
            watch.stale = true;
        }
    }

    /// Ends a watch.
    pub(super) fn end_watch(&mut self, id: WatchId, end: WatchEnd, events: &mut EventQueue<Event>) {
        if self.watches.contains_key(&id) {
            self.remove(id);
            let bytes = match &end {
                WatchEnd::ByServer => 0,
                WatchEnd::Refused(outcome) => outcome.bytes(),
            };
            events.push(Event::Watch { watch: id, state: WatchState::Ended(end) }, bytes);
        }
    }

    /// Applies a change in the subscription at a modern server.
    pub(super) fn apply_listen_update(&mut self, change: ListenUpdate, events: &mut EventQueue<Event>) {
        match change {
            ListenUpdate::None => {}
            ListenUpdate::Resumed => self.confirm_all(events),
            ListenUpdate::Interrupted => self.interrupt(events),
            ListenUpdate::Missed => {
                self.mark_stale();
                self.confirm_all(events);
            }
            ListenUpdate::Ended => {
                let all: Vec<WatchId> = self.watches.keys().copied().collect();
                for id in all {
                    self.end_watch(id, WatchEnd::ByServer, events);
                }
            }
            ListenUpdate::Refused(outcome) => self.refuse(&outcome, events),
        }
    }

    /// Ends the watches whose topics were only in a refused request.
    fn refuse(&mut self, outcome: &Outcome, events: &mut EventQueue<Event>) {
        let needs = |watch: &Watch| self.granted(watch).is_none();
        let refused: Vec<WatchId> =
            self.watches.iter().filter(|(_, watch)| needs(watch)).map(|(&id, _)| id).collect();
        for id in refused {
            self.end_watch(id, WatchEnd::Refused(Box::new(outcome.clone())), events);
        }
    }

    /// Reports to all covered watches that they are on.
    pub(super) fn confirm_all(&mut self, events: &mut EventQueue<Event>) {
        let all: Vec<WatchId> = self.watches.keys().copied().collect();
        for id in all {
            self.confirm_watch(id, events);
        }
    }

    /// Reports to the watches of this topic that they are on, if they are covered.
    pub(super) fn confirm_topic(&mut self, topic: &Topic, events: &mut EventQueue<Event>) {
        let interested: Vec<WatchId> = self.index.get(topic).into_iter().flatten().copied().collect();
        for id in interested {
            self.confirm_watch(id, events);
        }
    }

    /// Reports to a watch that it is on, if it is covered, and which of its topics may have changed before.
    pub(super) fn confirm_watch(&mut self, id: WatchId, events: &mut EventQueue<Event>) {
        if self.lacks_event_stream {
            return;
        }
        let Some(watch) = self.watches.get(&id) else { return };
        let Some(granted) = self.granted(watch) else { return };
        let missing = WatchFilter(watch.filter.0.difference(&granted.0).cloned().collect());
        let fresh = watch.reported_missing.as_ref() != Some(&missing);
        let Some(watch) = self.watches.get_mut(&id) else { return };
        watch.is_covered = true;
        let stale = core::mem::take(&mut watch.stale);
        if fresh {
            watch.reported_missing = Some(missing.clone());
            self.pending.push_state(id, WatchState::On { missing }, events);
        }
        if stale {
            for topic in granted.0 {
                self.pending.push_change(id, topic, None, ChangeEvidence::MaybeMissed, events);
            }
        }
    }

    /// The part of a watch's filter that the server reports, once that is known.
    fn granted(&self, watch: &Watch) -> Option<WatchFilter> {
        let interest = &watch.filter.0;
        match &self.mechanism {
            WatchMechanism::Unknown => None,
            WatchMechanism::Modern(_) if !interest.iter().any(|topic| self.can_watch(topic)) => {
                Some(WatchFilter::new())
            }
            WatchMechanism::Modern(listening) => {
                let (asked, granted) = listening.open()?;
                let covered = interest.iter().all(|topic| asked.0.contains(topic) || !self.can_watch(topic));
                covered.then(|| interest.intersection(&granted.0).cloned().collect())
            }
            WatchMechanism::Legacy(legacy) => {
                let mut granted = WatchFilter::new();
                for topic in interest {
                    if legacy.is_covered(topic)? {
                        granted.0.insert(topic.clone());
                    }
                }
                Some(granted)
            }
        }
    }
}

/// The parents of a URI, the nearest first: each prefix before a separator, with and without the separator.
fn parents(uri: &str) -> impl Iterator<Item = &str> {
    let ends = uri.char_indices().rev().filter(|(_, char)| matches!(char, '/' | '?' | '#'));
    ends.flat_map(|(at, _)| [uri.get(..=at), uri.get(..at)])
        .flatten()
        .filter(move |parent| !parent.is_empty() && parent.len() < uri.len())
}
