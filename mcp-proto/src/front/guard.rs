//! Guards: the authorization of requests to a server by access tokens.
//!
//! A [`Guard`] protects an [`HttpServer`](super::http::HttpServer). An adapter passes it the head of each request, and
//! makes the HTTP exchanges that token verification needs:
//!
//! ```text
//! server.is_preflight(&head) → server.exchange(&head, None)
//! guard.check(&head, now) → Answer: server.answered_exchange(&head, answer)
//!                         | Verifying: poll it → Ok(authorized): server.exchange_for(&head, authorized)
//!                                              | Err(answer):    server.answered_exchange(&head, answer)
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

use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;

use crate::Bytes;
use crate::auth::server::{
    Access, AccessDecision, Checker, GrantedAccess, IntrospectionChecker, IntrospectionConfig,
    PresentedToken, ProofClaim, Protection, Reverification, Reverifier, TokenDecision, TokenValidation,
    UnverifiedToken, VerifyError,
};
#[cfg(feature = "auth-jwt")]
use crate::auth::server::{JwtChecker, JwtConfig};
use crate::auth::{Fetch, FetchId, FetchPolicy, FetchPolicyError, Now};
use crate::front::wakers::{Waiters, Wakers, lock, update};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::quota::{QuotaOwner, Shares};
use crate::single_use::{ClaimFuture, SingleUse, UsedIds};
use crate::sync::Mutex;
use crate::transport::http::server::{HttpResponse, RequestHead};

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
    /// The store of used proofs of possession.
    used_proofs: Arc<dyn SingleUse>,
    /// The time between two verifications of an open stream's token.
    reverify_every: Option<Duration>,
}

struct Inner {
    protection: Protection,
    verifier: Box<dyn Verifier>,
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
        let inner = Inner { protection, verifier: Box::new(verifier) };
        Self { inner: Arc::new(inner), used_proofs: Arc::new(UsedIds::default()), reverify_every: None }
    }

    /// Sets the store of used proofs of possession (DPoP), each of which is accepted once. Default: [`UsedIds`], in the
    /// memory of this process.
    ///
    /// Instances of a server share one store. Otherwise a proof may be used once at each instance within the [time that
    /// it is valid](crate::auth::server::DpopConfig::window). Only proofs of valid tokens are recorded.
    #[must_use]
    pub fn single_use(self, store: Arc<dyn SingleUse>) -> Self {
        Self { used_proofs: store, ..self }
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
                let guard = self.clone();
                GuardDecision::Verifying(PendingVerification { guard, presented, verification, claim: None })
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

    /// Adds the verification of open streams, if they are verified again.
    fn with_reverifier(&self, presented: &PresentedToken, granted: GrantedAccess) -> GrantedAccess {
        let Some(interval) = self.reverify_every else { return granted };
        let (guard, presented) = (self.inner.clone(), presented.clone());
        granted.with_reverifier(Box::new(StreamVerifier { guard, presented, interval }))
    }
}

debug_fields! { Guard(self) { protection = self.inner.protection } }

/// A request whose token is being verified: the future of its granted access, or of the answer that rejects it.
#[must_use = "nothing happens unless it is polled"]
pub struct PendingVerification {
    guard: Guard,
    presented: PresentedToken,
    verification: VerificationFuture,
    /// After the verification: the claim of the request's proof.
    claim: Option<(Box<ProofClaim>, ClaimFuture)>,
}

