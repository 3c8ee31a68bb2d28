//! Identifiers, in whose places stands what tells them apart and nothing else.

use alloc::collections::VecDeque;
use core::hash::Hasher as _;
use core::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ordered_set::OrderedSet;
use crate::prelude::*;

use super::shapes::{is_opaque, run};
use super::{Hidden, KeyedHasher, MARK, StandIn};

/// Most identifiers that are recognised in texts.
const MAX_KNOWN: usize = 16 * 1024;

/// Gives sessions, tasks, cursors, states of requests and ids of events pseudonyms: `[id:4f1c25d0a3b1e8f2]`.
///
/// One identifier has one pseudonym, in headers, messages, event streams and URLs, so that a reader sees which are the same;
/// by SipHash-2-4, from which nobody learns the identifier without the key. Draw the key at random, and do not store it.
///
/// An identifier of 16 bytes and more with letters and digits is recognised in every other text too, once it was in its
/// own place; of those, it remembers the last 16,384. Clones share them: give one to each redactor of a log.
///
/// ```
/// use mcp_proto::redact::{Pseudonyms, Redactor};
///
/// let mut redactor = Redactor::new().pseudonyms(Pseudonyms::new([7; 16]));
/// let header = redactor.header("Mcp-Session-Id", "1868a90c-5e3f").into_owned();
/// assert!(header.starts_with("[id:") && header == redactor.header("mcp-session-id", "1868a90c-5e3f"));
/// ```
#[derive(Clone)]
pub struct Pseudonyms {
    key: [u64; 2],
    known: Arc<Mutex<KnownNumbers>>,
}

/// The numbers of the identifiers that were in their own places.
#[derive(Default)]
struct KnownNumbers {
    numbers: OrderedSet<u64>,
    in_order: VecDeque<u64>,
}

impl KnownNumbers {
    fn insert(&mut self, number: u64) {
        if self.numbers.insert(number) {
            self.in_order.push_back(number);
        }
        if self.in_order.len() > MAX_KNOWN
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }
}

impl Pseudonyms {
    /// Pseudonyms by this key.
    pub fn new(key: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(key);
        // The halves of the key.
        let [low, high] =
            [key & u128::from(u64::MAX), key >> 64].map(|half| u64::try_from(half).unwrap_or_default());
        Self { key: [low, high], known: Arc::default() }
    }

    /// The number of an identifier, which is recognised from now on; `None` if it is a pseudonym.
    pub(super) fn number_of(&self, identifier: &[u8]) -> Option<u64> {
        if is_pseudonym(identifier) {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for run in opaque_runs(identifier) {
            known.insert(self.hash(identifier.get(run).unwrap_or_default()));
        }
        Some(self.hash(identifier))
    }

    /// Finds the identifiers in a text that were in their own places before.
    pub(super) fn find(&self, text: &[u8], found: &mut Vec<Hidden>) {
        for range in opaque_runs(text) {
            let number = self.hash(text.get(range.clone()).unwrap_or_default());
            if self.known.lock().unwrap_or_else(PoisonError::into_inner).numbers.contains(&number) {
                found.push(Hidden { range, stand_in: StandIn::Pseudonym(number) });
            }
        }
    }

    fn hash(&self, identifier: &[u8]) -> u64 {
        let mut hasher = self.hasher();
        // The padding of Base64 is in no run.
        let end = identifier.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last.saturating_add(1));
        hasher.write(identifier.get(..end).unwrap_or_default());
        hasher.finish()
    }

    #[expect(deprecated, reason = "the only function of the library whose key is the caller's")]
    pub(super) fn hasher(&self) -> KeyedHasher {
        let [low, high] = self.key;
        KeyedHasher::new_with_keys(low, high)
    }
}

/// Returns the runs of characters of identifiers that are long and mixed enough to be found anywhere.
fn opaque_runs(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let is_run = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut at = 0;
    let runs = core::iter::from_fn(move || {
        let start = run(text, at, |byte| !is_run(byte));
        at = run(text, start, is_run);
        (start < text.len()).then_some(start..at)
    });
    runs.filter(|run| is_opaque(text.get(run.clone()).unwrap_or_default()))
}

/// Whether a text is a pseudonym, or the mark of a secret, from an earlier redaction.
fn is_pseudonym(text: &[u8]) -> bool {
    stand_in_length(text) == Some(text.len())
}

/// The length of the pseudonym, or of the mark of a secret, that a text begins with.
pub(crate) fn stand_in_length(text: &[u8]) -> Option<usize> {
    const PSEUDONYM: &[u8] = b"[id:0123456789abcdef]";
    if text.starts_with(MARK.as_bytes()) {
        return Some(MARK.len());
    }
    let (number, end) = text.get(..PSEUDONYM.len())?.strip_prefix(b"[id:")?.split_at_checked(16)?;
    (end == b"]" && number.iter().all(u8::is_ascii_hexdigit)).then_some(PSEUDONYM.len())
}

debug_fields! { Pseudonyms(self) { known = self.known.lock().unwrap_or_else(PoisonError::into_inner).numbers.len() } }
