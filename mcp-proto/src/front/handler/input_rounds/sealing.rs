//! Request states: their sealing by a router, their binding to one request of one principal, and their single use.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::future::ready;
use core::time::Duration;
use std::sync::{Mutex, OnceLock};

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::front::clock::Entropy;
use crate::front::handler_error::HandlerError;
use crate::front::wakers::{SendFuture, lock};
use crate::peer::Principal;
use crate::peer::server::{NONCE_BYTES, SealKey, Sealer};
use crate::prelude::*;
use crate::quota::{FairTable, QuotaError, QuotaOwner};
use crate::rpc::write;
use crate::{Instant, UnixTime};

/// The default lifetime of a request state: long enough for a user to read, think and type, short enough that old
/// states soon expire.
const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Sealing {
    /// The server's name: another server rejects its states even if it has the same keys.
    pub(crate) server: String,
    /// The application's sealer, or one with a random key, created at first use.
    sealer: OnceLock<Sealer>,
    pub(crate) single_use: Option<Arc<dyn SingleUse>>,
    pub(crate) lifetime: Duration,
}

impl Sealing {
    pub(crate) fn new(server: String) -> Self {
        Self { server, sealer: OnceLock::new(), single_use: None, lifetime: LIFETIME }
    }

    pub(crate) fn set_sealer(&mut self, sealer: Sealer) {
        self.sealer = sealer.into();
    }

    /// The sealer of request states; without keys of the application, one with a random key.
    pub(crate) fn sealer(&self, entropy: &dyn Entropy) -> &Sealer {
        self.sealer.get_or_init(|| {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            Sealer::new(SealKey::new(bytes), [])
        })
    }
}

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

/// The parameters that differ between attempts at the same request.
const PER_ATTEMPT_PARAMS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// Encodes server, principal, method and parameters: the same bytes for each attempt at a request, however its
/// parameters are ordered and spaced, and different bytes for any other request.
///
/// # Errors
/// If a member of the parameters occurs twice: it would be ambiguous which of them counts.
pub(super) fn state_binding(
    server: &str,
    principal: Option<&Principal>,
    method: &str,
    params: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    let mut part = |part: &str| {
        out.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        out.extend_from_slice(part.as_bytes());
    };
    part(server);
    part(if principal.is_some() { "of" } else { "of nobody" });
    //= S9.3 "Bind state to verified user identity (sub)"
    part(principal.map_or("", Principal::as_str));
    part(method);
    if let Some(params) = params {
        let params = &mut serde_json::Deserializer::from_str(params);
        out.append(&mut CanonicalJson { omitted: &PER_ATTEMPT_PARAMS }.deserialize(params)?);
    }
    Ok(out)
}

/// Reads a JSON value as its canonical bytes, without the `omitted` members.
struct CanonicalJson {
    omitted: &'static [&'static str],
}

/// The canonical bytes of a value without parts.
fn scalar<E: Error>(value: impl Serialize) -> Result<Vec<u8>, E> {
    let mut out = Vec::new();
    write::json(&mut out, &value).map_err(E::custom)?;
    Ok(out)
}

impl<'de> DeserializeSeed<'de> for CanonicalJson {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CanonicalJson {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<u8>, E> {
        scalar(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Vec<u8>, E> {
        scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
        let mut out = vec![b'['];
        while let Some(mut item) = seq.next_element_seed(Self { omitted: &[] })? {
            out.append(&mut item);
            out.push(b',');
        }
        out.push(b']');
        Ok(out)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.insert(name, map.next_value_seed(Self { omitted: &[] })?).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        let mut out = vec![b'{'];
        for (name, mut value) in
            members.into_iter().filter(|(name, _)| !self.omitted.contains(&name.as_str()))
        {
            out.append(&mut scalar(&name)?);
            out.push(b':');
            out.append(&mut value);
            out.push(b',');
        }
        out.push(b'}');
        Ok(out)
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

    fn of(params: &str) -> Vec<u8> {
        state_binding("server", None, "tools/call", Some(params)).unwrap()
    }

    /// S4.5
    #[test]
    fn binding_is_equal_for_every_attempt_at_a_request() {
        let first = of(r#"{"name":"t","arguments":{"a":1,"b":["é",null,1.5]},"_meta":{"x":1}}"#);
        let again = of(
            r#"{ "requestState":"s", "inputResponses":{}, "arguments":{"b":["\u00e9", null, 1.5e0],"a":1}, "name":"t" }"#,
        );
        assert_eq!(first, again);
    }

    /// S4.5
    #[test]
    fn binding_differs_for_other_params() {
        let call = r#"{"name":"t","arguments":{"a":[1,2],"b":"x"}}"#;
        let others = [
            r#"{"name":"u","arguments":{"a":[1,2],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":[2,1],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":[[1,2]],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":["1","2"],"b":"x"}}"#,
            r#"{"name":"t","arguments":{"a":[1,2],"b":"x","_meta":{}}}"#,
            r#"{"name":"t","arguments":{"a":[1,2]}}"#,
            r#"{"name":"t"}"#,
        ];
        for other in others {
            assert_ne!(of(call), of(other), "{other}");
        }
    }

    /// S4.5
    #[test]
    fn binding_differs_by_server_principal_and_method() {
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        let of = |server, principal, method| state_binding(server, principal, method, None).unwrap();
        let all = [
            of("a", Some(&alice), "m"),
            of("a", Some(&bob), "m"),
            of("a", None, "m"),
            of("a", Some(&Principal::new("")), "m"),
            of("a", Some(&alice), "n"),
            of("b", Some(&alice), "m"),
            of("ab", Some(&alice), "m"),
            of("", Some(&alice), "m"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn binding_refuses_duplicate_members() {
        for params in [r#"{"name":"t","name":"u"}"#, r#"{"arguments":{"a":1,"a":2}}"#] {
            assert!(state_binding("s", None, "m", Some(params)).is_err());
        }
    }
}