impl Future for PendingVerification {
    type Output = Result<GrantedAccess, HttpResponse>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { guard, presented, verification, claim } = &mut *self;
        if claim.is_none() {
            let verified = ready!(verification.as_mut().poll(cx));
            match guard.inner.protection.check_token(presented, verified)? {
                TokenDecision::Granted(granted) => {
                    return Poll::Ready(Ok(guard.with_reverifier(presented, granted)));
                }
                TokenDecision::Claim(proof) => {
                    let recording = guard.used_proofs.claim(proof.claim().clone());
                    *claim = Some((proof, recording));
                }
            }
        }
        let Some((_, recording)) = claim else { return Poll::Pending };
        let outcome = ready!(recording.as_mut().poll(cx));
        let Some((proof, _)) = claim.take() else { return Poll::Pending };
        Poll::Ready(proof.resolve(outcome).map(|granted| guard.with_reverifier(presented, granted)))
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

// --- Verifiers ---

/// The maximum number of requests that wait for exchanges. Each costs some KiB. A sender with more than its share of
/// the places is answered with 429.
const MAX_WAITING: usize = 1024;

/// The maximum number of drivers that wait for an exchange to make: one for each server of the verifier.
const MAX_DRIVERS: usize = 16;

/// Verifies tokens by introspection at their issuer.
pub type IntrospectionVerifier = CheckerVerifier<IntrospectionChecker>;

/// A [`Checker`] as a [`Verifier`]: requests that need the same exchange wait for it together. Clones share the checker
/// and its cache.
pub struct CheckerVerifier<C>(Arc<Mutex<State<C>>>);

struct State<C> {
    checker: C,
    /// The requests that wait for each exchange.
    waiting: OrderedMap<FetchId, Waiters>,
    /// The same requests, counted by owner.
    shares: Shares,
    drivers: Vec<Waker>,
}

impl CheckerVerifier<IntrospectionChecker> {
    /// Creates a verifier with `config`.
    ///
    /// # Errors
    /// If the endpoint is unsafe for a password.
    pub fn introspecting(config: IntrospectionConfig) -> Result<Self, FetchPolicyError> {
        IntrospectionChecker::new(config).map(Self::from_checker)
    }
}

/// Verifies signed tokens with the keys of their issuers.
#[cfg(feature = "auth-jwt")]
pub type JwtVerifier = CheckerVerifier<JwtChecker>;

#[cfg(feature = "auth-jwt")]
impl JwtVerifier {
    /// Creates a verifier with `config`.
    #[must_use]
    pub fn new(config: JwtConfig) -> Self {
        Self::from_checker(JwtChecker::new(config))
    }
}

impl<C: Checker + 'static> CheckerVerifier<C> {
    /// Creates a verifier from `checker`.
    #[must_use]
    pub fn from_checker(checker: C) -> Self {
        Self(Arc::new(Mutex::new(State {
            checker,
            waiting: OrderedMap::new(),
            shares: Shares::new(MAX_WAITING),
            drivers: Vec::new(),
        })))
    }
}

impl<C: Checker> State<C> {
    /// Wakes the drivers to poll for exchanges.
    fn wake_drivers(&mut self, wakers: &mut Wakers) {
        if self.checker.has_fetch() {
            self.drivers.drain(..).for_each(|driver| wakers.wake(Some(driver)));
        }
    }
}

impl<C: Checker + 'static> Verifier for CheckerVerifier<C> {
    fn verify(&self, presented: PresentedToken) -> VerificationFuture {
        Box::pin(TokenCheck { state: self.0.clone(), presented, waiter: None })
    }

    fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, FetchPolicy)> {
        let left = cx.waker().clone();
        update(&self.0, |state, wakers| {
            match state.checker.poll_fetch() {
                Some(fetch) => {
                    wakers.discard(Some(left));
                    Poll::Ready(fetch)
                }
                None => {
                    if state.drivers.iter().any(|driver| driver.will_wake(&left)) {
                        wakers.discard(Some(left));
                    } else {
                        // Beyond the limit, the first driver is woken, polls again and then waits again.
                        let first = (state.drivers.len() >= MAX_DRIVERS).then(|| state.drivers.remove(0));
                        wakers.wake(first);
                        state.drivers.push(left);
                    }
                    Poll::Pending
                }
            }
        })
    }

    fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        update(&self.0, |state, wakers| {
            match fetched {
                Ok(FetchResponse { status, body }) => state.checker.handle_answer(now, id, status, &body),
                Err(detail) => state.checker.handle_failed(now, id, &detail),
            }
            state.wake_drivers(wakers);
            if let Some(mut waiters) = state.waiting.remove(&id) {
                wakers.wake_all(&mut waiters);
            }
        });
    }
}

/// The verification of a request's token.
struct TokenCheck<C: Checker> {
    state: Arc<Mutex<State<C>>>,
    presented: PresentedToken,
    /// Its place among the waiting requests.
    waiter: Option<FetchWaiter>,
}

