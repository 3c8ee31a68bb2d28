//! RESP 2, the wire format of Redis: commands are arrays of strings, and replies are decoded as they arrive.

use std::mem;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Maximum bytes of one reply: a page of tasks, twice as large as the store asks for.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Maximum bytes of a line: a length, a number, a status or an error.
const MOST_LINE_BYTES: usize = 16 * 1024;

/// Maximum values in one reply, those in nested arrays included.
const MOST_VALUES: usize = 64 * 1024;

/// Maximum depth of nested arrays. The replies of this crate's commands have one.
const MOST_NESTED: usize = 8;

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A status or a string.
    Text(Bytes),
    /// An error: a code in capitals, then a message.
    Error(String),
    Integer(i64),
    Nil,
    Array(Vec<Self>),
}

/// Bytes that are no reply, or a reply over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedReply(pub(super) &'static str);

/// Encodes a command.
pub(super) fn encode<'a>(
    arguments: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
) -> Bytes {
    let arguments = arguments.into_iter();
    let mut out = BytesMut::new();
    put_length(&mut out, b'*', arguments.len());
    for argument in arguments {
        put_length(&mut out, b'$', argument.len());
        out.put_slice(argument);
        out.put_slice(b"\r\n");
    }
    out.freeze()
}

fn put_length(out: &mut BytesMut, kind: u8, length: usize) {
    out.put_u8(kind);
    out.put_slice(length.to_string().as_bytes());
    out.put_slice(b"\r\n");
}

/// Decodes replies from any division of their bytes. Each byte is looked at once.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pub(super) input: BytesMut,
    /// The number of bytes at the start of `input` in which no line ends.
    searched: usize,
    /// The length of the string whose bytes are next, if its header has been read.
    string: Option<usize>,
    /// The arrays that the next value is in, outermost first.
    pub(super) arrays: Vec<OpenArray>,
    /// The size of the reply so far.
    bytes: usize,
    values: usize,
}

#[derive(Debug)]
pub(super) struct OpenArray {
    missing: usize,
    pub(super) values: Vec<Reply>,
}

/// The value that a line is, or whose length it has.
enum Line {
    Value(Reply),
    String(usize),
    Array(usize),
}

