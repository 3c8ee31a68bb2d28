//! Texts of any length, of which no more than the beginning is kept.

use std::borrow::Cow;
use std::mem;

use mcp_proto::redact::{FrameDigest, Redactor};
use memchr::memchr;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text, or the beginning of one that is longer than 64 KiB, with the digest of the whole.
#[derive(Default)]
pub(super) struct BoundedText<'a> {
    beginning: Cow<'a, [u8]>,
    bytes: usize,
    digest: Option<FrameDigest>,
}

impl<'a> BoundedText<'a> {
    /// The longest text that is kept completely, in bytes.
    pub(super) const LONGEST: usize = 64 * 1024;

    /// A text that is there as a whole. The redactor has the key of the digest, if there is any.
    pub(super) fn new(text: &'a [u8], redactor: Option<&Redactor>) -> Self {
        let (beginning, rest) = text.split_at_checked(Self::LONGEST).unwrap_or((text, &[]));
        let mut text = Self { beginning: Cow::Borrowed(beginning), bytes: beginning.len(), digest: None };
        text.push(rest, redactor);
        text
    }

    /// Appends a piece.
    pub(super) fn push(&mut self, piece: &[u8], redactor: Option<&Redactor>) {
        self.bytes = self.bytes.saturating_add(piece.len());
        let room = Self::LONGEST.saturating_sub(self.beginning.len());
        let (kept, rest) = piece.split_at_checked(room).unwrap_or((piece, &[]));
        if !kept.is_empty() {
            self.beginning.to_mut().extend_from_slice(kept);
        }
        if let (false, Some(redactor)) = (rest.is_empty(), redactor) {
            let beginning = &self.beginning;
            let digest = self.digest.get_or_insert_with(|| {
                let mut digest = redactor.digest();
                digest.update(beginning);
                digest
            });
            digest.update(rest);
        }
    }

    /// The length of the whole in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The text, if it is kept as a whole.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (self.bytes == self.beginning.len()).then_some(&*self.beginning)
    }

    //= F104 "Secrets are redacted before frames are logged"
    /// What may be shown of it.
    pub(super) fn redacted(&self, redactor: Option<&mut Redactor>) -> Cow<'_, [u8]> {
        match (redactor, self.whole()) {
            (None, _) => Cow::Borrowed(&self.beginning),
            (Some(redactor), Some(text)) => redactor.frame(text),
            (Some(redactor), None) => {
                redactor.cut_frame(&self.beginning, &self.digest.clone().unwrap_or_default())
            }
        }
    }

    /// Drops bytes at the beginning or the end of what is kept.
    fn trim(&mut self, start: usize, end: usize) {
        let length = self.beginning.len();
        self.bytes = self.bytes.saturating_sub(start + end);
        match &mut self.beginning {
            Cow::Borrowed(text) => *text = text.get(start..length - end).unwrap_or_default(),
            Cow::Owned(text) => {
                text.truncate(length - end);
                text.drain(..start);
            }
        }
    }
}

/// The lines of a stream, which comes in pieces. They are those of [`Lines`](mcp_proto::codec::Lines).
#[derive(Default)]
pub(super) struct TextLines {
    /// The line whose end has not come.
    partial: BoundedText<'static>,
    /// Whether a line has ended: until then, a byte order mark may come.
    has_begun: bool,
    /// Whether the present line is left out.
    skips: bool,
}

