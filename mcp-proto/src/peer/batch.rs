//! The answers to a batch, collected until the last one is there (2025-03-26).
//!
//! <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>

use alloc::collections::BTreeMap;

use crate::lazy_box::Initial;
use crate::prelude::*;

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
    batches: BTreeMap<BatchId, BatchAnswers>,
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
        Self { batches: BTreeMap::new(), next: 0, bytes: 0 }
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
