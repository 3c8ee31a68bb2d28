//! Servers that demand tokens: who is let in.
//!
//! A [`Guard`] stands before an [`HttpServer`](super::http::HttpServer). An adapter asks it about the head of each request,
//! and polls it for what is to be fetched for it:
//!
//! ```text
//! guard.check(&head, now) → Answer: server.answered_exchange(answer)
//!                         | Verifying: poll it → Ok(authorized): server.exchange_for(&head, authorized)
//!                                              | Err(answer):    server.answered_exchange(answer)
//! guard.poll_fetch(cx)    → make the exchange, then guard.handle_fetched(now, id, …)
//! ```
//!
//! Handlers learn of it by [`Context::access`](super::Context::access), and demand more of the token by
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
//!             return Err(VerifyError::invalid("it is not known"));
//!         }
//!         Ok(Access::new(Principal::new("somebody"), RESOURCE))
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

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use crate::Bytes;
use crate::auth::server::{
    Access, AccessDecision, GrantedAccess, PresentedToken, Protection, ReplayCache, VerifyError,
};
use crate::auth::{Fetch, FetchId, FetchPolicy, Now};
use crate::transport::http::server::{HttpResponse, RequestHead};

#[cfg(feature = "auth-jwt")]
pub use checker_verifier::JwtVerifier;
pub use checker_verifier::{CheckerVerifier, IntrospectionVerifier};

/// Says what tokens allow. Closures do: `|presented| async { … }`.
///
/// That a token is for this server and has not lapsed is checked from what it returns, whoever it is.
pub trait Verifier: Send + Sync {
    /// Verifies a token. It may be dropped before it is done.
    fn verify(&self, presented: PresentedToken) -> VerificationFuture;

    /// The next exchange to make for it, and which addresses may be connected to; the waker is called when there is one.
    /// Default: there never is.
    fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, FetchPolicy)> {
        let _ = cx;
        Poll::Pending
    }

    /// An exchange has ended.
    fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        let _ = (now, id, fetched);
    }
}

/// A token that is being verified.
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

/// What came of an exchange.
#[derive(Clone, Debug)]
pub struct FetchResponse {
    /// The status.
    pub status: u16,
    /// The whole body: no longer than the exchange's limit.
    pub body: Bytes,
}

/// Lets requests in by their tokens. Clones share what is kept of tokens; other guards do not.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    protection: Protection,
    verifier: Box<dyn Verifier>,
    proofs: ReplayCache,
}

/// What becomes of a request by what its head shows.
#[derive(Debug)]
pub enum GuardDecision {
    /// It is answered.
    Answer(HttpResponse),
    /// Its token is being verified. Its body need not be read before.
    Verifying(PendingVerification),
}

impl Guard {
    /// Demands what `protection` says, of tokens that `verifier` knows.
    pub fn new(protection: Protection, verifier: impl Verifier + 'static) -> Self {
        Self(Arc::new(Inner { protection, verifier: Box::new(verifier), proofs: ReplayCache::new() }))
    }

    /// What is demanded.
    pub fn protection(&self) -> &Protection {
        &self.0.protection
    }

    /// A request has come.
    pub fn check(&self, head: &RequestHead<'_>, now: Now) -> GuardDecision {
        match self.0.protection.check_request(head, now) {
            AccessDecision::Answer(answer) => GuardDecision::Answer(answer),
            AccessDecision::Verify(presented) => {
                let verification = self.0.verifier.verify(presented.clone());
                GuardDecision::Verifying(PendingVerification {
                    guard: self.0.clone(),
                    presented,
                    verification,
                })
            }
        }
    }

    /// The next exchange to make, so that tokens can be verified; the waker is called when there is one. Connect only to
    /// addresses that are [within reach](FetchPolicy::allows), follow no redirects, and read no more than the exchange's limit.
    pub fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, FetchPolicy)> {
        self.0.verifier.poll_fetch(cx)
    }

    /// An exchange has ended; or has come to nothing, with what is known about it for people.
    pub fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        self.0.verifier.handle_fetched(now, id, fetched);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("protection", &self.0.protection).finish_non_exhaustive()
    }
}

/// A request whose token is being verified: who it is let in as, or the answer if it is not.
#[must_use = "nothing happens unless it is polled"]
pub struct PendingVerification {
    guard: Arc<Inner>,
    presented: PresentedToken,
    verification: VerificationFuture,
}

impl Future for PendingVerification {
    type Output = Result<GrantedAccess, HttpResponse>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let verified = ready!(self.verification.as_mut().poll(cx));
        let Inner { protection, proofs, .. } = &*self.guard;
        Poll::Ready(protection.check_token(&self.presented, verified, proofs))
    }
}

impl fmt::Debug for PendingVerification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingVerification").field("presented", &self.presented).finish_non_exhaustive()
    }
}
