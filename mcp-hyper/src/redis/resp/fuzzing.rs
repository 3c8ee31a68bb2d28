//! Fuzzing of what Redis sends, in arbitrary chunks, and of what it is sent.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a fuzz target reports"
)]

use bytes::Bytes;

use super::super::RedisError;
use super::super::changes::{decode_changes, encode_changes, published};
use super::super::handshake::Info;
use super::super::tasks::parse;
use super::{Decoder, MalformedReply, Reply, encode};

/// What is decoded of a stream: its replies, and the reason for which the connection would be closed.
type Decoded = (Vec<Reply>, Option<MalformedReply>);

/// Checks that replies do not depend on the chunks in which they arrive, that a decoder holds little more than it was fed,
/// and that nothing in a reply makes its readers panic. Then sends parts of the input as a command, and reads it back.
///
/// The first byte selects the size of the chunks.
pub fn replies(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let whole = decode_in(stream.len().max(1), stream);
    for size in [1, usize::from(size) + 1] {
        assert_eq!(decode_in(size, stream), whole, "in chunks of {size}");
    }
    whole.0.iter().for_each(read);
    let arguments: Vec<&[u8]> = stream.split(|byte| *byte == 0).collect();
    let sent: Vec<Reply> =
        arguments.iter().map(|argument| Reply::Text(Bytes::copy_from_slice(argument))).collect();
    assert_eq!(decode_in(usize::from(size) + 1, &encode(arguments)), (vec![Reply::Array(sent)], None));
}

fn decode_in(size: usize, stream: &[u8]) -> Decoded {
    let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
    for (number, chunk) in stream.chunks(size).enumerate() {
        decoder.feed(chunk);
        loop {
            let fed = (number + 1) * size;
            let values: usize = decoder.arrays.iter().map(|array| array.values.capacity()).sum();
            assert!(values <= 2 * fed && decoder.input.len() <= fed, "{values} values of {fed} bytes");
            match decoder.decode() {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(malformed) => return (replies, Some(malformed)),
            }
        }
    }
    (replies, None)
}

/// Reads a reply as each command does, whatever it was to.
fn read(reply: &Reply) {
    if let Ok(record) = parse(reply) {
        let text = record.to_json().expect("a record that was read is written");
        assert_eq!(parse(&Reply::Text(text.as_str().to_owned().into())), Ok(record));
    }
    if let Some(message) = published(reply) {
        let changes = decode_changes(message);
        assert_eq!(decode_changes(&encode_changes(&changes)), changes);
    }
    match reply {
        Reply::Text(text) => drop(Info::parse(&String::from_utf8_lossy(text)).check()),
        Reply::Error(error) => drop(RedisError::from_reply(error.clone()).to_string()),
        _ => {}
    }
}
