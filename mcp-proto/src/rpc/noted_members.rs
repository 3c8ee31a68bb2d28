//! The members of parameters that several layers look for: the scan of the envelope notes where they lie, so that no layer
//! scans for them again.

use super::json_reader::{NotJson, Reader};

/// The key of the revision in the `_meta` of a request.
pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the client's capabilities in the `_meta` of a request.
pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The size of the largest message in which members are noted, in bytes. In a larger one the parameters are only delimited.
pub(super) const MAX_NOTED_BYTES: usize = 64 * 1024 - 1;

/// The range of a value in a text of at most 64 KiB; empty if there is none. In larger texts, noting it would save little.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// The range of a value that is not noted.
    const TOO_FAR: Self = Self { start: u16::MAX, end: 0 };

    fn new(start: usize, end: usize) -> Self {
        match (start.try_into(), end.try_into()) {
            (Ok(start), Ok(end)) => Self { start, end },
            _ => Self::TOO_FAR,
        }
    }

    fn is_empty(self) -> bool {
        self.start == 0
    }

    /// The value; `None` if there is none.
    pub(super) fn of(self, text: &str) -> Option<&str> {
        text.get(self.start.into()..self.end.into()).filter(|value| !value.is_empty())
    }

    /// The end of the value that begins at `start`, if it is this one.
    pub(super) fn end_from(self, start: usize) -> Option<usize> {
        (usize::from(self.start) == start && self.end != 0).then_some(self.end.into())
    }
}

/// The members of parameters that other layers look for, noted by the scan of the message if the object is valid JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedMembers {
    /// The `_meta`.
    pub(super) meta: Span,
    /// The `arguments`.
    pub(super) arguments: Span,
}

impl NotedMembers {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { meta: Span::TOO_FAR, arguments: Span::TOO_FAR };

    /// Whether the text is an object of valid JSON, no name of which is escaped, with each member that is looked for at
    /// most once.
    pub(super) fn is_complete(&self) -> bool {
        [self.meta, self.arguments].iter().all(|span| span.start != u16::MAX)
    }
}

impl Reader<'_> {
    /// Skips the object that parameters are, in which at most `levels` containers are nested, and notes its members. A repeated
    /// member that other layers look for is an error.
    pub(super) fn note_members(&mut self, levels: usize) -> Result<NotedMembers, NotJson> {
        let names = ["_meta", "arguments", "name", "uri", "taskId"];
        let (base, within) = (self.at(), levels.checked_sub(1).ok_or(NotJson)?);
        let mut spans = [Span::default(); 5];
        let mut is_first = true;
        self.enter(b'{')?;
        while let Some(name) = self.plain_name(&mut is_first)? {
            let start = self.at();
            let slot = names.iter().zip(&mut spans).find(|(known, _)| known.as_bytes() == name);
            match name {
                b"_meta" if self.peek() == Some(b'{') => self.meta(within)?,
                _ => self.value_within(within)?,
            }
            if let Some((_, slot)) = slot {
                if !slot.is_empty() {
                    return Err(NotJson);
                }
                *slot = Span::new(start.saturating_sub(base), self.at().saturating_sub(base));
            }
        }
        let [meta, arguments, ..] = spans;
        Ok(NotedMembers { meta, arguments })
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
