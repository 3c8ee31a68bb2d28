//! The owners of a server's memory, and the division of a capacity between them.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
use std::sync::{Mutex, PoisonError};

use crate::Instant;
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
use crate::UnixTime;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::Principal;

/// The owner of a request's quota: its principal if it is authenticated, else the address that it came from.
///
/// An IPv4 address counts as a whole. IPv6 addresses count by their first 64 bits, since a single customer has at least
/// that many to choose from; an IPv4-mapped one counts as the IPv4 address. All requests without a known address, such
/// as those over Unix domain sockets, have the same owner.
///
/// ```
/// use mcp_proto::peer::Principal;
/// use mcp_proto::quota::QuotaOwner;
///
/// let address = |text: &str| text.parse().ok();
/// assert_eq!(QuotaOwner::from_client(None, address("2001:db8::1")), QuotaOwner::from_client(None, address("2001:db8::2")));
/// assert_eq!(QuotaOwner::from_client(None, address("::ffff:192.0.2.1")), QuotaOwner::from_client(None, address("192.0.2.1")));
/// assert_ne!(QuotaOwner::from_client(None, address("192.0.2.1")), QuotaOwner::LOCAL);
///
/// let ada = Principal::new("https://login.example#ada");
/// assert_eq!(QuotaOwner::from_client(Some(&ada), address("192.0.2.1")), QuotaOwner::from_client(Some(&ada), None));
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaOwner(OwnerKind);

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum OwnerKind {
    #[default]
    Local,
    Ipv4(Ipv4Addr),
    /// The first 64 bits.
    Ipv6(u64),
    Principal(Principal),
}

impl QuotaOwner {
    /// The owner of all requests that are not authenticated and have no known address.
    pub const LOCAL: Self = Self(OwnerKind::Local);

    /// The owner of a request by its principal, if authenticated, and its address, if known.
    #[must_use]
    pub fn from_client(principal: Option<&Principal>, address: Option<IpAddr>) -> Self {
        match (principal, address) {
            (Some(principal), _) => Self(OwnerKind::Principal(principal.clone())),
            (None, Some(address)) => Self::from(address),
            (None, None) => Self::LOCAL,
        }
    }

    /// Whether the owner is a principal, so that its requests are authenticated.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        matches!(self.0, OwnerKind::Principal(_))
    }
}

impl From<IpAddr> for QuotaOwner {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => OwnerKind::Ipv4(address),
            IpAddr::V6(address) => OwnerKind::Ipv6((address.to_bits() >> 64) as u64),
        })
    }
}

impl From<Principal> for QuotaOwner {
    fn from(principal: Principal) -> Self {
        Self(OwnerKind::Principal(principal))
    }
}

impl fmt::Debug for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            OwnerKind::Local => f.write_str("QuotaOwner(local)"),
            OwnerKind::Ipv4(address) => write!(f, "QuotaOwner({address})"),
            OwnerKind::Ipv6(network) => {
                write!(f, "QuotaOwner({}/64)", Ipv6Addr::from_bits(u128::from(*network) << 64))
            }
            OwnerKind::Principal(principal) => write!(f, "QuotaOwner({principal:?})"),
        }
    }
}

/// The owner has no room left: all its entries are in use or must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaError;

error_text! { QuotaError => "the quota is exhausted and all its entries are in use: try again later" }

/// A capacity (entries, bytes, requests in flight) divided between owners.
///
/// ```
/// use mcp_proto::quota::{QuotaOwner, EvictionTarget, Shares};
///
/// let [ada, eve] = ["192.0.2.1", "192.0.2.66"].map(|text| QuotaOwner::from_client(None, text.parse().ok()));
/// let mut shares = Shares::new(100);
/// while shares.try_take(&eve, 1).is_ok() {}
/// assert_eq!(shares.held(&eve), 60);
/// assert!(shares.try_take(&ada, 10).is_ok());
///
/// shares.take(&eve, 30);
/// assert_eq!(shares.eviction_target(&ada, 10), EvictionTarget::Other(eve.clone()));
/// assert_eq!(shares.eviction_target(&eve, 1), EvictionTarget::Requester);
/// ```
#[derive(Clone, Debug)]
pub struct Shares {
    capacity: usize,
    used: usize,
    held: OrderedMap<QuotaOwner, usize>,
    /// The same, ordered by amount: the owner that holds most is last.
    ranking: OrderedSet<(usize, QuotaOwner)>,
    /// The number of owners by the binary logarithm of their amounts.
    magnitudes: [usize; DIGITS],
}

