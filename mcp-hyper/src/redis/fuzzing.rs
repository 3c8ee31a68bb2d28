//! The body of the fuzz target `redis_replies`, which compiles this file and the codec without the crate.

use bytes::Bytes;

use super::resp::{Decoder, MalformedReply, Reply, encode};

/// What is decoded of a stream: its replies, and the reason for which the connection would be closed.
type Decoded = (Vec<Reply>, Option<MalformedReply>);

/// Checks that replies do not depend on the chunks in which they arrive, and that a decoder holds little more than it was
/// fed. Then sends parts of the input as a command, and reads it back. Returns the replies.
///
/// The first byte selects the size of the chunks.
pub(super) fn replies(data: &[u8]) -> Vec<Reply> {
    let Some((&size, stream)) = data.split_first() else { return Vec::new() };
    let whole = decode_in(stream.len().max(1), stream);
    for size in [1, usize::from(size) + 1] {
        assert_eq!(decode_in(size, stream), whole, "in chunks of {size}");
    }
    let arguments: Vec<&[u8]> = stream.split(|byte| *byte == 0).collect();
    let sent: Vec<Reply> =
        arguments.iter().map(|argument| Reply::Text(Bytes::copy_from_slice(argument))).collect();
    assert_eq!(decode_in(usize::from(size) + 1, &encode(arguments)), (vec![Reply::Array(sent)], None));
    whole.0
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::RedisError;
    use super::super::changes::{decode_changes, encode_changes, published};
    use super::super::handshake::Info;
    use super::super::tasks::parse;
    use super::*;

    /// Reads a reply as each command does, whatever it was to.
    fn read(reply: &Reply) {
        if let Ok(record) = parse(reply) {
            let text = record.to_json().unwrap();
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

    /// The corpus of the fuzzer, each input cut and changed at each of its bytes.
    #[test]
    fn altered_replies_are_read_or_refused() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/redis_replies");
        let mut read_ones = 0;
        for entry in fs::read_dir(corpus).unwrap() {
            let input = fs::read(entry.unwrap().path()).unwrap();
            for at in 0..input.len() {
                let mut changed = input.clone();
                changed[at] = changed[at].wrapping_add(1);
                for input in [&input[..at], &changed] {
                    let replies = replies(input);
                    replies.iter().for_each(read);
                    read_ones += replies.len();
                }
            }
        }
        assert!(read_ones > 1000, "{read_ones}");
    }
}
