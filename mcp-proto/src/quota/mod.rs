//! Fair shares of what a server holds for its clients, so that no client starves another.
//!
//! Whatever outlives a request (a session, a connection, a cached answer, a task, a replay record) belongs to an
//! [`QuotaOwner`]: the principal of the request, or the address that it came from. There are two rules:
//!
//! - What may be given up goes where most is held. A full [`FairTable`] makes room for an owner by that owner's oldest idle
//!   entry; only an owner below its fair share, which is the capacity divided by the number of owners, takes the place of
//!   the one that holds most.
//! - What may not be given up is refused early ([`Shares::try_take`]): a single owner holds three fifths of the capacity at
//!   most, and each of several greedy ones so much less that there is room for the next.
//!
//! Every operation takes time logarithmic in the number of entries and owners.

//!
//! How many bytes a server holds for its owners is up to its [`ByteBudget`].

mod byte_budget;
mod fair_table;
mod owner;
mod shares;

use core::fmt;

pub use byte_budget::{ByteAccount, ByteBudget, ByteLimits, BytePermit, BytePurpose, OverBudgetError};
pub use fair_table::FairTable;
pub use owner::QuotaOwner;
pub use shares::{EvictionTarget, Shares};

/// An owner has no room left: what it holds is in use or must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaError;

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the quota is used up, and nothing of it can be given up")
    }
}

impl core::error::Error for QuotaError {}
