//! The table of the sessions of legacy clients.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::service::Service;
use super::session::SessionCell;
use crate::Instant;
use crate::front::wakers::lock;
use crate::peer::Principal;
use crate::quota::{QuotaError, QuotaOwner};
use crate::rpc::Id;
use crate::transport::http::server::{ConnectionId, HttpResponse, Post, Session, SessionId, Sessions};

/// The sessions of a server, by their ids.
pub(super) struct SessionTable {
    sessions: Sessions<Arc<SessionCell>>,
    /// The sessions that the driver has not taken yet.
    new_sessions: Vec<Arc<SessionCell>>,
    /// Whether no session can be opened any more.
    closed_to_new: bool,
}

impl SessionTable {
    pub(super) fn new(max_sessions: usize) -> Self {
        Self { sessions: Sessions::new(max_sessions), new_sessions: Vec::new(), closed_to_new: false }
    }
}

impl Service {
    /// Returns a session for use by `principal`. To other principals it is unknown.
    pub(super) fn session(&self, id: SessionId, principal: Option<&Principal>) -> Option<Arc<SessionCell>> {
        let mut table = lock(&self.table);
        //= S9.3 "not session id alone"
        //= S10.9 "handles/session ids are not authentication"
        let cell = table.sessions.get(id).filter(|cell| cell.principal.as_ref() == principal)?.clone();
        table.sessions.set_idle(id, None);
        Some(cell)
    }

    /// Opens a session with the handshake that was posted; returns its answer.
    pub(super) fn open_session(
        &self,
        post: Post,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Result<HttpResponse, HttpResponse> {
        self.check_room(&owner, post.request_id())?;
        let id = self.fresh_id();
        let (session, answer) = Session::open(&self.setup, id, post, self.now())?;
        self.admit(id, session, owner, principal)?;
        Ok(answer)
    }

    /// Opens a session for a client of 2024-11-05, which has one stream.
    pub(super) fn open_legacy_session(
        &self,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Result<(Arc<SessionCell>, ConnectionId), HttpResponse> {
        self.check_room(&owner, None)?;
        let id = self.fresh_id();
        let (mut session, connection) = Session::open_legacy(&self.setup, id, self.now());
        session.charge(&self.account(&owner));
        Ok((self.admit(id, session, owner, principal)?, connection))
    }

    //= S10.9 "handles random and bound to user"
    fn fresh_id(&self) -> SessionId {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        SessionId::from_entropy(bytes)
    }

    /// Checks that an owner can open a session now, before the work of opening it.
    fn check_room(&self, owner: &QuotaOwner, request: Option<&Id>) -> Result<(), HttpResponse> {
        let table = lock(&self.table);
        let has_room = !table.closed_to_new && table.sessions.has_room(owner);
        if has_room { Ok(()) } else { Err(HttpResponse::too_many_sessions(request)) }
    }

    /// Adds a session and wakes the driver. Beyond the limit, it ends a session that the owners' shares select.
    fn admit(
        &self,
        id: SessionId,
        session: Session,
        owner: QuotaOwner,
        principal: Option<Principal>,
    ) -> Result<Arc<SessionCell>, HttpResponse> {
        let refused = || HttpResponse::too_many_sessions(None);
        let cell = SessionCell::new(&self.hub, self.clock.clone(), id, session, owner, principal);
        let gone = {
            let mut table = lock(&self.table);
            if table.closed_to_new {
                return Err(refused());
            }
            let inserted = table.sessions.insert(id, &cell.owner, cell.clone());
            let gone = inserted.map_err(|QuotaError| refused())?;
            table.new_sessions.push(cell.clone());
            gone
        };
        if let Some((_, gone)) = gone {
            gone.end();
        }
        self.session_signal.notify();
        Ok(cell)
    }

    pub(super) fn take_new_sessions(&self) -> Vec<Arc<SessionCell>> {
        core::mem::take(&mut lock(&self.table).new_sessions)
    }

    pub(super) fn has_new_sessions(&self) -> bool {
        !lock(&self.table).new_sessions.is_empty()
    }

    /// Stops accepting sessions. Returns those that the driver has not taken yet.
    pub(super) fn refuse_sessions(&self) -> Vec<Arc<SessionCell>> {
        let mut table = lock(&self.table);
        table.closed_to_new = true;
        core::mem::take(&mut table.new_sessions)
    }

    /// Records since when a session is idle; `None` if it is active.
    pub(super) fn set_idle(&self, id: SessionId, since: Option<Instant>) {
        lock(&self.table).sessions.set_idle(id, since);
    }

    /// Removes a session that has ended: its id is unknown from now on.
    pub(super) fn forget(&self, id: SessionId) {
        let gone = lock(&self.table).sessions.remove(id);
        drop(gone);
    }
}
