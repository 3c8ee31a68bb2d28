//! Request states that are valid for one attempt.

use alloc::boxed::Box;
use core::fmt;
use core::future::ready;
use std::sync::Mutex;

use crate::front::handler_error::HandlerError;
use crate::front::running_handlers::SendFuture;
use crate::front::signal::lock;
use crate::peer::server::NONCE_BYTES;
use crate::quota::{FairTable, QuotaError, QuotaOwner};
use crate::{Instant, UnixTime};

/// The unique id of a request state that a client returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId([u8; NONCE_BYTES]);

impl StateId {
    pub(super) fn new(nonce: [u8; NONCE_BYTES]) -> Self {
        Self(nonce)
    }

    /// The id as bytes, to be stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateId(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Whether a request state was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateUse {
    /// It is used for the first time.
    First,
    /// It was used before.
    Repeated,
}

/// A store of used request states, so that none is used twice.
///
/// It is for servers on which an answer may count only once, such as the redemption of a voucher. See
/// [`Router::single_use`](crate::front::Router::single_use).
///
/// Instances of a server that share the keys of their states must share this store as well: for example as a row in a
/// common database that is inserted unless it exists.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow>
pub trait SingleUse: Send + Sync {
    /// Records the use of a state and returns whether it was used before, in one atomic step. The record may be deleted
    /// once the state has expired, at `expires`, and never before. If there is no room for it, the error is
    /// [`HandlerError::no_room`]; it counts towards the quota of `owner`.
    ///
    /// If it fails, the request is answered by [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR), and the state
    /// remains unused.
    fn claim(
        &self,
        state: StateId,
        owner: &QuotaOwner,
        now: UnixTime,
        expires: UnixTime,
    ) -> SendFuture<Result<StateUse, HandlerError>>;
}

/// A store of used request states in this process's memory: for servers of one instance.
///
/// It is bounded, and keeps each entry until it expires: it refuses an owner with [more than its
/// share](crate::quota::Shares::try_take).
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_proto::front::{Router, UsedStates};
///
/// let router = Router::new("vouchers", "1.0.0").single_use(Arc::new(UsedStates::default()));
/// # drop(router);
/// ```
#[derive(Debug)]
pub struct UsedStates(Mutex<FairTable<StateId, ()>>);

impl UsedStates {
    /// Creates a store of at most `most` unexpired states. Each takes about 200 bytes.
    pub fn new(most: usize) -> Self {
        Self(Mutex::new(FairTable::new(most)))
    }

    fn record(
        &self,
        state: StateId,
        owner: &QuotaOwner,
        now: UnixTime,
        expires: UnixTime,
    ) -> Result<StateUse, HandlerError> {
        // The table orders its entries by instants: these are measured on the clock of states.
        let on_clock = |time: UnixTime| Instant::from_origin(time.since_epoch());
        let mut used = lock(&self.0);
        if used.get(state).is_some() {
            return Ok(StateUse::Repeated);
        }
        while used.pop_idle(on_clock(now)).is_some() {}
        used.try_insert(state, owner, ())
            .map_err(|QuotaError| HandlerError::no_room("too many request states are in use"))?;
        used.set_idle(state, Some(on_clock(expires)));
        Ok(StateUse::First)
    }
}

impl Default for UsedStates {
    /// Creates a store of 100,000 states: 160 a second for the ten minutes of their lifetime.
    fn default() -> Self {
        Self::new(100_000)
    }
}

impl SingleUse for UsedStates {
    fn claim(
        &self,
        state: StateId,
        owner: &QuotaOwner,
        now: UnixTime,
        expires: UnixTime,
    ) -> SendFuture<Result<StateUse, HandlerError>> {
        Box::pin(ready(self.record(state, owner, now, expires)))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_epoch(Duration::from_secs(seconds))
    }

    fn state(byte: u8) -> StateId {
        StateId::new([byte; NONCE_BYTES])
    }

    /// S4.6
    #[test]
    fn record_accepts_a_state_once() {
        let used = UsedStates::default();
        assert_eq!(used.record(state(1), &QuotaOwner::LOCAL, at(0), at(10)).unwrap(), StateUse::First);
        assert_eq!(used.record(state(2), &QuotaOwner::LOCAL, at(0), at(10)).unwrap(), StateUse::First);
        assert_eq!(used.record(state(1), &QuotaOwner::LOCAL, at(9), at(10)).unwrap(), StateUse::Repeated);
    }

    #[test]
    fn only_expired_states_make_room() {
        let used = UsedStates::new(2);
        used.record(state(1), &QuotaOwner::LOCAL, at(0), at(10)).unwrap();
        used.record(state(2), &QuotaOwner::LOCAL, at(0), at(20)).unwrap();
        assert!(used.record(state(3), &QuotaOwner::LOCAL, at(9), at(30)).is_err());
        assert_eq!(used.record(state(3), &QuotaOwner::LOCAL, at(10), at(30)).unwrap(), StateUse::First);
        assert!(used.record(state(4), &QuotaOwner::LOCAL, at(10), at(30)).is_err());
        assert_eq!(used.record(state(2), &QuotaOwner::LOCAL, at(10), at(20)).unwrap(), StateUse::Repeated);
    }

    #[test]
    fn one_owner_does_not_block_another() {
        let used = UsedStates::new(8);
        let eve = QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, 66]));
        let taken = (0..20).filter(|byte| used.record(state(*byte), &eve, at(0), at(10)).is_ok()).count();
        assert_eq!(taken, 5);
        assert_eq!(used.record(state(100), &QuotaOwner::LOCAL, at(0), at(10)).unwrap(), StateUse::First);
        assert_eq!(used.record(state(0), &eve, at(1), at(10)).unwrap(), StateUse::Repeated);
    }
}
