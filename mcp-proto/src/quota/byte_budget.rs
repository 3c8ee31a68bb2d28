//! The byte budget of a server, shared between the owners of its requests.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::QuotaOwner;
use crate::ordered_map::OrderedMap;
#[cfg(all(feature = "trace-file", feature = "server", feature = "http"))]
use crate::trace_file::MachineRecorder;

const MIB: usize = 1024 * 1024;

config! {
    /// Limits of the bytes of requests, stored events and queued answers that a server holds.
    ///
    /// Each limit has three marks, so that the most important purpose runs out of room last: stored events grow up to
    /// half of the limit, request bodies and notifications up to three quarters, and answers up to all of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct ByteLimits {
        /// The limit of all clients together, in bytes. Default 256 MiB.
        pub total: usize = 256 * MIB,
        /// The limit of all unauthenticated clients together, in bytes. Default 128 MiB, so that they leave room for
        /// authenticated ones. A server without authentication may set it to the total.
        pub unauthenticated: usize = 128 * MIB,
        /// The limit of one [owner](QuotaOwner), in bytes. Default 64 MiB: twelve bodies of 4 MiB at a time.
        pub owner: usize = 64 * MIB,
    }
}

/// The purpose of held bytes, which determines the [mark](ByteLimits) up to which they may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytePurpose {
    /// Events stored for a client that reconnects: up to half of each limit.
    Stored,
    /// Request bodies and notifications: up to three quarters.
    Request,
    /// Answers: up to the whole limit.
    Answer,
}

impl BytePurpose {
    fn mark(self, limit: usize) -> usize {
        match self {
            Self::Stored => limit / 2,
            Self::Request => limit.saturating_sub(limit / 4),
            Self::Answer => limit,
        }
    }
}

/// The byte budget of a server: one account for each owner, all within common limits.
///
/// ```
/// use mcp_proto::quota::{ByteBudget, ByteLimits, BytePurpose, QuotaOwner};
///
/// let mut budget = ByteBudget::new(ByteLimits { total: 800, unauthenticated: 400, owner: 200 });
/// let account = budget.account(&QuotaOwner::LOCAL);
/// let mut permit = account.permit();
/// assert!(permit.try_grow(150, BytePurpose::Request).is_ok());
/// assert!(permit.try_grow(1, BytePurpose::Request).is_err());
/// drop(permit);
/// assert_eq!(budget.used(), 0);
/// ```
#[derive(Debug)]
pub struct ByteBudget {
    limits: ByteLimits,
    total: ByteAccount,
    unauthenticated: ByteAccount,
    owners: OrderedMap<QuotaOwner, Weak<Account>>,
    /// The number of owners at which those that hold nothing are removed.
    sweep_at: usize,
    /// The account that was asked for last: the next request mostly has the same owner.
    last: Option<(QuotaOwner, ByteAccount)>,
}

/// The least value of [`ByteBudget::sweep_at`].
const LEAST_SWEEP: usize = 64;

impl ByteBudget {
    /// A budget of which nothing is used.
    #[must_use]
    pub fn new(limits: ByteLimits) -> Self {
        let total = ByteAccount::new(limits.total, None);
        let unauthenticated = ByteAccount::new(limits.unauthenticated, Some(total.clone()));
        Self { limits, total, unauthenticated, owners: OrderedMap::new(), sweep_at: LEAST_SWEEP, last: None }
    }

    /// The account of an owner.
    ///
    /// It takes logarithmic time on average: from time to time, it forgets owners without a permit.
    pub fn account(&mut self, owner: &QuotaOwner) -> ByteAccount {
        if let Some((last, account)) = &self.last
            && last == owner
        {
            return account.clone();
        }
        let account = self.find_account(owner);
        self.last = Some((owner.clone(), account.clone()));
        account
    }

