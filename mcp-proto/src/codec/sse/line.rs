//! The lines of an event stream.

use super::super::BYTE_ORDER_MARK;

/// The fields that mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Data,
    Event,
    Id,
    Retry,
}

/// The longest name of a field that means something.
const NAME_BYTES: usize = 5;

impl Field {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"data" => Some(Self::Data),
            b"event" => Some(Self::Event),
            b"id" => Some(Self::Id),
            b"retry" => Some(Self::Retry),
            _ => None,
        }
    }

    /// The field of a whole line, and what comes before its value: the name, the colon and one space.
    pub(super) fn of_line(line: &[u8]) -> (Option<Self>, usize) {
        if let [b'd', b'a', b't', b'a', b':', value @ ..] = line {
            return (Some(Self::Data), if value.first() == Some(&b' ') { 6 } else { 5 });
        }
        let name_end = line.iter().take(NAME_BYTES.saturating_add(1)).position(|byte| *byte == b':');
        let Some(name_end) = name_end else { return (Self::named(line), line.len()) };
        let value = name_end.saturating_add(1);
        let space = usize::from(line.get(value) == Some(&b' '));
        (Self::named(line.get(..name_end).unwrap_or_default()), value.saturating_add(space))
    }
}

/// A line whose end has not come, as far as it has.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartialLine {
    /// So many bytes of a byte order mark, which the first line may begin with.
    Mark(usize),
    /// The beginning of the name of a field, perhaps nothing of it.
    Name([u8; NAME_BYTES], usize),
    /// A field up to its colon: a space may follow.
    Colon(Field),
    /// A field and some of its value.
    Value(Field),
    /// A comment, or a field that means nothing.
    Ignored,
}

/// What one more byte of a line is.
pub(super) enum ByteStep {
    /// Nothing to do about it.
    Taken,
    /// The colon of a field, whose value begins behind it.
    Colon(Field),
    /// The value, and all of the line that comes behind it.
    Value(Field),
    /// Nothing of interest, nor what comes behind it.
    Ignored,
}

/// What a line was.
pub(super) enum LineEnd {
    /// The end of an event.
    Blank,
    /// A field without a colon.
    Bare(Field),
    /// A field whose value began.
    Value(Field),
    /// A comment, or a field that means nothing.
    Ignored,
}

impl Default for PartialLine {
    fn default() -> Self {
        Self::Name([0; NAME_BYTES], 0)
    }
}

impl PartialLine {
    /// The very first line of a stream.
    pub(super) const FIRST: Self = Self::Mark(0);

    /// Whether something is known of the line, be it that it is the first one.
    pub(super) fn has_started(&self) -> bool {
        !matches!(self, Self::Name(_, 0))
    }

    /// Goes on by one byte.
    pub(super) fn step(&mut self, byte: u8) -> ByteStep {
        match self {
            Self::Mark(length) if BYTE_ORDER_MARK.get(*length) == Some(&byte) => {
                *length = length.saturating_add(1);
                if *length == BYTE_ORDER_MARK.len() {
                    *self = Self::default();
                }
                ByteStep::Taken
            }
            Self::Mark(0) => {
                *self = Self::default();
                self.step(byte)
            }
            Self::Name(name, length) if byte == b':' => {
                let field = Field::named(name.get(..*length).unwrap_or_default());
                *self = field.map_or(Self::Ignored, Self::Colon);
                field.map_or(ByteStep::Ignored, ByteStep::Colon)
            }
            Self::Name(name, length) if *length < NAME_BYTES => {
                if let Some(place) = name.get_mut(*length) {
                    *place = byte;
                }
                *length = length.saturating_add(1);
                ByteStep::Taken
            }
            Self::Colon(field) => {
                let field = *field;
                *self = Self::Value(field);
                if byte == b' ' { ByteStep::Taken } else { ByteStep::Value(field) }
            }
            Self::Value(field) => ByteStep::Value(*field),
            Self::Mark(_) | Self::Name(..) | Self::Ignored => {
                *self = Self::Ignored;
                ByteStep::Ignored
            }
        }
    }

    /// Ends the line here.
    pub(super) fn end(self) -> LineEnd {
        match self {
            Self::Mark(0) | Self::Name(_, 0) => LineEnd::Blank,
            Self::Name(name, length) => {
                Field::named(name.get(..length).unwrap_or_default()).map_or(LineEnd::Ignored, LineEnd::Bare)
            }
            Self::Colon(field) | Self::Value(field) => LineEnd::Value(field),
            Self::Mark(_) | Self::Ignored => LineEnd::Ignored,
        }
    }
}
