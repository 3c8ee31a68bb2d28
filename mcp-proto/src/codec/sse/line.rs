//! An incremental parser for the lines of an event stream.

use super::super::BYTE_ORDER_MARK;

/// The fields that the standard defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Data,
    Event,
    Id,
    Retry,
}

/// The longest name of a defined field.
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

    /// The field of a whole line, and the offset of its value: behind the name, the colon and one space.
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

/// The parsed part of a line whose end has not arrived.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartialLine {
    /// This many bytes of the byte order mark that the first line may begin with.
    Mark(usize),
    /// The beginning of a field name, with its length, which may be 0.
    Name([u8; NAME_BYTES], usize),
    /// A field up to its colon: a space may follow.
    Colon(Field),
    /// A field and some of its value.
    Value(Field),
    /// A comment or an unknown field.
    Ignored,
}

/// The meaning of the next byte of a line.
pub(super) enum ByteStep {
    /// The byte needs no action.
    Taken,
    /// The colon of a field, whose value begins behind it.
    Colon(Field),
    /// This byte and the rest of the line are the field's value.
    Value(Field),
    /// This byte and the rest of the line are ignored.
    Ignored,
}

/// The kind of a line that has ended.
pub(super) enum LineEnd {
    /// A blank line, which ends an event.
    Blank,
    /// A field without a colon.
    Bare(Field),
    /// A field with a colon.
    Value(Field),
    /// A comment or an unknown field.
    Ignored,
}

impl Default for PartialLine {
    fn default() -> Self {
        Self::Name([0; NAME_BYTES], 0)
    }
}

impl PartialLine {
    /// The initial state of a stream's first line.
    pub(super) const FIRST: Self = Self::Mark(0);

    /// Whether the line must be parsed byte by byte: some of it has been consumed, or it is the stream's first.
    pub(super) fn has_started(&self) -> bool {
        !matches!(self, Self::Name(_, 0))
    }

    /// Begins a line with `text`, which arrives next. A stream's first line is as any other if it begins with no byte
    /// order mark.
    #[inline]
    pub(super) fn begin(&mut self, text: &[u8]) {
        if matches!(self, Self::Mark(0)) && !text.is_empty() && text.first() != BYTE_ORDER_MARK.first() {
            *self = Self::default();
        }
    }

    /// Whether the next bytes of the line are data.
    #[inline]
    pub(super) fn is_data(&self) -> bool {
        matches!(self, Self::Value(Field::Data))
    }

    /// Consumes one byte.
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

    /// Ends the line.
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