impl TextLines {
    /// Takes the next line that ends in `piece` off it; at last what begins the next line, which is kept.
    pub(super) fn next<'a>(
        &mut self,
        piece: &mut &'a [u8],
        redactor: Option<&Redactor>,
    ) -> Option<BoundedText<'a>> {
        if self.skips {
            let end = memchr(b'\n', piece);
            self.skips = end.is_none();
            *piece = end.and_then(|end| piece.get(end + 1..)).unwrap_or_default();
        }
        while let Some(length) = memchr(b'\n', piece) {
            let (text, rest) = piece.split_at(length);
            *piece = rest.get(1..).unwrap_or_default();
            let line = match self.partial.bytes {
                0 => BoundedText::new(text, redactor),
                _ => {
                    self.partial.push(text, redactor);
                    mem::take(&mut self.partial)
                }
            };
            if let Some(line) = self.trimmed(line) {
                return Some(line);
            }
        }
        self.partial.push(mem::take(piece), redactor);
        None
    }

    /// Leaves out the present line, a part of which is lost: its rest may begin within a secret.
    pub(super) fn skip_line(&mut self) {
        self.partial = BoundedText::default();
        self.skips = true;
    }

    /// Ends the stream; returns the line that lacks its end.
    pub(super) fn end(&mut self) -> Option<BoundedText<'static>> {
        let line = mem::take(&mut self.partial);
        self.trimmed(line)
    }

    /// A line without byte order mark and carriage return; `None` if it is blank.
    fn trimmed<'a>(&mut self, mut line: BoundedText<'a>) -> Option<BoundedText<'a>> {
        let is_first = !mem::replace(&mut self.has_begun, true);
        if is_first && line.beginning.starts_with(BYTE_ORDER_MARK) {
            line.trim(BYTE_ORDER_MARK.len(), 0);
        }
        if line.whole().is_some_and(|text| text.ends_with(b"\r")) {
            line.trim(0, 1);
        }
        let is_blank = line.whole().is_some_and(|text| text.trim_ascii().is_empty());
        (!is_blank).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::codec::{Line, Lines};
    use mcp_proto::redact::Pseudonyms;

    use super::*;

    const LONGEST: usize = BoundedText::LONGEST;

    /// The lines of a stream that comes in pieces of a length: their texts, lengths, and what is shown of them.
    fn lines(stream: &[u8], length: usize) -> Vec<(Option<Vec<u8>>, usize, Vec<u8>)> {
        let mut redactor = Redactor::new().pseudonyms(Pseudonyms::new([7; 16]));
        let (mut lines, mut found) = (TextLines::default(), Vec::new());
        let mut take = |line: BoundedText<'_>, redactor: &mut Redactor| {
            found.push((
                line.whole().map(<[u8]>::to_vec),
                line.bytes(),
                line.redacted(Some(redactor)).to_vec(),
            ));
        };
        for mut piece in stream.chunks(length) {
            while let Some(line) = lines.next(&mut piece, Some(&redactor)) {
                take(line, &mut redactor);
            }
        }
        if let Some(line) = lines.end() {
            take(line, &mut redactor);
        }
        found
    }

    #[test]
    fn lines_are_those_of_the_codec_however_they_are_cut() {
        let stream = b"\xef\xbb\xbf{}\r\n\n \r\n[1,\n2]\r\r\n\xef\xbb\xbf\nlast\r";
        let mut codec = Lines::new(LONGEST);
        codec.handle_input(stream.to_vec().into());
        let mut expected: Vec<_> = std::iter::from_fn(|| codec.poll_line()).collect();
        expected.extend(codec.handle_eof());
        for length in 1..=stream.len() {
            let texts = lines(stream, length).into_iter().map(|(text, ..)| Line::Whole(text.unwrap().into()));
            assert_eq!(texts.collect::<Vec<_>>(), expected, "{length}");
        }
    }

    /// A message may stand behind blanks that fill what is kept.
    #[test]
    fn long_line_with_a_blank_beginning_is_a_line() {
        let stream = format!("{}{{}}\n", " ".repeat(LONGEST + 1));
        let found = lines(stream.as_bytes(), 1000);
        assert_eq!(found.iter().map(|(_, bytes, _)| *bytes).collect::<Vec<_>>(), [LONGEST + 3]);
    }

    /// What is behind the part that is kept distinguishes two texts too.
    #[test]
    fn digest_covers_a_whole_text_of_any_length() {
        let long = "x".repeat(3 * LONGEST);
        let stream = format!("{long}\n{long}y\n{long}\n");
        let at_once = lines(stream.as_bytes(), stream.len());
        let [first, second, third] = &at_once[..] else { panic!("{}", at_once.len()) };
        assert!(first.2.starts_with(b"[id:") && first == third && first.2 != second.2);
        assert_eq!((first.1, second.1), (3 * LONGEST, 3 * LONGEST + 1));
        for length in [1000, LONGEST, LONGEST + 1] {
            assert_eq!(lines(stream.as_bytes(), length), at_once, "{length}");
        }
    }
}
