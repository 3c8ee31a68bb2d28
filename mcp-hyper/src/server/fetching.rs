//! What is fetched so that tokens can be verified.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use mcp_proto::auth::{Fetch, FetchId, FetchPolicy, Now};
use mcp_proto::front::guard::{FetchResponse, Guard};

/// How many exchanges are under way at once. More wait.
const AT_ONCE: usize = 64;

/// Makes an exchange.
pub(super) type FetchFn = Arc<dyn Fn(Fetch, FetchPolicy) -> FetchFuture + Send + Sync>;

/// An exchange that is being made.
pub(super) type FetchFuture = Pin<Box<dyn Future<Output = Result<FetchResponse, String>> + Send>>;

/// The same, with which one it is.
type NumberedFetch = Pin<Box<dyn Future<Output = (FetchId, Result<FetchResponse, String>)> + Send>>;

/// Makes the exchanges that a guard asks for.
pub(super) struct Fetcher {
    guard: Guard,
    fetch: FetchFn,
    fetches: FuturesUnordered<NumberedFetch>,
}

impl Fetcher {
    pub(super) fn new(guard: Guard, fetch: FetchFn) -> Self {
        Self { guard, fetch, fetches: FuturesUnordered::new() }
    }

    /// Goes on with whatever can go on. `now` tells the time.
    pub(super) fn poll(&mut self, now: impl Fn() -> Now, cx: &mut Context<'_>) {
        loop {
            while self.fetches.len() < AT_ONCE
                && let Poll::Ready((fetch, reach)) = self.guard.poll_fetch(cx)
            {
                let id = fetch.id;
                let fetching = (self.fetch)(fetch, reach);
                self.fetches.push(Box::pin(async move { (id, fetching.await) }));
            }
            match Pin::new(&mut self.fetches).poll_next(cx) {
                Poll::Ready(Some((id, fetched))) => self.guard.handle_fetched(now(), id, fetched),
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}
