//! The table of the other side's unanswered requests.

use crate::inline_map::InlineMap;
use crate::lazy_box::Initial;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::Id;

/// A request of the other side that awaits an answer: a local handle, never reused on a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct InboundId(u64);

impl InboundId {
    /// The place of a running handler that belongs to no request, which has no handle.
    pub(crate) const NO_REQUEST: Self = Self(0);
    /// The first request of a connection.
    pub(crate) const FIRST: Self = Self(1);

    /// The handle as a number, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

debug_fields! { InboundId(inner) => "inbound request {inner}" }

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InsertError {
    /// A request with the same id has not been answered yet.
    Duplicate,
    /// Too many requests are unanswered.
    Full,
}

/// The table of unanswered requests, by local handle and by id on the wire.
#[derive(Debug)]
pub(crate) struct Inbound<T> {
    entries: InlineMap<InboundId, (Id, T)>,
    handles: InlineMap<Id, InboundId>,
    next: u64,
    limit: usize,
}

impl<T> Inbound<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: InlineMap::new(), handles: InlineMap::new(), next: InboundId::FIRST.0, limit }
    }

    /// A handle for an input request that is answered like a request but has no id on the wire.
    pub(crate) fn mint(&mut self) -> InboundId {
        let handle = InboundId(self.next);
        self.next = self.next.saturating_add(1);
        handle
    }

    /// The number of the next handle.
    #[cfg(all(feature = "std", feature = "server", feature = "http"))]
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Makes `next` the number of the next handle, unless that is higher already.
    #[cfg(all(feature = "std", feature = "server", feature = "http"))]
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    pub(crate) fn insert(&mut self, id: Id, value: T) -> Result<InboundId, InsertError> {
        if self.entries.len() >= self.limit {
            let is_duplicate = self.handles.contains_key(&id);
            return Err(if is_duplicate { InsertError::Duplicate } else { InsertError::Full });
        }
        if let Some(first) = self.handles.insert(id.clone(), InboundId(self.next)) {
            self.handles.insert(id, first);
            return Err(InsertError::Duplicate);
        }
        let handle = self.mint();
        self.entries.insert(handle, (id, value));
        Ok(handle)
    }

    pub(crate) fn get(&self, handle: InboundId) -> Option<&(Id, T)> {
        self.entries.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: InboundId) -> Option<&mut (Id, T)> {
        self.entries.get_mut(&handle)
    }

    pub(crate) fn find(&self, id: &Id) -> Option<InboundId> {
        self.handles.get(id).copied()
    }

    /// The handles of the requests that `includes` selects, oldest first.
    #[cfg(feature = "server")]
    pub(crate) fn handles_of(&self, includes: impl Fn(&T) -> bool) -> alloc::vec::Vec<InboundId> {
        let selected = self.entries.iter().filter(|(_, (_, value))| includes(value));
        selected.map(|(handle, _)| *handle).collect()
    }

    pub(crate) fn remove(&mut self, handle: InboundId) -> Option<(Id, T)> {
        let (id, value) = self.entries.remove(&handle)?;
        self.handles.remove(&id);
        Some((id, value))
    }

    pub(crate) fn pop(&mut self) -> Option<(InboundId, Id, T)> {
        let (&handle, _) = self.entries.first_key_value()?;
        let (id, value) = self.remove(handle)?;
        Some((handle, id, value))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

// The answers to a batch, collected until the last one is there (2025-03-26).
//
// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>

/// One batch whose answers are being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchId(u64);

#[derive(Debug, Default)]
struct BatchAnswers {
    /// The number of answers that are missing; the batch itself counts as one while it is being read.
    unanswered: usize,
    answers: Vec<u8>,
}

/// The batches that have not been answered yet.
#[derive(Debug)]
pub(crate) struct Batches {
    batches: OrderedMap<BatchId, BatchAnswers>,
    next: u64,
    bytes: usize,
}

impl Initial for Batches {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

impl Batches {
    pub(crate) const fn new() -> Self {
        Self { batches: OrderedMap::new(), next: 0, bytes: 0 }
    }

    /// Opens a batch. The caller [closes](Self::close) it once all of it has been read.
    pub(crate) fn open(&mut self) -> BatchId {
        let id = BatchId(self.next);
        self.next = self.next.saturating_add(1);
        self.batches.insert(id, BatchAnswers { unanswered: 1, answers: Vec::new() });
        id
    }

    /// Counts a request of the batch that will be answered.
    pub(crate) fn expect(&mut self, id: BatchId) {
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.unanswered = batch.unanswered.saturating_add(1);
        }
    }

    /// Appends an answer, written by `write`; if `write` fails, nothing is appended.
    pub(crate) fn answer(
        &mut self,
        id: BatchId,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        let Some(batch) = self.batches.get_mut(&id) else { return Ok(()) };
        let before = batch.answers.len();
        if before > 0 {
            batch.answers.push(b',');
        }
        let written = write(&mut batch.answers);
        if written.is_err() {
            batch.answers.truncate(before);
        }
        self.bytes = self.bytes.saturating_add(batch.answers.len().saturating_sub(before));
        written
    }

    /// Counts one answer as given, or as never coming. Returns all the answers as one array once none is missing,
    /// unless the batch has no answers at all.
    #[must_use]
    pub(crate) fn close(&mut self, id: BatchId) -> Option<Vec<u8>> {
        let batch = self.batches.get_mut(&id)?;
        batch.unanswered = batch.unanswered.saturating_sub(1);
        if batch.unanswered > 0 {
            return None;
        }
        let mut answers = self.batches.remove(&id)?.answers;
        self.bytes = self.bytes.saturating_sub(answers.len());
        //= R1 "nothing for notifications alone"
        if answers.is_empty() {
            return None;
        }
        //= R1 "one array of answers"
        answers.insert(0, b'[');
        answers.push(b']');
        Some(answers)
    }

    #[cfg(all(feature = "std", feature = "server", feature = "http"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The size in bytes of the collected answers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
    }
}
