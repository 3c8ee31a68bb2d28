//! Requests of either side that wait until the server's era is known.

use alloc::collections::{BTreeMap, VecDeque};

use crate::Limits;
use crate::peer::batch::BatchId;
use crate::peer::encode::Template;
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

/// The parked requests, with their sizes.
#[derive(Debug, Default)]
pub(super) struct ParkedRequests {
    /// The application's requests, by number.
    own: BTreeMap<i64, Template>,
    own_bytes: usize,
    /// The server's requests, in the order of arrival.
    early: VecDeque<ServerRequest>,
    early_bytes: usize,
}

impl ParkedRequests {
    // --- The application's requests ---

    pub(super) fn park(&mut self, number: i64, request: Template) {
        self.own_bytes = self.own_bytes.saturating_add(request.bytes());
        self.own.insert(number, request);
    }

    pub(super) fn contains(&self, number: i64) -> bool {
        self.own.contains_key(&number)
    }

    /// The size in bytes of the application's requests.
    pub(super) fn bytes(&self) -> usize {
        self.own_bytes
    }

    pub(super) fn remove(&mut self, number: i64) -> Option<Template> {
        let request = self.own.remove(&number)?;
        self.own_bytes = self.own_bytes.saturating_sub(request.bytes());
        Some(request)
    }

    /// Removes and returns the oldest request of the application.
    pub(super) fn pop(&mut self) -> Option<(i64, Template)> {
        let (&number, _) = self.own.first_key_value()?;
        Some((number, self.remove(number)?))
    }

    // --- The server's requests ---

    /// Parks a request of the server.
    ///
    /// # Errors
    /// Returns the request if there is no room for it.
    pub(super) fn park_early(
        &mut self,
        request: ServerRequest,
        limits: &Limits,
    ) -> Result<(), ServerRequest> {
        let bytes = self.early_bytes.saturating_add(request.bytes());
        if self.early.len() >= limits.requests_in || bytes > limits.event_bytes / 2 {
            return Err(request);
        }
        self.early_bytes = bytes;
        self.early.push_back(request);
        Ok(())
    }

    /// Removes the server's request with this id. Returns whether there is one.
    pub(super) fn remove_early(&mut self, id: &Id) -> bool {
        let Some(at) = self.early.iter().position(|request| request.id == *id) else { return false };
        if let Some(request) = self.early.remove(at) {
            self.early_bytes = self.early_bytes.saturating_sub(request.bytes());
        }
        true
    }

    /// Removes and returns the oldest request of the server.
    pub(super) fn pop_early(&mut self) -> Option<ServerRequest> {
        let request = self.early.pop_front()?;
        self.early_bytes = self.early_bytes.saturating_sub(request.bytes());
        Some(request)
    }

    pub(super) fn clear_early(&mut self) {
        self.early.clear();
        self.early_bytes = 0;
    }
}
