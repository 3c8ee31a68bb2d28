//! The table of a session's response streams.

use super::{GENERAL_STREAM, ResponseStream, StreamForm};
use crate::inline_map::InlineMap;
use crate::lazy_box::{Initial, LazyBox};
use crate::transport::http::server::head::AcceptedTypes;

/// The response streams of a session by number. An idle session whose client never opened the general stream has none,
/// and no memory for them.
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    streams: LazyBox<InlineMap<u64, ResponseStream>>,
    closed: bool,
}

impl Initial for InlineMap<u64, ResponseStream> {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

impl StreamTable {
    pub(super) fn get(&self, stream: &u64) -> Option<&ResponseStream> {
        self.streams.get(stream)
    }

    pub(super) fn get_mut(&mut self, stream: &u64) -> Option<&mut ResponseStream> {
        self.streams.used_mut()?.get_mut(stream)
    }

    pub(super) fn insert(&mut self, number: u64, stream: ResponseStream) {
        self.streams.insert(number, stream);
    }

    /// Adds the general stream, unless the table has it or is closed.
    pub(super) fn open_general(&mut self) {
        if !self.closed {
            let general = || ResponseStream::new(AcceptedTypes::Events, StreamForm::Events);
            self.streams.get_or_insert_with(GENERAL_STREAM, general);
        }
    }

    pub(super) fn remove(&mut self, stream: &u64) -> Option<ResponseStream> {
        let streams = self.streams.used_mut()?;
        let removed = streams.remove(stream);
        if streams.is_empty() {
            self.streams.reset();
        }
        removed
    }

    /// Removes all streams. The general stream does not come back.
    pub(super) fn close(&mut self) -> impl Iterator<Item = ResponseStream> + use<> {
        self.closed = true;
        let streams = self.streams.used_mut().map(core::mem::take);
        self.streams.reset();
        streams.into_iter().flatten().map(|(_, stream)| stream)
    }
}
