//! Texts of any length: messages are kept as a whole, of others no more than the beginning.

use std::borrow::Cow;
use std::mem;

use mcp_proto::redact::{FrameDigest, Redactor};
use memchr::memchr;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text, or the beginning of one that is too long, with the digest of the whole.
#[derive(Default)]
pub(super) struct BoundedText<'a> {
    beginning: Cow<'a, [u8]>,
    bytes: usize,
    /// The most bytes that are kept, once it is longer than [`Self::LONGEST`].
    most: Option<usize>,
    /// Of a text that is not kept as a whole.
    digest: Option<FrameDigest>,
}

impl<'a> BoundedText<'a> {
    /// The longest text that is kept as a whole if it is no message, in bytes, and the beginning that is kept of a longer one.
    pub(super) const LONGEST: usize = 64 * 1024;

    /// The longest message that is kept as a whole, in bytes.
    pub(super) const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

    /// A text that is there as a whole. The redactor has the key of the digest, if there is any.
    pub(super) fn new(text: &'a [u8], redactor: Option<&Redactor>) -> Self {
        let mut bounded = Self::default();
        let (kept, rest) = text.split_at_checked(bounded.room(text)).unwrap_or((text, &[]));
        (bounded.beginning, bounded.bytes) = (Cow::Borrowed(kept), kept.len());
        bounded.push(rest, redactor);
        bounded
    }

    /// Appends a piece.
    pub(super) fn push(&mut self, piece: &[u8], redactor: Option<&Redactor>) {
        self.bytes = self.bytes.saturating_add(piece.len());
        let (kept, rest) = piece.split_at_checked(self.room(piece)).unwrap_or((piece, &[]));
        if !kept.is_empty() {
            self.beginning.to_mut().extend_from_slice(kept);
        }
        if !rest.is_empty() {
            self.cut(redactor).update(rest);
        }
    }

    /// How many bytes more are kept, if the next ones are these.
    fn room(&mut self, next: &[u8]) -> usize {
        let kept = self.beginning.len();
        let most = match (&self.digest, self.most) {
            (Some(_), _) => kept,
            (None, Some(most)) => most,
            (None, None) if kept.saturating_add(next.len()) <= Self::LONGEST => Self::LONGEST,
            (None, None) => {
                let is_message = may_be_message(self.beginning.iter().chain(next).copied());
                *self.most.insert(if is_message { Self::LONGEST_MESSAGE } else { Self::LONGEST })
            }
        };
        most.saturating_sub(kept)
    }

    /// Keeps no more than the beginning of the text from now on; returns the digest of all that has come.
    pub(super) fn cut(&mut self, redactor: Option<&Redactor>) -> &mut FrameDigest {
        self.digest.get_or_insert_with(|| {
            let mut digest = redactor.map(Redactor::digest).unwrap_or_default();
            digest.update(&self.beginning);
            match &mut self.beginning {
                Cow::Borrowed(text) => *text = text.get(..Self::LONGEST).unwrap_or(text),
                Cow::Owned(text) => {
                    text.truncate(Self::LONGEST);
                    text.shrink_to_fit();
                }
            }
            digest
        })
    }

    /// Whether there is nothing of it.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The number of bytes that are kept of it.
    pub(super) fn kept_bytes(&self) -> usize {
        self.beginning.len()
    }

    /// The text, if it is kept as a whole.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        self.digest.is_none().then_some(&*self.beginning)
    }

    //= F104 "Secrets are redacted before frames are logged"
    /// Its length in bytes, whether it is cut, and what may be shown of it: a message, and a text that is not long, as a whole.
    pub(super) fn redacted(&mut self, redactor: Option<&mut Redactor>) -> (usize, bool, Cow<'_, [u8]>) {
        let Some(redactor) = redactor else {
            return (self.bytes, self.digest.is_some(), Cow::Borrowed(&*self.beginning));
        };
        // Of a longer text, only a message is shown as a whole.
        if self.beginning.len() > Self::LONGEST {
            match redactor.message(&self.beginning).map(Cow::into_owned) {
                Some(shown) => return (self.bytes, false, Cow::Owned(shown)),
                None => _ = self.cut(Some(redactor)),
            }
        }
        let text = match &self.digest {
            None => redactor.frame(&self.beginning),
            Some(digest) => redactor.cut_frame(&self.beginning, digest),
        };
        (self.bytes, self.digest.is_some(), text)
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
    pub(super) partial: BoundedText<'static>,
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

/// Whether a text can be a message, alone or as the data of an event, by how it begins.
fn may_be_message(text: impl Iterator<Item = u8> + Clone) -> bool {
    let text = text.skip_while(|byte| byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(byte));
    let data = text.clone().take(b"data:".len());
    matches!(text.clone().next(), Some(b'{' | b'[')) || data.eq(b"data:".iter().copied())
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
        let mut take = |mut line: BoundedText<'_>, redactor: &mut Redactor| {
            let whole = line.whole().map(<[u8]>::to_vec);
            let (bytes, _, shown) = line.redacted(Some(redactor));
            found.push((whole, bytes, shown.to_vec()));
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

    /// F104: a long message is shown as a whole, without the secrets that only the whole tells.
    #[test]
    fn long_message_is_kept_as_a_whole_and_other_long_texts_are_cut() {
        let long = "x".repeat(3 * LONGEST);
        let message = format!(r#"{{"text":"{long}","password":"hunter2"}}"#);
        let deep = format!(
            r#"{{"d":{}{},"password":{{"v":"hunter2"}},"text":"{long}"}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        let invalid =
            [format!(r#"{{"password":{{"v":"hunter2"}},"text":"{long}"#).as_bytes(), b"\xff\"}"].concat();
        for stream in [deep.into_bytes(), invalid] {
            let (_, _, shown) = lines(&[&*stream, b"\n"].concat(), 1000).remove(0);
            assert!(shown.len() < 2 * LONGEST && !String::from_utf8_lossy(&shown).contains("hunter2"));
        }
        for (begin, end, is_shown) in
            [("", "", true), ("data: ", "", true), (" ", "", true), ("", "}", false), (": ", "", false)]
        {
            let stream = format!("{begin}{message}{end}\n");
            for length in [1000, LONGEST + 1, stream.len()] {
                let found = lines(stream.as_bytes(), length);
                let shown = String::from_utf8_lossy(&found[0].2);
                assert!(!shown.contains("hunter2"), "{begin} {end}");
                assert_eq!(shown.contains(r#""password":"[redacted]"}"#), is_shown, "{begin} {end} {length}");
                assert_eq!(shown.len() > 3 * LONGEST, is_shown);
            }
        }
    }

    #[test]
    fn message_above_16_mib_is_cut() {
        let message = |end: &str| format!("[\"{}{end}\"]\n", "x".repeat(BoundedText::LONGEST_MESSAGE));
        let [first, second] = ["a", "b"].map(|end| lines(message(end).as_bytes(), 1024 * 1024).remove(0));
        assert_eq!((first.0, first.1), (None, BoundedText::LONGEST_MESSAGE + 5));
        assert!(first.2.len() <= LONGEST && first.2 == second.2);
        let mut text = BoundedText::new(b"[1]", None);
        text.cut(None);
        text.push(b",", None);
        assert_eq!((text.bytes, text.whole(), text.kept_bytes()), (4, None, 3));
    }
}
