//! Requests of the server that wait until its era is known.

use alloc::collections::VecDeque;

use crate::Limits;
use crate::peer::batch::BatchId;
use crate::rpc::{Id, Raw, Text};

use super::event::id_bytes;
use super::params::bytes_of;

/// A request of the server.
#[derive(Debug)]
pub(super) struct ServerRequest {
    pub(super) id: Id,
    pub(super) method: Text,
    pub(super) params: Option<Raw>,
    /// The batch that contained it.
    pub(super) batch: Option<BatchId>,
}

impl ServerRequest {
    /// The size in bytes of its server-supplied content.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(self.params.as_ref()).saturating_add(self.method.len()).saturating_add(id_bytes(&self.id))
    }
}

/// The server's requests that wait until its era is known, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct EarlyRequests {
    requests: VecDeque<ServerRequest>,
    bytes: usize,
}

impl EarlyRequests {
    /// Adds a request.
    ///
    /// # Errors
    /// Returns the request if there is no room for it.
    pub(super) fn push(&mut self, request: ServerRequest, limits: &Limits) -> Result<(), ServerRequest> {
        let bytes = self.bytes.saturating_add(request.bytes());
        if self.requests.len() >= limits.requests_in || bytes > limits.event_bytes / 2 {
            return Err(request);
        }
        self.bytes = bytes;
        self.requests.push_back(request);
        Ok(())
    }

    /// Removes the request with this id. Returns whether there is one.
    pub(super) fn remove(&mut self, id: &Id) -> bool {
        let Some(at) = self.requests.iter().position(|request| request.id == *id) else { return false };
        if let Some(request) = self.requests.remove(at) {
            self.bytes = self.bytes.saturating_sub(request.bytes());
        }
        true
    }

    /// Removes and returns the oldest request.
    pub(super) fn pop(&mut self) -> Option<ServerRequest> {
        let request = self.requests.pop_front()?;
        self.bytes = self.bytes.saturating_sub(request.bytes());
        Some(request)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
