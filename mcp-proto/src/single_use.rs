//! Request states and proofs of possession that count once, and the store that records their use.

use core::fmt;
use core::future::{Future, ready};
use core::pin::Pin;
use std::sync::{Mutex, PoisonError};

use crate::prelude::*;
use crate::quota::{FairTable, QuotaError, QuotaOwner};
use crate::{Instant, UnixTime};

/// The id of something that may be used once.
///
/// `Display` writes its kind and its bytes in hexadecimal digits, a key for a store: `state:0b1c…` or `proof:7f2a…`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UseId {
    /// A request state that a client returned, by the random bytes that it was sealed with.
    State([u8; 12]),
    /// A proof of possession (DPoP, RFC 9449), by a hash of its key and its `jti`.
    Proof([u8; 32]),
}

impl fmt::Display for UseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Self::State(bytes) => ("state", &bytes[..]),
            Self::Proof(bytes) => ("proof", &bytes[..]),
        };
        write!(f, "{kind}:")?;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UseId({self})")
    }
}

/// The claim of a request to be the only use of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id.
    pub id: UseId,
    /// The owner whose quota the record uses.
    pub owner: QuotaOwner,
    /// The time at this instance of the server.
    pub now: UnixTime,
    /// The earliest time at which the id could have been used: when the state was sealed, or the proof could first have
    /// been accepted.
    pub since: UnixTime,
    /// When the id expires. The record may be deleted then, and never before.
    pub expires: UnixTime,
}

/// The answer of a store to a [`Claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimOutcome {
    /// This is the first use of the id, and it is recorded.
    First,
    /// The id was used before.
    Repeated,
    /// The store has lost records, and this may have been one of them: the claim's [`since`](Claim::since) is earlier
    /// than `before`. The use is refused.
    ///
    /// A store reports this after it has failed over to a replica, which may lack the last records. `before` is the
    /// time of the failover, plus the difference that it allows between the clocks of store and server.
    Forgotten {
        /// Ids that could be used before this time are refused.
        before: UnixTime,
    },
}

/// Why a store did not record a use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimError {
    /// The store has no room for the record, or none for its owner.
    Full,
    /// The store cannot be reached, or failed, with this message for logs.
    Failed(String),
}

error_text! { ClaimError:
    Full => "there is no room for more records of use";
    Failed(why) => "the store of used ids failed: {why}";
}

/// The future of a claim. It may be dropped at any time; the use is then recorded or not.
pub type ClaimFuture = Pin<Box<dyn Future<Output = Result<ClaimOutcome, ClaimError>> + Send>>;

/// A store of used ids, so that nothing is used twice: request states
/// ([`Router::single_use`](crate::front::Router::single_use)) and proofs of possession (`Guard::single_use`).
///
/// All instances of a server share one store: a table of a database, for example, into which a row is inserted unless it
/// exists. [`UsedIds`] is for a server of one process.
///
/// A request whose claim is not answered by [`First`](ClaimOutcome::First) is refused. If the store fails, the answer is
/// 503 with `Retry-After` over HTTP, and [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR) elsewhere.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow>
pub trait SingleUse: Send + Sync {
    /// Records the use of an id unless it is recorded already, in one atomic step: of any number of claims of an id, at
    /// all instances together, one is the first.
    ///
    /// The future must not block. It ends within a bounded time: a request waits for it.
    fn claim(&self, claim: Claim) -> ClaimFuture;
}

/// A store of used ids in this process's memory: for servers of one process.
///
/// It is bounded and keeps each record until the id expires. It refuses an owner with [more than its
/// share](crate::quota::Shares::try_take).
///
/// ```
/// # #[cfg(feature = "seal")] {
/// use std::sync::Arc;
///
/// use mcp_proto::front::{Router, UsedIds};
///
/// let router = Router::new("vouchers", "1.0.0").single_use(Arc::new(UsedIds::default()));
/// # drop(router);
/// # }
/// ```
#[derive(Debug)]
pub struct UsedIds(Mutex<FairTable<UseId, ()>>);

