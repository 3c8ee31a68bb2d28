//! A checker, with those who wait for what is fetched for it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use super::{FetchResponse, VerificationFuture, Verifier};
use crate::auth::server::{
    Access, Checker, IntrospectionChecker, IntrospectionConfig, PresentedToken, TokenValidation, VerifyError,
};
#[cfg(feature = "auth-jwt")]
use crate::auth::server::{JwtChecker, JwtConfig, UnverifiedToken};
use crate::auth::{Fetch, FetchId, FetchPolicy, FetchPolicyError, Now, Secret};
use crate::front::signal::{Waiters, Wakers, lock};
use crate::quota::{QuotaOwner, Shares};

/// How many requests wait for what is fetched. They cost some KiB each. A sender with more than its share of the places is
/// answered with 429.
const MAX_WAITING: usize = 1024;

/// How many drivers wait for something to fetch: there is one for each server that the verifier is for.
const MAX_DRIVERS: usize = 16;

/// Verifies signed tokens by the keys of their issuers.
#[cfg(feature = "auth-jwt")]
pub type JwtVerifier = CheckerVerifier<JwtChecker>;

/// Verifies tokens by asking their issuer.
pub type IntrospectionVerifier = CheckerVerifier<IntrospectionChecker>;

/// A [`Checker`] as a [`Verifier`]: requests wait for what it has fetched, together where it is the same. Clones share the
/// checker, with what it keeps.
pub struct CheckerVerifier<C>(Arc<Mutex<State<C>>>);

struct State<C> {
    checker: C,
    /// Those who wait for the end of an exchange.
    waiting: BTreeMap<FetchId, Waiters>,
    /// The same by their owners.
    shares: Shares,
    drivers: Vec<Waker>,
}

#[cfg(feature = "auth-jwt")]
impl CheckerVerifier<JwtChecker> {
    /// As `config` has it.
    #[must_use]
    pub fn new(config: JwtConfig) -> Self {
        Self::from_checker(JwtChecker::new(config))
    }
}

impl CheckerVerifier<IntrospectionChecker> {
    /// As `config` has it.
    ///
    /// # Errors
    /// If the endpoint is none that a password may be sent to.
    pub fn introspecting(config: IntrospectionConfig) -> Result<Self, FetchPolicyError> {
        IntrospectionChecker::new(config).map(Self::from_checker)
    }
}

impl<C: Checker + 'static> CheckerVerifier<C> {
    /// This checker.
    #[must_use]
    pub fn from_checker(checker: C) -> Self {
        Self(Arc::new(Mutex::new(State {
            checker,
            waiting: BTreeMap::new(),
            shares: Shares::new(MAX_WAITING),
            drivers: Vec::new(),
        })))
    }
}

impl<C: Checker> State<C> {
    /// Has the drivers look if there is something to fetch.
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
        let mut wakers = Wakers::default();
        let polled = {
            let mut state = lock(&self.0);
            match state.checker.poll_fetch() {
                Some(fetch) => {
                    wakers.discard(Some(left));
                    Poll::Ready(fetch)
                }
                None => {
                    if state.drivers.iter().any(|driver| driver.will_wake(&left)) {
                        wakers.discard(Some(left));
                    } else {
                        // One too many looks again at once, and is in line again then.
                        let first = (state.drivers.len() >= MAX_DRIVERS).then(|| state.drivers.remove(0));
                        wakers.wake(first);
                        state.drivers.push(left);
                    }
                    Poll::Pending
                }
            }
        };
        wakers.release();
        polled
    }

    fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        let mut wakers = Wakers::default();
        {
            let mut state = lock(&self.0);
            match fetched {
                Ok(FetchResponse { status, body }) => state.checker.handle_answer(now, id, status, &body),
                Err(detail) => state.checker.handle_failed(now, id, &detail),
            }
            state.wake_drivers(&mut wakers);
            if let Some(mut waiters) = state.waiting.remove(&id) {
                wakers.wake_all(&mut waiters);
            }
        }
        wakers.release();
    }
}

/// A request that is being verified.
struct TokenCheck<C: Checker> {
    state: Arc<Mutex<State<C>>>,
    presented: PresentedToken,
    /// Where it waits.
    waiter: Option<FetchWaiter>,
}

/// A place among those who wait for an exchange.
struct FetchWaiter {
    fetch: FetchId,
    key: Option<u64>,
    /// Whose quota it uses.
    owner: QuotaOwner,
}