impl Decoder {
    /// Adds bytes that have arrived.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Decodes the next reply, if all of it has arrived.
    ///
    /// # Errors
    /// If the bytes are no reply, or it exceeds a limit. The decoder is then useless, and so is the connection.
    pub(super) fn decode(&mut self) -> Result<Option<Reply>, MalformedReply> {
        while let Some(value) = self.decode_value()? {
            if let Some(reply) = self.add(value) {
                (self.bytes, self.values) = (0, 0);
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Decodes the next value that is not an array with values; `None` if it has not arrived.
    fn decode_value(&mut self) -> Result<Option<Reply>, MalformedReply> {
        loop {
            if let Some(length) = self.string {
                return self.decode_string(length);
            }
            let Some(line) = self.take_line()? else { return Ok(None) };
            self.count(line.len(), 1)?;
            match parse_line(&line)? {
                Line::Value(value) => return Ok(Some(value)),
                Line::String(length) => {
                    self.count(length, 0)?;
                    self.string = Some(length);
                }
                Line::Array(0) => return Ok(Some(Reply::Array(Vec::new()))),
                Line::Array(length) => {
                    if self.arrays.len() == MOST_NESTED {
                        return Err(MalformedReply("a reply is nested too deeply"));
                    }
                    // Values are counted when they arrive, and their memory is allocated then.
                    self.arrays.push(OpenArray { missing: length, values: Vec::new() });
                }
            }
        }
    }

    fn decode_string(&mut self, length: usize) -> Result<Option<Reply>, MalformedReply> {
        let Some(end) = self.input.get(length..length.saturating_add(2)) else { return Ok(None) };
        if end != b"\r\n" {
            return Err(MalformedReply("a string is longer than its length"));
        }
        self.string = None;
        let text = self.input.split_to(length).freeze();
        self.input.advance(2);
        Ok(Some(Reply::Text(text)))
    }

    /// Takes the next line, without its end.
    fn take_line(&mut self) -> Result<Option<Bytes>, MalformedReply> {
        let unsearched = self.input.get(self.searched..).unwrap_or_default();
        let end = unsearched.windows(2).position(|pair| pair == b"\r\n").map(|at| at + self.searched);
        // The last byte may be the first of the two that end a line.
        self.searched = self.input.len().saturating_sub(1);
        if end.unwrap_or(self.searched) > MOST_LINE_BYTES {
            return Err(MalformedReply("a line is too long"));
        }
        let Some(end) = end else { return Ok(None) };
        self.searched = 0;
        let line = self.input.split_to(end).freeze();
        self.input.advance(2);
        Ok(Some(line))
    }

    fn count(&mut self, bytes: usize, values: usize) -> Result<(), MalformedReply> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.values = self.values.saturating_add(values);
        if self.bytes > MOST_BYTES || self.values > MOST_VALUES {
            return Err(MalformedReply("a reply is too large"));
        }
        Ok(())
    }

    /// Adds a value to the innermost array; returns the reply that it completes.
    fn add(&mut self, mut value: Reply) -> Option<Reply> {
        loop {
            let Some(array) = self.arrays.last_mut() else { return Some(value) };
            array.values.push(value);
            array.missing = array.missing.saturating_sub(1);
            if array.missing > 0 {
                return None;
            }
            value = Reply::Array(mem::take(&mut array.values));
            self.arrays.pop();
        }
    }
}

fn parse_line(line: &[u8]) -> Result<Line, MalformedReply> {
    let Some((kind, rest)) = line.split_first() else { return Err(MalformedReply("a line is empty")) };
    let text = String::from_utf8_lossy(rest);
    let number =
        || text.parse::<i64>().map_err(|_| MalformedReply("a length or a number has other characters"));
    let length = || number().map(|length| usize::try_from(length).ok());
    Ok(match kind {
        b'+' => Line::Value(Reply::Text(Bytes::copy_from_slice(rest))),
        b'-' => Line::Value(Reply::Error(text.into_owned())),
        b':' => Line::Value(Reply::Integer(number()?)),
        b'$' => length()?.map_or(Line::Value(Reply::Nil), Line::String),
        b'*' => length()?.map_or(Line::Value(Reply::Nil), Line::Array),
        _ => return Err(MalformedReply("it does not speak RESP 2")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Text(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Decodes all replies from pieces of this size.
    fn decode_in(pieces: usize, bytes: &[u8]) -> Result<Vec<Reply>, MalformedReply> {
        let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(pieces) {
            decoder.feed(piece);
            while let Some(reply) = decoder.decode()? {
                replies.push(reply);
            }
        }
        Ok(replies)
    }

    fn refused(bytes: &[u8]) -> &'static str {
        let whole = decode_in(bytes.len(), bytes).unwrap_err();
        assert_eq!(decode_in(1, bytes).unwrap_err(), whole);
        whole.0
    }

    #[test]
    fn decoder_gives_the_same_replies_for_any_division_of_the_bytes() {
        let bytes = b"+OK\r\n-ERR no\r\n:-7\r\n$5\r\na\r\nb\r\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n+P\r\n";
        let expected = vec![
            text("OK"),
            Reply::Error("ERR no".into()),
            Reply::Integer(-7),
            text("a\r\nb\r"),
            text(""),
            Reply::Nil,
            Reply::Nil,
            Reply::Array(Vec::new()),
            Reply::Array(vec![Reply::Array(vec![Reply::Integer(1)]), text("x")]),
            text("P"),
        ];
        for pieces in 1..=bytes.len() {
            assert_eq!(decode_in(pieces, bytes).as_ref(), Ok(&expected), "{pieces}");
        }
    }

    #[test]
    fn decoder_waits_for_the_rest_of_a_reply() {
        for bytes in [&b"+OK\r"[..], b"$3\r\nabc\r", b"*2\r\n:1\r\n", b"$16000000\r\nabc"] {
            assert_eq!(decode_in(1, bytes), Ok(Vec::new()));
        }
    }

    #[test]
    fn decoder_refuses_what_is_no_reply() {
        assert_eq!(refused(b"HTTP/1.1 400 Bad Request\r\n"), "it does not speak RESP 2");
        assert_eq!(refused(b"%1\r\n"), "it does not speak RESP 2");
        assert_eq!(refused(b"\r\n"), "a line is empty");
        assert_eq!(refused(b":x\r\n"), "a length or a number has other characters");
        assert_eq!(refused(b"$99999999999999999999\r\n"), "a length or a number has other characters");
        assert_eq!(refused(b"$1\r\nabc\r\n"), "a string is longer than its length");
    }

    #[test]
    fn decoder_refuses_replies_over_its_limits_before_they_arrive() {
        assert_eq!(refused(b"$17000000\r\n"), "a reply is too large");
        assert_eq!(refused(&b"*1\r\n".repeat(9)), "a reply is nested too deeply");
        assert_eq!(refused(&[b"+", b"x".repeat(20_000).as_slice()].concat()), "a line is too long");
        let many = [&b"*9999999\r\n"[..], &b":1\r\n".repeat(70_000)].concat();
        assert_eq!(decode_in(4096, &many), Err(MalformedReply("a reply is too large")));
    }

    #[test]
    fn command_is_an_array_of_strings() {
        assert_eq!(encode([&b"GET"[..], b"a\r\nb"]), &b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"[..]);
    }
}
