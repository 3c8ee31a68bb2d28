//! What the watches are told.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::peer::Outcome;
use crate::peer::client::Event;
use crate::peer::events::{EventQueue, Pressure};
use crate::rpc::Raw;

use super::listening::News;
use super::{Interest, Topic, Watch, WatchEnd, WatchId, WatchState, Watching, Way, Why};

/// How many levels above a resource are looked at for somebody who is interested: a path of more is not sensible.
const LEVELS: usize = 64;

impl Watching {
    // --- Changes ---

    /// A list or a task has changed. Returns whether anybody is interested.
    pub(super) fn tell(
        &mut self,
        topic: &Topic,
        update: Option<&Raw>,
        events: &mut EventQueue<Event>,
    ) -> bool {
        let interested: Vec<WatchId> = self.index.get(topic).into_iter().flatten().copied().collect();
        for &id in &interested {
            self.mark(id, topic.clone(), update.map(Raw::detached), Why::Told, events);
        }
        !interested.is_empty()
    }

    /// A resource has changed: those are told who are interested in it or in what lies above it. One that nobody has
    /// asked for under this name is one that somebody knows by another name: all are told.
    pub(super) fn tell_resource(&mut self, uri: &str, events: &mut EventQueue<Event>) -> bool {
        let topic = Topic::Resource(uri.into());
        let mut told = self.tell(&topic, None, events);
        let mut above: Vec<(WatchId, Topic)> = Vec::new();
        for parent in parents(uri).take(LEVELS) {
            let parent = Topic::Resource(parent.into());
            let interested = self.index.get(&parent).into_iter().flatten();
            above.extend(interested.map(|&id| (id, parent.clone())));
        }
        if !told && above.is_empty() {
            let first = Topic::Resource(Arc::from(""));
            for (topic, interested) in self.index.range(first..) {
                match topic {
                    Topic::Resource(_) => above.extend(interested.iter().map(|&id| (id, topic.clone()))),
                    _ => break,
                }
            }
        }
        let mut done = BTreeSet::new();
        for (id, parent) in above {
            told = true;
            if !done.insert(id) || self.pending.contains_key(&(id, topic.clone())) {
                continue;
            }
            // There are as many of those as the server likes: when they are not taken, the one asked for stands for all.
            let room = events.pressure(topic.bytes()) == Pressure::None;
            let (topic, why) = if room { (topic.clone(), Why::Told) } else { (parent, Why::MayHave) };
            self.mark(id, topic, None, why, events);
        }
        told
    }

    /// Puts a change among the events, unless it waits there already.
    fn mark(
        &mut self,
        id: WatchId,
        topic: Topic,
        update: Option<Raw>,
        why: Why,
        events: &mut EventQueue<Event>,
    ) {
        if let Some(pending) = self.pending.get_mut(&(id, topic.clone())) {
            // The latest of a task tells all that was told before; that of anything else tells only that it has changed.
            if update.is_some() || why == Why::MayHave {
                *pending = (update, why);
            }
            return;
        }
        let bytes = topic.bytes().saturating_add(update.as_ref().map_or(0, |update| update.as_bytes().len()));
        self.pending.insert((id, topic.clone()), (update, why));
        events.push(Event::Changed { watch: id, change: topic.change(None), why }, bytes);
    }

    /// Completes an event that leaves; `false` if it has become void meanwhile.
    pub(in crate::peer::client) fn release(&mut self, event: &mut Event) -> bool {
        match event {
            Event::Changed { watch, change, why } => {
                let topic = change.topic();
                match self.pending.remove(&(*watch, topic.clone())) {
                    Some((update, latest)) => {
                        *change = topic.change(update);
                        *why = latest;
                        true
                    }
                    None => false,
                }
            }
            Event::Watch { state: WatchState::Ended(_), .. } => true,
            Event::Watch { watch, state } => match self.states.remove(watch) {
                Some(latest) => {
                    *state = latest;
                    true
                }
                None => false,
            },
            _ => true,
        }
    }

    // --- States ---

    fn show(&mut self, id: WatchId, state: WatchState, events: &mut EventQueue<Event>) {
        if self.states.insert(id, state).is_none() {
            events.push(Event::Watch { watch: id, state: WatchState::Interrupted }, 0);
        }
    }

    /// The server is not heard any more.
    pub(super) fn interrupt(&mut self, events: &mut EventQueue<Event>) {
        let mut heard = Vec::new();
        for (&id, watch) in &mut self.watches {
            watch.told = None;
            if core::mem::take(&mut watch.heard) {
                watch.stale = true;
                heard.push(id);
            }
        }
        for id in heard {
            self.show(id, WatchState::Interrupted, events);
        }
    }