impl UsedIds {
    /// Creates a store of at most `most` unexpired ids. Each takes about 250 bytes.
    pub fn new(most: usize) -> Self {
        Self(Mutex::new(FairTable::new(most)))
    }

    /// Records a use that this or another store has accepted before, even if the store is full: for stores that keep a
    /// journal, from which they make the table again.
    pub fn restore(&self, claim: &Claim) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert_over(claim.id, &claim.owner, ());
        used.set_idle(claim.id, Some(on_clock(claim.expires)));
    }

    fn record(&self, claim: &Claim) -> Result<ClaimOutcome, ClaimError> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while used.pop_idle(on_clock(claim.now)).is_some() {}
        if used.get(claim.id).is_some() {
            return Ok(ClaimOutcome::Repeated);
        }
        used.try_insert(claim.id, &claim.owner, ()).map_err(|QuotaError| ClaimError::Full)?;
        used.set_idle(claim.id, Some(on_clock(claim.expires)));
        Ok(ClaimOutcome::First)
    }
}

/// The table orders its entries by instants: these are measured on the clock of the claims.
fn on_clock(time: UnixTime) -> Instant {
    Instant::from_origin(time.since_epoch())
}

impl Default for UsedIds {
    /// Creates a store of 100,000 ids: 160 request states a second for the ten minutes of their lifetime, or 600 proofs
    /// a second for the two and a half minutes of theirs.
    fn default() -> Self {
        Self::new(100_000)
    }
}

impl SingleUse for UsedIds {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        Box::pin(ready(self.record(&claim)))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_epoch(Duration::from_secs(seconds))
    }

    fn claim(byte: u8, owner: &QuotaOwner, now: u64, expires: u64) -> Claim {
        let id = UseId::State([byte; 12]);
        Claim { id, owner: owner.clone(), now: at(now), since: at(0), expires: at(expires) }
    }

    fn record(used: &UsedIds, byte: u8, now: u64, expires: u64) -> Result<ClaimOutcome, ClaimError> {
        used.record(&claim(byte, &QuotaOwner::LOCAL, now, expires))
    }

    /// S4.6
    #[test]
    fn store_accepts_an_id_once() {
        let used = UsedIds::default();
        assert_eq!(record(&used, 1, 0, 10), Ok(ClaimOutcome::First));
        assert_eq!(record(&used, 2, 0, 10), Ok(ClaimOutcome::First));
        assert_eq!(record(&used, 1, 9, 10), Ok(ClaimOutcome::Repeated));
    }

    #[test]
    fn only_expired_ids_make_room() {
        let used = UsedIds::new(2);
        record(&used, 1, 0, 10).unwrap();
        record(&used, 2, 0, 20).unwrap();
        assert_eq!(record(&used, 3, 9, 30), Err(ClaimError::Full));
        assert_eq!(record(&used, 3, 10, 30), Ok(ClaimOutcome::First));
        assert_eq!(record(&used, 4, 10, 30), Err(ClaimError::Full));
        assert_eq!(record(&used, 2, 10, 20), Ok(ClaimOutcome::Repeated));
    }

    #[test]
    fn one_owner_does_not_block_another() {
        let used = UsedIds::new(8);
        let eve = QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, 66]));
        let taken = (0..20).filter(|byte| used.record(&claim(*byte, &eve, 0, 10)).is_ok()).count();
        assert_eq!(taken, 5);
        assert_eq!(record(&used, 100, 0, 10), Ok(ClaimOutcome::First));
        assert_eq!(used.record(&claim(0, &eve, 1, 10)), Ok(ClaimOutcome::Repeated));
    }

    #[test]
    fn key_of_an_id_names_its_kind() {
        assert_eq!(UseId::State([0xab; 12]).to_string(), format!("state:{}", "ab".repeat(12)));
        assert_eq!(UseId::Proof([7; 32]).to_string(), format!("proof:{}", "07".repeat(32)));
    }
}
