//! HTTP fetches that the driver performs.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::Secret;
use crate::transport::http::Verb;

/// The id of a fetch, unique within its state machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(u64);

impl FetchId {
    /// A fetch id with this number, for state machines.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for maps and logs.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FetchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fetch {}", self.0)
    }
}

/// An HTTP request for the driver to perform: connect only to addresses that
/// [`FetchPolicy::allows`](super::FetchPolicy::allows), follow no redirect, send no cookie, read at most `limit` bytes
/// of the response.
///
/// [`Debug`](fmt::Debug) shows neither the values of headers nor the query nor the body.
#[derive(Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The fetch's id.
    pub id: FetchId,
    /// The method.
    pub verb: Verb,
    /// The absolute URL, which has been checked.
    pub url: String,
    /// Headers to add to the usual ones. Names are in lower case.
    pub headers: Vec<(&'static str, Secret)>,
    /// The body, or empty.
    pub body: Bytes,
    /// Maximum bytes of the response body. If it is longer, the fetch fails.
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