/// The place of a request that waits for an exchange.
struct FetchWaiter {
    fetch: FetchId,
    key: Option<u64>,
    /// The owner whose quota it uses.
    owner: QuotaOwner,
}

impl<C: Checker> TokenCheck<C> {
    /// Leaves the place. Returns the owner whose quota it used.
    fn leave(&mut self, state: &mut State<C>, wakers: &mut Wakers) -> Option<QuotaOwner> {
        let FetchWaiter { fetch, key, owner } = self.waiter.take()?;
        state.shares.give_back(&owner, 1);
        if let Some(waiters) = state.waiting.get_mut(&fetch) {
            waiters.leave(key, wakers);
        }
        Some(owner)
    }

    /// Takes a place from the share of the sender, or of the known owner of the token. Returns that owner.
    fn take_share(&self, state: &mut State<C>) -> Option<QuotaOwner> {
        let PresentedToken { owner, token, received: now, .. } = &self.presented;
        if state.shares.try_take(owner, 1).is_ok() {
            return Some(owner.clone());
        }
        let named = state.checker.known_owner(*now, token)?;
        state.shares.try_take(&named, 1).ok().map(|()| named)
    }

    /// Continues a verification. `failed` is the token whose signature check failed, if one did. `Err` is a token whose signature must
    /// be verified outside the lock.
    fn advance(
        &mut self,
        failed: Option<&UnverifiedToken>,
        left: &Waker,
        wakers: &mut Wakers,
    ) -> Result<CheckPoll, UnverifiedToken> {
        let shared = self.state.clone();
        let mut state = lock(&shared);
        let held = self.leave(&mut state, wakers);
        let PresentedToken { received: now, ref owner, ref token, .. } = self.presented;
        let validation = match failed {
            Some(failed) => state.checker.recheck(now, token, failed),
            None => state.checker.check(now, owner, token),
        };
        state.wake_drivers(wakers);
        let id = match validation {
            TokenValidation::Valid(access) => return Ok(Poll::Ready(Ok(*access))),
            TokenValidation::SignatureUnchecked(signed) => return Err(signed),
            TokenValidation::Rejected(error) => return Ok(Poll::Ready(Err(error))),
            TokenValidation::Pending(id) => id,
        };
        let owner = match held {
            // A request that checks again keeps its place.
            Some(owner) => {
                state.shares.take(&owner, 1);
                Some(owner)
            }
            None => self.take_share(&mut state),
        };
        let Some(owner) = owner else {
            let why = "too many requests wait for the verification of their tokens";
            return Ok(Poll::Ready(Err(VerifyError::over_quota(why))));
        };
        let mut key = None;
        state.waiting.entry(id).or_default().wait(&mut key, left.clone(), wakers);
        self.waiter = Some(FetchWaiter { fetch: id, key, owner });
        Ok(Poll::Pending)
    }
}

type CheckPoll = Poll<Result<Access, VerifyError>>;

impl<C: Checker> Future for TokenCheck<C> {
    type Output = Result<Access, VerifyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut failed = None;
        loop {
            let mut wakers = Wakers::default();
            let advanced = self.advance(failed.as_ref(), cx.waker(), &mut wakers);
            wakers.release();
            let signed = match advanced {
                Ok(polled) => return polled,
                Err(signed) => signed,
            };
            // Outside the lock: verification takes long.
            match signed.verify(&self.presented.token) {
                Ok(access) => return Poll::Ready(Ok(access)),
                Err(error) if signed.has_key_id() => return Poll::Ready(Err(error)),
                // A newer key may have signed it: retried only once other keys are known.
                Err(_) => failed = Some(signed),
            }
        }
    }
}

impl<C: Checker> Drop for TokenCheck<C> {
    fn drop(&mut self) {
        if self.waiter.is_some() {
            let shared = self.state.clone();
            update(&shared, |state, wakers| self.leave(state, wakers));
        }
    }
}

impl<C> Clone for CheckerVerifier<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: fmt::Debug> fmt::Debug for CheckerVerifier<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckerVerifier").field(&lock(&self.0).checker).finish()
    }
}