const DIGITS: usize = usize::BITS as usize;

/// The owner that must give something up to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionTarget {
    /// None: there is room.
    Unneeded,
    /// The owner that needs the room: it has its fair share already.
    Requester,
    /// Another owner: the one that holds most.
    Other(QuotaOwner),
}

impl Shares {
    /// A capacity of which nothing is held.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            used: 0,
            held: OrderedMap::new(),
            ranking: OrderedSet::new(),
            magnitudes: [0; DIGITS],
        }
    }

    /// The amount that all owners hold together.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// The amount that is free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.capacity.saturating_sub(self.used)
    }

    /// The amount that an owner holds.
    #[must_use]
    pub fn held(&self, owner: &QuotaOwner) -> usize {
        self.held.get(owner).copied().unwrap_or(0)
    }

    /// Takes an amount until the caller [gives it back](Self::give_back).
    ///
    /// One owner may hold three fifths of the capacity, and less the more other owners hold as much: each of `n` such
    /// owners three fifths divided by `n²`, so that all of them together leave room for the next. While there is room,
    /// an owner that holds nothing may always take one, or a sixteenth of the free amount.
    ///
    /// # Errors
    /// If the owner would hold more, or there is no room; nothing is then taken.
    pub fn try_take(&mut self, owner: &QuotaOwner, amount: usize) -> Result<(), QuotaError> {
        if !self.allows(owner, amount) {
            return Err(QuotaError);
        }
        self.take(owner, amount);
        Ok(())
    }

    /// Whether [`try_take`](Self::try_take) would succeed.
    #[must_use]
    pub fn allows(&self, owner: &QuotaOwner, amount: usize) -> bool {
        let (free, held) = (self.free(), self.held(owner));
        if amount > free {
            return false;
        }
        if held == 0 && (amount <= 1 || amount <= free >> 4) {
            return true;
        }
        let wanted = held.saturating_add(amount);
        let from = magnitude(wanted);
        let as_large =
            self.magnitudes.iter().skip(from).fold(0_usize, |sum, owners| sum.saturating_add(*owners));
        let itself = usize::from(held > 0 && magnitude(held) >= from);
        let rank = as_large.saturating_sub(itself).saturating_add(1);
        let most = self.capacity.saturating_sub(self.capacity.saturating_mul(2) / 5);
        wanted.saturating_mul(rank).saturating_mul(rank) <= most
    }

    /// Takes an amount without checking for room, for a caller that has made room itself.
    pub fn take(&mut self, owner: &QuotaOwner, amount: usize) {
        self.set(owner, self.held(owner).saturating_add(amount));
        self.used = self.used.saturating_add(amount);
    }

    /// Gives back an amount that the owner has taken.
    pub fn give_back(&mut self, owner: &QuotaOwner, amount: usize) {
        let held = self.held(owner);
        let amount = amount.min(held);
        self.set(owner, held.saturating_sub(amount));
        self.used = self.used.saturating_sub(amount);
    }

    fn set(&mut self, owner: &QuotaOwner, amount: usize) {
        let before =
            if amount == 0 { self.held.remove(owner) } else { self.held.insert(owner.clone(), amount) };
        if let Some(before) = before {
            self.ranking.remove(&(before, owner.clone()));
            if let Some(owners) = self.magnitudes.get_mut(magnitude(before)) {
                *owners = owners.saturating_sub(1);
            }
        }
        if amount > 0 {
            self.ranking.insert((amount, owner.clone()));
            if let Some(owners) = self.magnitudes.get_mut(magnitude(amount)) {
                *owners = owners.saturating_add(1);
            }
        }
    }

    /// The owner that must give something up so that `owner` can take `amount` more.
    #[must_use]
    pub fn eviction_target(&self, owner: &QuotaOwner, amount: usize) -> EvictionTarget {
        if amount <= self.free() {
            return EvictionTarget::Unneeded;
        }
        let newcomer = usize::from(!self.held.contains_key(owner));
        let owners = self.held.len().saturating_add(newcomer).max(1);
        let fair = self.capacity.checked_div(owners).unwrap_or(0);
        match self.ranking.last() {
            Some((_, largest)) if self.held(owner).saturating_add(amount) <= fair && largest != owner => {
                EvictionTarget::Other(largest.clone())
            }
            _ => EvictionTarget::Requester,
        }
    }
}

