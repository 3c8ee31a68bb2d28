//! The events that a session keeps for a client that comes back for them.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// What is charged for an event beside its bytes.
const OVERHEAD: usize = 64;

/// Events by the lane that they were sent on. When there are too many, the oldest of all go first; the newest stays
/// whatever its size.
#[derive(Debug)]
pub(super) struct Store {
    lanes: BTreeMap<u64, VecDeque<(u64, Bytes)>>,
    /// The lane of each event, oldest first.
    order: VecDeque<u64>,
    bytes: usize,
    most_events: usize,
    most_bytes: usize,
}

impl Store {
    pub(super) fn new(most_events: usize, most_bytes: usize) -> Self {
        Self { lanes: BTreeMap::new(), order: VecDeque::new(), bytes: 0, most_events, most_bytes }
    }

    pub(super) fn push(&mut self, lane: u64, number: u64, event: Bytes) {
        self.bytes = self.bytes.saturating_add(event.len()).saturating_add(OVERHEAD);
        self.lanes.entry(lane).or_default().push_back((number, event));
        self.order.push_back(lane);
    }

    /// Drops the oldest event if there is too much; returns its lane. To be asked again until there is nothing to drop.
    pub(super) fn evict(&mut self) -> Option<u64> {
        let too_much = self.order.len() > self.most_events || self.bytes > self.most_bytes;
        if !too_much || self.order.len() <= 1 {
            return None;
        }
        let lane = self.order.pop_front()?;
        let events = self.lanes.get_mut(&lane)?;
        let (_, event) = events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(event.len().saturating_add(OVERHEAD));
        if events.is_empty() {
            self.lanes.remove(&lane);
        }
        Some(lane)
    }

    pub(super) fn has(&self, lane: u64) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// The events of a lane that were sent after event `number`, oldest first.
    pub(super) fn after(&self, lane: u64, number: u64) -> impl Iterator<Item = (u64, Bytes)> + use<'_> {
        let events = self.lanes.get(&lane).into_iter().flatten();
        events.filter(move |(this, _)| *this > number).cloned()
    }

    pub(super) fn clear(&mut self) {
        self.lanes.clear();
        self.order.clear();
        self.bytes = 0;
    }
}