    fn find_account(&mut self, owner: &QuotaOwner) -> ByteAccount {
        if let Some(account) = self.owners.get(owner).and_then(Weak::upgrade) {
            return ByteAccount(account);
        }
        if self.owners.len() >= self.sweep_at {
            self.owners.retain(|_, account| account.strong_count() > 0);
            self.sweep_at = self.owners.len().saturating_mul(2).max(LEAST_SWEEP);
        }
        let parent = if owner.is_authenticated() { &self.total } else { &self.unauthenticated };
        let account = ByteAccount::new(self.limits.owner, Some(parent.clone()));
        self.owners.insert(owner.clone(), Arc::downgrade(&account.0));
        account
    }

    /// The number of bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.total.used()
    }
}

/// The bytes held for one owner. Clones share the account.
#[derive(Clone)]
pub struct ByteAccount(Arc<Account>);

struct Account {
    limit: usize,
    used: AtomicUsize,
    /// The account that also counts the bytes of this one.
    parent: Option<ByteAccount>,
    /// What records the answers, in the account of a machine.
    #[cfg(all(feature = "trace-file", feature = "server", feature = "http"))]
    recorder: Option<MachineRecorder>,
}

impl ByteAccount {
    fn new(limit: usize, parent: Option<Self>) -> Self {
        Self(Arc::new(Account {
            limit,
            used: AtomicUsize::new(0),
            parent,
            #[cfg(all(feature = "trace-file", feature = "server", feature = "http"))]
            recorder: None,
        }))
    }

    /// The part of this account that one machine has, whose answers are recorded.
    #[cfg(all(feature = "trace-file", feature = "server", feature = "http"))]
    pub(crate) fn recorded(&self, recorder: &MachineRecorder) -> Self {
        // That of another machine stays with it.
        let shared = self.0.parent.clone().filter(|_| self.0.recorder.is_some());
        let (parent, recorder) = (Some(shared.unwrap_or_else(|| self.clone())), Some(recorder.clone()));
        Self(Arc::new(Account { limit: usize::MAX, used: AtomicUsize::new(0), parent, recorder }))
    }

    /// The answer to a question, which the recorder may know.
    fn ask(&self, ask: impl FnOnce() -> bool) -> bool {
        #[cfg(all(feature = "trace-file", feature = "server", feature = "http"))]
        if let Some(recorder) = &self.0.recorder {
            return recorder.ask(ask);
        }
        ask()
    }

    /// A new permit, for 0 bytes.
    #[must_use]
    pub fn permit(&self) -> BytePermit {
        BytePermit { account: self.clone(), bytes: 0 }
    }

    /// The number of bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Whether this account and its parents have room for at least one more byte of this purpose.
    #[must_use]
    pub fn has_room(&self, purpose: BytePurpose) -> bool {
        self.ask(|| {
            let room = self.used() < purpose.mark(self.0.limit);
            room && self.0.parent.as_ref().is_none_or(|parent| parent.has_room(purpose))
        })
    }

    fn try_add(&self, bytes: usize, purpose: BytePurpose) -> bool {
        self.ask(|| self.try_add_unrecorded(bytes, purpose))
    }

    fn try_add_unrecorded(&self, bytes: usize, purpose: BytePurpose) -> bool {
        let most = purpose.mark(self.0.limit);
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        if self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            return false;
        }
        let added = self.0.parent.as_ref().is_none_or(|parent| parent.try_add(bytes, purpose));
        if !added {
            self.change(|used| used.saturating_sub(bytes));
        }
        added
    }

    fn add(&self, bytes: usize) {
        self.change(|used| used.saturating_add(bytes));
        if let Some(parent) = &self.0.parent {
            parent.add(bytes);
        }
    }

    fn subtract(&self, bytes: usize) {
        self.change(|used| used.saturating_sub(bytes));
        if let Some(parent) = &self.0.parent {
            parent.subtract(bytes);
        }
    }

    fn change(&self, change: impl Fn(usize) -> usize) {
        let changed =
            self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(change(used)));
        debug_assert!(changed.is_ok(), "the change is never refused");
    }
}

debug_fields! { ByteAccount(self) { used = self.used(), limit = self.0.limit } }

