//! The members of parameters that several layers look for: the scan of the envelope notes where they lie, so that no layer
//! scans for them again.

use super::json_reader::{NotJson, Reader, Span};
use crate::meta_keys::{CLIENT_CAPABILITIES, PROTOCOL_VERSION};

/// The size of the largest message in which members are noted, in bytes. In a larger one the parameters are only delimited.
pub(super) const MAX_NOTED_BYTES: usize = 64 * 1024 - 1;

/// Tells the length of a known `_meta` object if a text begins with it: an object that was valid in an earlier message, of
/// which the scan compares the bytes rather than read the members again.
pub(crate) type KnownObject<'a> = &'a dyn Fn(&str) -> Option<usize>;

/// The members of parameters that other layers look for, noted by the scan of the message if the object is valid JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedMembers {
    /// The `_meta` and the `arguments`.
    spans: [Span; 2],
}

impl NotedMembers {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { spans: [Span::TOO_FAR; 2] };

    /// Whether the text is an object of valid JSON, no name of which is escaped, with each member that is looked for at
    /// most once.
    pub(super) fn is_complete(&self) -> bool {
        self.spans.iter().all(|span| !span.is_too_far())
    }

    /// The `_meta`.
    pub(super) fn meta(&self) -> Span {
        let [meta, _] = self.spans;
        meta
    }

    /// The `arguments`.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(super) fn arguments(&self) -> Span {
        let [_, arguments] = self.spans;
        arguments
    }

    /// The values that a reader need not scan again.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

impl Reader<'_> {
    /// Skips the object that parameters are, in which at most `levels` containers are nested, and notes its members. A repeated
    /// member that other layers look for is an error.
    pub(super) fn note_members(
        &mut self,
        levels: usize,
        known: KnownObject<'_>,
    ) -> Result<NotedMembers, NotJson> {
        let (base, within) = (self.at(), levels.checked_sub(1).ok_or(NotJson)?);
        let [mut meta, mut arguments, mut own_name, mut uri, mut task_id] = [Span::default(); 5];
        let mut is_first = true;
        self.enter(b'{')?;
        while let Some(name) = self.plain_name(&mut is_first)? {
            let start = self.at();
            let slot = match name {
                b"_meta" => Some(&mut meta),
                b"arguments" => Some(&mut arguments),
                b"name" => Some(&mut own_name),
                b"uri" => Some(&mut uri),
                b"taskId" => Some(&mut task_id),
                _ => None,
            };
            match name {
                b"_meta" if self.peek() == Some(b'{') => match known(self.rest()) {
                    Some(length) => self.skip_known(length),
                    None => self.meta(within)?,
                },
                _ => self.value_within(within)?,
            }
            if let Some(slot) = slot {
                if !slot.is_empty() {
                    return Err(NotJson);
                }
                *slot = Span::new(start.saturating_sub(base), self.at().saturating_sub(base));
            }
        }
        Ok(NotedMembers { spans: [meta, arguments] })
    }

    /// Skips an object that is `_meta`. If one of the keys that tell the eras apart is repeated, that is an error.
    fn meta(&mut self, levels: usize) -> Result<(), NotJson> {
        let within = levels.checked_sub(1).ok_or(NotJson)?;
        let (mut is_first, mut seen) = (true, [false; 2]);
        self.enter(b'{')?;
        while let Some(name) = self.plain_name(&mut is_first)? {
            let keys = [PROTOCOL_VERSION, CLIENT_CAPABILITIES];
            let slot = keys.iter().zip(&mut seen).find(|(key, _)| key.as_bytes() == name);
            if slot.is_some_and(|(_, seen)| core::mem::replace(seen, true)) {
                return Err(NotJson);
            }
            self.value_within(within)?;
        }
        Ok(())
    }
}