/// The index of an amount in [`Shares::magnitudes`].
fn magnitude(amount: usize) -> usize {
    amount.checked_ilog2().and_then(|digits| usize::try_from(digits).ok()).unwrap_or(0)
}

// A rate for each owner.

/// A rate: so many a second on average, and so many at once after a pause. It is a token bucket.
///
/// ```
/// use mcp_proto::quota::RateLimit;
///
/// let limit = RateLimit::per_second(20).burst(40);
/// # let _ = limit;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct RateLimit {
    /// The time in which a token is added.
    interval: Duration,
    burst: u32,
}

/// The interval of a rate of zero.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl RateLimit {
    /// So many a second, and as many at once. With zero only the burst passes, once.
    #[must_use]
    pub const fn per_second(rate: u32) -> Self {
        Self::per(Duration::from_secs(1), rate)
    }

    /// So many a minute, and as many at once.
    #[must_use]
    pub const fn per_minute(rate: u32) -> Self {
        Self::per(Duration::from_secs(60), rate)
    }

    const fn per(time: Duration, rate: u32) -> Self {
        let interval = match time.checked_div(rate) {
            Some(interval) => interval,
            None => CENTURY,
        };
        Self { interval, burst: if rate == 0 { 1 } else { rate } }
    }

    /// Sets how many pass at once after a pause, one at least.
    #[must_use]
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst: if burst == 0 { 1 } else { burst }, ..self }
    }

    /// The time in which an empty bucket fills.
    const fn fill_time(self) -> Duration {
        self.interval.saturating_mul(self.burst)
    }
}

/// The use that each owner makes of a rate, in a bounded table.
///
/// An owner who has not used the rate for a while takes no memory. If more owners than the table holds use it at once,
/// the one that has used least is forgotten and may start afresh: no owner is ever refused on account of others.
///
/// Every operation takes time logarithmic in the number of owners.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::Instant;
/// use mcp_proto::quota::{QuotaOwner, RateLimit, RateLimiter};
///
/// let mut limiter = RateLimiter::new(RateLimit::per_second(10).burst(2));
/// let now = Instant::ORIGIN;
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now), Ok(()));
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now), Ok(()));
/// let wait = Duration::from_millis(100);
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now), Err(wait));
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now + wait), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    limit: RateLimit,
    capacity: usize,
    /// When the bucket of each owner is full again.
    full_at: OrderedMap<QuotaOwner, Instant>,
    /// The same, ordered by time.
    order: OrderedSet<(Instant, QuotaOwner)>,
}

/// The default number of owners: each takes about 200 bytes.
const OWNERS: usize = 16_384;

impl RateLimiter {
    /// A limiter for up to 16,384 owners at a time.
    #[must_use]
    pub const fn new(limit: RateLimit) -> Self {
        Self { limit, capacity: OWNERS, full_at: OrderedMap::new(), order: OrderedSet::new() }
    }

    /// Sets for how many owners at a time the limiter keeps their use, one at least.
    #[must_use]
    pub fn capacity(self, owners: usize) -> Self {
        Self { capacity: owners, ..self }
    }

    /// Takes one of the owner's tokens. All calls take readings of one clock.
    ///
    /// # Errors
    /// If none is left: the time until there is one.
    pub fn try_take(&mut self, owner: &QuotaOwner, now: Instant) -> Result<(), Duration> {
        let fill_time = self.limit.fill_time();
        // A clock that was set back must not block an owner for longer than an empty bucket does.
        let used = self.full_at.get(owner).map_or(Duration::ZERO, |full| full.saturating_since(now));
        let used = used.min(fill_time).saturating_add(self.limit.interval);
        if used > fill_time {
            return Err(used.saturating_sub(fill_time));
        }
        self.set(owner, now + used, now);
        Ok(())
    }

    fn set(&mut self, owner: &QuotaOwner, full_at: Instant, now: Instant) {
        match self.full_at.get_mut(owner) {
            Some(before) => {
                self.order.remove(&(*before, owner.clone()));
                *before = full_at;
            }
            None => {
                self.make_room(now);
                self.full_at.insert(owner.clone(), full_at);
            }
        }
        self.order.insert((full_at, owner.clone()));
    }