/// The right to hold bytes. Dropping it gives them back.
#[derive(Debug)]
pub struct BytePermit {
    account: ByteAccount,
    bytes: usize,
}

impl BytePermit {
    /// Takes more bytes.
    ///
    /// # Errors
    /// If they exceed the mark of their purpose; the permit is then unchanged.
    pub fn try_grow(&mut self, bytes: usize, purpose: BytePurpose) -> Result<(), OverBudgetError> {
        if !self.account.try_add(bytes, purpose) {
            return Err(OverBudgetError);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Sets the number of bytes that the permit holds, even if they exceed the limits.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) if more > 0 => self.account.add(more),
            Some(_) => {}
            None => self.account.subtract(self.bytes.saturating_sub(bytes)),
        }
        self.bytes = bytes;
    }

    /// The number of bytes that the permit holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The account that the permit is charged to.
    #[must_use]
    pub fn account(&self) -> &ByteAccount {
        &self.account
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The byte budget has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudgetError;

error_text! { OverBudgetError => "the server's byte budget is exhausted: try again later" }

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::peer::Principal;

    fn budget() -> ByteBudget {
        ByteBudget::new(ByteLimits { total: 1000, unauthenticated: 400, owner: 300 })
    }

    fn stranger(number: u8) -> QuotaOwner {
        QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, number]))
    }

    fn fill(account: &ByteAccount, purpose: BytePurpose) -> BytePermit {
        let mut permit = account.permit();
        while permit.try_grow(1, purpose).is_ok() {}
        permit
    }

    #[test]
    fn owner_does_not_take_the_share_of_another() {
        let mut budget = budget();
        let (ada, bob) = (QuotaOwner::from(Principal::new("ada")), QuotaOwner::from(Principal::new("bob")));
        let held = fill(&budget.account(&ada), BytePurpose::Request);
        assert_eq!(held.bytes(), 225);
        let other = fill(&budget.account(&bob), BytePurpose::Request);
        assert_eq!((other.bytes(), budget.used()), (225, 450));
        drop((held, other));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn unauthenticated_owners_leave_room_for_principals() {
        let mut budget = budget();
        let held: Vec<_> =
            (0..9).map(|number| fill(&budget.account(&stranger(number)), BytePurpose::Request)).collect();
        assert_eq!(held.iter().map(BytePermit::bytes).sum::<usize>(), 300);
        assert_eq!(budget.used(), 300, "refused bytes are not counted");
        let ada = fill(&budget.account(&QuotaOwner::from(Principal::new("ada"))), BytePurpose::Request);
        assert_eq!(ada.bytes(), 225);
    }

    #[test]
    fn each_purpose_has_its_own_mark() {
        let mut budget = budget();
        let account = budget.account(&stranger(1));
        let stored = fill(&account, BytePurpose::Stored);
        assert_eq!(stored.bytes(), 150);
        assert!(!account.has_room(BytePurpose::Stored) && account.has_room(BytePurpose::Request));
        let request = fill(&account, BytePurpose::Request);
        assert_eq!(request.bytes(), 75);
        assert!(!account.has_room(BytePurpose::Request) && account.has_room(BytePurpose::Answer));
        let mut answer = account.permit();
        answer.set(5000);
        assert_eq!((account.used(), budget.used()), (5225, 5225), "`set` counts bytes over the limits");
        assert!(!account.has_room(BytePurpose::Answer));
        answer.set(10);
        assert_eq!((account.used(), budget.used()), (235, 235));
    }

    #[test]
    fn budget_forgets_owners_that_hold_nothing() {
        let mut budget = budget();
        let kept = budget.account(&stranger(0)).permit();
        for number in 0..10_000 {
            let _ = budget.account(&QuotaOwner::from(Principal::new(alloc::format!("{number}"))));
        }
        assert!(budget.owners.len() <= 2 * LEAST_SWEEP, "{}", budget.owners.len());
        assert!(Arc::ptr_eq(&budget.account(&stranger(0)).0, &kept.account().0));
    }
}
