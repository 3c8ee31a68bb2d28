//! Guards: the authorization of requests to a server by access tokens.
//!
//! A [`Guard`] protects an [`HttpServer`](super::http::HttpServer). An adapter passes it the head of each request, and
//! makes the HTTP exchanges that token verification needs:
//!
//! ```text
//! guard.check(&head, now) → Answer: server.answered_exchange(answer)
//!                         | Verifying: poll it → Ok(authorized): server.exchange_for(&head, authorized)
//!                                              | Err(answer):    server.answered_exchange(answer)
//! guard.poll_fetch(cx)    → make the exchange, then guard.handle_fetched(now, id, …)
//! ```
//!
//! Handlers read the granted access with [`Context::access`](super::Context::access), and require more scopes with
//! [`Context::require`](super::Context::require).
//!
//! ```
//! use core::task::{Context, Poll, Waker};
//!
//! use mcp_proto::auth::server::{Access, PresentedToken, Protection, VerifyError};
//! use mcp_proto::auth::{Now, Scopes, Secret};
//! use mcp_proto::transport::http::server::RequestHead;
//! use mcp_proto::front::guard::{GuardDecision, Guard};
//! use mcp_proto::peer::Principal;
//! use mcp_proto::{Instant, UnixTime};
//!
//! const RESOURCE: &str = "https://mcp.example/mcp";
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let protection = Protection::new(RESOURCE, "https://login.example")?;
//! let known = Secret::new("of-a-local-tool");
//! let guard = Guard::new(protection, move |presented: PresentedToken| {
//!     // In constant time.
//!     let good = presented.token == known;
//!     async move {
//!         if !good {
//!             return Err(VerifyError::invalid("the token is not known"));
//!         }
//!         Ok(Access::new(Principal::new("ada"), RESOURCE))
//!     }
//! });
//!
//! let now = Now { instant: Instant::ORIGIN, unix: UnixTime::EPOCH };
//! let head = RequestHead { method: "POST", path: "/mcp", fields: &[("authorization", "Bearer of-a-local-tool")], client: None };
//! let GuardDecision::Verifying(mut verifying) = guard.check(&head, now) else { panic!() };
//! let mut cx = Context::from_waker(Waker::noop());
//! let Poll::Ready(Ok(authorized)) = core::pin::Pin::new(&mut verifying).poll(&mut cx) else { panic!() };
//! assert!(authorized.grants(&Scopes::parse("")));
//! # Ok(())
//! # }
//! ```

mod checker_verifier;
#[cfg(feature = "auth-jwt")]
mod jwt_verifier;

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use crate::Bytes;
use crate::auth::server::{
    Access, AccessDecision, GrantedAccess, PresentedToken, Protection, ReplayCache, Reverification,
    Reverifier, VerifyError,
};
use crate::auth::{Fetch, FetchId, FetchPolicy, Now};
use crate::prelude::*;
use crate::transport::http::server::{HttpResponse, RequestHead};

pub use checker_verifier::{CheckerVerifier, IntrospectionVerifier};
#[cfg(feature = "auth-jwt")]
pub use jwt_verifier::JwtVerifier;

/// A verifier of access tokens. Closures implement it: `|presented| async { … }`.
///
/// The guard checks audience and expiry in the access that a verifier returns.
pub trait Verifier: Send + Sync {
    /// Verifies a token. The future may be dropped before it completes.
    fn verify(&self, presented: PresentedToken) -> VerificationFuture;

    /// Polls for the next HTTP exchange to make, and the addresses that it may connect to.
    ///
    /// The waker is called when there is one. The default implementation makes none.
    fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, FetchPolicy)> {
        let _ = cx;
        Poll::Pending
    }

    /// Handles the end of an exchange.
    fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        let _ = (now, id, fetched);
    }
}

/// The future of a token verification.
pub type VerificationFuture = Pin<Box<dyn Future<Output = Result<Access, VerifyError>> + Send>>;

impl<V, F> Verifier for V
where
    V: Fn(PresentedToken) -> F + Send + Sync,
    F: Future<Output = Result<Access, VerifyError>> + Send + 'static,
{
    fn verify(&self, presented: PresentedToken) -> VerificationFuture {
        Box::pin(self(presented))
    }
}

/// The response of an exchange.
#[derive(Clone, Debug)]
pub struct FetchResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The complete body: no longer than the exchange's limit.
    pub body: Bytes,
}

