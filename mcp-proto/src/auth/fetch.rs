//! Exchanges of HTTP that somebody else is to make.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::Secret;
use crate::transport::http::Verb;

/// Which of a machine's exchanges. Never used again on that machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(u64);

impl FetchId {
    /// The exchange of this number: for machines, which count.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number alone, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FetchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fetch {}", self.0)
    }
}

/// One exchange to be made: connect only to addresses that [`FetchPolicy::allows`](super::FetchPolicy::allows), follow no
/// redirect, send no cookie, read no more than `limit` bytes of the answer.
///
/// [`Debug`](fmt::Debug) shows neither the values of headers nor the query nor the body.
#[derive(Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Which.
    pub id: FetchId,
    /// The method.
    pub verb: Verb,
    /// Where: absolute, and checked.
    pub url: String,
    /// The headers, besides those that every request has. Names are in lower case.
    pub headers: Vec<(&'static str, Secret)>,
    /// The body; empty if there is none.
    pub body: Bytes,
    /// How many bytes of the answer's body are read at most. If it is longer, the exchange has failed.
    pub limit: usize,
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Fetch")
            .field("id", &self.id)
            .field("verb", &self.verb)
            .field("url", &self.url.split('?').next().unwrap_or_default())
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .field("limit", &self.limit)
            .finish()
    }
}
