//! The requests of detection on the wire.

/// A request of detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peer::client) enum HandshakeRequest {
    Probe,
    Initialize,
}

/// The requests of detection that are not answered yet.
#[derive(Debug, Default)]
pub(in crate::peer::client) struct SentRequests {
    probe: Option<i64>,
    initialize: Option<i64>,
    /// Whether one of them was the last message written.
    written_last: bool,
}

impl SentRequests {
    /// Notes that a request was sent under this number.
    pub(in crate::peer::client) fn note_sent(&mut self, request: HandshakeRequest, number: i64) {
        *self.slot(request) = Some(number);
        self.written_last = true;
    }

    /// Notes that an answer to the server was written.
    pub(in crate::peer::client) fn note_reply_written(&mut self) {
        self.written_last = false;
    }

    /// The unanswered request with this number.
    pub(in crate::peer::client) fn get(&self, number: i64) -> Option<HandshakeRequest> {
        match Some(number) {
            number if number == self.probe => Some(HandshakeRequest::Probe),
            number if number == self.initialize => Some(HandshakeRequest::Initialize),
            _ => None,
        }
    }

    /// Removes and returns the request with this number, which is now answered.
    pub(in crate::peer::client) fn remove(&mut self, number: i64) -> Option<HandshakeRequest> {
        let request = self.get(number)?;
        *self.slot(request) = None;
        Some(request)
    }

    /// Whether one of them was the last message written: then an error without an id can only answer it.
    pub(super) fn was_written_last(&self) -> bool {
        self.written_last
    }

    fn slot(&mut self, request: HandshakeRequest) -> &mut Option<i64> {
        match request {
            HandshakeRequest::Probe => &mut self.probe,
            HandshakeRequest::Initialize => &mut self.initialize,
        }
    }
}
