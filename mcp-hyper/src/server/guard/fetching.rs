//! HTTP fetches for token verification.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use mcp_proto::auth::{Fetch, FetchId, FetchPolicy};
use mcp_proto::front::guard::{FetchResponse, Guard};

use super::now;
use crate::time::RuntimeClock;

/// Maximum number of concurrent fetches. Further ones wait.
const AT_ONCE: usize = 64;

/// Performs one HTTP fetch.
pub(super) type FetchFn = Arc<dyn Fn(Fetch, FetchPolicy) -> FetchFuture + Send + Sync>;

/// The future of one fetch's response.
pub(super) type FetchFuture = Pin<Box<dyn Future<Output = Result<FetchResponse, String>> + Send>>;

/// A fetch's future that also returns its id.
type NumberedFetch = Pin<Box<dyn Future<Output = (FetchId, Result<FetchResponse, String>)> + Send>>;

/// Performs the fetches that a guard requests.
pub(in crate::server) struct Fetcher {
    guard: Guard,
    fetch: FetchFn,
    fetches: FuturesUnordered<NumberedFetch>,
}

impl Fetcher {
    pub(in crate::server) fn new(guard: Guard, fetch: FetchFn) -> Self {
        Self { guard, fetch, fetches: FuturesUnordered::new() }
    }

    /// Starts requested fetches and hands finished ones to the guard.
    pub(in crate::server) fn poll(&mut self, clock: &RuntimeClock, cx: &mut Context<'_>) {
        loop {
            while self.fetches.len() < AT_ONCE
                && let Poll::Ready((fetch, reach)) = self.guard.poll_fetch(cx)
            {
                let id = fetch.id;
                let fetching = (self.fetch)(fetch, reach);
                self.fetches.push(Box::pin(async move { (id, fetching.await) }));
            }
            match Pin::new(&mut self.fetches).poll_next(cx) {
                Poll::Ready(Some((id, fetched))) => self.guard.handle_fetched(now(clock), id, fetched),
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}