    /// Something may have been missed, though the server is heard.
    pub(super) fn miss(&mut self) {
        for watch in self.watches.values_mut().filter(|watch| watch.heard) {
            watch.stale = true;
        }
    }

    /// A watch is over.
    pub(super) fn end(&mut self, id: WatchId, end: WatchEnd, events: &mut EventQueue<Event>) {
        if self.watches.contains_key(&id) {
            self.remove(id);
            let bytes = match &end {
                WatchEnd::ByServer => 0,
                WatchEnd::Refused(outcome) => outcome.bytes(),
            };
            events.push(Event::Watch { watch: id, state: WatchState::Ended(end) }, bytes);
        }
    }

    /// What has become of listening to a modern server.
    pub(super) fn take_news(&mut self, news: News, events: &mut EventQueue<Event>) {
        match news {
            News::None => {}
            News::Heard => self.settle_all(events),
            News::Interrupted => self.interrupt(events),
            News::Missed => {
                self.miss();
                self.settle_all(events);
            }
            News::Ended => {
                let all: Vec<WatchId> = self.watches.keys().copied().collect();
                for id in all {
                    self.end(id, WatchEnd::ByServer, events);
                }
            }
            News::Refused(outcome) => self.refuse(&outcome, events),
        }
    }

    /// What was asked last is not granted: those who need that are told so.
    fn refuse(&mut self, outcome: &Outcome, events: &mut EventQueue<Event>) {
        let needs = |watch: &Watch| self.granted(watch).is_none();
        let refused: Vec<WatchId> =
            self.watches.iter().filter(|(_, watch)| needs(watch)).map(|(&id, _)| id).collect();
        for id in refused {
            self.end(id, WatchEnd::Refused(Box::new(outcome.clone())), events);
        }
    }

    /// Tells all who can be told now that they are.
    pub(super) fn settle_all(&mut self, events: &mut EventQueue<Event>) {
        let all: Vec<WatchId> = self.watches.keys().copied().collect();
        for id in all {
            self.settle(id, events);
        }
    }

    /// Tells all who are interested in this one that they are told, if they are.
    pub(super) fn settle_interested(&mut self, topic: &Topic, events: &mut EventQueue<Event>) {
        let interested: Vec<WatchId> = self.index.get(topic).into_iter().flatten().copied().collect();
        for id in interested {
            self.settle(id, events);
        }
    }

    /// Tells a watch that it is told, if it is, and what may have changed before.
    pub(super) fn settle(&mut self, id: WatchId, events: &mut EventQueue<Event>) {
        if self.deaf {
            return;
        }
        let Some(watch) = self.watches.get(&id) else { return };
        let Some(granted) = self.granted(watch) else { return };
        let missing = Interest(watch.interest.0.difference(&granted.0).cloned().collect());
        let fresh = watch.told.as_ref() != Some(&missing);
        let Some(watch) = self.watches.get_mut(&id) else { return };
        watch.heard = true;
        let stale = core::mem::take(&mut watch.stale);
        if fresh {
            watch.told = Some(missing.clone());
            self.show(id, WatchState::On { missing }, events);
        }
        if stale {
            for topic in granted.0 {
                self.mark(id, topic, None, Why::MayHave, events);
            }
        }
    }

    /// What a watch is told of what it is interested in, if that is known.
    fn granted(&self, watch: &Watch) -> Option<Interest> {
        let interest = &watch.interest.0;
        match &self.way {
            Way::Unknown => None,
            Way::Modern(_) if !interest.iter().any(|topic| self.may_ask(topic)) => Some(Interest::new()),
            Way::Modern(listening) => {
                let (asked, granted) = listening.open()?;
                let covered = interest.iter().all(|topic| asked.0.contains(topic) || !self.may_ask(topic));
                covered.then(|| interest.intersection(&granted.0).cloned().collect())
            }
            Way::Legacy(legacy) => {
                let mut granted = Interest::new();
                for topic in interest {
                    if legacy.tells(topic)? {
                        granted.0.insert(topic.clone());
                    }
                }
                Some(granted)
            }
        }
    }
}

/// What a URI lies below, the nearest first: each part before a separator, with and without that.
fn parents(uri: &str) -> impl Iterator<Item = &str> {
    let ends = uri.char_indices().rev().filter(|(_, char)| matches!(char, '/' | '?' | '#'));
    ends.flat_map(|(at, _)| [uri.get(..=at), uri.get(..at)])
        .flatten()
        .filter(move |parent| !parent.is_empty() && parent.len() < uri.len())
}
