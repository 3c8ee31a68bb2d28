//! The session table: the legacy sessions of a server by their ids, each for the principal that opened it.

use alloc::sync::Arc;

use crate::Instant;
use crate::front::wakers::lock;
use crate::peer::Principal;
use crate::prelude::*;
use crate::quota::{QuotaError, QuotaOwner};
use crate::sync::Mutex;
use crate::transport::http::server::{SessionId, Sessions};

use super::session::SessionCell;

/// The sessions of a server, by their ids.
pub(super) struct SessionTable(Mutex<Table>);

struct Table {
    sessions: Sessions<Arc<SessionCell>>,
    /// The sessions that the driver has not taken yet.
    new_sessions: Vec<Arc<SessionCell>>,
    /// Whether no session can be opened any more.
    closed_to_new: bool,
}

impl SessionTable {
    pub(super) fn new(max_sessions: usize) -> Self {
        let sessions = Sessions::new(max_sessions);
        Self(Mutex::new(Table { sessions, new_sessions: Vec::new(), closed_to_new: false }))
    }

    /// Returns a session for use by `principal`. To other principals it is unknown.
    pub(super) fn find(&self, id: SessionId, principal: Option<&Principal>) -> Option<Arc<SessionCell>> {
        let mut table = lock(&self.0);
        //= S9.3 "not session id alone"
        //= S10.9 "handles/session ids are not authentication"
        let cell = table.sessions.get(id).filter(|cell| cell.principal.as_ref() == principal)?.clone();
        table.sessions.set_idle(id, None);
        Some(cell)
    }

    /// Whether an owner can open a session now.
    pub(super) fn has_room(&self, owner: &QuotaOwner) -> bool {
        let table = lock(&self.0);
        !table.closed_to_new && table.sessions.has_room(owner)
    }

    /// Adds a session, which the driver takes next. Beyond the limit, it ends a session that the owners' shares select.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn add(&self, cell: Arc<SessionCell>) -> Result<(), QuotaError> {
        let gone = {
            let mut table = lock(&self.0);
            if table.closed_to_new {
                return Err(QuotaError);
            }
            let gone = table.sessions.insert(cell.id, &cell.owner, cell.clone())?;
            table.new_sessions.push(cell);
            gone
        };
        if let Some((_, gone)) = gone {
            gone.end();
        }
        Ok(())
    }

    /// Takes the sessions that the driver has not taken yet.
    pub(super) fn take_new(&self) -> Vec<Arc<SessionCell>> {
        core::mem::take(&mut lock(&self.0).new_sessions)
    }

    pub(super) fn has_new(&self) -> bool {
        !lock(&self.0).new_sessions.is_empty()
    }

    /// Stops accepting sessions. Returns those that the driver has not taken yet.
    pub(super) fn close(&self) -> Vec<Arc<SessionCell>> {
        let mut table = lock(&self.0);
        table.closed_to_new = true;
        core::mem::take(&mut table.new_sessions)
    }

    /// Records since when a session is idle; `None` if it is active.
    pub(super) fn set_idle(&self, id: SessionId, since: Option<Instant>) {
        lock(&self.0).sessions.set_idle(id, since);
    }

    /// Removes a session that has ended: its id is unknown from now on.
    pub(super) fn remove(&self, id: SessionId) {
        let gone = lock(&self.0).sessions.remove(id);
        drop(gone);
    }
}