    /// Forgets an owner or two whose buckets are full, and if the table is full the owner that has used least.
    fn make_room(&mut self, now: Instant) {
        for _ in 0..2 {
            let is_full = self.full_at.len() >= self.capacity;
            match self.order.first() {
                Some((full, _)) if *full <= now || is_full => {
                    if let Some((_, owner)) = self.order.pop_first() {
                        self.full_at.remove(&owner);
                    }
                }
                _ => return,
            }
        }
    }
}

/// A rate of each owner, by the time of day: that is the same for all connections.
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
#[derive(Debug)]
pub(crate) struct SharedLimiter(Mutex<RateLimiter>);

#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
impl SharedLimiter {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self(Mutex::new(RateLimiter::new(limit)))
    }

    /// Takes a token of an owner; an error is the time until there is one.
    pub(crate) fn take(&self, owner: &QuotaOwner, now: UnixTime) -> Result<(), Duration> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .try_take(owner, Instant::from_origin(now.since_epoch()))
    }
}

#[cfg(test)]
mod rate_tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;
    use crate::peer::Principal;

    fn owner(name: u32) -> QuotaOwner {
        Principal::new(format!("p{name}")).into()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn owner_gets_the_burst_at_once_and_then_the_rate() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(20).burst(40));
        let passed = |limiter: &mut RateLimiter, millis| {
            (0..1000).filter(|_| limiter.try_take(&owner(1), at(millis)).is_ok()).count()
        };
        assert_eq!(passed(&mut limiter, 0), 40);
        assert_eq!(limiter.try_take(&owner(1), at(0)), Err(Duration::from_millis(50)));
        assert_eq!(passed(&mut limiter, 49), 0);
        assert_eq!(passed(&mut limiter, 50), 1);
        assert_eq!(passed(&mut limiter, 1050), 20);
        assert_eq!(passed(&mut limiter, 1_000_000), 40);
    }

    #[test]
    fn owners_have_buckets_of_their_own() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1));
        assert!((0..100).all(|name| limiter.try_take(&owner(name), at(0)).is_ok()));
        assert!((0..100).all(|name| limiter.try_take(&owner(name), at(0)).is_err()));
    }

    #[test]
    fn rate_of_zero_lets_the_burst_pass() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(0));
        assert!(limiter.try_take(&owner(1), at(0)).is_ok());
        assert!(limiter.try_take(&owner(1), at(1_000_000)).is_err());
    }

    #[test]
    fn table_forgets_the_owner_that_has_used_least() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1).burst(2)).capacity(2);
        for name in [1, 1, 2, 3] {
            assert!(limiter.try_take(&owner(name), at(0)).is_ok());
        }
        assert_eq!((limiter.full_at.len(), limiter.order.len()), (2, 2));
        assert!(limiter.try_take(&owner(1), at(0)).is_err(), "the greedy owner is remembered");
    }

    #[test]
    fn owners_with_full_buckets_take_no_memory() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1000).burst(1));
        for millis in 0..1000 {
            assert!(limiter.try_take(&owner(millis), at(2 * u64::from(millis))).is_ok());
            assert!(limiter.full_at.len() <= 2);
        }
    }

    #[test]
    fn clock_that_is_set_back_blocks_no_owner_for_long() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1).burst(2));
        assert!(limiter.try_take(&owner(1), at(3_600_000)).is_ok());
        assert_eq!(limiter.try_take(&owner(1), at(0)), Err(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn limiter_passes_no_more_than_burst_and_rate(
            (rate, burst) in (1u32..50, 1u32..50),
            pauses in prop::collection::vec(0u64..100, 1..200),
        ) {
            let mut limiter = RateLimiter::new(RateLimit::per_second(rate).burst(burst));
            let (mut now, mut passed) = (0, 0u64);
            for pause in pauses {
                now += pause;
                match limiter.try_take(&owner(1), at(now)) {
                    Ok(()) => passed += 1,
                    Err(wait) => prop_assert!(limiter.clone().try_take(&owner(1), at(now) + wait).is_ok()),
                }
                // Rounded up: an interval of a rate that does not divide a second is shorter by less than 1 ns.
                prop_assert!(passed <= u64::from(burst) + now * u64::from(rate) / 1000 + 1);
                prop_assert_eq!(limiter.full_at.len(), limiter.order.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn owner(number: u8) -> QuotaOwner {
        QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn greedy_owners_leave_room_for_the_next() {
        let mut shares = Shares::new(1024);
        for number in 1..=20 {
            assert!(shares.try_take(&owner(number), 1).is_ok(), "{number}");
            while shares.try_take(&owner(number), 1).is_ok() {}
        }
        assert!(shares.used() < 1024);
        assert!(shares.held(&owner(1)) > shares.held(&owner(20)));
    }

    #[test]
    fn owner_can_use_a_small_capacity() {
        for (capacity, most) in [(1, 1), (2, 2), (3, 2), (10, 6)] {
            let mut shares = Shares::new(capacity);
            while shares.try_take(&owner(1), 1).is_ok() {}
            assert_eq!(shares.used(), most);
        }
        assert!(Shares::new(0).try_take(&owner(1), 1).is_err());
    }

    #[test]
    fn shares_divide_large_amounts_like_small_ones() {
        let mut shares = Shares::new(64 << 20);
        for number in 1..=20 {
            while shares.try_take(&owner(number), 10_000).is_ok() {}
            assert!(shares.held(&owner(number)) >= 10_000, "{number}");
        }
        assert!(shares.free() > 1 << 20);
    }

    #[test]
    fn owner_can_take_again_after_giving_back() {
        let mut shares = Shares::new(10);
        shares.try_take(&owner(1), 6).unwrap();
        assert!(shares.try_take(&owner(1), 1).is_err());
        shares.give_back(&owner(1), 6);
        // The amount is not given back twice, and an owner that holds nothing is forgotten.
        shares.give_back(&owner(1), 6);
        assert_eq!((shares.used(), shares.held.len(), shares.ranking.len()), (0, 0, 0));
        assert_eq!(shares.magnitudes, [0; DIGITS]);
        shares.try_take(&owner(1), 6).unwrap();
    }

    #[test]
    fn owner_with_its_fair_share_makes_room_itself() {
        let mut shares = Shares::new(10);
        shares.take(&owner(1), 8);
        assert_eq!(shares.eviction_target(&owner(2), 2), EvictionTarget::Unneeded);
        shares.take(&owner(2), 2);
        assert_eq!(shares.eviction_target(&owner(2), 3), EvictionTarget::Other(owner(1)));
        assert_eq!(shares.eviction_target(&owner(2), 4), EvictionTarget::Requester);
        assert_eq!(shares.eviction_target(&owner(1), 1), EvictionTarget::Requester);
        assert_eq!(shares.eviction_target(&owner(3), 3), EvictionTarget::Other(owner(1)));
    }

    #[test]
    fn owners_with_one_entry_each_lose_none_to_a_newcomer() {
        let mut shares = Shares::new(4);
        (1..=4).for_each(|number| shares.take(&owner(number), 1));
        assert_eq!(shares.eviction_target(&owner(5), 1), EvictionTarget::Requester);
    }

    fn owner_at(address: &str) -> QuotaOwner {
        QuotaOwner::from_client(None, address.parse().ok())
    }

    #[test]
    fn ipv4_owners_differ_by_the_whole_address() {
        assert_eq!(owner_at("192.0.2.1"), owner_at("192.0.2.1"));
        assert_ne!(owner_at("192.0.2.1"), owner_at("192.0.2.2"));
    }

    #[test]
    fn ipv6_owners_differ_by_their_network() {
        assert_eq!(owner_at("2001:db8:1:2::1"), owner_at("2001:db8:1:2:ffff::"));
        assert_ne!(owner_at("2001:db8:1:2::1"), owner_at("2001:db8:1:3::1"));
        assert_eq!(owner_at("::ffff:192.0.2.1"), owner_at("192.0.2.1"));
        assert_ne!(owner_at("::1"), owner_at("127.0.0.1"));
    }

    #[test]
    fn principal_owns_its_requests_from_any_address() {
        let ada = Principal::new("ada");
        let anywhere = QuotaOwner::from_client(Some(&ada), None);
        assert_eq!(QuotaOwner::from_client(Some(&ada), "192.0.2.1".parse().ok()), anywhere);
        assert_ne!(QuotaOwner::from_client(Some(&Principal::new("eve")), None), anywhere);
        assert!(anywhere.is_authenticated() && !owner_at("192.0.2.1").is_authenticated());
    }

    #[test]
    fn owners_hide_principals_in_debug_output() {
        assert_eq!(format!("{:?}", QuotaOwner::from(Principal::new("ada"))), "QuotaOwner(Principal(…))");
        assert_eq!(format!("{:?}", owner_at("2001:db8::1")), "QuotaOwner(2001:db8::/64)");
        assert_eq!(format!("{:?}", QuotaOwner::LOCAL), "QuotaOwner(local)");
    }
}
