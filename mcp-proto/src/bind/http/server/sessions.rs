//! The sessions of a server.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use crate::Instant;

use super::SessionId;

/// A bounded table of sessions, or of what stands for them.
///
/// Whoever keeps it says of each when it has become [idle](Self::set_idle). If it is full and another session is asked
/// for, the one that is idle for longest makes room; if all are busy, the new one is refused: a client that works is
/// never thrown out for one that has just come.
///
/// Every operation takes logarithmic time.
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::bind::http::server::{SessionId, Sessions};
///
/// let (a, b) = (SessionId::from_entropy([1; 16]), SessionId::from_entropy([2; 16]));
/// let mut sessions = Sessions::new(1);
/// assert_eq!(sessions.insert(a, "a"), Ok(None));
/// assert!(sessions.insert(b, "b").is_err());
/// sessions.set_idle(a, Some(Instant::ORIGIN));
/// assert_eq!(sessions.insert(b, "b"), Ok(Some((a, "a"))));
/// ```
#[derive(Debug)]
pub struct Sessions<T> {
    entries: BTreeMap<SessionId, (Option<Instant>, T)>,
    idle: BTreeSet<(Instant, SessionId)>,
    most: usize,
}

/// There are too many sessions, and none is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are too many sessions, and none is idle")
    }
}

impl core::error::Error for Full {}

impl<T> Sessions<T> {
    /// A table for at most so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { entries: BTreeMap::new(), idle: BTreeSet::new(), most }
    }

    /// Takes in a session, busy for now. Returns the one that had to go for it, or that had the same id.
    ///
    /// # Errors
    /// If there is no room.
    pub fn insert(&mut self, id: SessionId, session: T) -> Result<Option<(SessionId, T)>, Full> {
        let gone = if let Some(before) = self.remove(id) {
            Some((id, before))
        } else if self.entries.len() < self.most {
            None
        } else {
            let oldest = self.idle.first().map(|(_, id)| *id).ok_or(Full)?;
            self.remove(oldest).map(|session| (oldest, session))
        };
        self.entries.insert(id, (None, session));
        Ok(gone)
    }

    /// A session.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&T> {
        self.entries.get(&id).map(|(_, session)| session)
    }

    /// A session.
    #[must_use]
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        self.entries.get_mut(&id).map(|(_, session)| session)
    }

    /// Forgets a session.
    pub fn remove(&mut self, id: SessionId) -> Option<T> {
        let (idle, session) = self.entries.remove(&id)?;
        if let Some(since) = idle {
            self.idle.remove(&(since, id));
        }
        Some(session)
    }

    /// Says since when a session is idle, if it is.
    pub fn set_idle(&mut self, id: SessionId, since: Option<Instant>) {
        let Some((before, _)) = self.entries.get_mut(&id) else { return };
        if let Some(before) = core::mem::replace(before, since) {
            self.idle.remove(&(before, id));
        }
        if let Some(since) = since {
            self.idle.insert((since, id));
        }
    }

    /// Takes out a session that is idle since `before` or longer.
    pub fn pop_idle(&mut self, before: Instant) -> Option<(SessionId, T)> {
        let &(_, id) = self.idle.first().filter(|(since, _)| *since <= before)?;
        self.remove(id).map(|session| (id, session))
    }

    /// Since when the one is idle that is so for longest.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        self.idle.first().map(|(since, _)| *since)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &T)> {
        self.entries.iter().map(|(id, (_, session))| (*id, session))
    }
}
