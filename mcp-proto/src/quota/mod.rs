//! Fair shares of a server's memory, so that no client starves another.
//!
//! Everything that outlives a request (a session, a connection, a cached answer, a task, a replay record) belongs to a
//! [`QuotaOwner`]: the principal of the request, or the address that it came from. There are two rules:
//!
//! - Entries that can be evicted are evicted from the largest owner. A full [`FairTable`] evicts the oldest idle entry
//!   of the owner that needs room; only an owner below its fair share, which is the capacity divided by the number of
//!   owners, displaces an entry of the owner that holds most.
//! - Entries that must be kept are refused early ([`Shares::try_take`]): a single owner holds three fifths of the
//!   capacity at most, and each of several greedy owners holds so much less that there is room for the next.
//!
//! Every operation takes time logarithmic in the number of entries and owners.
//!
//! A [`ByteBudget`] limits the bytes that a server holds for its owners, a [`RateLimiter`] how often they do something.

mod byte_budget;
mod fair_table;
mod shares;

pub use byte_budget::{ByteAccount, ByteBudget, ByteLimits, BytePermit, BytePurpose, OverBudgetError};
pub use fair_table::FairTable;
pub use shares::{EvictionTarget, QuotaError, QuotaOwner, RateLimit, RateLimiter, Shares};