impl<C: Checker> TokenCheck<C> {
    /// Gives up its place. Returns whose quota it used.
    fn leave(&mut self, state: &mut State<C>, wakers: &mut Wakers) -> Option<QuotaOwner> {
        let FetchWaiter { fetch, key, owner } = self.waiter.take()?;
        state.shares.give_back(&owner, 1);
        if let Some(waiters) = state.waiting.get_mut(&fetch) {
            waiters.leave(key, wakers);
        }
        Some(owner)
    }

    /// Takes a share of the places: of the sender, or of whom the token is known to name. Returns whose.
    fn take_share(&self, state: &mut State<C>) -> Option<QuotaOwner> {
        let PresentedToken { owner, token, received: now, .. } = &self.presented;
        if state.shares.try_take(owner, 1).is_ok() {
            return Some(owner.clone());
        }
        let named = state.checker.known_owner(*now, token)?;
        state.shares.try_take(&named, 1).ok().map(|()| named)
    }

    /// Goes on with a token, of whose signature this was found out. `Err` is a signature that is to be verified, outside
    /// the lock.
    fn advance(
        &mut self,
        failed: FailedSignature<'_>,
        left: &Waker,
        wakers: &mut Wakers,
    ) -> Result<CheckPoll, UnverifiedToken> {
        let shared = self.state.clone();
        let mut state = lock(&shared);
        let held = self.leave(&mut state, wakers);
        let PresentedToken { received: now, ref owner, ref token, .. } = self.presented;
        let verdict = check(&mut state.checker, now, owner, token, failed);
        state.wake_drivers(wakers);
        let id = match verdict {
            TokenValidation::Valid(access) => return Ok(Poll::Ready(Ok(*access))),
            #[cfg(feature = "auth-jwt")]
            TokenValidation::SignatureUnchecked(signed) => return Err(signed),
            TokenValidation::Rejected(error) => return Ok(Poll::Ready(Err(error))),
            TokenValidation::Pending(id) => id,
        };
        let owner = match held {
            // One that looks again keeps its place.
            Some(owner) => {
                state.shares.take(&owner, 1);
                Some(owner)
            }
            None => self.take_share(&mut state),
        };
        let Some(owner) = owner else {
            let why = "too many requests wait for their tokens to be checked";
            return Ok(Poll::Ready(Err(VerifyError::over_quota(why))));
        };
        let mut key = None;
        state.waiting.entry(id).or_default().wait(&mut key, left.clone(), wakers);
        self.waiter = Some(FetchWaiter { fetch: id, key, owner });
        Ok(Poll::Pending)
    }
}

type CheckPoll = Poll<Result<Access, VerifyError>>;

#[cfg(not(feature = "auth-jwt"))]
type UnverifiedToken = core::convert::Infallible;

/// A signature that was wrong.
type FailedSignature<'a> = Option<&'a UnverifiedToken>;

#[cfg(feature = "auth-jwt")]
fn check(
    checker: &mut impl Checker,
    now: Now,
    owner: &QuotaOwner,
    token: &Secret,
    failed: FailedSignature<'_>,
) -> TokenValidation {
    match failed {
        Some(failed) => checker.recheck(now, token, failed),
        None => checker.check(now, owner, token),
    }
}

#[cfg(not(feature = "auth-jwt"))]
fn check(
    checker: &mut impl Checker,
    now: Now,
    owner: &QuotaOwner,
    token: &Secret,
    _: FailedSignature<'_>,
) -> TokenValidation {
    checker.check(now, owner, token)
}

impl<C: Checker> Future for TokenCheck<C> {
    type Output = Result<Access, VerifyError>;

    #[cfg(feature = "auth-jwt")]
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
            // Not under the lock: verification takes long.
            match signed.verify(&self.presented.token) {
                Ok(access) => return Poll::Ready(Ok(access)),
                Err(error) if signed.has_key_id() => return Poll::Ready(Err(error)),
                // It may be by a key that is newer, and is tried again only once there are others.
                Err(_) => failed = Some(signed),
            }
        }
    }

    #[cfg(not(feature = "auth-jwt"))]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut wakers = Wakers::default();
        let advanced = self.advance(None, cx.waker(), &mut wakers);
        wakers.release();
        match advanced {
            Ok(polled) => polled,
            Err(never) => match never {},
        }
    }
}

impl<C: Checker> Drop for TokenCheck<C> {
    fn drop(&mut self) {
        if self.waiter.is_some() {
            let mut wakers = Wakers::default();
            let shared = self.state.clone();
            self.leave(&mut lock(&shared), &mut wakers);
            wakers.release();
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
        f.debug_tuple("Checking").field(&lock(&self.0).checker).finish()
    }
}
