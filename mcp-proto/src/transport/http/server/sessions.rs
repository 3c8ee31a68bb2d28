//! Sessions by their ids.

use alloc::string::String;
use core::fmt;

use crate::quota::FairTable;

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

/// The id of a session: 128 random bits, written as 32 hexadecimal digits.
///
/// Every holder of the id can act in the session. `Debug` therefore shows only its beginning; `Display` writes all of
/// it.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// Creates an id from 16 bytes of a secure random source.
    ///
    /// ```
    /// use mcp_proto::transport::http::server::SessionId;
    ///
    /// let id = SessionId::from_entropy([0xAB; 16]);
    /// assert_eq!(id.to_string(), "abababababababababababababababab");
    /// assert_eq!(SessionId::parse(id.to_string().as_bytes()), Some(id));
    /// ```
    #[must_use]
    pub const fn from_entropy(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Parses an id in the form that `Display` writes.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = text.len() == 32 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let text = core::str::from_utf8(text).ok().filter(|_| digits)?;
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    pub(super) fn to_hex(self) -> String {
        alloc::format!("{self}")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {:04x}…", self.0 >> 112)
    }
}
