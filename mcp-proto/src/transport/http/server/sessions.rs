//! The server's table of sessions.

use crate::quota::FairTable;

use super::SessionId;

/// A bounded table of a server's sessions, or of handles to them.
///
/// Sessions are inserted busy; [`set_idle`](FairTable::set_idle) marks one as idle. If the table is full, the owner who
/// inserts another session loses its own oldest idle one; others lose one only to an owner with less than its fair
/// share.
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::transport::http::server::{SessionId, Sessions};
/// use mcp_proto::quota::QuotaOwner;
///
/// let (a, b) = (SessionId::from_entropy([1; 16]), SessionId::from_entropy([2; 16]));
/// let mut sessions = Sessions::new(1);
/// assert_eq!(sessions.insert(a, &QuotaOwner::LOCAL, "a"), Ok(None));
/// assert!(sessions.insert(b, &QuotaOwner::LOCAL, "b").is_err());
/// sessions.set_idle(a, Some(Instant::ORIGIN));
/// assert_eq!(sessions.insert(b, &QuotaOwner::LOCAL, "b"), Ok(Some((a, "a"))));
/// ```
pub type Sessions<T> = FairTable<SessionId, T>;
