//! What is fetched so that tokens can be verified.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use mcp_proto::auth::{Fetch, FetchId, Now, Reach};
use mcp_proto::front::guard::{FetchResponse, Guard};

/// How many exchanges are under way at once. More wait.
const AT_ONCE: usize = 64;

/// Makes an exchange.
pub(super) type FetchBy = Arc<dyn Fn(Fetch, Reach) -> Fetching + Send + Sync>;

/// An exchange that is being made.
pub(super) type Fetching = Pin<Box<dyn Future<Output = Result<FetchResponse, String>> + Send>>;

/// The same, with which one it is.
type Numbered = Pin<Box<dyn Future<Output = (FetchId, Result<FetchResponse, String>)> + Send>>;

/// Makes the exchanges that a guard asks for.
pub(super) struct Fetcher {
    guard: Guard,
    by: FetchBy,
    under_way: FuturesUnordered<Numbered>,
}

impl Fetcher {
    pub(super) fn new(guard: Guard, by: FetchBy) -> Self {
        Self { guard, by, under_way: FuturesUnordered::new() }
    }

    /// Goes on with whatever can go on. `now` tells the time.
    pub(super) fn poll(&mut self, now: impl Fn() -> Now, cx: &mut Context<'_>) {
        loop {
            while self.under_way.len() < AT_ONCE
                && let Poll::Ready((fetch, reach)) = self.guard.poll_fetch(cx)
            {
                let id = fetch.id;
                let fetching = (self.by)(fetch, reach);
                self.under_way.push(Box::pin(async move { (id, fetching.await) }));
            }
            match Pin::new(&mut self.under_way).poll_next(cx) {
                Poll::Ready(Some((id, fetched))) => self.guard.handle_fetched(now(), id, fetched),
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}