/// Authorizes requests by their tokens. Clones share cached token verifications; separate guards do not.
#[derive(Clone)]
pub struct Guard {
    inner: Arc<Inner>,
    /// The time between two verifications of an open stream's token.
    reverify_every: Option<Duration>,
}

struct Inner {
    protection: Protection,
    verifier: Box<dyn Verifier>,
    proofs: ReplayCache,
}

/// The decision on the head of a request.
#[derive(Debug)]
pub enum GuardDecision {
    /// The guard answers the request.
    Answer(HttpResponse),
    /// The token is being verified. The body need not be read before that.
    Verifying(PendingVerification),
}

impl Guard {
    /// Creates a guard that requires the access of `protection`, with tokens that `verifier` verifies.
    pub fn new(protection: Protection, verifier: impl Verifier + 'static) -> Self {
        let inner = Inner { protection, verifier: Box::new(verifier), proofs: ReplayCache::new() };
        Self { inner: Arc::new(inner), reverify_every: None }
    }

    /// Verifies the tokens of open streams again, each after this time and then as often. Default: never; a stream ends
    /// when its token expires.
    ///
    /// The streams are those that tell a client of changes: `subscriptions/listen`, GET streams of legacy sessions, and
    /// WebSocket connections. One of them ends as soon as a new request with its token would be refused: because the token
    /// was revoked, for example, or because its issuer cannot be reached. Set it for introspected tokens whose issuer
    /// names no expiry; an introspection's [cached answer](crate::auth::server::IntrospectionConfig::cache_ttl) counts.
    #[must_use]
    pub fn reverify_every(self, interval: Duration) -> Self {
        Self { reverify_every: Some(interval), ..self }
    }

    /// The guard's requirements.
    pub fn protection(&self) -> &Protection {
        &self.inner.protection
    }

    /// Checks the head of a request.
    pub fn check(&self, head: &RequestHead<'_>, now: Now) -> GuardDecision {
        match self.inner.protection.check_request(head, now) {
            AccessDecision::Answer(answer) => GuardDecision::Answer(answer),
            AccessDecision::Verify(presented) => {
                let verification = self.inner.verifier.verify(presented.clone());
                GuardDecision::Verifying(PendingVerification { guard: self.clone(), presented, verification })
            }
        }
    }

    /// Polls for the next HTTP exchange to make for token verification; the waker is called when there is one. Connect
    /// only to addresses that the policy [allows](FetchPolicy::allows), follow no redirects, and read no more than the
    /// exchange's limit.
    pub fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, FetchPolicy)> {
        self.inner.verifier.poll_fetch(cx)
    }

    /// Handles the end of an exchange: its response, or a description of its failure.
    pub fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        self.inner.verifier.handle_fetched(now, id, fetched);
    }
}

debug_fields! { Guard(self) { protection = self.inner.protection } }

/// A request whose token is being verified: the future of its granted access, or of the answer that rejects it.
#[must_use = "nothing happens unless it is polled"]
pub struct PendingVerification {
    guard: Guard,
    presented: PresentedToken,
    verification: VerificationFuture,
}

impl Future for PendingVerification {
    type Output = Result<GrantedAccess, HttpResponse>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let verified = ready!(self.verification.as_mut().poll(cx));
        let Inner { protection, proofs, .. } = &*self.guard.inner;
        let checked = protection.check_token(&self.presented, verified, proofs);
        Poll::Ready(match self.guard.reverify_every {
            Some(interval) => checked.map(|granted| {
                let (guard, presented) = (self.guard.inner.clone(), self.presented.clone());
                granted.with_reverifier(Box::new(StreamVerifier { guard, presented, interval }))
            }),
            None => checked,
        })
    }
}

/// Verifies the token of an accepted request again, for its open stream.
struct StreamVerifier {
    guard: Arc<Inner>,
    presented: PresentedToken,
    interval: Duration,
}

impl Reverifier for StreamVerifier {
    fn interval(&self) -> Duration {
        self.interval
    }

    fn verify(&self, now: Now) -> Reverification {
        let mut presented = self.presented.clone();
        presented.received = now;
        let (guard, verification) = (self.guard.clone(), self.guard.verifier.verify(presented.clone()));
        Box::pin(async move {
            let access = verification.await.ok()?;
            guard.protection.still_accepts(&presented, &access).then_some(access)
        })
    }
}

debug_fields! { PendingVerification { presented } }
