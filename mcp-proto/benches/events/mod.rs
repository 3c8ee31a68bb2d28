//! Streams of events: the input of the benchmarks of event decoders.

use mcp_proto::codec::sse::write;

/// Events as bytes.
pub(crate) struct Stream {
    pub(crate) bytes: Vec<u8>,
    pub(crate) events: usize,
}

/// A mix of events with the same number of bytes for each length: about 6 MB, more than the caches of a core hold.
pub(crate) fn events(lengths: &[usize]) -> Stream {
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let text: Vec<u8> = (b'a'..=b'z').cycle().take(longest).collect();
    let mut stream = Stream { bytes: Vec::new(), events: 0 };
    while stream.bytes.len() < 6_000_000 {
        for &length in lengths {
            for _ in 0..longest / length {
                write::event(&mut stream.bytes, None, None, &text[..length - 8]);
                stream.events += 1;
            }
        }
    }
    stream
}
